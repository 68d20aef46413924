"""Cascades of deletions: the server's counts, and a snapshot's for a zone."""

import pytest
from tests.reconciler.factories import OWNER
from tests.reconciler.plan.values import OTHER, ZONE_ID, a_zone, action, entity, record, snapshot

from reconciler.plan import Cascade
from reconciler.plan.cascade import cascade_json, cascade_of, count_cascaded
from reconciler.plan.matching import SnapshotIndex
from reconciler.plan.model import Op

SESSIONS = Cascade({"sessions": 3, "users": 2}, in_use=True)
COUNTED = {("Group", "Group-staff"): SESSIONS}


class TestCascadeOfAnAction:
    @pytest.mark.parametrize("op", [Op.DELETE, Op.REPLACE])
    def test_what_destroys_has_what_was_counted(self, op: Op) -> None:
        """Deletions and replacements alike."""
        assert cascade_of(action(op), COUNTED) is SESSIONS

    @pytest.mark.parametrize("op", sorted(set(Op) - {Op.DELETE, Op.REPLACE, Op.CREATE}))
    def test_what_destroys_nothing_takes_nothing_along(self, op: Op) -> None:
        """Even if something was counted for that very object."""
        assert cascade_of(action(op), COUNTED) is None

    def test_what_was_not_counted_is_unknown(self) -> None:
        """Kind and id together name what was counted."""
        assert cascade_of(action(Op.DELETE, name="other"), COUNTED) is None
        assert cascade_of(action(Op.DELETE, "Role", entity_id="Group-staff"), COUNTED) is None

    def test_as_json_it_names_the_object(self) -> None:
        """The object for people, what goes with it, and whether it was used lately."""
        assert cascade_json(action(Op.DELETE), SESSIONS) == {
            "object": "Group workforce/staff",
            "takes_along": {"sessions": 3, "users": 2},
            "in_use": True,
        }


class TestOfAZone:
    INDEX = SnapshotIndex(
        snapshot(
            a_zone(),
            entity("Group", "mine", owned=record("mine")),
            entity("Group", "theirs", owned=record("theirs", owner=OTHER)),
            entity("Group", "nobodys"),
            entity("Role", "services", owner_type="platform"),
            entity("Group", "elsewhere", zone_id="another"),
        ),
        OWNER,
    )

    def test_everything_that_is_not_deleted_by_itself_counts(self) -> None:
        """What others manage and what nobody manages."""
        assert count_cascaded(self.INDEX, ZONE_ID, {"mine"}) == 2

    def test_what_is_ones_own_counts_where_it_is_not_deleted(self) -> None:
        """Whoever owns it: what no action says is taken along."""
        assert count_cascaded(self.INDEX, ZONE_ID, set()) == 3

    def test_what_the_service_made_does_not_count(self) -> None:
        """It comes with every zone, and goes with it."""
        assert count_cascaded(self.INDEX, ZONE_ID, {"mine", "theirs", "nobodys"}) == 0

    def test_what_is_no_zone_takes_nothing_along(self) -> None:
        """A group has nothing in it."""
        assert count_cascaded(self.INDEX, "mine", set()) == 0
