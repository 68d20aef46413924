"""Mass assignment and privilege escalation: what a body must not be able to say, and who may not say it."""

from typing import Any

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.contract.bodies import settable
from runtime.domain.kinds import ALL, Kind, Verb
from runtime.domain.kinds.marks import Mark

ATTEMPTS: dict[str, Any] = {
    "owner_type": "platform",
    "organization_id": "x" * 26,
    "zone_id": "x" * 26,
    "id": "x" * 26,
    "slug": "mine",
    "client_secret_set": True,
    "secret_hash": "x",
    "external": True,
    "permissions": {"zones": {"delete": True}},
    "created_at": "2020-01-01T00:00:00Z",
    "updated_at": "2020-01-01T00:00:00Z",
    "revision": 1,
    "epoch": 99,
    "email_verified": True,
    "dependencies_count": 7,
    "created_by": "somebody",
    "archived_at": None,
    "latest_version": 3,
    "active": True,
    "__proto__": {},
}
COLLECTIONS = ["applications", "resources", "providers", "roles", "groups", "policies", "policy-sets"]


@pytest.mark.threat("27a", "27b", "27c", "27d", "27e", "27f", "27h")
@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("member", ATTEMPTS)
def test_members_of_the_service_cannot_be_set(api: Api, zone: Zone, collection: str, member: str) -> None:
    """Refused by name, not ignored, at creation and by update; the entity stays as it is."""
    name = api.named()
    body = {"identifier": name, "name": name} if collection != "roles" else {"identifier": name}
    if collection in ("groups", "policies", "policy-sets"):
        body = {"name": name}
    told = api.refused(400, "POST", zone.path(f"/{collection}"), {**body, member: ATTEMPTS[member]})
    assert member in {detail["field"] for detail in told["details"]}
    made = zone.make(collection)
    path = zone.path(f"/{collection}/{made['id']}")
    api.refused(400, "PATCH", path, {member: ATTEMPTS[member]})
    assert api.ok("GET", path) == made


@pytest.mark.threat("27a", "27b", "27d")
@pytest.mark.parametrize("member", ["owner_type", "slug", "id", "organization_id", "created_at"])
def test_zones_cannot_be_moved_or_made_platform(api: Api, other: Api, zone: Zone, member: str) -> None:
    """The owner of a zone, its name in addresses and its times are not the caller's to say."""
    before = api.ok("GET", zone.path())
    api.refused(400, "PATCH", zone.path(), {member: other.organization_id})
    assert api.ok("GET", zone.path()) == before


@pytest.mark.threat("27a", "27b", "27d")
@pytest.mark.parametrize(("protocol", "member"), [("oauth2", "issuer"), ("openid", "userinfo_endpoint")])
def test_the_addresses_of_a_zone_cannot_be_set(api: Api, zone: Zone, protocol: str, member: str) -> None:
    """Tokens that name another issuer would be believed elsewhere."""
    before = api.ok("GET", zone.path())
    api.refused(400, "PATCH", zone.path(), {"protocols": {protocol: {member: "https://evil.example"}}})
    assert api.ok("GET", zone.path()) == before


@pytest.mark.threat("27f")
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("email_verified", True),
        ("external", True),
        ("issuer", "https://evil.example"),
        ("subject", "admin"),
        ("provider_id", "p" * 26),
        pytest.param("role_assignments", [], id="role_assignments-empty"),
        ("epoch", 1),
    ],
)
def test_users_cannot_be_verified_or_moved(api: Api, zone: Zone, member: str, value: Any) -> None:
    """What sign-in establishes about a user cannot be claimed for them."""
    path = zone.path(f"/users/{zone.user(email_verified=False).id}")
    before = api.ok("GET", path)
    api.refused(400, "PATCH", path, {member: value})
    assert api.ok("GET", path) == before


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind.verbs], ids=lambda kind: kind.name)
def test_no_body_takes_what_the_service_decides(kind: Kind) -> None:
    """For every kind: members of the service are in no body, and internal ones neither."""
    assert not [
        (verb, member.name)
        for model in kind.classes
        for verb in (Verb.CREATE, Verb.UPDATE)
        for member in settable(model, verb).values()
        if member.has(Mark.SERVER, Mark.INTERNAL, Mark.DERIVED)
    ]


@pytest.mark.threat("27k")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", "/users/{user}/roles", {"role_id": "{role}"}, id="to-a-user"),
        pytest.param("POST", "/groups/{group}/roles", {"role_id": "{role}"}, id="to-a-group"),
        pytest.param("POST", "/groups/{group}/members", {"user_id": "{user}"}, id="by-joining-a-group"),
        pytest.param("POST", "/roles", {"identifier": "mine"}, id="by-making-one"),
        pytest.param("PATCH", "/users/{user}", {"status": "disabled"}, id="nor-disable-them"),
    ],
)
def test_viewers_give_nobody_a_role(
    api: Api, viewer: Api, zone: Zone, method: str, path: str, body: dict[str, str]
) -> None:
    """Reading is no way to rights: assigning, joining and creating are all 403."""
    user = zone.user().id
    known = {"user": user, "role": zone.make("roles")["id"], "group": zone.make("groups")["id"]}
    sent = {name: value.format(**known) for name, value in body.items()}
    told = viewer.refused(403, method, zone.path(path.format(**known)), sent)
    assert told["code"] == "forbidden"
    assert api.ok("GET", zone.path(f"/users/{user}/roles"))["items"] == []


