"""Objects that have expired or expire soon, by their manifests: as notes and as JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconciler.kinds import Manifest
from reconciler.kinds.values import parse_instant
from reconciler.output_documents import ExpiryDocument
from reconciler.terminal import Line, Styled

from .places import Places, as_recorded
from .value_diff import counted

SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Expiry:
    """A manifest whose object has expired, or does so within two weeks.

    Attributes:
        written: the instant, as the manifest has it.
        left: how long it still has; negative or nothing for one that has expired.
    """

    manifest: Manifest
    written: str
    left: timedelta

    @property
    def expired(self) -> bool:
        """Tell whether it has expired."""
        return self.left <= timedelta(0)

    @property
    def title(self) -> str:
        """The object as text for people."""
        where = f"{self.manifest.zone}/" if self.manifest.zone else ""
        return f"{self.manifest.kind.name} {where}{self.manifest.name}"

    def as_json(self) -> ExpiryDocument:
        """As a JSON object."""
        path, line = self.manifest.origin
        return {
            "object": self.title,
            "path": path,
            "line": line,
            "expires_at": self.written,
            "expired": self.expired,
        }


def expiries(manifests: Iterable[Manifest], now: datetime) -> Iterator[Expiry]:
    """The manifests whose objects have expired, or do so within two weeks."""
    for manifest in manifests:
        member = manifest.kind.expiry
        value = manifest.spec.get(member) if member is not None else None
        end = parse_instant(value) if isinstance(value, str) else None
        if isinstance(value, str) and end is not None and end - now <= SOON:
            yield Expiry(manifest, value, end - now)


def expiry_lines(found: Iterable[Expiry], place: Places = as_recorded) -> Iterator[Line]:
    """A note for each."""
    for each in found:
        if each.expired:
            told = f"expired at `{each.written}`; remove the manifest once nothing uses it"
        else:
            told = f"expires at `{each.written}`, in {_remaining(each.left)}"
        yield (
            Styled("note", "yellow"),
            f": {each.title} {told}  ",
            Styled(place(str(each.manifest.origin)), dim=True),
        )


def _remaining(time: timedelta) -> str:
    if time >= timedelta(days=1):
        return counted(time.days, "day")
    return counted(time.seconds // 3600, "hour") if time.seconds >= 3600 else "less than an hour"
