"""A deletion and a creation with the same content are perhaps a rename, and the plan says how to keep one."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.factories import manifest, plan_for, settle, zone
from tests.reconciler.fake_server import FakeServer, World
from tests.reconciler.plan.values import action

from reconciler.kinds import Manifest, load_kinds
from reconciler.plan import Action, FieldChange, read_plan, saved_plan_discrepancies
from reconciler.plan.model import Op, ProbableRename
from reconciler.plan.probable_renames import MOST_COMPARED, find_probable_renames
from reconciler.report.plans import plan_lines
from reconciler.terminal import plain

CONTENT: dict[str, object] = {"name": "Agent", "description": "Answers", "consent": "explicit"}


def gone(called: str, /, **content: object) -> Action:
    """An application that is deleted."""
    changes = [FieldChange(path, value, None) for path, value in (content or CONTENT).items()]
    return action(Op.DELETE, "Application", called, *changes, handle=called)


def made(called: str, /, **content: object) -> Action:
    """An application that is created."""
    changes = [FieldChange(path, None, value) for path, value in (content or CONTENT).items()]
    return action(Op.CREATE, "Application", called, *changes, handle=called)


def renames(*actions: Action) -> list[tuple[str, str]]:
    """The names before and after of each pair."""
    return [(each.before, each.after) for each in find_probable_renames(actions, load_kinds())]


@pytest.mark.parametrize("order", [1, -1])
def test_equal_content_is_a_rename(order: int) -> None:
    """Whichever comes first in the plan."""
    assert renames(*[gone("a"), made("b")][::order]) == [("a", "b")]


def test_a_third_of_the_members_may_differ() -> None:
    """They are listed; with more it is another object."""
    near = made("b", **{**CONTENT, "description": "Writes"})
    (found,) = find_probable_renames([gone("a"), near], load_kinds())
    assert found.differing == ("description",)
    far = made("b", **{**CONTENT, "description": "Writes", "name": "Writer"})
    assert renames(gone("a"), far) == []


def test_equal_content_comes_before_similar_content() -> None:
    """Of several that could be meant."""
    near = {**CONTENT, "description": "Writes"}
    assert renames(gone("a"), gone("x", **near), made("b", **near), made("c")) == [("a", "c"), ("x", "b")]


@pytest.mark.parametrize(
    "others",
    [
        [made("b"), made("c")],
        [made("b"), gone("c")],
        [action(Op.CREATE, "Role", "b", *made("b").changes)],
        [action(Op.CREATE, "Application", "b", *made("b").changes, zone="other")],
        [action(Op.UPDATE, "Application", "b", *made("b").changes)],
        [action(Op.CREATE, "Application", "b", *made("b").changes, deleted=True)],
        [action(Op.CREATE, "Application", "b")],
    ],
    ids=["two made", "two gone", "another kind", "another zone", "update", "deleted by others", "no content"],
)
def test_anything_else_is_none(others: list[Action]) -> None:
    """Nothing is said where it is a guess."""
    assert renames(gone("a"), made("b")) == [("a", "b")]
    assert renames(gone("a"), *others) == []


def test_comparing_is_bounded() -> None:
    """Of very many, those with equal content are found still."""
    many = int(MOST_COMPARED**0.5) + 1
    deleted = [gone(f"a{n}", name=f"n{n}", description="d", consent="c") for n in range(many)]
    equal = [made(f"b{n}", name=f"n{n}", description="d", consent="c") for n in range(many)]
    similar = [made(f"b{n}", name=f"n{n}", description="d", consent="x") for n in range(many)]
    assert len(renames(*deleted, *equal)) == many
    assert renames(*deleted, *similar) == []
    assert len(renames(*deleted[:3], *similar[:3])) == 3


class TestPlans:
    AGENT = manifest("Application", "agent", name="Agent", description="Answers mail")

    def renamed(self, world: World, **lifecycle: Any) -> tuple[Manifest, ...]:
        """The company with another name for its application, once it is applied with the old one."""
        settle(world, [zone(), self.AGENT])
        more = {"lifecycle": lifecycle} if lifecycle else {}
        return zone(), manifest("Application", "helper", name="Agent", description="Answers mail", **more)

    def test_the_plan_says_what_to_write(self, world: World) -> None:
        """The old name, and the old identifier, which the manifest's name would replace."""
        plan = plan_for(world, [*self.renamed(world)])
        assert plan.probable_renames == (
            ProbableRename(
                "Application",
                "workforce",
                "agent",
                "helper",
                "Application.yaml:1",
                handle="identifier",
                old_handle="agent",
            ),
        )

    def test_what_it_says_keeps_the_object(self, world: World) -> None:
        """The same id, and the same identifier."""
        self.renamed(world)
        kept = manifest(
            "Application",
            "helper",
            name="Agent",
            description="Answers mail",
            identifier="agent",
            lifecycle={"previous_names": ["agent"]},
        )
        plan = plan_for(world, [zone(), kept])
        assert (plan.summary(), plan.probable_renames) == ({"rename": 1}, ())

    def test_the_digest_does_not_depend_on_it(self, world: World) -> None:
        """It is a hint for reviewers: the plan does the same."""
        assert "probable_renames" not in plan_for(world, [*self.renamed(world)]).as_json()


