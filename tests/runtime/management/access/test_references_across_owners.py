"""References of owner-bound credentials to objects of another configuration, for every member and kind."""

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from pydantic import BaseModel
from tests.runtime.management.access.test_bound_credentials import PERMIT, Team, bound
from tests.runtime.management.conftest import Api, Zone
from tests.support.applying import create, update

from runtime.domain.kinds import ALL
from runtime.domain.kinds.marks import Mark, members
from runtime.services.management import credential_scope

# Kind and member -> what may be named: what others have, too (`named`), or only one's own and nobody's. A
# `part` belongs to whoever has what it names; who is named as a user is in no configuration (`nobody's`).
REFERENCES = {
    ("Application", "accountable_group_id"): "named",
    ("Application", "accountable_user_id"): "nobody's",
    ("Application", "dependencies"): "named",
    ("ApplicationCredential", "application_id"): "part",
    ("ApplicationCredential", "provider_id"): "named",
    ("PolicySet", "policies"): "named",
    ("Resource", "application_id"): "lent",
    ("Resource", "credential_provider_id"): "lent",
    ("RoleAssignment", "application_id"): "named",
    ("RoleAssignment", "group_id"): "named",
    ("RoleAssignment", "role_id"): "part",
    ("Zone", "default_mcp_gateway_application_id"): "named",
    ("Zone", "default_resource_id"): "named",
    ("Zone", "user_identity_provider_id"): "named",
}
OF = {
    "accountable_group_id": "Group",
    "application_id": "Application",
    "credential_provider_id": "Provider",
    "default_mcp_gateway_application_id": "Application",
    "default_resource_id": "Resource",
    "dependencies": "Resource",
    "group_id": "Group",
    "policies": "Policy",
    "provider_id": "Provider",
    "role_id": "Role",
    "user_identity_provider_id": "Provider",
}
_NOT_WRITTEN = (Mark.DERIVED, Mark.INTERNAL, Mark.SERVER, Mark.INPUT)
REFUSED = [place for place, rule in REFERENCES.items() if rule in ("lent", "part")]


