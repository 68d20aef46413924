"""The table of phases in the docstring of the changeset pipeline names each phase's module, once."""

import importlib
import pkgutil

import pytest

from runtime.services.management import changesets
from runtime.services.management.changesets import pipeline

MODULES = [each.name for each in pkgutil.iter_modules(changesets.__path__)]


def _is_phase(name: str) -> bool:
    docstring = importlib.import_module(f"{changesets.__name__}.{name}").__doc__
    return docstring is not None and docstring.startswith("Phase: ")


def _table() -> list[str]:
    """The second column of the table."""
    _, table = (pipeline.__doc__ or "").split("    phase                    module               refuses\n")
    return [line[29:].split()[0] for line in table.splitlines() if line.strip()]


@pytest.mark.parametrize("name", [name for name in MODULES if _is_phase(name)])
def test_a_phase_is_in_the_table(name: str) -> None:
    """A module that calls itself a phase has its row."""
    assert _table().count(name) == 1


@pytest.mark.parametrize("name", _table())
def test_a_row_of_the_table_is_a_phase(name: str) -> None:
    """A row is about a module that says of itself that it is a phase."""
    assert _is_phase(name)