MANIFESTS = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: shop}
spec: {name: shop}
---
apiVersion: zonewright/v1
kind: Role
metadata: {zone: shop, name: reader}
spec: {description: Reads everything}
"""


def test_text_and_json_have_it(config: Folder, server: FakeServer, zonectl: Callable[..., Result]) -> None:
    """In text with the place of the new manifest."""
    config.write("shop.yaml", MANIFESTS)
    assert zonectl("apply", config, "--yes").exit_code == 0
    config.write("shop.yaml", MANIFESTS.replace("reader", "viewer"))
    told = zonectl("plan", config).out
    assert (
        "! perhaps a rename: Role shop/reader is deleted, and viewer, which is created, has the same content"
        in told
    )
    assert 'write `lifecycle: {previous_names: ["reader"]}` in the manifest of viewer (' in told
    assert '; also write `identifier: "reader"` in its `spec` (a Role\'s identifier cannot change)' in told
    document = json.loads(zonectl("plan", config, "--output", "json").out)
    assert document["probable_renames"] == [
        {
            "deleted": "Role shop/reader",
            "created": "Role shop/viewer",
            "place": "shop.yaml:6",
            "previous_name": "reader",
            "keep": {"identifier": "reader"},
        }
    ]


class TestRoles:
    READER = manifest("Role", "reader", description="Reads everything")

    def viewer(self, **spec: Any) -> Manifest:
        """The role with another name, and its former one in `previous_names`."""
        lifecycle = {"previous_names": ["reader"]}
        return manifest("Role", "viewer", lifecycle=lifecycle, description="Reads everything", **spec)

    def test_what_it_says_keeps_the_object(self, world: World) -> None:
        """With both the former name and the former identifier."""
        settle(world, [zone(), self.READER])
        plan = plan_for(world, [zone(), self.viewer(identifier="reader")])
        assert plan.summary() == {"rename": 1}

    def test_a_replacement_for_an_omitted_identifier_says_what_to_write(self, world: World) -> None:
        """It is the manifest's name, and it cannot change."""
        settle(world, [zone(), self.READER])
        plan = plan_for(world, [zone(), self.viewer()])
        assert plan.summary() == {"replace": 1}
        text = "\n".join(plain(line) for line in plan_lines(plan))
        assert (
            'to keep the object, write `identifier: "reader"` in its `spec`: otherwise the name `viewer`'
            " becomes the identifier, which cannot be changed"
        ) in text

    def test_json_has_what_to_write(self, world: World) -> None:
        """With the replacement, as a probable rename has it; none where the object is kept."""
        settle(world, [zone(), self.READER])
        (kept,) = plan_for(world, [zone(), self.viewer(identifier="reader")]).actions
        assert "keep" not in kept.as_json()
        (replaced,) = plan_for(world, [zone(), self.viewer()]).actions
        assert replaced.as_json()["keep"] == {"identifier": "reader"}

    def test_a_saved_plan_has_what_to_write_as_well(self, world: World) -> None:
        """Another value than the object has is refused."""
        settle(world, [zone(), self.READER])
        plan = read_plan(orjson.dumps(plan_for(world, [zone(), self.viewer()]).as_json()))
        (replaced,) = plan.actions
        assert replaced.keep == ("identifier", "reader")
        forged = replace(plan, actions=(replace(replaced, keep=("identifier", "other")),))
        told = [list(saved_plan_discrepancies(each, world.snapshot())) for each in (plan, forged)]
        assert told[0] == []
        assert "with which the object would be kept" in str(told[1])

    def test_a_replacement_for_another_identifier_does_not(self, world: World) -> None:
        """Somebody has written it."""
        settle(world, [zone(), self.READER])
        (action,) = plan_for(world, [zone(), self.viewer(identifier="watcher")]).actions
        assert (action.op, action.keep) == (Op.REPLACE, None)
