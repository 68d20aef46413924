"""Replacements: the deletion before the creation, and the update that removes references first."""

from typing import Any

import pytest
from tests.reconciler.plan.values import ZONE_ID, entity, record

from reconciler.kinds import Origin, load_kinds
from reconciler.plan.replacements import exclusive_place, unlinking_update

KINDS = load_kinds().by_name


class TestPlaces:
    GIVEN = {"role_id": "r", "principal.group_id": "g"}

    def test_without_a_handle_it_is_what_cannot_change(self) -> None:
        """That a group has a role is there once in a zone."""
        place = exclusive_place(KINDS["RoleAssignment"], ZONE_ID, self.GIVEN)
        assert place is not None
        assert place == exclusive_place(KINDS["RoleAssignment"], ZONE_ID, dict(self.GIVEN))

    @pytest.mark.parametrize(
        "other", [{"role_id": "s", "principal.group_id": "g"}, {"role_id": "r", "principal.user": "g"}]
    )
    def test_what_gives_something_else_has_another_place(self, other: dict[str, str]) -> None:
        """Another role, or another principal."""
        kind = KINDS["RoleAssignment"]
        assert exclusive_place(kind, ZONE_ID, self.GIVEN) != exclusive_place(kind, ZONE_ID, other)

    def test_what_is_in_another_zone_has_another_place(self) -> None:
        """The same in two zones does not compete."""
        kind = KINDS["RoleAssignment"]
        assert exclusive_place(kind, ZONE_ID, self.GIVEN) != exclusive_place(kind, "other", self.GIVEN)

    def test_a_handle_that_never_changes_is_a_place(self) -> None:
        """A role's identifier is set once: whoever has it has to go first."""
        place = exclusive_place(KINDS["Role"], ZONE_ID, {"identifier": "reader"})
        assert place == ("Role", ZONE_ID, "reader")

    @pytest.mark.parametrize(
        ("kind", "values"),
        [
            ("Group", {"identifier": "staff"}),
            ("Application", {"identifier": "agent"}),
            ("Provider", {"identifier": "https://idp.example"}),
            ("Policy", {"name": "base"}),
            ("Role", {}),
            ("Role", {"identifier": {"local_id": "x"}}),
        ],
    )
    def test_a_handle_that_changes_hands_is_none(self, kind: str, values: dict[str, Any]) -> None:
        """The server sorts those out within the changeset; and what has no handle yet takes nobody's."""
        assert exclusive_place(KINDS[kind], ZONE_ID, values) is None


class TestUnlinking:
    OWNED = record(
        "agent",
        applied={"name": "Agent", "dependencies": ["r1"]},
        versions={"client_secret": "3"},
        protect=True,
    )

    def test_the_record_stays_as_it_is(self) -> None:
        """Only the references go: fields, versions of secrets and protection are said again."""
        found = entity("Application", "a1", {"dependencies": ["r1"]}, owned=self.OWNED)
        assert unlinking_update(found, self.OWNED, {"dependencies": []}, Origin("a.yaml", 3)) == {
            "op": "update",
            "kind": "Application",
            "id": "a1",
            "zone": {"id": ZONE_ID},
            "name": "agent",
            "spec": {"dependencies": []},
            "fields": ["dependencies", "name"],
            "secret_versions": {"client_secret": "3"},
            "protect": True,
            "source": {"file": "a.yaml", "line": 3},
        }

    def test_what_is_in_no_zone_names_none(self) -> None:
        """A zone that refers to its own provider."""
        found = entity("Zone", ZONE_ID, {"name": "W"}, owned=self.OWNED)
        cleared = {"user_identity_provider_id": None}
        assert "zone" not in unlinking_update(found, self.OWNED, cleared, Origin("a.yaml", 3))
