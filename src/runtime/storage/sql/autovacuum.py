"""Autovacuum of PostgreSQL gives way to changes of tables, where they wait for it long enough.

An autovacuum holds a lock that no read or write waits for, and every change of the table. It is canceled for
whoever has waited for `deadlock_timeout`, a second by default. Changes give up before that, since reads and
writes queue up behind them; so they first take the lock that an autovacuum has, and nobody waits for that.
Spec: PostgreSQL, "Explicit Locking", and `deadlock_timeout`.
"""

from collections.abc import Collection, Sequence

from sqlalchemy.exc import DBAPIError

_WAIT = "3s"
_LOCK_NOT_AVAILABLE = "55P03"


def keep_off(tables: Collection[str]) -> Sequence[str]:
    """The statements that keep it off tables and their partitions until the transaction ends.

    They set `lock_timeout` for the rest of it. One against wraparound does not give way.
    """
    return (
        f"SET LOCAL lock_timeout = '{_WAIT}'",
        f"LOCK TABLE {', '.join(sorted(tables))} IN SHARE UPDATE EXCLUSIVE MODE",
    )


def is_locked_out(failure: BaseException) -> bool:
    """Tell whether a statement failed because a lock was not to be had in time."""
    return isinstance(failure, DBAPIError) and getattr(failure.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE
