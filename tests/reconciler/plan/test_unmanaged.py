"""Unmanaged objects and members in the zones of a configuration."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.reconciler.factories import OWNER
from tests.reconciler.plan.values import ANN, OTHER, ZONE_ID, a_zone, entity, record, snapshot

from reconciler.kinds import Entity, InForce, Snapshot, Undescribable, load_kinds
from reconciler.plan import Unmanaged
from reconciler.plan.matching import SnapshotIndex
from reconciler.plan.unmanaged import UnmanagedSearch

AGENT = entity(
    "Application",
    "a1",
    {"identifier": "agent", "name": "Agent"},
    owned=record("agent", fields=["name", "identifier"]),
)
PROVIDER = "https://idp.example"


def search(
    found: Snapshot, *taken: str, zones: Mapping[str, str] | None = None, beside: Any = ()
) -> list[Unmanaged]:
    """What is unmanaged; *taken*: ids of what manifests describe."""
    index = SnapshotIndex(found, OWNER)
    names = {each.id: f"{each.kind}/{each.ownership.name}" for each in found.entities if each.ownership}
    looked_at = {ZONE_ID: "workforce"} if zones is None else zones
    return list(
        UnmanagedSearch(
            index,
            load_kinds(),
            looked_at,
            frozenset(beside),
            frozenset(taken),
            OWNER,
            lambda value: names.get(value, value) if isinstance(value, str) else value,
        ).all()
    )


def titles(*entities: Entity, taken: tuple[str, ...] = (), **more: Any) -> list[str]:
    """What is unmanaged of these entities, and a zone, for people."""
    return [each.title for each in search(snapshot(a_zone(), *entities), *taken, **more)]


class TestObjects:
    BY_HAND = entity("Group", "g1", {"identifier": "by-hand", "name": "By hand"}, last_change=ANN)

    def test_what_nobody_manages_is_told(self) -> None:
        """By its handle, with who has written it."""
        (found,) = search(snapshot(a_zone(), self.BY_HAND))
        assert (found.title, found.id, found.member, found.write) == (
            "Group workforce/by-hand",
            "g1",
            None,
            ANN,
        )
        assert (found.in_force, found.describable, found.attached_to) == (False, True, ())

    @pytest.mark.parametrize(
        "other",
        [
            entity("Group", "g1", owned=record("mine")),
            entity("Group", "g1", owned=record("theirs", owner=OTHER)),
            entity("Group", "g1", owner_type="platform"),
            entity("Group", "g1", zone_id="another"),
        ],
        ids=["managed", "managed by others", "the service's", "in another zone"],
    )
    def test_nothing_else_is(self, other: Entity) -> None:
        """It is in a configuration, or no configuration is about it."""
        assert titles(other) == []

    def test_what_a_manifest_takes_up_is_managed_from_now_on(self) -> None:
        """The plan adopts it."""
        assert titles(self.BY_HAND, taken=("g1",)) == []

    def test_what_has_no_handle_goes_by_what_it_refers_to(self) -> None:
        """By name; by its id where it says nothing."""
        grant = entity("RoleAssignment", "r1", {"role_id": "o1", "principal": {"user": "ann@x.example"}})
        role = entity("Role", "o1", owned=record("auditor"))
        assert titles(role, grant) == ["RoleAssignment workforce/Role/auditor -> ann@x.example"]
        assert titles(entity("RoleAssignment", "r1")) == ["RoleAssignment workforce/r1"]

    def test_what_decides_is_told_as_such(self) -> None:
        """A set that somebody has let decide."""
        (found,) = search(
            snapshot(a_zone(), entity("PolicySet", "s1", {"name": "s"}, in_force=InForce(1, 1)))
        )
        assert found.in_force

    @pytest.mark.parametrize(
        ("owned", "attached"),
        [(record("agent"), ("Application/agent",)), (record("agent", owner=OTHER), ()), (None, ())],
        ids=["ours", "another's", "nobody's"],
    )
    def test_what_was_made_for_something_of_ours_is_attached_to_it(self, owned: Any, attached: Any) -> None:
        """A credential by hand for our application."""
        agent = entity("Application", "a1", owned=owned)
        key = entity("ApplicationCredential", "k1", {"identifier": "k", "application_id": "a1"})
        found = {each.id: each.attached_to for each in search(snapshot(a_zone(), agent, key))}
        assert found["k1"] == attached

    def test_what_may_leave_is_not_attached(self) -> None:
        """A resource names an application, and another one tomorrow."""
        resource = entity("Resource", "r1", {"identifier": "https://r", "application_id": "a1"})
        (found,) = search(snapshot(a_zone(), AGENT, resource))
        assert found.attached_to == ()


class TestOfTheOrganization:
    CI = entity("ServiceAccount", "c1", {"name": "by-hand"})

    def test_is_told_of_the_kinds_that_the_configuration_has(self) -> None:
        """As being in no zone."""
        assert titles(self.CI, beside=["ServiceAccount"]) == ["ServiceAccount by-hand"]
        assert titles(self.CI) == []

    @pytest.mark.parametrize(
        "other",
        [
            entity("ServiceAccount", "c1", owned=record("ci")),
            entity("ServiceAccount", "c1", owned=record("ci", owner=OTHER)),
            entity("ServiceAccount", "c1", owner_type="platform"),
        ],
        ids=["managed", "managed by others", "the service's"],
    )
    def test_nothing_else_is(self, other: Entity) -> None:
        """It is in a configuration, or the service's own."""
        assert titles(other, beside=["ServiceAccount"]) == []

    def test_members_of_what_is_managed_are_told(self) -> None:
        """As in a zone."""
        ci = entity(
            "ServiceAccount", "c1", {"name": "ci", "description": "x"}, owned=record("ci", fields=["name"])
        )
        (found,) = search(snapshot(ci), "c1", beside=["ServiceAccount"])
        assert (found.zone, found.member, found.values) == (None, "description", ("x",))


