"""Plans that are saved: read as they were written, or refused."""

import pytest
from tests.reconciler.factories import plan_for, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Manifest
from reconciler.plan import read_plan
from reconciler.plan.model import PlanUnreadable


class TestSavedPlans:
    def test_is_read_as_it_was_written(self, world: World, company: list[Manifest]) -> None:
        """A plan survives being saved."""
        import orjson

        plan = plan_for(world, company)
        again = read_plan(orjson.dumps(plan.as_json()))

        assert again == plan
        assert again.digest == plan.digest

    def test_a_changed_plan_is_refused(self, world: World) -> None:
        """The digest names the plan."""
        import orjson

        content = plan_for(world, [zone()]).as_json()
        changed_plan = orjson.dumps({**content, "owner": "mallory"})

        with pytest.raises(PlanUnreadable, match="changed after it was made"):
            read_plan(changed_plan)

    def test_another_revision_makes_another_plan(self, world: World) -> None:
        """The digest is the idempotency key: the same change at another time is another changeset."""
        first = plan_for(world, [zone()]).digest
        world.revision += 1

        assert plan_for(world, [zone()]).digest != first

    def test_no_secret_is_in_a_plan(
        self, world: World, company: list[Manifest], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A plan needs no secrets, so it cannot hold any."""
        monkeypatch.setenv("OKTA", "s3cr3t-value")

        assert "s3cr3t-value" not in str(plan_for(world, company).as_json())
