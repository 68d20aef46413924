"""docs/limits.md, as it follows from the lists."""

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
# Limits

**What it is for.** What anybody can make the service keep or compute, how much of it, and for how long.

**Who needs it.** Whoever runs the service and is asked why somebody heard 429, how large a table can grow, or
what a setting changes; and whoever reviews whether a stranger can exhaust it. To use it nobody has to read
this page. The settings themselves are in [configuration.md](configuration.md).

**How to read a row.** A limit has a name. It allows so many (*At most*) of something (*Counts*) for each of
something else (*Per*); the next one gets what stands under *Beyond*. So this says that
of one client, from one address, twenty wrong secrets are looked at in a minute, and that the next is answered
429 until the minute is over:

| Limit | At most | Counts | Per | Beyond |
| --- | --- | --- | --- | --- |
| `guess` | 20 in a minute | wrong client secrets | a client and an address together | 429 |

The limits are defined in `runtime.services.rate_limits`. In the other tables *Limited by* names the limits
that bound the row, and *Where* is for those who read the code. The page is written from the code by
`make documents`. Tests hold it against the code, and look for what is missing here: each limit, each kind of
short-lived state, each table, each address that takes no token, and all that a process remembers.

Who is beyond a limit hears 429 with `Retry-After`, unless it says otherwise. An address is what
`ZONED_PROXIES` says; the /64 network of an IPv6 address counts as one. Counts are shared by all processes,
but where it says *in each process*: such a limit is as many times higher as there are processes. A setting
that is 0 lifts its limits.

When Redis is away, who cannot be counted is refused with 503, and limits *in each process* go on. But `guess`
is counted in each process for as long, and a refusal that `refusals` cannot count is told as it is."""
_SHARES = """\
In Redis, or without it in the memory of the process: there each zone has at most so many of a kind, and what
is too many displaces only the same kind of the same zone."""


def document() -> str:
    """The whole page."""
    parts = [
        _HEAD,
        "## Limits, by name",
        _table(("Limit", "At most", "Counts", "Per", "Beyond"), map(_limit, ALL)),
        "## Addresses that take no token",
        _table(
            ("Request", "Leaves", "Limited by"),
            ((f"{', '.join(e.methods)} `{e.path}`", e.leaves, _names(e.limited)) for e in ENDPOINTS),
        ),
        "## Short-lived state",
        _SHARES,
        _table(
            ("Kind", "An entry is", "Left by", "Limited by", "Kept", "In memory"),
            (
                (f"`{k.name}`", k.what, k.by, _names(k.limited), f"{_span(k.seconds)}", f"{k.most:,}")
                for k in STATE
            ),
        ),
        "## Tables",
        _table(
            ("Table", "Rows are", "Caused by", "Limited by", "Until"),
            ((f"`{r.table}`", r.what, r.by, _names(r.limited), r.until) for r in RECORDS),
        ),
        "Configuration, which people and programs with a role write and delete: "
        + ", ".join(f"`{name}`" for name in sorted(CONFIGURATION))
        + ".",
        "## Memory of a process",
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