@pytest.mark.threat("27j")
def test_a_scope_needs_the_organizations_zone(api: Api, zone: Zone) -> None:
    """A scoped platform role in an ordinary zone would reach into others."""
    user, target = zone.user(), api.zone()
    body = {
        "role_identifier": "zone_manager",
        "owner_type": "platform",
        "scope_type": "zone",
        "scope_id": target.id,
    }
    api.refused(400, "POST", zone.path(f"/users/{user.id}/roles"), body)

    person = api.person("org_viewer")
    api.ok("POST", api.home_zone().path(f"/users/{person.zone_user_id}/roles"), body, status=201)


@pytest.mark.threat("27l")
@pytest.mark.parametrize("own", [False, True], ids=["a new zone", "the organization's zone"])
def test_what_the_service_manages_stays(api: Api, own: bool) -> None:
    """Whatever is the platform's, of any kind: no change, no end, nothing put into it; one's own, first."""
    zone = api.home_zone() if own else api.zone()
    for collection in ("applications", "resources", "providers", "roles", "policies", "policy-sets"):
        mine = zone.make(collection)
        for method, body in (("PATCH", CHANGES[collection]), ("DELETE", None)):
            api.ok(method, zone.path(f"/{collection}/{mine['id']}"), body)
    version = zone.version(zone.make("policies")["id"])
    entries = [{"policy_id": version["policy_id"], "policy_version_id": version["id"]}]
    composed = {"schema_version": version["schema_version"], "manifest": {"entries": entries}}
    text = {"schema_version": version["schema_version"], "cedar_raw": "permit (principal, action, resource);"}
    below = {
        "policies": [("POST", "/versions", text)],
        "policy-sets": [("POST", "/versions", composed)],
        "applications": [
            ("PUT", f"/dependencies/{zone.make('resources')['id']}", None),
            ("DELETE", f"/dependencies/{zone.make('resources')['id']}", None),
        ],
    }
    before = platforms(api, zone)
    in_any_zone = {"providers", "roles", "policies", "policy-sets"}
    assert {collection for collection, _ in before} == (set(CHANGES) if own else in_any_zone)
    for collection, id_ in before:
        path = zone.path(f"/{collection}/{id_}")
        attempts = [("PATCH", "", CHANGES[collection]), ("DELETE", "", None), *below.get(collection, ())]
        codes = {
            (collection, method, rest): api.refused(403, method, path + rest, body)["code"]
            for method, rest, body in attempts
        }
        assert codes == dict.fromkeys(codes, "forbidden")
        if collection == "applications":
            credential = {"type": "password", "application_id": id_}
            api.refused(403, "POST", zone.path("/application-credentials"), credential)
    assert platforms(api, zone) == before


# A change that would be taken if the entity were the caller's.
CHANGES: dict[str, dict[str, Any]] = {
    "applications": {"description": "x"},
    "resources": {"description": "x"},
    "providers": {"description": "x"},
    "roles": {"description": "x"},
    "policies": {"description": "x"},
    "policy-sets": {"name": "x"},
}


def platforms(api: Api, zone: Zone) -> dict[tuple[str, str], dict[str, Any]]:
    """Everything in a zone that the service manages, by collection and id."""
    kinds = [kind for kind in ALL if "owner_type" in kind.members() and kind.item_path.count("{") == 2]
    return {
        (kind.collection, one["id"]): one
        for kind in kinds
        for one in api.ok("GET", zone.path(f"/{kind.collection}?limit=100"))["items"]
        if one["owner_type"] == "platform"
    }


@pytest.mark.threat("27n")
def test_service_accounts_make_no_credentials(api: Api) -> None:
    """A stolen CI token must not be able to make itself a lasting credential, or an administrator's key."""
    service = api.with_role("service_account")
    base = f"/organizations/{api.organization_id}/service-accounts"
    account = service.ok("POST", base, {"name": api.named("ci")})
    service.refused(403, "POST", f"{base}/{account['id']}/credentials", {"name": "k"})
    service.refused(403, "PATCH", f"/organizations/{api.organization_id}", {"name": "x"})

    api.ok("POST", f"{base}/{account['id']}/credentials", {"name": "k"}, status=201)
    api.ok("PATCH", f"/organizations/{api.organization_id}", {"name": "x"})


@pytest.mark.threat("27m")
def test_refused_attempts_leave_no_trace_and_changes_do(api: Api, zone: Zone) -> None:
    """The audit trail has what was done, by whom, without secrets; what was refused changed nothing."""
    made = zone.make("providers", client_secret="top-secret-value")
    api.refused(400, "PATCH", zone.path(f"/providers/{made['id']}"), {"owner_type": "platform"})

    async def read(services: Any) -> list[dict[str, Any]]:
        from runtime.storage.sql.tables import audit_events

        async with services.database.reading() as conn:
            query = audit_events.select().where(audit_events.c.entity_id == made["id"])
            return [dict(row) for row in (await conn.execute(query)).mappings()]

    records = api.server.call(read)
    assert [record["action"] for record in records] == ["providers.create"]
    assert records[0]["actor_type"] == "api_key"
    assert records[0]["after"]["identifier"] == made["identifier"]
    assert "top-secret-value" not in repr(records)
    assert "client_secret" not in records[0]["after"]
