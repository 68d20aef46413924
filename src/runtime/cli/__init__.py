"""The command line of `zoned`: set up, migrate, serve and administer the service."""

from runtime.cli.command import main

__all__ = ["main"]
