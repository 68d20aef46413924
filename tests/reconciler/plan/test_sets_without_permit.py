"""A policy set without a `permit` refuses every token, since it replaces the zone's default policies."""

import json
from collections.abc import Callable

from tests.reconciler.conftest import Folder, Result
from tests.reconciler.factories import changed, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import FakeServer, World

FORBIDS = manifest("Policy", "base", name="Base", cedar="forbid(principal, action, resource);")
PERMITS = manifest("Policy", "more", name="More", cedar="permit(principal, action, resource);")
SET = manifest("PolicySet", "main", name="Main", policies=["base"])


def without_permit(world: World, *manifests: object) -> tuple[str, ...]:
    return plan_for(world, [zone(), *manifests]).without_permit  # type: ignore[list-item]


def test_a_set_of_a_new_zone_that_only_forbids_is_named(world: World) -> None:
    """There is no set before it whose end a plan would show."""
    assert without_permit(world, FORBIDS, SET) == ("PolicySet workforce/main",)


def test_a_set_with_a_permit_is_not(world: World) -> None:
    """In any of its policies."""
    both = manifest("PolicySet", "main", name="Main", policies=["base", "more"])
    assert without_permit(world, FORBIDS, PERMITS, both) == ()


def test_an_inactive_set_is_not(world: World) -> None:
    """It decides nothing."""
    assert (
        without_permit(world, FORBIDS, manifest("PolicySet", "main", policies=["base"], active=False)) == ()
    )


def test_a_set_that_was_applied_is_named_when_a_policy_of_it_changes(world: World) -> None:
    """And not in each plan thereafter."""
    applied = [zone(), FORBIDS, SET]
    settle(world, applied)
    assert plan_for(world, applied).without_permit == ()

    rewritten = changed(
        applied, "Policy", "base", cedar="forbid(principal, action, resource) when { 1 < 2 };"
    )

    assert plan_for(world, rewritten).without_permit == ("PolicySet workforce/main",)


def test_a_text_that_only_the_server_can_parse_may_permit(world: World) -> None:
    """Nothing is said of what is not known."""
    unreadable = manifest(
        "Policy", "base", name="Base", cedar="permit(principal, action, resource) when { ?? };"
    )
    assert without_permit(world, unreadable, SET) == ()


MANIFESTS = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: shop}
spec: {name: Shop}
---
apiVersion: zonewright/v1
kind: Policy
metadata: {zone: shop, name: nothing}
spec: {cedar: "forbid(principal, action, resource);"}
---
apiVersion: zonewright/v1
kind: PolicySet
metadata: {zone: shop, name: main}
spec: {policies: [nothing]}
"""


def test_a_plan_warns_of_it(config: Folder, server: FakeServer, zonectl: Callable[..., Result]) -> None:
    """As text and as JSON; the digest that somebody approves stays the same."""
    config.write("all.yaml", MANIFESTS)

    text = zonectl("plan", config).out
    document = json.loads(zonectl("plan", config, "--output", "json").out)

    assert "! every token is refused: no policy of PolicySet shop/main has a `permit`" in text
    assert document["without_permit"] == ["PolicySet shop/main"]
