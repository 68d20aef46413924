"""The guides under docs/, as a reader follows them: their commands, run from top to bottom."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from acme import clean_environment, free_port
from tests.support.postgres import POSTGRESQL_TOOLS

ROOT = Path(__file__).resolve().parents[2]


def script(page: str) -> str:
    """A page's commands as one script; `# exits with N` states the exit code of the command before it."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    lines = []
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            command, marked, code = re.match(r"(.*?)\s*(# exits with (\d+).*)?$", line).groups()
            lines.append(f"code=0; {command} || code=$?; test $code -eq {code}" if marked else line)
    begin = ["set -euo pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", "trap 'exit 1' TERM"]
    return "\n".join([*begin, *lines, ""])


def run(
    page: str,
    tmp_path: Path,
    *,
    seconds: int = 180,
    folder: Path = ROOT,
    instead: Mapping[str, str] | None = None,
    **settings: str,
) -> str:
    """What a page's commands say, all of which must work, and within that time.

    Args:
        folder: where they are typed.
        instead: what the page says -> what is written in its place here.
    """
    commands = script(page)
    for written, here in (instead or {}).items():
        assert written in commands
        commands = commands.replace(written, here)
    port = free_port()
    programs = (Path(sys.executable).parent, tmp_path / "bin", POSTGRESQL_TOOLS)
    output = tmp_path / "output"
    with (
        output.open("wb") as said,
        subprocess.Popen(
            ["bash", "-c", commands],
            cwd=folder,
            env=clean_environment(
                PATH=":".join([*map(str, programs), "/usr/local/bin:/usr/bin:/usr/sbin:/bin"]),
                HOME=str(tmp_path),
                TMPDIR=str(tmp_path),
                ZONED_LISTEN=f"127.0.0.1:{port}",
                ZONED_PUBLIC_URL=f"http://127.0.0.1:{port}",
                **settings,
            ),
            stdout=said,
            stderr=said,
        ) as shell,
    ):
        try:
            code = shell.wait(seconds)
        except subprocess.TimeoutExpired:
            shell.terminate()  # which ends what it has started, too
            code = None
    text = output.read_text("utf-8")
    assert code == 0, text
    return text
