"""The site of the sign-in tests, and the token endpoint of those of token exchange."""

from tests.runtime.grants.conftest import (
    agent,
    ann,
    api,
    company,
    own_scene,
    scene,
    servers,
    services,
    storage_settings,
    subject,
)
from tests.runtime.login.conftest import browser, pytest_generate_tests, site

__all__ = [
    "agent",
    "ann",
    "api",
    "browser",
    "company",
    "own_scene",
    "pytest_generate_tests",
    "scene",
    "servers",
    "services",
    "site",
    "storage_settings",
    "subject",
]
