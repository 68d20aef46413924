"""Each kind of database in turn."""

from tests.support.both_databases import server, storage

__all__ = ["server", "storage"]
