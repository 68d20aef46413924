"""Warns of Internet-Drafts in docs/standards.md that nobody has looked at for half a year.

The revision here was published before then, and nobody has looked for a newer one since. `make lint` runs it.
It asks nobody: the dates are those in `standards.py`. A warning is no failure, for a draft grows old without
any change here.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta

from tests.support.standards import STANDARDS, Draft, Standard

HALF_A_YEAR = timedelta(days=183)


def outdated(standards: Iterable[Standard], today: date) -> Iterator[Draft]:
    """The drafts last known to be the newest more than half a year ago, in the order of the table."""
    for standard in standards:
        if (draft := standard.draft) is not None and today - draft.known > HALF_A_YEAR:
            yield draft


def warning(draft: Draft) -> str:
    """What is old, and what to do."""
    named = f"{draft.name}-{draft.revision}"
    known = "is of" if draft.looked is None else "was the newest on"
    return (
        f"docs/standards.md: {named} {known} {draft.known.isoformat()}, more than half a year ago; compare "
        f"the service with https://datatracker.ietf.org/doc/{draft.name}/, then write the revision and its "
        "date into tests/support/standards.py, or when no newer one was found"
    )


if __name__ == "__main__":
    for old in outdated(STANDARDS, datetime.now(UTC).date()):
        print(f"warning: {warning(old)}")
