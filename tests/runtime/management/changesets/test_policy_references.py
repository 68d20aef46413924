"""Names in policies, as changesets bring them: what the zone lacks, and what a changeset takes away."""

from typing import Any

import pytest
from tests.support.applying import Git, api, app, create, on, ref, update

from runtime.domain.errors import ValidationFailed
from runtime.services.authority.users import create_local_user

LEAVERS = 'forbid (\n  principal in Group::"leavers",\n  action,\n  resource\n);'


def policy(cedar: str, zone: Any, name: str = "rule", **spec: Any) -> dict[str, Any]:
    """A new policy."""
    return create("Policy", name, zone, cedar=cedar, **spec)


async def refused(git: Git, *operations: Any) -> list[tuple[str, str]]:
    """What a changeset is refused for: fields and messages."""
    with pytest.raises(ValidationFailed) as failure:
        await git.apply(*operations)
    return [(problem.field or "", problem.message) for problem in failure.value.problems]


async def test_a_name_that_nothing_has_is_refused(git: Git, zone: str) -> None:
    """At its line and column; with such a group the same policy is taken."""
    ((field, message),) = await refused(git, policy(LEAVERS, zone))
    assert field == "operations[0].spec.cedar"
    assert message == (
        "line 2, column 16: the zone has no Group `leavers`;"
        ' if it need not have one, list Group::"leavers" in `absent_names`'
    )
    await git.apply(create("Group", "leavers", zone, name="Leavers"), policy(LEAVERS, zone))


async def test_what_comes_later_in_the_changeset_is_there(git: Git, zone: str) -> None:
    """Names are looked at when everything is done."""
    await git.apply(policy(LEAVERS, zone), create("Group", "l", zone, name="L", identifier="leavers"))


async def test_every_problem_is_told_at_once(git: Git, zone: str) -> None:
    """Of all policies, each at its operation."""
    cedar = 'forbid (principal in Role::"a", action, resource == Resource::"https://b.test");'
    found = await refused(git, policy(LEAVERS, zone), policy(cedar, zone, "other"))
    assert [field for field, _ in found] == ["operations[0].spec.cedar"] + ["operations[1].spec.cedar"] * 2


@pytest.mark.parametrize("type_", ["Group", "Role", "Application", "Resource", "User"])
async def test_each_kind_is_looked_up(git: Git, zone: str, type_: str) -> None:
    """A name is of one type: another's of the same name does not count. Nothing but letters is special."""
    made = [
        create("Group", "g", zone, name="G", identifier="same"),
        create("Role", "r", zone, identifier="same"),
        app("same", zone),
        api("x", zone, identifier="same"),
    ]
    for operation in made:
        if operation["kind"] != type_:
            await git.apply(operation)
    cedar = f'forbid (principal, action, resource) unless {{ context.actors.contains({type_}::"same") }};'
    if type_ != "Application":
        cedar = f'forbid (principal, action, resource) when {{ principal == {type_}::"same" }};'
    if type_ in ("Group", "Role"):
        cedar = f'forbid (principal in {type_}::"same", action, resource);'
    if type_ == "Resource":
        cedar = 'forbid (principal, action, resource == Resource::"same");'
    ((_, message),) = await refused(git, policy(cedar, zone))
    assert f"the zone has no {type_} `same`" in message
    for operation in made:
        if operation["kind"] == type_:
            await git.apply(operation, policy(cedar, zone))


@pytest.mark.parametrize("id_", ["a\\0b", "a\\u{1F600}", "%", "_", 'a\\"b', "LEAVERS", "leavers ", ""])
async def test_strange_names_are_names(git: Git, zone: str, id_: str) -> None:
    """None of them breaks the question, none is a pattern, and each can be said to be absent."""
    await git.apply(create("Group", "leavers", zone, name="Leavers"))
    cedar = f'forbid (principal in Group::"{id_}", action, resource);'
    ((_, message),) = await refused(git, policy(cedar, zone))
    assert "the zone has no Group" in message
    await git.apply(policy(cedar, zone, absent_names=[f'Group::"{id_}"']))


async def test_an_absent_name_is_meant(git: Git, zone: str) -> None:
    """As long as the policy says so; it is shown by snapshots, and taken back like any member."""
    await git.apply(policy(LEAVERS, zone, absent_names=['Group::"leavers"']))
    found = await git.found("Policy", "rule")
    assert found["spec"]["absent_names"] == ['Group::"leavers"']
    ((field, _),) = await refused(
        git, update("Policy", git.id("Policy", "rule"), "rule", zone, absent_names=None)
    )
    assert field == "operations[0].spec.cedar"
    await git.apply(
        create("Group", "leavers", zone, name="Leavers"),
        update("Policy", git.id("Policy", "rule"), "rule", zone, absent_names=None),
    )


