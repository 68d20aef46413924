"""Plans that are saved: read as they were written, or refused."""

import pytest
from tests.reconciler.factories import changed, plan_for, settle, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Manifest
from reconciler.plan import read_plan
from reconciler.plan.saved_plan import PlanUnreadable


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

    def test_what_is_done_has_one_digest_and_each_revision_a_key_of_its_own(self, world: World) -> None:
        """Who approved a change approved it whenever it is made; made again it is another changeset."""
        first = plan_for(world, [zone()])
        world.revision += 1
        again = plan_for(world, [zone()])

        assert again.digest == first.digest
        assert again.idempotency_key != first.idempotency_key

    def test_what_else_the_configuration_has_is_no_part_of_the_digest(
        self, world: World, company: list[Manifest]
    ) -> None:
        """Another change that is merged and applied in between leaves an approved one as it was."""
        settle(world, company[:-1])
        first = plan_for(world, changed(company[:-1], "Group", "staff", name="Everybody"))
        settle(world, company)
        second = plan_for(world, changed(company, "Group", "staff", name="Everybody"))

        assert not first.empty
        assert first.wanted != second.wanted
        assert first.digest == second.digest

    def test_no_secret_is_in_a_plan(
        self, world: World, company: list[Manifest], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A plan needs no secrets, so it cannot hold any."""
        monkeypatch.setenv("OKTA", "s3cr3t-value")

        assert "s3cr3t-value" not in str(plan_for(world, company).as_json())
