"""The same server and browser as for signing in; and each kind of database in turn."""

from tests.runtime.login.conftest import browser, pytest_generate_tests, site
from tests.support.both_databases import server, storage

__all__ = ["browser", "pytest_generate_tests", "server", "site", "storage"]
