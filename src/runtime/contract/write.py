"""Writes the files derived from the kinds: `python -m runtime.contract.write [DIRECTORY]`."""

import json
import sys
from pathlib import Path
from typing import Any

from runtime.contract.manifests import manifest_schemas
from runtime.contract.openapi import openapi
from runtime.contract.routes import routes_text


def contract_files() -> dict[str, str]:
    """The texts of the files that follow from the kinds, by path below the directory of schemas."""
    found = {
        f"manifests/{name}.json": json_text(manifest_schema)
        for name, manifest_schema in manifest_schemas().items()
    }
    found["openapi.json"] = json_text(openapi())
    found["routes.txt"] = routes_text()
    return found


def json_text(value: Any) -> str:
    """JSON as it is checked in: indented, in the order it was made, one newline at the end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write(directory: Path, files: dict[str, str]) -> None:
    """Write the files, and remove files of kinds that no longer are."""
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for old in (directory / "manifests").glob("*.json"):
        if f"manifests/{old.name}" not in files:
            old.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "schemas"), contract_files())
