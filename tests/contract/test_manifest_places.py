"""The place of a manifest in an operation: the server takes what zonectl sends, and no path out of git."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds import Origin
from reconciler.plan.operations import FILE_PATTERN, MAX_FILE, RenameOperation, with_place
from runtime.contract.bodies import parse
from runtime.contract.changes import MAX_LINE, Operation
from runtime.domain.errors import ValidationFailed

OPENAPI = json.loads(Path("schemas/openapi.json").read_text())
PIECES = st.sampled_from(["a", ".", "..", "/", "\\", ":", "<", "\n", "é"])
OUTSIDE = (
    *("/etc/passwd", "../a.yaml", "a/../../b.yaml", "a//b.yaml"),
    *("C:/a.yaml", "a\\b.yaml", "a\x1b[2J.yaml"),
)


def sent(source: object) -> Operation:
    """A rename with this `source`, as the server reads it."""
    return parse(Operation, {"op": "rename", "kind": "Group", "id": "g", "name": "n", "source": source})


def test_both_sides_have_the_same_pattern() -> None:
    """The OpenAPI document is where zonectl's comes from."""
    file = OPENAPI["components"]["schemas"]["ManifestPlaceInput"]["properties"]["file"]
    assert (file["pattern"], file["maxLength"]) == (FILE_PATTERN, MAX_FILE)


@given(path=st.lists(PIECES, max_size=9).map("".join))
def test_zonectl_sends_what_the_server_takes(path: str) -> None:
    """Of any path: what one of them leaves out, the other refuses."""
    operation = with_place(RenameOperation(op="rename", kind="Group", id="g", name="n"), Origin(path, 1))
    try:
        place = sent({"file": path, "line": 1}).source
    except ValidationFailed:
        place = None
    assert (place is not None) == ("source" in operation)


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_out_of_the_repository_is_refused(path: str) -> None:
    """Nobody reads it, but people see it; one in the repository is taken."""
    assert sent({"file": "config/a.yaml", "line": 1}).source is not None
    with pytest.raises(ValidationFailed, match="file"):
        sent({"file": path, "line": 1})


@pytest.mark.parametrize("line", [0, -1, MAX_LINE + 1, 1.5, "1", True, None])
def test_a_line_is_a_number_from_one(line: object) -> None:
    """As editors count."""
    assert sent({"file": "a.yaml", "line": MAX_LINE}).source is not None
    with pytest.raises(ValidationFailed, match="line"):
        sent({"file": "a.yaml", "line": line})
