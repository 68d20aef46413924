"""Client ids that two password credentials of one application share: what the API takes and refuses."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.kinds.values import rfc3339


@pytest.fixture
def client_id(zone: Zone) -> str:
    return zone.api.named("client")


@pytest.fixture
def application(zone: Zone) -> str:
    return str(zone.make("applications")["id"])


def body(application_id: str, client_id: str, **members: Any) -> dict[str, Any]:
    return {"application_id": application_id, "type": "password", "identifier": client_id, **members}


def refused(zone: Zone, status: int, **members: Any) -> str:
    """The message of a refused credential."""
    answer = zone.api.refused(status, "POST", zone.path("/application-credentials"), members)
    return str(answer["message"])


def later(zone: Zone, **delta: int) -> str:
    return rfc3339(zone.api.server.services.clock() + timedelta(**delta))


def test_one_application_has_two_secrets_of_a_client_id(zone: Zone, application: str, client_id: str) -> None:
    """The second has an id, a slug and a password of its own."""
    made = [zone.make("application-credentials", **body(application, client_id)) for _ in range(2)]

    assert [each["identifier"] for each in made] == [client_id, client_id]
    assert {len({each[member] for each in made}) for member in ("id", "slug", "password")} == {2}


def test_a_third_is_refused_with_the_two_that_there_are(zone: Zone, application: str, client_id: str) -> None:
    """The message names both, so that one can be deleted."""
    made = [zone.make("application-credentials", **body(application, client_id)) for _ in range(2)]

    message = refused(zone, 409, **body(application, client_id))
    assert "already has 2 password credentials" in message
    assert all(each["id"] in message for each in made)


@pytest.mark.parametrize("secrets", [1, 2])
def test_another_application_never_shares_a_client_id(
    zone: Zone, application: str, client_id: str, secrets: int
) -> None:
    """Neither beside one secret nor beside two."""
    for _ in range(secrets):
        zone.make("application-credentials", **body(application, client_id))
    other = str(zone.make("applications")["id"])

    assert "there is already" in refused(zone, 409, **body(other, client_id))


@pytest.mark.parametrize("deleted", [0, 1])
def test_another_application_does_not_take_the_place_of_a_deleted_secret(
    zone: Zone, application: str, client_id: str, deleted: int
) -> None:
    """Whichever of the two is left, the client id is its application's."""
    made = [zone.make("application-credentials", **body(application, client_id)) for _ in range(2)]
    zone.api.ok("DELETE", zone.path(f"/application-credentials/{made[deleted]['id']}"))
    other = str(zone.make("applications")["id"])

    assert "there is already" in refused(zone, 409, **body(other, client_id))
    assert zone.make("application-credentials", **body(application, client_id))["password"]


@pytest.mark.parametrize(
    "members", [{"type": "public"}, {"type": "public-key", "jwks_uri": "https://a.example/keys"}]
)
def test_another_type_never_shares_a_client_id(
    zone: Zone, application: str, client_id: str, members: dict[str, str]
) -> None:
    """Also of the same application: a client id has one way to authenticate."""
    zone.make("application-credentials", **body(application, client_id))

    assert "there is already" in refused(zone, 409, **{**body(application, client_id), **members})


def test_a_password_does_not_join_another_type(zone: Zone, application: str, client_id: str) -> None:
    """A public client does not come to have a secret beside."""
    zone.make("application-credentials", **body(application, client_id, type="public"))

    assert "there is already" in refused(zone, 409, **body(application, client_id))


@pytest.mark.parametrize("deleted", [0, 1])
def test_no_credential_is_renamed_to_a_client_id_that_is_shared(
    zone: Zone, application: str, client_id: str, deleted: int
) -> None:
    """Nor to one whose first or second secret was deleted."""
    made = [zone.make("application-credentials", **body(application, client_id)) for _ in range(2)]
    public = zone.make("application-credentials", application_id=application, type="public")
    path = zone.path(f"/application-credentials/{public['id']}")
    zone.api.refused(409, "PATCH", path, {"identifier": client_id})

    zone.api.ok("DELETE", zone.path(f"/application-credentials/{made[deleted]['id']}"))
    zone.api.refused(409, "PATCH", path, {"identifier": client_id})


def test_of_many_that_are_made_at_once_two_succeed(zone: Zone, application: str, client_id: str) -> None:
    """Requests at the same time do not get past the bound together."""
    path = zone.path("/application-credentials")
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(lambda _: zone.api("POST", path, body(application, client_id)).status_code, range(6))
        )

    assert sorted(answers) == [200, 200, 409, 409, 409, 409]


def test_a_credential_expires_when_it_is_created_so(zone: Zone, application: str, client_id: str) -> None:
    """`expires_at` is stored as it was given."""
    end = later(zone, days=7)

    made = zone.make("application-credentials", **body(application, client_id, expires_at=end))
    assert made["expires_at"] == end


def test_the_end_of_a_credential_changes_and_is_removed(api: Api, zone: Zone, application: str) -> None:
    """A patch sets it; null removes it."""
    made = zone.password(application)
    path, end = zone.path(f"/application-credentials/{made['id']}"), later(zone, days=7)

    assert api.ok("PATCH", path, {"expires_at": end})["expires_at"] == end
    assert api.ok("GET", path)["expires_at"] == end
    assert "expires_at" not in api.ok("PATCH", path, {"expires_at": None})


def test_an_end_in_the_past_is_refused_at_creation(zone: Zone, application: str, client_id: str) -> None:
    """The message says how a secret is withdrawn now."""
    message = refused(zone, 400, **body(application, client_id, expires_at=later(zone, seconds=-1)))

    assert "is in the past" in message
    assert "delete the credential" in message


def test_an_end_in_the_past_is_refused_as_a_change(api: Api, zone: Zone, application: str) -> None:
    """Of a credential that had none, or a later one."""
    path = zone.path(f"/application-credentials/{zone.password(application)['id']}")

    assert (
        "is in the past" in api.refused(400, "PATCH", path, {"expires_at": later(zone, days=-1)})["message"]
    )


@pytest.mark.parametrize("type_", ["public", "public-key"])
def test_other_types_do_not_expire(zone: Zone, application: str, client_id: str, type_: str) -> None:
    """`expires_at` is a member of password credentials alone."""
    keys = {"jwks_uri": "https://a.example/keys"} if type_ == "public-key" else {}
    members = body(application, client_id, type=type_, expires_at=later(zone, days=1), **keys)

    refused(zone, 400, **members)


def test_nobody_sets_the_slot_or_the_last_use(zone: Zone, application: str, client_id: str) -> None:
    """Both are the service's to decide; the slot is not shown."""
    refused(zone, 400, **body(application, client_id, slot=1))
    refused(zone, 400, **body(application, client_id, last_used_at=later(zone, days=1)))

    assert "slot" not in zone.make("application-credentials", **body(application, client_id))
