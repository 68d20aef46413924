"""The request body of a changeset, with secrets in place of the references to them."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.plan import Plan


def changeset_body(plan: Plan, operations: list[dict[str, Any]]) -> dict[str, Any]:
    """The request body that applies these operations for a plan."""
    return {
        "base_revision": plan.base_revision,
        "owner": plan.owner,
        "plan_digest": plan.idempotency_key,  # the digest and the base revision: what the server applies once
        "source": dict(plan.source),
        "operations": operations,
    }


def replace_secrets(value: object, resolve: Callable[[Mapping[str, object]], object]) -> Any:
    """A copy of a spec with every `{"secret": reference}` replaced by `resolve(reference)`."""
    if isinstance(value, dict):
        if value.keys() == {"secret"} and isinstance(value["secret"], dict):
            return resolve(value["secret"])
        return {name: replace_secrets(each, resolve) for name, each in value.items()}
    if isinstance(value, list):
        return [replace_secrets(each, resolve) for each in value]
    return value