def _references(model: type[BaseModel]) -> Iterator[str]:
    """The members of a class that name something, those of its parts included."""
    for name, member in members(model).items():
        if member.ref is not None:
            yield name
        for part in (member.annotation, *get_args(member.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel) and not member.has(*_NOT_WRITTEN):
                yield from _references(part)


def test_every_reference_of_every_kind_has_a_rule() -> None:
    """The table has each member that names something, and the service's own tables say the same of it."""
    found = {
        (kind.name, name)
        for kind in ALL
        if kind.manifest
        for model in (*kind.classes, *([kind.extras] if kind.extras else []))
        for name in _references(model)
    }
    assert found == set(REFERENCES)
    parts = {(kind, names[0]) for kind, names in credential_scope._PARTS.items()}
    known = {"named": credential_scope.NAMED, "lent": credential_scope.LENT, "part": parts}
    found = {place: {rule for rule, places in known.items() if place in places} for place in REFERENCES}
    assert found == {place: {rule} & known.keys() for place, rule in REFERENCES.items()}


def _new(api: Api, zone: Zone, kind: str) -> dict[str, Any]:
    name = api.named()
    address = f"https://{name}.example"
    spec: dict[str, Any] = {
        "Application": {"name": name, "identifier": name},
        "Group": {"name": name, "identifier": name},
        "Policy": {"cedar": PERMIT},
        "Provider": {"name": name, "identifier": address, "client_id": "c"},
        "Resource": {"name": name, "identifier": address},
        "Role": {"identifier": name},
    }[kind]
    return create(kind, name, zone.id, **spec)


def _naming(api: Api, zone: Zone, kind: str, member: str, named: str, mine: Team) -> dict[str, Any]:
    """Something new of that kind that names something."""

    def own(kind: str) -> str:
        return mine.apply(_new(api, zone, kind))[0]

    if kind in ("Application", "Resource"):
        operation = _new(api, zone, kind)
        value: Any = [named] if member == "dependencies" else named
        operation["spec"][member], operation["fields"] = value, [*operation["fields"], member]
        return operation
    spec: dict[str, Any] = {"type": "password", "application_id": named}
    if member == "provider_id":
        spec = {"type": "token", "application_id": own("Application"), "provider_id": named}
        spec["subject"] = api.named()
    elif member == "policies":
        spec = {"name": api.named(), "policies": [named], "active": False}
    elif member == "role_id":
        spec = {"role_id": named, "principal": {"application_id": own("Application")}}
    elif kind == "RoleAssignment":
        spec = {"role_id": own("Role"), "principal": {member: named}}
    return create(kind, api.named(), zone.id, **spec)


@pytest.mark.threat("49t")
@pytest.mark.parametrize(
    "place", [each for each in REFERENCES if each[0] != "Zone" and each[1] in OF], ids=".".join
)
def test_what_a_changeset_may_name(api: Api, zone: Zone, place: tuple[str, str]) -> None:
    """One's own, what nobody has, and what others have where their word is not needed."""
    kind, member = place
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    (own,) = mine.apply(_new(api, zone, OF[member]))
    mine.apply(_naming(api, zone, kind, member, own, mine))
    mine.apply({"op": "release", "kind": OF[member], "id": own})
    mine.apply(_naming(api, zone, kind, member, own, mine))
    (other,) = theirs.apply(_new(api, zone, OF[member]))
    naming = _naming(api, zone, kind, member, other, mine)

    if place in REFUSED:
        told = mine.refused(403, naming)
        assert f"{OF[member]} `{other}` belongs to the configuration `{theirs.owner}`" in told
        theirs.apply(naming)
    else:
        mine.apply(naming)


@pytest.mark.threat("49t")
@pytest.mark.parametrize("member", [member for kind, member in REFERENCES if kind == "Zone"])
def test_what_a_zone_may_name(api: Api, zone: Zone, member: str) -> None:
    """Whoever has the zone says what it falls back on."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    for team in (mine, theirs):
        (named,) = team.apply(_new(api, zone, OF[member]))
        mine.api.ok("PATCH", zone.path(), {member: named})


@pytest.mark.threat("49t")
@pytest.mark.parametrize("member", [member for kind, member in REFUSED if kind == "Resource"])
def test_single_calls_name_nothing_of_others_anew(api: Api, zone: Zone, member: str) -> None:
    """What names it already stays, and can be changed otherwise; another team is named by no call."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    (own,), (other,) = (team.apply(_new(api, zone, OF[member])) for team in (mine, theirs))
    (made,) = mine.apply(_naming(api, zone, "Resource", member, own, mine))
    place, patch = zone.path(f"/resources/{made}"), {member: other}
    body = {"name": "R", "identifier": f"https://{api.named()}.example"}

    mine.api.ok("POST", zone.path("/resources"), {**body, member: own})
    body["identifier"] += "/more"
    assert not [
        (method, path, sent)
        for method, path, sent in (
            ("PATCH", place, patch),
            ("POST", zone.path("/resources"), {**body, **patch}),
        )
        if f"belongs to the configuration `{theirs.owner}`"
        not in mine.api.refused(403, method, path, sent)["message"]
    ]
    api.ok("PATCH", place, patch)
    mine.api.ok("PATCH", place, {"description": "as it is", **patch})
    mine.api.ok("PATCH", place, {member: own})


PLACES = ("add", "create", "changeset create", "changeset update")


def _provider(zone: Zone, kind: str) -> str:
    """A provider of that type: a new one, or one of those that a zone is born with."""
    if kind == "external":
        return str(zone.make("providers")["id"])
    found = zone.api.ok("GET", zone.path("/providers"))["items"]
    return next(str(each["id"]) for each in found if each["type"] == kind)


def _depend(team: Team, zone: Zone, resource: str, place: str) -> httpx.Response:
    """Declare a new dependency of a team's application on a resource, in one of the ways that there are."""
    name = team.api.named()
    if place == "create":
        body = {"name": name, "identifier": name, "dependencies": [{"id": resource}]}
        return team.api("POST", zone.path("/applications"), body)
    if place == "changeset create":
        return team.post(
            create("Application", name, zone.id, name=name, identifier=name, dependencies=[resource])
        )
    (application,) = team.apply(create("Application", name, zone.id, name=name, identifier=name))
    if place == "add":
        return team.api("PUT", zone.path(f"/applications/{application}/dependencies/{resource}"))
    return team.post(update("Application", application, name, zone.id, dependencies=[resource]))


@pytest.mark.threat("49u")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["service-vault", "external"])
def test_a_dependency_lends_no_credentials_of_others(api: Api, zone: Zone, kind: str, place: str) -> None:
    """One's own, nobody's, and for a caller who is not bound; not what another team's vault keeps."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    new = _new(api, zone, "Resource")
    (own,), (other,) = mine.apply(new), theirs.apply(_new(api, zone, "Resource"))
    nobodys = zone.make("resources")["id"]
    for each in (own, other, nobodys):
        api.ok("PATCH", zone.path(f"/resources/{each}"), {"credential_provider_id": _provider(zone, kind)})

    assert not [
        (team, resource)
        for team, resource in ((mine, own), (mine, nobodys), (Team(api, mine.owner), other))
        if not _depend(team, zone, resource, place).is_success
    ]
    answer = _depend(mine, zone, other, place)
    assert answer.status_code == 403
    assert f"Resource `{other}` belongs to the configuration `{theirs.owner}`" in answer.json()["message"]
    assert "with a credential that is not bound to an owner" in answer.json()["message"]


@pytest.mark.threat("49u")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_dependency_on_tokens_of_the_zone_is_free(api: Api, zone: Zone, is_named: bool, place: str) -> None:
    """Another team's resource whose tokens the zone makes, by default or by its provider for that."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    (other,) = theirs.apply(_new(api, zone, "Resource"))
    patch = {"credential_provider_id": _provider(zone, "service-sts") if is_named else None}
    api.ok("PATCH", zone.path(f"/resources/{other}"), patch)
    assert _depend(mine, zone, other, place).is_success


