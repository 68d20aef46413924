"""`make demo`: the story is told to its end, and everything in it happened."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from acme import clean_environment

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


def run_demo(directory: Path, **settings: str) -> str:
    """What the demo prints; it must exit with 0. Its temporary directories are made in *directory*."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        env=clean_environment(TMPDIR=str(directory), NO_COLOR="1", **settings),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tells_the_whole_story_and_leaves_nothing(tmp_path: Path):
    """Two zones, a sign-in through both, exchanges, a changed rule, a connected account; then it is gone."""
    story = run_demo(tmp_path)

    assert not [
        expected
        for expected in (
            r"zoned serve\s+answers at http://127\.0\.0\.1:\d+",
            r"23 manifests: 23 to create",
            r"she types her password",
            r"GET  tracker/authorize",
            r"aud\s+https://tools\.acme\.example/mcp",
            r"aud\s+https://calendar\.acme\.example/api",
            r"act\s+calendar-tools, for calendar-agent",
            r"tries the calendar API itself: refused, invalid_target",
            r"https://payroll\.acme\.example/api: refused, access_denied \(policy_denied\)",
            r"\+unless \{ context\.scopes == \[\"payslips\.read\"\] \}",
            r"aud\s+https://payroll\.acme\.example/api",
            r"salaries\.read, which the rule still forbids: refused, access_denied",
            r"calendar-tools asks for http://127\.0\.0\.1:\d+/api: refused, access_denied",
            r"knows it as ada@tracker\.example, and lists 2 issues",
            r"another token, which works \(refresh requests: [1-9]\d*\)",
            r"calendar-tools is refused the tracker's token \d+ ms later",
            r"API refuses the token that calendar-tools has \d+ ms later",
            r"calendar-agent is refused any token \d+ ms later",
            r"calendar-tools is refused any token \d+ ms later",
            r"verifies it with the library zonewright:\s+calendar-agent calls, for ada@acme\.example",
            r"calendar-tools refuses the agent's calls, by the revocation list, \d+ ms later",
            r"All of it happened",
        )
        if not re.search(expected, story)
    ], story
    assert not re.search(r"eyJ[\w-]+\.eyJ", story), "a whole token is printed"
    assert not list(tmp_path.glob("zonewright-demo-*"))


def test_keep_leaves_the_server_running_and_says_how_to_use_it(tmp_path: Path):
    """`KEEP=1` ends with what one needs to go on: address, key, password, and how to stop it."""
    story = run_demo(tmp_path, KEEP="1")
    process = int(re.search(r"kill (\d+)", story)[1])
    try:
        address = re.search(r"ZONECTL_SERVER=(\S+)", story)[1]
        key = Path(re.search(r"cat (\S+)\)", story)[1]).read_text()
        answer = httpx.get(f"{address}/zones", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
        assert {"acme-workforce", "acme-product"} <= {zone["slug"] for zone in answer.json()["items"]}
    finally:
        os.kill(process, signal.SIGTERM)
