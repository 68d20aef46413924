"""The same server and browser as for signing in."""

from tests.runtime.sign_in.conftest import browser, pytest_generate_tests, site

__all__ = ["browser", "pytest_generate_tests", "site"]
