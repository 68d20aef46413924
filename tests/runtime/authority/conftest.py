"""The site of the sign-in tests: a running server, with an organization and zones of its own."""

from tests.runtime.sign_in.conftest import browser, pytest_generate_tests, site

__all__ = ["browser", "pytest_generate_tests", "site"]
