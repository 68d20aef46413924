"""Writes docs/limits.md: `python -m runtime.quotas [FILE]`."""

import sys
from pathlib import Path

from runtime.quotas.document import document

_USAGE = "usage: python -m runtime.quotas [FILE]"

if __name__ == "__main__":
    if len(sys.argv) > 2 or any(each.startswith("-") for each in sys.argv[1:]):
        sys.exit(_USAGE)
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/limits.md").write_text(document(), "utf-8")
