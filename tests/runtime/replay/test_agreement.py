"""What a dry run says of recorded decisions is what requests come to once the changeset is applied."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.replay.conftest import APIS, APPS, PEOPLE, PERMIT, Asked, World
from tests.support.applying import create, update
from tests.support.jumping_clock import jumping

TEXTS = (
    PERMIT,
    'permit (principal in Group::"staff", action, resource);',
    'permit (principal in Role::"auditor", action, resource == Resource::"https://payroll.test");',
    'permit (principal, action, resource) when { context.application.traits.contains("mcp-server") };',
    'permit (principal is Application, action == Action::"direct", resource);',
    'forbid (principal == User::"ada@acme.example", action, resource);',
    'forbid (principal is User, action, resource) when { principal has email && principal.email like "b*" };',
    'forbid (principal, action, resource) unless { principal in Role::"auditor" };',
    'forbid (principal, action, resource) when { User::"bob@acme.example" == principal };',
    'forbid (principal, action, resource) when { User::"bob@acme.example".identifier like "b*" };',
    'forbid (principal, action, resource == Resource::"https://calendar.test");',
    'forbid (principal, action, resource) when { context.scopes.contains("write") };',
    'forbid (principal, action, resource) unless { resource.scopes.contains("read") };',
    'forbid (principal in Group::"staff", action == Action::"exchange", resource);',
)
SCOPES_OF = (["read"], ["write"], ["read", "write"])
Step = Callable[[World, random.Random, str], list[dict[str, Any]]]


def policies(world: World, chance: random.Random, name: str) -> list[dict[str, Any]]:
    return world.policies(f"set-{name}", *chance.sample(TEXTS, chance.randint(1, 4)))


def members(world: World, chance: random.Random, _name: str) -> list[dict[str, Any]]:
    chosen = [f"{each}@acme.example" for each in PEOPLE if chance.random() < 0.5]
    return [update("Group", world.git.id("Group", "staff"), "staff", world.zone.id, members=chosen)]


def role(world: World, chance: random.Random, name: str) -> list[dict[str, Any]]:
    to = chance.choice(
        [{"group_id": world.git.id("Group", "staff")}, {"user": f"{chance.choice(PEOPLE)}@acme.example"}]
    )
    auditor = world.git.id("Role", "auditor")
    return [create("RoleAssignment", f"of-{name}", world.zone.id, role_id=auditor, principal=to)]


def traits(world: World, chance: random.Random, _name: str) -> list[dict[str, Any]]:
    chosen = chance.choice(([], ["mcp-server"]))
    which = chance.choice(APPS)
    return [update("Application", world.git.id("Application", which), which, world.zone.id, traits=chosen)]


def dependencies(world: World, chance: random.Random, _name: str) -> list[dict[str, Any]]:
    kept = [world.git.id("Resource", each) for each in APIS if chance.random() < 0.6]
    which = chance.choice(APPS)
    app_id = world.git.id("Application", which)
    return [update("Application", app_id, which, world.zone.id, dependencies=kept)]


def offered(world: World, chance: random.Random, _name: str) -> list[dict[str, Any]]:
    which = chance.choice(APIS)
    scopes = chance.choice(SCOPES_OF)
    return [update("Resource", world.git.id("Resource", which), which, world.zone.id, scopes=scopes)]


STEPS: tuple[Step, ...] = (policies, policies, members, role, traits, dependencies, offered)


def changes(told: dict[str, Any]) -> set[tuple[str | None, str, str, tuple[str, ...] | None]]:
    """Who loses or gains what, as a dry run says."""
    return {
        (
            (each.get("user") or "").partition("@")[0] or None,
            each["application"],
            each["resource"].removeprefix("https://").removesuffix(".test"),
            tuple(each["scopes"]) if "scopes" in each else None,
        )
        for each in told["examples"]
    }


def lost(
    before: dict[Any, Any], after: dict[Any, Any], *, recorded: set[Asked], in_part: set[Asked]
) -> set[tuple[Any, ...]]:
    """The same, as requests come to it.

    Args:
        recorded: what is in the records as it has to be, to count where it is lost as a whole.
        in_part: the same where some scopes are lost.
    """
    found: set[tuple[Any, ...]] = set()
    for asked, scopes in before.items():
        left = after[asked]
        if scopes is not None and left is None and asked in recorded:
            found.add((*asked, None))
        elif scopes is not None and left is not None and scopes - left and asked in in_part:
            found.add((*asked, tuple(sorted(scopes - left))))
    return found


@pytest.mark.parametrize("seed", range(8))
async def test_says_what_requests_come_to(world: World, seed: int) -> None:
    """Whatever is changed: policies, groups, roles, applications, resources."""
    chance = random.Random(seed)
    with jumping(world.company.services):
        before = await world.ask_all()
        for number in range(4):
            steps = chance.sample(STEPS, chance.randint(1, 2))
            if len({each.__name__ for each in steps}) < len(steps):
                steps = steps[:1]
            operations = [each for step in steps for each in step(world, chance, str(number))]

            (impact,) = await world.tried(*operations)
            issued, denied = set(world.issued), set(world.denied)
            await world.git.apply(*operations)
            after = await world.ask_all()

            named = [each.__name__ for each in steps]
            loses = lost(before, after, recorded=issued, in_part=issued)
            gains = lost(after, before, recorded=denied, in_part=issued)
            assert changes(impact["loses"]) == loses, (named, operations)
            assert changes(impact["gains"]) == gains, (named, operations)
            before = after
