"""What a credential of one configuration may name of what another has: member by member, of every kind."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from tests.runtime.management.access.test_bound_credentials import PERMIT, Team, bound
from tests.runtime.management.conftest import Api, Zone
from tests.support.applying import create

from runtime.domain.kinds import ALL
from runtime.domain.kinds.marks import Mark, members
from runtime.services.management import credential_scope

# Kind and member -> what may be named: what others have, too (`named`), or only one's own and nobody's. A
# `part` belongs to whoever has what it names.
REFERENCES = {
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
REFUSED = [place for place, rule in REFERENCES.items() if rule != "named"]


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
    for place, rule in REFERENCES.items():
        is_part = credential_scope._PARTS.get(place[0], ("",))[0] == place[1]
        assert (place in credential_scope.NAMED, place in credential_scope.LENT, is_part) == (
            rule == "named",
            rule == "lent",
            rule == "part",
        ), place


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
@pytest.mark.parametrize("place", [each for each in REFERENCES if each[0] != "Zone"], ids=".".join)
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
    for method, path, sent in (("PATCH", place, patch), ("POST", zone.path("/resources"), {**body, **patch})):
        told = mine.api.refused(403, method, path, sent)
        assert f"belongs to the configuration `{theirs.owner}`" in told["message"]
    api.ok("PATCH", place, patch)
    mine.api.ok("PATCH", place, {"description": "as it is", **patch})
    mine.api.ok("PATCH", place, {member: own})
