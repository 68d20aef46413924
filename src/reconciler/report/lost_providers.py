"""Renders resources that stay and lose their credential provider."""

from collections.abc import Iterator, Sequence

from reconciler.plan.model import LostProvider
from reconciler.terminal import Line, Styled

from .value_diff import as_text, counted

MOST_SHOWN = 20  # of very many, the JSON output has all


def lost_provider_lines(found: Sequence[LostProvider]) -> Iterator[Line]:
    """What exchanges for each return afterwards, and what to do."""
    for each in found[:MOST_SHOWN]:
        lost = "is deleted" if each.is_deleted else "is no longer its credential provider"
        yield (
            Styled("! other tokens for a resource: ", "red"),
            f"{each.title} stays, and {as_text(each.provider)} {lost}",
        )
        yield f"    {_afterwards(each)}"
    if (more := len(found) - MOST_SHOWN) > 0:
        yield Styled("! other tokens for a resource: ", "red"), counted(more, "more resource")


def _afterwards(each: LostProvider) -> str:
    if each.is_refused:
        return (
            "exchanges for it are refused from then on; delete it too, or give it another"
            " `credential_provider`: `{external: service-sts}` for access tokens of the zone"
        )
    instead = "keys that are stored in the vault" if each.has_stored_keys else "tokens of that provider"
    return (
        f"exchanges for it return access tokens of the zone from then on, in place of {instead}; if the"
        " resource does not accept these, give it another `credential_provider`, or delete it too"
    )
