"""schemathesis against a live server: whatever the document allows or forbids, the answers are as it says."""

from pathlib import Path

import pytest
from tests.fuzz.running import fuzz
from tests.support.server import serve


@pytest.mark.long
def test_the_service_is_what_its_document_says(tmp_path: Path) -> None:
    """No server error, no answer beyond the document, nothing valid refused, nothing invalid taken.

    The cases are the same each time: every boundary of every parameter and body, and some by lot with a fixed
    seed. `make fuzz` runs for longer, on both databases. Requests use ids that earlier answers told; the
    phase that follows links is left out: of every operation to every other it finds too many to begin.
    """
    with serve(tmp_path / "server") as server:
        outcome = fuzz(server, tmp_path, phases="coverage,fuzzing", examples=4)

    assert outcome.passed, outcome.report
