"""The organization, the zones and the people of the token endpoint's tests."""

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

__all__ = [
    "agent",
    "ann",
    "api",
    "company",
    "own_scene",
    "scene",
    "servers",
    "services",
    "storage_settings",
    "subject",
]
