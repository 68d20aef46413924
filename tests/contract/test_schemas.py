"""The files under `schemas/` equal those that the code generates."""

from pathlib import Path

import pytest

from runtime.schemas import schema_files

SCHEMAS = Path(__file__).parents[2] / "schemas"
FILES = schema_files()


@pytest.mark.parametrize("path", sorted(FILES))
def test_checked_in_file_is_what_the_kinds_say(path: str) -> None:
    """A change of a kind shows in the review as a change of `schemas/`; `make schemas` writes it."""
    assert (SCHEMAS / path).read_text(encoding="utf-8") == FILES[path]


def test_nothing_else_is_checked_in() -> None:
    """A file whose kind is gone does not stay behind."""
    found = {str(path.relative_to(SCHEMAS)) for path in SCHEMAS.rglob("*") if path.is_file()}
    printed = {path for path in found if path.startswith("output/")}  # what zonectl prints: its own tests say
    assert found - printed == set(FILES)


def test_writing_twice_gives_the_same() -> None:
    """The files depend on the code alone, so that a comparison means something."""
    assert schema_files() == FILES
