"""The findings of `zoned doctor`: what is wrong, how bad it is, and what to do. Functions over facts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

CONNECTIONS_A_WORKER = 37  # for requests, plans, and epochs: see the guide of operations
APART_SECONDS = 1.0  # clocks that differ by more are told of
_LEAST_FREE_BYTES = 200 * 1024 * 1024
_LEAST_FREE_SHARE = 0.05
_ALMOST_FULL = 0.9
_OLDEST_REDIS = (6, 2)  # GETDEL


class Check(StrEnum):
    """What is looked at. docs/operating/health.md has a row for each."""

    SETTINGS = "settings"
    FILES = "files"
    ADDRESSES = "addresses"
    DISK = "disk"
    KEYS = "keys and migrations"
    DATABASE = "database"
    CLOCKS = "clocks"
    CONNECTIONS = "connections"
    STATE = "short-lived state"
    REDIS = "redis"
    SCHEMA = "schema"
    PARTITIONS = "partitions"
    NAMES = "names"
    RESOURCES = "resources"
    ISSUERS = "issuers"
    ENCRYPTION_KEYS = "encryption keys"


class Verdict(StrEnum):
    """How bad it is: a problem keeps something from working, or from being safe."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One row of the diagnosis.

    Attributes:
        check: what was looked at.
        detail: what is wrong.
        remedy: what to do about it.
    """

    check: Check
    verdict: Verdict = Verdict.OK
    detail: str = ""
    remedy: str = ""

    @property
    def line(self) -> str:
        """For people."""
        if self.verdict is Verdict.OK:
            return f"{self.check:20} ok"
        return f"{self.check:20} {self.told}"

    @property
    def told(self) -> str:
        """The same without the check, of what is not ok."""
        return f"{self.verdict}: {self.detail}; {self.remedy}"

    @property
    def document(self) -> dict[str, str]:
        """For programs."""
        return {name: str(value) for name, value in asdict(self).items()}


def problem(check: Check, detail: str, remedy: str) -> Finding:
    """Something that has to be mended."""
    return Finding(check, Verdict.PROBLEM, detail, remedy)


def warning(check: Check, detail: str, remedy: str) -> Finding:
    """Something that works, for now."""
    return Finding(check, Verdict.WARNING, detail, remedy)


def copies(incomplete: Iterable[Path]) -> Iterator[Finding]:
    """Databases that somebody copied from a running server, and not all of each."""
    for file in incomplete:
        yield problem(
            Check.FILES,
            f"`{file}` was copied from a running server without its `-wal`: the writes before the copy,"
            " revocations too, may be missing",
            "restore a backup of `zoned backup`, or use the copy as it is: `zoned doctor --accept-copy`",
        )


def public_url(url: str, zones: int) -> Iterator[Finding]:
    """Zones, none of which stands where the settings say.

    Args:
        zones: how many there are.
    """
    yield warning(
        Check.ISSUERS,
        f"no zone has an issuer that ZONED_PUBLIC_URL `{url}` and ZONED_ZONE_URL_TEMPLATE give (zones:"
        f" {zones:,}): clients find them at other addresses",
        "set both to what they were, or move the zones: `zoned zone move --all --dry-run`",
    )


def ended_moves(zones: int) -> Iterator[Finding]:
    """Zones whose former address has ended, which nobody has recorded for an hour."""
    if zones:
        yield warning(
            Check.ISSUERS,
            f"the former addresses of {zones:,} zones have ended, and no job has recorded it",
            "let a process run jobs: ZONED_JOBS",
        )


def disk(directory: Path, total: int, free: int) -> Iterator[Finding]:
    """The disk that a directory is on, with its room in bytes."""
    if free < min(_LEAST_FREE_BYTES, total * _LEAST_FREE_SHARE):
        told = f"{free // 2**20} MiB are left on the disk of `{directory}`"
        told += ": once it is full, every write is refused"
        yield warning(Check.DISK, told, "free space, or move the data directory to a larger disk")


def connections(allowed: int, workers: int) -> Iterator[Finding]:
    """The connections that PostgreSQL allows.

    Args:
        workers: of this machine; those of others come on top.
    """
    needed = workers * CONNECTIONS_A_WORKER
    if allowed < needed:
        yield warning(
            Check.CONNECTIONS,
            f"PostgreSQL allows {allowed} connections, and the {workers} workers of this machine"
            f" open up to {needed}",
            f"set `max_connections` to {CONNECTIONS_A_WORKER} for each worker of all machines, and what"
            " PostgreSQL reserves (`superuser_reserved_connections`) and others need besides, or run fewer",
        )


def clocks(difference_seconds: float, whose: str) -> Iterator[Finding]:
    """The clock of PostgreSQL against this machine's.

    Args:
        difference_seconds: how far the other is ahead.
    """
    if abs(difference_seconds) > APART_SECONDS:
        yield warning(
            Check.CLOCKS,
            f"the clock of {whose} is {_apart(difference_seconds)} this machine's",
            "synchronize both with NTP",
        )


def redis(facts: Mapping[str, str], *, now: float) -> Iterator[Finding]:
    """What is wrong with a Redis.

    Args:
        facts: as `StateStore.facts` has them.
        now: the service's time, in seconds since 1970.
    """
    version = facts.get("redis_version", "")
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    if tuple(numbers) < _OLDEST_REDIS:
        yield problem(Check.REDIS, f"Redis {version} is too old", "install Redis 6.2 or newer")
    yield from _redis_memory(facts)
    yield from _redis_writes(facts)
    ahead = float(facts.get("time", now)) - now
    if abs(ahead) > APART_SECONDS:
        told = f"the clock of Redis is {_apart(ahead)} the service's: after a restart of Redis, "
        told += "new assertions are refused" if ahead > 0 else "used assertions may be accepted again"
        report = warning if ahead > 0 else problem
        yield report(Check.REDIS, told, "synchronize the clock of its machine with NTP")


def _redis_memory(facts: Mapping[str, str]) -> Iterator[Finding]:
    most, used = (int(facts.get(name, 0)) for name in ("maxmemory", "used_memory"))
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield problem(
            Check.REDIS,
            f"Redis forgets used assertions when it is full (`maxmemory-policy {policy}`)",
            "set `maxmemory-policy noeviction`",
        )
    if most and used > most * _ALMOST_FULL:
        told = f"Redis uses {100 * used // most} % of `maxmemory`: once it is full, nobody can sign in"
        yield warning(Check.REDIS, told, "raise `maxmemory`")


def _redis_writes(facts: Mapping[str, str]) -> Iterator[Finding]:
    if facts.get("role") in ("slave", "replica"):
        leader = f"`{facts.get('master_host')}:{facts.get('master_port')}`"
        yield problem(
            Check.REDIS,
            "Redis is a replica, which takes no writes",
            f"point ZONED_REDIS_URL to its primary, {leader}, or promote it (`REPLICAOF NO ONE`)",
        )
    for name, what in (("rdb_last_bgsave_status", "a snapshot"), ("aof_last_write_status", "its log")):
        if facts.get(name, "ok") != "ok":
            yield problem(
                Check.REDIS,
                f"Redis could not write {what} to its disk, and may refuse writes for it",
                "free its disk, or turn persistence off (`save ''`, `appendonly no`): nothing here needs it",
            )


def _apart(seconds: float) -> str:
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"
