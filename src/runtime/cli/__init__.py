"""`zoned`: sets up, serves and looks after the service."""

from runtime.cli.command import main

__all__ = ["main"]