async def test_what_looks_like_a_name_is_none(git: Git, zone: str) -> None:
    """Comments and strings."""
    cedar = '// Group::"a"\n@id("Group::\\"b\\"") forbid (principal, action, resource)'
    await git.apply(policy(f'{cedar} when {{ context.credential == "Group::\\"c\\"" }};', zone))


async def test_another_zone_s_name_is_none_of_this_one(git: Git, zone: str) -> None:
    """Policies stay within a zone."""
    await git.apply(create("Zone", "other", name="Other"))
    await git.apply(create("Group", "leavers", git.id("Zone", "other"), name="L"))
    assert await refused(git, policy(LEAVERS, zone))


# --- what a changeset takes away


@pytest.fixture
async def in_force(git: Git, zone: str) -> str:
    """A zone where a group is named by a policy in force."""
    await git.apply(
        create("Group", "leavers", zone, name="Leavers"),
        policy(LEAVERS, zone),
        create("PolicySet", "main", zone, policies=[ref("Policy", "rule")]),
    )
    return zone


async def test_what_a_policy_in_force_names_is_not_deleted(git: Git, in_force: str) -> None:
    """Not alone; together with the policy it is."""
    group = git.id("Group", "leavers")
    ((field, message),) = await refused(git, on("delete", "Group", group))
    assert field == "operations[0]"
    assert message == (
        'policy `rule` is in force and names Group::"leavers" (line 2, column 16 of its text);'
        " change that policy, or list the name in its `absent_names`"
    )
    rule = git.id("Policy", "rule")
    cedar = LEAVERS.replace("leavers", "gone")
    said = {"absent_names": ['Group::"gone"']}
    await git.apply(
        on("delete", "Group", group), update("Policy", rule, "rule", in_force, cedar=cedar, **said)
    )


async def test_nor_is_it_called_otherwise(git: Git, in_force: str) -> None:
    """The policy goes with it, or says that the name may be absent."""
    rename = update("Group", git.id("Group", "leavers"), "leavers", in_force, identifier="ex")
    ((field, _),) = await refused(git, rename)
    assert field == "operations[0].spec.identifier"
    rule = git.id("Policy", "rule")
    await git.apply(rename, update("Policy", rule, "rule", in_force, cedar=LEAVERS.replace("leavers", "ex")))


async def test_another_owner_s_policy_counts(git: Git, in_force: str) -> None:
    """Nobody's changeset takes a name from under somebody else's policy."""
    other = git.as_owner("acme/other")
    await other.apply(create("Group", "joiners", in_force, name="Joiners"))
    cedar = LEAVERS.replace("leavers", "joiners")
    await git.apply(update("Policy", git.id("Policy", "rule"), "rule", in_force, cedar=cedar))
    assert await refused(other, on("delete", "Group", other.id("Group", "joiners")))


async def test_a_name_can_pass_to_another(git: Git, in_force: str) -> None:
    """What counts is whether something is called so at the end."""
    await git.apply(
        on("delete", "Group", git.id("Group", "leavers")),
        create("Group", "new", in_force, name="New", identifier="leavers"),
    )


async def test_a_policy_that_is_not_in_force_keeps_nothing(git: Git, zone: str) -> None:
    """It decides nothing; written again it is refused."""
    await git.apply(create("Group", "leavers", zone, name="Leavers"), policy(LEAVERS, zone))
    await git.apply(on("delete", "Group", git.id("Group", "leavers")))
    rule = git.id("Policy", "rule")
    assert await refused(git, update("Policy", rule, "rule", zone, description="d"))


async def test_a_zone_goes_with_all_that_is_in_it(git: Git, in_force: str) -> None:
    """Nothing decides there any more."""
    await git.apply(
        on("delete", "Group", git.id("Group", "leavers")), on("delete", "Zone", git.id("Zone", "acme"))
    )


class TestAnAddressInPlaceOfAnIdentifier:
    """`User::"ada@acme.example"` where the user with that address is called otherwise."""

    RULE = 'forbid (principal == User::"Ada@acme.example", action, resource);'

    async def add(self, git: Git, zone: str, email: str = "ada@acme.example") -> str:
        user = await create_local_user(
            git.company.services, zone, email, "correct horse battery", verified=True
        )
        return user.identifier

    async def test_the_message_has_the_identifier(self, git: Git, zone: str) -> None:
        """To list the name as absent would make a rule that matches nobody."""
        identifier = await self.add(git, zone)

        ((_, message),) = await refused(git, policy(self.RULE, zone))

        assert message.endswith(
            "the user with the e-mail address `Ada@acme.example` has another identifier: "
            f'write User::"{identifier}", or compare `principal.email`'
        )

    async def test_an_address_of_nobody_is_a_missing_name(self, git: Git, zone: str) -> None:
        await self.add(git, zone, "bob@acme.example")

        ((_, message),) = await refused(git, policy(self.RULE, zone))

        assert "in `absent_names`" in message
