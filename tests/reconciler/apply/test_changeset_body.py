"""The request body of a changeset, and secrets in place of the references to them."""

from typing import Any

import pytest
from tests.reconciler.plan.values import plan

from reconciler.apply.changeset_body import changeset_body, replace_secrets

REFERENCE = {"from_env": "OKTA"}


def test_the_body_has_what_the_server_checks_the_plan_by() -> None:
    """The revision that it was made at, its owner, its key, its source, and the operations."""
    made = plan(source={"commit": "abc"}, base_revision=7)
    operations: list[dict[str, Any]] = [{"op": "delete", "kind": "Group", "id": "g1"}]
    assert changeset_body(made, operations) == {
        "base_revision": 7,
        "owner": made.owner,
        "plan_digest": made.idempotency_key,
        "source": {"commit": "abc"},
        "operations": operations,
    }


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        ({"secret": REFERENCE}, "OKTA"),
        ({"a": {"b": {"secret": REFERENCE}}}, {"a": {"b": "OKTA"}}),
        ({"a": ["x", {"secret": REFERENCE}]}, {"a": ["x", "OKTA"]}),
    ],
    ids=["itself", "nested", "in-a-list"],
)
def test_a_reference_is_replaced_wherever_it_stands(spec: object, sent: object) -> None:
    """At any depth of objects and lists."""
    assert replace_secrets(spec, lambda reference: reference["from_env"]) == sent


@pytest.mark.parametrize(
    "spec",
    [{"secret": "a text"}, {"secret": "a", "other": 1}, {"secrets": [1]}, 7, None],
    ids=["text", "other-members", "other-name", "number", "null"],
)
def test_what_is_no_reference_is_sent_as_it_is(spec: object) -> None:
    """A member may be called `secret` and be none."""
    assert replace_secrets(spec, lambda _: pytest.fail("nothing to resolve")) == spec


def test_the_plan_keeps_its_references() -> None:
    """The spec that is sent is a copy: what is saved or printed never has the value."""
    spec = {"client_secret": {"secret": REFERENCE}}
    replace_secrets(spec, lambda _: "s3cr3t")
    assert spec == {"client_secret": {"secret": REFERENCE}}
