"""One server at a time on one SQLite file."""

from pathlib import Path

import httpx
import pytest
from acme import Unexpected
from tests.end_to_end.operated import Server

pytestmark = pytest.mark.long


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    """It says which process has the file and what to do, whichever way it reaches it; afterwards it may."""
    first = Server(tmp_path / "data")
    first.init()
    (tmp_path / "other").symlink_to(tmp_path / "data")
    second = Server(tmp_path / "other")
    second.organization_id, second.api_key = first.organization_id, first.api_key
    first.start()
    try:
        assert first.process is not None
        with pytest.raises(Unexpected) as refused:
            second.run("serve")
        told = str(refused.value)
        assert f"another `zoned serve` (process {first.process.pid}) has the database" in told
        assert "set ZONED_DATABASE_URL" in told
        assert "Traceback" not in told
        assert httpx.get(f"{first.url}/readyz", trust_env=False).status_code == 200
        assert "acme" not in first.run("organization", "list")  # other commands go on beside it
    finally:
        first.kill()

    second.start()
    second.stop()
    assert (tmp_path / "data" / "zonewright.db.lock").stat().st_mode & 0o077 == 0