def members(
    spec: dict[str, Any], kind: str = "Application", fields: tuple[str, ...] = ("name",), *others: Entity
) -> dict[str, Any]:
    """The members that git leaves to others, of what it manages: path -> values."""
    it = entity(kind, "it", spec, owned=record("it", fields=fields))
    return {each.member or "": each.values for each in search(snapshot(a_zone(), it, *others), "it")}


class TestMembers:
    def test_what_git_does_not_say_is_told(self) -> None:
        """Not at its default, and not said by the manifest."""
        spec = {"name": "Agent", "description": "by hand", "consent": "implicit"}
        assert members(spec) == {"description": ("by hand",), "consent": ("implicit",)}

    @pytest.mark.parametrize("value", [None, [], {}], ids=str)
    def test_nothing_is_nothing(self, value: Any) -> None:
        """Whatever shape it has."""
        assert members({"description": value}) == {}

    def test_a_default_is_nothing(self) -> None:
        """It is what nobody sets."""
        assert members({"consent": "required"}) == {}

    def test_a_list_is_told_one_by_one(self) -> None:
        """As a list, with names in place of ids."""
        payroll = entity("Resource", "r1", owned=record("payroll"))
        assert members({"dependencies": ["r1", "r2"]}, "Application", ("name",), payroll) == {
            "dependencies": ("Resource/payroll", "r2")
        }
        (found,) = search(
            snapshot(a_zone(), entity("Application", "it", {"traits": ["gateway"]}, owned=record("it"))), "it"
        )
        assert found.listed

    def test_one_value_is_no_list(self) -> None:
        """It is told as the one value that it is."""
        (found,) = search(
            snapshot(a_zone(), entity("Application", "it", {"description": "x"}, owned=record("it"))), "it"
        )
        assert not found.listed

    @pytest.mark.parametrize(
        ("kind", "spec"),
        [
            ("Zone", {"slug": "made-by-the-server"}),
            ("Provider", {"identifier": PROVIDER, "protocols": {"oauth2": {"issuer": PROVIDER}}}),
            ("ApplicationCredential", {"type": "password"}),
            ("Application", {"unknown": "x"}),
            ("Provider", {"client_secret": "x"}),
        ],
        ids=["worked out", "follows another", "fixed", "of no schema", "secret"],
    )
    def test_what_git_could_not_say_is_not_told(self, kind: str, spec: dict[str, Any]) -> None:
        """Or what follows from what it says."""
        assert members(spec, kind, ("identifier",)) == {}

    def test_what_no_longer_follows_is_told(self) -> None:
        """Somebody has set the issuer."""
        spec = {"identifier": PROVIDER, "protocols": {"oauth2": {"issuer": "https://other"}}}
        assert members(spec, "Provider", ("identifier",)) == {"protocols.oauth2.issuer": ("https://other",)}

    def test_a_reference_to_what_the_service_made_is_not_told(self) -> None:
        """It has put it there."""
        own = entity("Provider", "p1", owner_type="platform")
        assert members({"credential_provider_id": "p1"}, "Resource", ("name",), own) == {}
        assert members({"credential_provider_id": "p2"}, "Resource", ("name",), own) != {}

    @pytest.mark.parametrize("owner", [OWNER, OTHER])
    def test_of_another_owner_nothing_is_told(self, owner: str) -> None:
        """Nor of what this one manages and describes no more: that goes."""
        it = entity("Application", "it", {"description": "x"}, owned=record("it", owner=owner))
        assert search(snapshot(a_zone(), it), *(["it"] if owner == OTHER else [])) == []

    def test_of_the_zone_itself_they_are_told(self) -> None:
        """As of an object in no zone."""
        theirs = entity(
            "Zone", ZONE_ID, {"name": "W", "description": "x"}, owned=record("workforce", fields=["name"])
        )
        (found,) = search(snapshot(theirs), ZONE_ID)
        assert (found.title, found.member) == ("Zone workforce", "description")


