"""Whoever has waited for others is looked up again when it is their turn to write.

Whoever sends a change may wait: their body is checked for seconds, and others' changes are applied before.
What ends them in the meantime has been answered, so nothing of theirs may be written after it.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.runtime.management.changesets.test_changesets_http import changeset
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.signing_in import Someone, someone
from tests.support.oauth_site import claims

from runtime.contract.changes import Changeset
from runtime.domain.errors import Conflict, Unauthorized
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ROLE
from runtime.services.clients.dpop_verification import PresentedToken
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.authentication.callers import authenticate
from runtime.services.management.changesets import pipeline
from runtime.services.management.changesets.changeset import packed
from runtime.services.management.kind_handlers import CREATES
from runtime.services.management.unit_of_work import unit_of_work

Ending = Callable[[], object]
Scene = tuple[Api, Ending]


def of_key(api: Api, ada: Someone) -> Scene:
    key_id, its = api.key()
    path = f"/organizations/{api.organization_id}/api-keys/{key_id}"
    return its, lambda: api.ok("DELETE", path, status=204)


def of_key_made_with_another(api: Api, ada: Someone) -> Scene:
    key_id, its = api.key()
    _, made = its.key()
    path = f"/organizations/{api.organization_id}/api-keys/{key_id}"
    return made, lambda: api.ok("DELETE", path, status=204)


def of_somebodys_key(api: Api, ada: Someone) -> Scene:
    return ada.calling().key()[1], lambda: api.ok("DELETE", ada.path)


def of_service_account(api: Api, ada: Someone) -> Scene:
    base = f"/organizations/{api.organization_id}/service-accounts"
    account = api.ok("POST", base, {"name": api.named("ci")}, status=201)
    path = f"{base}/{account['id']}/credentials"
    made = api.ok("POST", path, {"name": "key"}, status=201)
    form = {"grant_type": "client_credentials"} | {
        name: made[name] for name in ("client_id", "client_secret")
    }
    answer = httpx.post(f"{api.server.url}/service-account-token", data=form, trust_env=False)
    its = caller(api.server, answer.json()["access_token"], api.organization_id)
    return its, lambda: api.ok("DELETE", f"{path}/{made['id']}", status=204)


def of_session(api: Api, ada: Someone) -> Scene:
    token = ada.tokens()["access_token"]
    path = api.home_zone().path(f"/sessions/{claims(token)['sid']}")
    return ada.with_token(token), lambda: api.ok("PATCH", path, {"status": "revoked"})


def of_swapped_token(api: Api, ada: Someone) -> Scene:
    return ada.exchanged(ada.calling()), lambda: api.ok("PATCH", ada.path, {"status": "disabled"})


ENDED: dict[str, Callable[[Api, Someone], Scene]] = {
    "key revoked": of_key,
    "key that made it revoked": of_key_made_with_another,
    "person behind a key removed": of_somebodys_key,
    "credential deleted": of_service_account,
    "session revoked": of_session,
    "membership disabled": of_swapped_token,
}


@pytest.fixture
def ada(api: Api) -> Someone:
    """An administrator who is not the only one."""
    api.person("org_admin")
    return someone(api, "org_admin")


def let_in(its: Api) -> Caller:
    """Whom the service takes a request for, before the request does anything."""
    token = str(its.client.headers["Authorization"]).split()[1]
    presented = PresentedToken(token, is_bound=False, proof=None, method="POST", uri=its.server.url)
    return its.server.call(lambda services: authenticate(services, presented))


def write(api: Api, acting: Caller, zone_id: str, *, whole: bool) -> None:
    """Make a role, by a changeset or by itself. Raises what the operation raises."""
    name = api.named("role")
    step = {"op": "create", "kind": "Role", "name": name, "zone": {"id": zone_id}}
    body = changeset(api, {**step, "spec": {"identifier": name}, "fields": ["identifier"]})

    async def run(services: Services) -> Any:
        if whole:
            sent = packed(Changeset.model_validate(body))
            return await pipeline.apply_changeset(
                services, acting, api.organization_id, sent, request_id=new_id()
            )
        async with unit_of_work(services, acting, new_id()) as unit:
            create = CREATES[ROLE.name]
            return await create(unit, ROLE, {"zone_id": zone_id}, {"identifier": name})

    api.server.call(run)


@pytest.mark.threat("18b", "18l", "18m")
@pytest.mark.parametrize("whole", [True, False], ids=["changeset", "one call"])
@pytest.mark.parametrize("ending", ENDED.values(), ids=ENDED)
def test_who_is_ended_meanwhile_writes_nothing(
    api: Api, ada: Someone, ending: Callable[[Api, Someone], Scene], *, whole: bool
) -> None:
    """They are let in, they are ended, and their turn comes."""
    its, end = ending(api, ada)
    zone, acting = api.zone(), let_in(its)
    write(api, acting, zone.id, whole=whole)
    before = api.ok("GET", zone.path("/roles?expand[]=total_count"))["pagination"]["total_count"]

    end()

    with pytest.raises(Unauthorized):
        write(api, acting, zone.id, whole=whole)
    after = api.ok("GET", zone.path("/roles?expand[]=total_count"))["pagination"]["total_count"]
    assert after == before
    its.refused(401, "GET", "/zones")


@pytest.mark.threat("18m", "27n")
@pytest.mark.parametrize("by_key", [True, False], ids=["key", "token"])
def test_who_may_do_less_meanwhile_sends_it_again(api: Api, ada: Someone, *, by_key: bool) -> None:
    """And hears then what they may still do."""
    its = ada.calling().key()[1] if by_key else ada.calling()
    zone, acting = api.zone(), let_in(its)
    write(api, acting, zone.id, whole=True)
    api.ok("PATCH", ada.path, {"role": "org_viewer"})

    with pytest.raises(Conflict, match="roles have changed"):
        write(api, acting, zone.id, whole=True)
    its.refused(403, "POST", zone.path("/roles"), {"identifier": api.named("role")})


@pytest.mark.threat("18m")
def test_a_role_in_a_zone_that_ends_meanwhile(api: Api) -> None:
    """A manager of a zone is one until the moment at which they write."""
    zone, bob = api.zone(), someone(api, "org_viewer")
    member = zone.path("/members")
    api.ok("POST", member, {"organization_user_id": bob.user.id, "role": "zone_manager"})
    acting = let_in(bob.calling())
    write(api, acting, zone.id, whole=False)
    api.ok("DELETE", f"{member}/{bob.user.id}", status=204)

    with pytest.raises(Conflict, match="roles have changed"):
        write(api, acting, zone.id, whole=False)