@pytest.mark.threat("49u")
def test_a_dependency_that_is_there_stays_as_it_is(api: Api, zone: Zone) -> None:
    """The resource's owner moves it to the vault: the dependency can be kept, not widened, and removed."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    (other,), (own,) = (team.apply(_new(api, zone, "Resource")) for team in (theirs, mine))
    name = api.named()
    (application,) = mine.apply(create("Application", name, zone.id, name=name, identifier=name))
    place = zone.path(f"/applications/{application}/dependencies/{other}")
    conditional = f"{place}?when_accessing={own}"
    mine.api.ok("PUT", conditional)
    api.ok(
        "PATCH",
        zone.path(f"/resources/{other}"),
        {"credential_provider_id": _provider(zone, "service-vault")},
    )

    mine.api.ok("PUT", conditional)
    mine.apply(update("Application", application, name, zone.id, dependencies=[other, own]))
    mine.api.refused(403, "PUT", place)
    mine.api.ok("DELETE", place)
    mine.api.refused(403, "PUT", conditional)


@pytest.mark.threat("49u")
@pytest.mark.parametrize(
    "way", ["adopt", "adopt without the dependency", "change", "credential", "changeset"]
)
@pytest.mark.parametrize("lends", [False, True])
def test_an_application_of_nobodys_lends_no_credentials_of_others(
    api: Api, zone: Zone, lends: bool, way: str
) -> None:
    """Who may not add the dependency does not get it with the application: neither whole nor in part."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    (other,) = theirs.apply(_new(api, zone, "Resource"))
    if lends:
        vault = {"credential_provider_id": _provider(zone, "service-vault")}
        api.ok("PATCH", zone.path(f"/resources/{other}"), vault)
    free = zone.make("applications", dependencies=[{"id": other}])["id"]

    answer = _take(mine, zone, free, way)

    if not lends:
        assert answer.is_success, answer.text
        return
    assert answer.status_code == 403, answer.text
    assert f"Resource `{other}` belongs to the configuration `{theirs.owner}`" in answer.json()["message"]
    remedy = "adopt the application, or remove the dependency, with a credential that is not bound"
    assert remedy in answer.json()["message"]
    assert _take(Team(api, mine.owner), zone, free, way).is_success


def _take(team: Team, zone: Zone, application: str, way: str) -> httpx.Response:
    """Take over an application that nobody manages, in one of the ways that there are."""
    name = team.api.named()
    adopting = {**update("Application", application, name, zone.id, description="x"), "op": "adopt"}
    if way == "adopt":
        return team.post(adopting)
    if way == "adopt without the dependency":
        spec = {"dependencies": []}
        return team.post({**update("Application", application, name, zone.id, **spec), "op": "adopt"})
    if way == "change":
        return team.api("PATCH", zone.path(f"/applications/{application}"), {"consent": "implicit"})
    body = {"type": "password", "application_id": application}
    if way == "credential":
        return team.api("POST", zone.path("/application-credentials"), body)
    return team.post(create("ApplicationCredential", name, zone.id, **body))


@pytest.mark.threat("49u")
@pytest.mark.parametrize("way", ["adopt", "change"])
def test_a_resource_of_nobodys_lends_no_provider_of_others(api: Api, zone: Zone, way: str) -> None:
    """Whoever has it decides what the other team's provider is asked for: nobody's provider is free."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    free = zone.make("resources")["id"]
    place = zone.path(f"/resources/{free}")
    (provider,) = theirs.apply(_new(api, zone, "Provider"))

    def take() -> httpx.Response:
        if way == "change":
            return mine.api("PATCH", place, {"scopes": ["admin"]})
        return mine.post({**update("Resource", free, api.named(), zone.id, scopes=["a"]), "op": "adopt"})

    api.ok("PATCH", place, {"credential_provider_id": provider})
    answer = take()
    assert answer.status_code == 403, answer.text
    assert f"Provider `{provider}` belongs to the configuration `{theirs.owner}`" in answer.json()["message"]
    api.ok("PATCH", place, {"credential_provider_id": _provider(zone, "service-vault")})
    assert take().is_success
