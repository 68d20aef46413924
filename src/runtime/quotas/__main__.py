"""Writes docs/limits.md: `python -m runtime.quotas [FILE]`."""

import sys
from pathlib import Path

from runtime.quotas.document import document

if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/limits.md").write_text(document(), "utf-8")
