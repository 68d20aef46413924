"""The same server and browser as for signing in."""

from tests.runtime.login.conftest import browser, pytest_generate_tests, site

__all__ = ["browser", "pytest_generate_tests", "site"]
