"""One server for the tests of a module; every test makes the zones it needs."""

from collections.abc import Iterator

import pytest
from tests.runtime.sign_in.support import Browser, Site
from tests.support.factories import Company
from tests.support.server import serve

from runtime.services.management.caller import Caller


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running server with an organization."""
    with serve(tmp_path_factory.mktemp("server")) as server:
        caller = Caller("tester", "system", server.organization_id, "org_admin", "tester")
        yield Site(server, Company(server.parts, caller, server.organization_id, server.api_key))


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser without cookies."""
    made = Browser()
    yield made
    made.http.close()