class TestUndescribable:
    def found(self, **members: Any) -> list[Unmanaged]:
        """What is told of something that no manifest describes."""
        one = Undescribable(**{"kind": "ApiKey", "id": "k1", "zone_id": None, "name": "key", **members})
        ci = entity("ServiceAccount", "c1", {"name": "ci"}, owned=record("ci"))
        theirs = entity("ServiceAccount", "c2", {"name": "x"}, owned=record("x", owner=OTHER))
        return search(Snapshot("org1", 1, (a_zone(), ci, theirs), undescribable=(one,)), "c1")

    def test_in_a_zone_it_is_told(self) -> None:
        """It is no drift: nothing can describe it."""
        (found,) = self.found(kind="VaultSecret", zone_id=ZONE_ID)
        assert (found.title, found.describable, found.attached_to) == ("VaultSecret workforce/key", False, ())

    def test_of_a_member_its_role_is_told(self) -> None:
        """Who has which."""
        (found,) = self.found(kind="ZoneMember", zone_id=ZONE_ID, role="zone_manager", name="ann")
        assert found.name == "zone_manager -> ann"

    def test_in_another_zone_it_is_not_told(self) -> None:
        """No manifest is about that one."""
        assert self.found(zone_id="another") == []

    @pytest.mark.parametrize(
        ("of", "attached"), [("c1", ["ServiceAccount/ci"]), ("c2", []), ("c9", []), (None, [])]
    )
    def test_of_no_zone_it_is_told_where_it_belongs_to_something_of_ours(
        self, of: str | None, attached: list[str]
    ) -> None:
        """A key of our service account."""
        assert [each.attached_to for each in self.found(of=of)] == ([tuple(attached)] if attached else [])


def test_they_are_told_by_zone_kind_and_name() -> None:
    """Whatever order the server has them in."""
    mixed = [
        entity("Role", "r1", {"identifier": "b"}),
        entity("Group", "g2", {"identifier": "z"}),
        entity("Group", "g1", {"identifier": "a"}),
    ]
    assert (
        titles(*mixed)
        == titles(*mixed[::-1])
        == ["Group workforce/a", "Group workforce/z", "Role workforce/b"]
    )
