"""Renders secrets of a vault as text, without their values."""

from collections.abc import Iterator, Sequence

from reconciler.output_documents import SecretDocument
from reconciler.terminal import Line


def secret_lines(found: Sequence[SecretDocument]) -> Iterator[Line]:
    """A line for each: what it is of, its name, type and version, and when it was set."""
    for each in found:
        owner = each.get("resource") or each["entity_id"]
        kept = f"{each['type']}, version {each['version']}, set at {each['updated_at']}"
        yield f"{owner}  {each['name']}  {kept}"
