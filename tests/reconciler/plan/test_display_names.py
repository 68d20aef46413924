"""Names that plans show in place of ids: the manifest's name, and the owner of others' objects."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.reconciler.factories import OWNER
from tests.reconciler.plan.values import OTHER, ZONE_ID, a_zone, entity, record, snapshot

from reconciler.kinds import IncludedVersion, InForce
from reconciler.plan.display_names import DisplayNames, display_name
from reconciler.plan.matching import SnapshotIndex

ARCHIVED = InForce(1, 2, contents=(IncludedVersion("Policy", "old", "former", 1, {}),))
ENTITIES = (
    a_zone(),
    a_zone("partners", zone_id="z2", owner=OTHER),
    a_zone("wild", zone_id="z3", owner=None),
    entity("Group", "g1", owned=record("staff")),
    entity("Group", "g2", owned=record("guests", owner=OTHER)),
    entity("Group", "g3", {"identifier": "by-hand"}),
    entity("RoleAssignment", "r1"),
    entity("PolicySet", "s1", in_force=ARCHIVED),
)


def names(renamed: Mapping[str, str] | None = None) -> DisplayNames:
    """The names of a few entities."""
    return DisplayNames(
        SnapshotIndex(snapshot(*ENTITIES), OWNER), OWNER, lambda one: f"<{one}>", renamed or {}
    )


class TestShown:
    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("g1", "Group/staff"),
            ("g2", "Group/guests of acme/other"),
            ("g3", "Group/by-hand"),
            ("r1", "RoleAssignment/r1"),
            ("old", "Policy/former"),
            ("any text", "any text"),
            (["g1", "other"], ["Group/staff", "other"]),
            ({"local_id": "Group/w/new"}, "<Group/w/new>"),
            ({"address_of": {"id": ZONE_ID}, "member": "issuer"}, "issuer of Zone/workforce"),
            ({"address_of": {"local_id": "Zone//w"}, "member": "issuer"}, "issuer of <Zone//w>"),
            ({"external": "zone_viewer", "kind": "Role"}, "Role/zone_viewer"),
            ({"secret": {"from_env": "OKTA"}}, {"secret": {"from_env": "OKTA"}}),
            ({"prompt": "g1"}, {"prompt": "g1"}),
            (7, 7),
            (True, True),
            (None, None),
        ],
    )
    def test_a_value_as_people_read_it(self, value: Any, shown: Any) -> None:
        """Ids and pointers as names; maps of free keys and all other values as they are."""
        assert names().shown(value) == shown

    def test_what_is_renamed_has_both_names(self) -> None:
        """Another object may have either of them by then."""
        assert names({"g1": "crew"}).shown("g1") == "Group/crew (was staff)"

    def test_a_rename_of_something_else_changes_nothing(self) -> None:
        """Names go by id."""
        assert names({"g2": "crew"}).shown("g1") == "Group/staff"


class TestZones:
    @pytest.mark.parametrize(
        ("zone_id", "name"),
        [(ZONE_ID, "workforce"), ("z2", "partners"), ("z3", "wild-slug"), ("unknown", "unknown")],
    )
    def test_a_zone_is_called_as_its_manifest(self, zone_id: str, name: str) -> None:
        """Whoever has it; by its slug where nobody manages it, and by its id where it is not to be seen."""
        assert names().zone(zone_id) == name

    def test_all_zones_are_listed(self) -> None:
        """By id, also those of others and of nobody."""
        assert names().zones() == {ZONE_ID: "workforce", "z2": "partners", "z3": "wild-slug"}

    def test_a_renamed_zone_has_its_new_name(self) -> None:
        """Actions are told by the names that manifests have now."""
        assert names({ZONE_ID: "people"}).zone(ZONE_ID) == "people"


@pytest.mark.parametrize(("former", "told"), [(None, "staff"), ("", "staff"), ("crew", "staff (was crew)")])
def test_a_former_name_is_told_where_there_is_one(former: str | None, told: str) -> None:
    """Nothing is added to what keeps its name."""
    assert display_name("staff", former) == told
