"""The attributes that a policy reads are found in its structure, however its text spells them."""

import pytest

from runtime.adapters import cedar
from runtime.domain.policy.context_usage import ContextUsage, used_attributes

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
    assert reads_of(text) == [ContextUsage(None, names if names is None else frozenset(names))]


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
