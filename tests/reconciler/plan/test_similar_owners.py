"""A misspelt owner: it manages nothing, while another one manages the objects that the manifests name."""

import json
from collections.abc import Callable

import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.factories import manifest, plan_for, settle, zone
from tests.reconciler.fake_server import FakeServer, World

from reconciler.plan import SimilarOwner

SHOP = [zone(), manifest("Group", "staff", name="Staff"), manifest("Group", "guests", name="Guests")]


@pytest.mark.parametrize("owner", ["acme/shopp", "initech/identity"])
def test_owner_that_manages_what_is_named_the_same_is_told(world: World, owner: str) -> None:
    """Close to it or not: what another owner manages would be made a second time."""
    settle(world, SHOP, "acme/shop")
    assert plan_for(world, SHOP, "acme/shop").similar_owner is None

    assert plan_for(world, SHOP, owner).similar_owner == SimilarOwner("acme/shop", 3)


def test_nobody_is_told_who_manages_something_already(world: World) -> None:
    """Two configurations may share names in one zone; whoever has applied knows the owner."""
    settle(world, SHOP, "acme/shop")
    settle(world, [manifest("Zone", "other", name="other")], "acme/other")

    assert (
        plan_for(world, [*SHOP, manifest("Zone", "other", name="other")], "acme/other").similar_owner is None
    )


def test_few_names_in_common_are_chance(world: World) -> None:
    """Less than half of the manifests are named as what somebody manages."""
    settle(world, SHOP, "acme/shop")
    others = [manifest("Group", f"team-{number}", name="Team") for number in range(5)]

    assert plan_for(world, [SHOP[0], SHOP[1], *others], "acme/other").similar_owner is None
    assert plan_for(world, [*SHOP, *others[:3]], "acme/other").similar_owner == SimilarOwner("acme/shop", 3)


def test_same_names_in_another_zone_are_others(world: World) -> None:
    """A copy of a configuration with zones of its own is no mistake."""
    settle(world, SHOP, "acme/shop")
    copy = [zone("staging"), *(manifest("Group", each, "staging", name=each) for each in ("staff", "guests"))]

    assert plan_for(world, copy, "acme/staging").similar_owner is None


ZONE = "apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: shop}\nspec: {name: Shop}\n"
GROUP = (
    "apiVersion: zonewright/v1\nkind: Group\nmetadata: {{zone: shop, name: {name}}}\nspec: {{name: Team}}\n"
)


def test_commands_warn(config: Folder, server: FakeServer, zonectl: Callable[..., Result]) -> None:
    """The owner that may be meant is named, as text and as JSON; with the right one nothing is."""
    config.write("zonectl.yaml", "")
    config.write("zone.yaml", ZONE)
    for name in ("staff", "guests"):
        config.write(f"{name}.yaml", GROUP.format(name=name))
    assert zonectl("apply", config, "--yes", "--owner", "acme/shop").exit_code == 0
    assert "warning" not in zonectl("plan", config, "--owner", "acme/shop").out
    told = (
        "warning: `acme/shopp` manages nothing yet, and 3 of 3 manifests are named as objects that"
        " `acme/shop` manages; check the owner: `--owner`, ZONECTL_OWNER or `owner` in"
        " `zonectl.yaml`"
    )
    mistyped = (config, "--owner", "acme/shopp")
    texts = [zonectl(command, *mistyped).out for command in ("plan", "drift")]
    assert not [text for text in texts if told not in text]
    documents = [zonectl(command, *mistyped, "--output", "json").out for command in ("plan", "drift")]
    similar = {"owner": "acme/shop", "objects": 3}
    assert [json.loads(each)["similar_owner"] for each in documents] == [similar, similar]
