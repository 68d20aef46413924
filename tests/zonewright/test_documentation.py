"""docs/resource-servers.md: its examples are complete modules, which are run here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```$",
    (ROOT / "docs" / "resource-servers.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    """In a process of its own, with the names that it imports."""
    file = tmp_path / "example.py"
    file.write_text(example, "utf-8")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_library_loads_no_framework_and_nothing_of_the_service() -> None:
    """Whoever installs it for one framework needs no other."""
    code = (
        "import sys, zonewright, zonewright.asgi; print([n for n in"
        " ('sanic', 'mcp', 'starlette', 'runtime', 'reconciler', 'sqlalchemy') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
