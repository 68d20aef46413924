"""Operations of a changeset: the zone and the spec of each."""

import pytest

from reconciler.kinds import Origin
from reconciler.plan.operations import (
    MAX_FILE,
    CreateOperation,
    DeleteOperation,
    Operation,
    ReleaseOperation,
    RenameOperation,
    WriteOperation,
    place_of,
    spec_of,
    with_place,
    zone_id_of,
)

RECORD = {"fields": ["name"], "secret_versions": {}, "protect": False}
WRITTEN = {"name": "Staff"}
CREATE = CreateOperation(op="create", kind="Group", local_id="g", name="g", spec=WRITTEN, **RECORD)  # type: ignore[typeddict-item]
UPDATE = WriteOperation(op="update", kind="Group", id="g", name="g", spec=WRITTEN, **RECORD)  # type: ignore[typeddict-item]
RENAME = RenameOperation(op="rename", kind="Group", id="g", name="h")
RELEASE = ReleaseOperation(op="release", kind="Group", id="g")
DELETE = DeleteOperation(op="delete", kind="Group", id="g")
EACH: tuple[Operation, ...] = (CREATE, UPDATE, RENAME, RELEASE, DELETE)


@pytest.mark.parametrize("operation", EACH, ids=lambda each: each["op"])
def test_the_zone_that_is_there_has_an_id(operation: Operation) -> None:
    """Of every operation."""
    assert zone_id_of({**operation, "zone": {"id": "z"}}) == "z"  # type: ignore[arg-type,misc,typeddict-item]


@pytest.mark.parametrize("operation", EACH, ids=lambda each: each["op"])
def test_the_zone_that_is_made_has_none_yet(operation: Operation) -> None:
    """It goes by the changeset's own name."""
    assert zone_id_of({**operation, "zone": {"local_id": "Zone//w"}}) is None  # type: ignore[arg-type,misc,typeddict-item]


@pytest.mark.parametrize("operation", EACH, ids=lambda each: each["op"])
def test_what_is_in_no_zone_has_none(operation: Operation) -> None:
    """Zones themselves, and what belongs to the organization."""
    assert zone_id_of(operation) is None


@pytest.mark.parametrize(
    ("operation", "written"),
    [(CREATE, WRITTEN), (UPDATE, WRITTEN), (RENAME, {}), (RELEASE, {}), (DELETE, {})],
    ids=lambda each: each.get("op", ""),
)
def test_only_creations_and_updates_write(operation: Operation, written: dict[str, str]) -> None:
    """What is renamed, released or deleted has no values of its own."""
    assert spec_of(operation) == written


@pytest.mark.parametrize(
    "path", ["a.yaml", "teams/a b/ä.yaml", ".hidden/a.yaml", "..a/...yaml", "a..b.yml", "x" * MAX_FILE]
)
def test_a_place_in_the_repository_goes_along(path: str) -> None:
    """As it is: whatever a file in a repository may be called."""
    operation = with_place(RENAME.copy(), Origin(path, 14))
    assert operation["source"] == {"file": path, "line": 14}
    assert place_of(operation) == str(Origin(path, 14))


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/etc/a.yaml",
            "../a.yaml",
            "a/../b.yaml",
            "a/./b.yaml",
            "a//b.yaml",
            "a/",
            "",
            ".",
            "..",
            "./a.yaml",
        ),
        *("c:/a.yaml", "a\\b.yaml", "a\nb.yaml", "a\x7f.yaml", "<b>.yaml", "x" * (MAX_FILE + 1)),
    ],
)
def test_a_path_that_no_server_takes_is_left_out(path: str) -> None:
    """The object is applied all the same; its record has the commit alone."""
    assert "source" not in with_place(RENAME.copy(), Origin(path, 14))
    assert place_of(RENAME) is None
