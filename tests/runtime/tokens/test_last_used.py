"""The last use of applications and credentials is noted, whatever they authenticated for."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.runtime.login.conftest import pytest_generate_tests as _both_forms
from tests.runtime.login.conftest import site
from tests.runtime.tokens.test_revocation import Shop
from tests.support.factories import App
from tests.support.oauth_site import Site

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL
from runtime.storage.sql import deletion_effects

__all__ = ["site"]
STORAGE = ("embedded", "servers")
REQUESTS = {
    "introspect": {"token": "nobody's"},
    "par": {"response_type": "code"},
    "revoke": {"token": "nobody's"},
    "token": {"grant_type": "authorization_code", "code": "nobody's"},
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On both forms of storage."""
    _both_forms(metafunc)


def in_use(shop: Shop, app: App, *, later: timedelta = timedelta()) -> tuple[bool, bool]:
    """Whether an application is in use, and its credential, some time later."""
    site, zone = shop.site, shop.zone

    async def asked() -> tuple[bool, bool]:
        services = site.services
        await services.decisions.flush()
        now, found = services.clock() + later, []
        async with services.database.reading() as conn:
            for kind, one in ((APPLICATION, app.id), (APPLICATION_CREDENTIAL, app.credential_id)):
                ids = await deletion_effects.used(conn, kind, zone.organization_id, zone.id, [one], now=now)
                found.append(one in ids)
        return found[0], found[1]

    return site.run(asked())


@pytest.mark.parametrize("endpoint", REQUESTS)
def test_whatever_an_application_has_proved_itself_for(site: Site, endpoint: str) -> None:
    """Also where the request is refused; and not for thirty days and one."""
    shop = Shop(site)
    other, app = shop.server, shop.notes.app
    assert in_use(shop, app) == (False, False)

    wrong = replace(app, secret="wrong")
    assert shop.post(endpoint, wrong, **REQUESTS[endpoint]).status_code == 401
    assert in_use(shop, app) == (False, False)

    for _ in range(2):
        shop.post(endpoint, app, **REQUESTS[endpoint])
    assert in_use(shop, app) == (True, True)
    assert in_use(shop, other) == (False, False)
    assert in_use(shop, app, later=timedelta(days=31)) == (False, False)


@pytest.mark.parametrize("endpoint", ["par", "revoke", "token"])
def test_what_anybody_may_say_is_no_use(site: Site, endpoint: str) -> None:
    """The client id of a public client is no secret: who is refused in its name keeps nothing in use."""
    shop = Shop(site)
    public = shop.public.app
    shop.post(endpoint, None, client_id=public.client_id, **REQUESTS[endpoint])
    assert in_use(shop, public) == (False, False)
