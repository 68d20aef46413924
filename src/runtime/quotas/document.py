"""Writes docs/limits.md from the lists of limits, tables, state, caches and sizes."""

from collections.abc import Iterable

from runtime.quotas.endpoints import ENDPOINTS
from runtime.quotas.memory import MEMORY
from runtime.quotas.sizes import SIZES
from runtime.quotas.state import STATE
from runtime.quotas.tables import CONFIGURATION, RECORDS
from runtime.services.rate_limits import ALL, RateLimit
from runtime.settings import Settings

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_NAMES = {each.name for each in ALL}

_HEAD = """\
# Limits: rate limits, storage bounds and sizes

**What it is for.** What any caller can make the service store or compute, how much of it, and for how long.

**Who needs it.** Operators who need to know why a request was answered 429, how large a table can grow, or
what a setting changes; and reviewers who check whether an unauthenticated caller can exhaust the service.
It is not needed to use the service. The settings themselves are in [configuration.md](configuration.md).

**How to read a row.** A limit has a name. It allows a number (*At most*) of something (*Counts*) for each
of something else (*Per*); *Beyond* is the response to the next one. In this example, twenty wrong secrets
of one client from one address are checked in a minute, and the next request is answered 429 until the
minute is over:

| Limit | At most | Counts | Per | Beyond |
| --- | --- | --- | --- | --- |
| `guess` | 20 in a minute | wrong client secrets | a client and an address together | 429 |

The limits are defined in `runtime.services.rate_limits`. In the other tables *Limited by* names the limits
of the row, and *Where* is the module, for developers. `make documents` writes this page from the code. Tests
compare it with the code, and look for anything that is missing here: each limit, each
kind of short-lived state, each table, each endpoint without authentication, and each cache in memory.

A request beyond a limit is answered 429 with `Retry-After`, unless the row has something else. An address
is determined as `ZONED_PROXIES` configures; the /64 network of an IPv6 address counts as one. All processes
share the counts, except where the row has *in each process*: such a limit is multiplied by the number of
processes. A setting of 0 disables its limits.

When Redis is unreachable, requests that cannot be counted are refused with 503, and limits *in each
process* go on. Exceptions: `guess` is then counted in each process, and a refusal that `refusals` cannot
count is returned unchanged."""
_SHARES = """\
Stored in Redis, or without it in the memory of the process. In memory each zone has a maximum number of
entries of a kind; further entries displace only entries of the same kind and zone."""


def document() -> str:
    """The whole page."""
    parts = [
        _HEAD,
        "## Rate limits by name",
        _table(("Limit", "At most", "Counts", "Per", "Beyond"), map(_limit, ALL)),
        "## Endpoints without authentication",
        _table(
            ("Request", "Stores", "Limited by"),
            ((f"{', '.join(e.methods)} `{e.path}`", e.leaves, _names(e.limited)) for e in ENDPOINTS),
        ),
        "## Short-lived state",
        _SHARES,
        _table(
            ("Kind", "An entry is", "Created by", "Limited by", "Kept", "In memory"),
            (
                (f"`{k.name}`", k.what, k.by, _names(k.limited), f"{_span(k.seconds)}", f"{k.most:,}")
                for k in STATE
            ),
        ),
        "## Database tables",
        _table(
            ("Table", "Rows are", "Caused by", "Limited by", "Until"),
            ((f"`{r.table}`", r.what, r.by, _names(r.limited), r.until) for r in RECORDS),
        ),
        "Configuration, written and deleted only by callers with a role: "
        + ", ".join(f"`{name}`" for name in sorted(CONFIGURATION))
        + ".",
        "## Caches in the memory of a process",
        _table(
            ("What", "At most", "Where"),
            (
                (f"{m.what}", f"{m.most:,}" if isinstance(m.most, int) else m.most, f"`{m.place}`, {m.whose}")
                for m in MEMORY
            ),
        ),
        "## Sizes",
        _table(("What", "At most"), SIZES),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def _limit(limit: RateLimit) -> tuple[str, ...]:
    each = ", in each process" if limit.per_process else ""
    return (
        f"`{limit.name}`",
        f"{_number(limit)} in {_span(limit.seconds, of=True)}",
        limit.counts,
        f"{limit.per}{each}",
        limit.beyond,
    )


def _number(limit: RateLimit) -> str:
    default = f"{limit.amount_under(Settings.model_construct()):,}"
    if isinstance(limit.amount, int):
        return default
    how = {1: "", 2: "half of "}.get(limit.factor.denominator, "")
    if limit.factor > 1:
        how = f"{limit.factor} times "
    return f"{how}`ZONED_{limit.amount.upper()}` ({default})"


def _span(seconds: int, *, of: bool = False) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    count = seconds // size
    if count == 1:
        return f"an {unit}" if of and unit == "hour" else f"a {unit}" if of else f"1 {unit}"
    return f"{count:,} {unit}s"


def _names(limited: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" if each in _NAMES else each for each in limited)
