"""The entry point of `zoned`: explains how to install the service when only the base package is there."""

import gc
import sys


def main() -> None:
    """Run `zoned`, or say which extra to install."""
    gc.disable()  # what is imported stays: looking through it for garbage takes a quarter of the start
    try:
        from runtime.cli import run
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.split(".")[0] in ("runtime", "reconciler"):
            raise
        sys.exit(
            f"zoned: `{missing.name}` is not installed; "
            "the service needs the extra `zonewright[runtime]` ([postgres] and [redis] for their drivers)"
        )
    gc.freeze()
    gc.enable()
    run()
