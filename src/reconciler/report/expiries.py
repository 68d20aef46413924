"""Renders notes on manifests of objects that have expired or expire soon."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from reconciler.kinds import Manifest
from reconciler.kinds.values import parse_instant
from reconciler.terminal import Line, Styled

from .value_diff import counted

SOON = timedelta(days=14)


def expiry_lines(manifests: Iterable[Manifest], now: datetime) -> Iterator[Line]:
    """A note for each manifest whose object has expired, or does so within two weeks."""
    for manifest in manifests:
        member = manifest.kind.expiry
        value = manifest.spec.get(member) if member is not None else None
        end = parse_instant(value) if isinstance(value, str) else None
        if end is None or end - now > SOON:
            continue
        title = f"{manifest.kind.name} {manifest.zone or ''}/{manifest.name}"
        if end <= now:
            told = f"expired at `{value}`; remove the manifest once nothing uses it"
        else:
            told = f"expires at `{value}`, in {_remaining(end - now)}"
        yield Styled("note", "yellow"), f": {title} {told}  ", Styled(str(manifest.origin), dim=True)


def _remaining(time: timedelta) -> str:
    if time >= timedelta(days=1):
        return counted(time.days, "day")
    return counted(time.seconds // 3600, "hour") if time.seconds >= 3600 else "less than an hour"
