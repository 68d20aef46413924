"""Generates all of `schemas/`: `python -m runtime.schemas [DIRECTORY]`."""

import sys
from pathlib import Path

from runtime.contract.write import contract_files, write
from runtime.domain.policy import schema
from runtime.services.management.access import permissions, route_permissions
from runtime.storage.sql import ddl


def schema_files() -> dict[str, str]:
    """The texts of all files, by path below the directory of schemas."""
    policies = {f"policy/{version}.cedarschema": schema.get(version).text for version in schema.VERSIONS}
    return {
        **contract_files(),
        **policies,
        "permissions.txt": permissions.text(),
        "route-permissions.txt": route_permissions.text(),
        "tables.sql": ddl.dump(),
    }


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "schemas"), schema_files())
