"""Each invalid input of the corpus gets exactly the diagnostics of its entry."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reconciler.corpus.entries import Entry, read_entries, write_entries

ENTRIES = read_entries()
LEAST = 150
CANARY = "hunter"
WRITES = os.environ.get("WRITE_CORPUS") == "1"


@pytest.mark.threat("38o")
@pytest.mark.threat("38p")
@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_a_mistake_is_told(
    entry: Entry, tmp_path: Path, zonectl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong, where, and what to do; never a traceback, and never a secret."""
    entry.lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    result = zonectl(*entry.command)

    told = result.out + result.err
    assert result.exit_code in (1, 64), told
    assert CANARY not in told
    assert str(tmp_path) not in told
    if WRITES:
        entry.expected = told
    assert told == entry.expected


def test_nothing_is_left_out() -> None:
    """There are 150 at the least, and no two have one name."""
    if WRITES:
        write_entries(ENTRIES)
    assert len(ENTRIES) >= LEAST
    assert [name for name, count in Counter(map(str, ENTRIES)).items() if count > 1] == []
