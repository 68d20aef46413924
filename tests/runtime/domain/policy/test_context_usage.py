"""The attributes that a policy reads are found in its structure, however its text spells them."""

import pytest

from runtime.adapters import cedar
from runtime.domain.policy.context_usage import UNKNOWN, ContextUsage, told_apart, used_attributes

HEAD = "permit (principal, action, resource)"


def reads_of(text: str) -> list[ContextUsage]:
    """What each rule of a policy looks at."""
    return [rule.reads for rule in cedar.parse_rules(text)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"{HEAD};", frozenset()),
        (f"// context.scopes\n{HEAD};", frozenset()),
        (f'{HEAD} when {{ context.scopes.contains("a") }};', {"scopes"}),
        (f'{HEAD} when {{ context["scopes"].contains("a") }};', {"scopes"}),
        (f'{HEAD} when {{ context["sc\\u{{6f}}pes"].contains("a") }};', {"scopes"}),
        (f'{HEAD} unless {{ context has acr && context.acr == "x" }};', {"acr"}),
        (f'{HEAD} when {{ if context.now > 3 then resource.scopes.contains("b") else false }};', {"now"}),
        (f"{HEAD} when {{ [context].contains(context) }};", None),
        (f'{HEAD} when {{ {{"a": context}}.a.scopes.contains("b") }};', None),
    ],
)
def test_members_that_rules_look_at_are_found(text: str, names: frozenset[str] | None) -> None:
    """Members by either spelling count; using the context as a whole counts as looking at everything."""
    (reads,) = reads_of(text)
    assert reads.names == (names if names is None else frozenset(names))


def test_rules_about_one_resource_concern_only_that() -> None:
    """A rule whose head names a resource does not matter for another."""
    text = (
        'forbid (principal, action, resource == Resource::"r1") when { context.scopes.contains("a") };'
        " permit (principal, action, resource) when { context.chain_depth == 1 };"
    )
    reads = reads_of(text)

    assert used_attributes(reads, "r1") == frozenset({"scopes", "chain_depth"})
    assert used_attributes(reads, "r2") == frozenset({"chain_depth"})
    assert used_attributes([*reads, ContextUsage(None, None)], "r2") is None


@pytest.mark.parametrize(
    ("text", "users"),
    [
        (f"{HEAD};", set()),
        ('permit (principal in Group::"g", action, resource);', set()),
        ('permit (principal is User in Role::"r", action, resource);', set()),
        ('permit (principal == User::"ada", action, resource);', {"ada"}),
        ('permit (principal in User::"ada", action, resource);', {"ada"}),
        (f'{HEAD} when {{ [User::"ada", User::"b\\u{{6f}}b"].contains(principal) }};', {"ada", "bob"}),
        (f'{HEAD} when {{ principal in [Group::"g", User::"ada"] }};', {"ada"}),
        (f'{HEAD} when {{ resource.identifier == "r" && context.application.identifier == "a" }};', None),
        (f'{HEAD} when {{ resource.identifier == "r" }};', set()),
        (f'{HEAD} when {{ principal has email && principal.email like "*@x.example" }};', None),
        (f"{HEAD} when {{ principal has email }};", None),
        (f'{HEAD} when {{ principal["identifier"] == "ada" }};', None),
        (f'{HEAD} when {{ (if context.now > 1 then principal else principal).identifier == "a" }};', None),
        (f'{HEAD} when {{ {{"who": principal}}.who.email == "a" }};', None),
    ],
)
def test_users_that_rules_tell_apart_are_found(text: str, users: set[str] | None) -> None:
    """Those that a rule names; any, where it may read what is a user's own."""
    (reads,) = reads_of(text)
    assert reads.users == (users if users is None else frozenset(users))


def test_rules_about_another_resource_tell_nobody_apart() -> None:
    """A rule whose head names a resource does not matter for another; one that could not be read does."""
    reads = reads_of(
        'forbid (principal == User::"ada", action, resource == Resource::"r1");'
        ' permit (principal == User::"bob", action, resource);'
    )

    assert told_apart(reads, "r1") == {"ada", "bob"}
    assert told_apart(reads, "r2") == {"bob"}
    assert told_apart([*reads, UNKNOWN], "r2") is None


@pytest.mark.parametrize(
    "rule",
    [
        f"{HEAD};",
        'forbid (principal in Group::"g", action, resource);',
        'permit (principal is User in Role::"r", action, resource);',
        f'{HEAD} when {{ principal has email && principal.email like "*@x.example" }};',
        f'{HEAD} unless {{ principal in [Group::"g", Role::"r"] || principal == User::"ada" }};',
        f'{HEAD} when {{ [User::"ada", User::"bob"].contains(principal) }};',
        f'{HEAD} when {{ if principal is User in Group::"g" then principal.identifier == "a" else false }};',
    ],
)
def test_rules_about_the_principal_alone_are_found(rule: str) -> None:
    """They apply to all requests of a principal, or to none."""
    (reads,) = reads_of(rule)
    assert reads.is_about_principal


@pytest.mark.parametrize(
    "rule",
    [
        'permit (principal, action == Action::"exchange", resource);',
        'permit (principal, action in [Action::"exchange", Action::"direct"], resource);',
        'permit (principal, action, resource == Resource::"r");',
        "permit (principal, action, resource is Resource);",
        f"{HEAD} when {{ context.chain_depth == 1 }};",
        f'{HEAD} when {{ principal has email && resource.scopes.contains("a") }};',
        f'{HEAD} when {{ action == Action::"direct" }};',
        f'{HEAD} when {{ {{"who": context}}.who.chain_depth == 1 }};',
        # Which other entities there are differs from request to request.
        f'{HEAD} when {{ Application::"a" in Role::"r" }};',
        f'{HEAD} when {{ Application::"a" is Application in Role::"r" }};',
        f'{HEAD} when {{ Role::"r".identifier == "r" }};',
        f'{HEAD} when {{ Role::"r" has identifier }};',
        f'{HEAD} when {{ (if principal has email then Role::"r" else Role::"q").identifier == "r" }};',
        f'{HEAD} when {{ {{"a": Application::"a"}}.a.identifier == "a" }};',
    ],
)
def test_rules_that_look_at_more_than_the_principal_are_told_from_them(rule: str) -> None:
    """By their heads, their conditions, or by entities that they name and look into."""
    (reads,) = reads_of(rule)
    assert not reads.is_about_principal


def test_a_rule_that_could_not_be_read_is_not_about_the_principal_alone() -> None:
    """It may be about anything."""
    assert not UNKNOWN.is_about_principal
