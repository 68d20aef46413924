"""Query parameters of the management API, as values: what a kind's `Listing` and the routes are made of."""

from dataclasses import dataclass
from enum import StrEnum

MAX_CHARS = 2048  # of one value


@dataclass(frozen=True)
class Query:
    """One query parameter.

    Attributes:
        name: as OpenAPI shows it; the spellings in `aliases` mean the same.
        type: the JSON type of one value.
        many: whether it can be repeated.
        format: what a string must be besides, as JSON Schema calls it.
        values: the only values it takes, when it is limited to some.
        min_chars: how many characters a value has at least.
        max_chars: how many characters a value has at most.
        limit: how many values it takes at most, or how large an integer may be.
        deprecated: whether it is only kept for older clients.
        older_form_of: the name of the parameter that this one is an older name of.
        about: what OpenAPI says of it, without the capital and the full stop.
    """

    name: str
    type: str = "string"
    format: str = ""
    many: bool = False
    values: tuple[str, ...] = ()
    min_chars: int = 0
    max_chars: int = MAX_CHARS
    limit: int | None = None
    deprecated: bool = False
    aliases: tuple[str, ...] = ()
    older_form_of: str = ""
    about: str = ""


def values_of(enum: type[StrEnum]) -> tuple[str, ...]:
    """The values of an enumeration, as a query parameter takes them."""
    return tuple(str(value) for value in enum)


ACTIVE_ONLY = Query("active", values=("true",), deprecated=True, about="older form of `status=active`")
