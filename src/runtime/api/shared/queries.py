"""Validates query parameters against the declarations of a route.

Spec: `conventions.filters`, `conventions.pagination` and `conventions.expand` of the management API table.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from runtime.contract.routes import Route
from runtime.domain.errors import BadRequest, ValidationFailed
from runtime.domain.kinds.queries import MAX_CHARS, Query

MAX_PARAMETERS = 250
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SELECTING = re.compile(r"(?:filter|query)\[")

Values = Mapping[str, tuple[str, ...]]


def read_query(route: Route, raw: str) -> dict[str, tuple[str, ...]]:
    """The declared parameters that were sent, by their OpenAPI name, in the order sent.

    Raises: ValidationFailed also for an unknown parameter: a selection that is not made would show more than
        was asked for. BadRequest.
    """
    sent = _parse(raw)
    found: dict[str, tuple[str, ...]] = {}
    known: set[str] = set()
    for query in route.query:
        spellings = (query.name, *query.aliases)
        known.update(spellings)
        given = [(name, sent[name]) for name in spellings if name in sent]
        if not given:
            continue
        if len(given) > 1 and len({frozenset(values) for _, values in given}) > 1:
            raise ValidationFailed.of(
                given[-1][0], f"conflicts with `{given[0][0]}`, another spelling of it; send one of them"
            )
        found[query.name] = _checked(query, given[0][1])
    for name in sent:
        if name not in known:
            what = "filter of this list" if _SELECTING.match(name) else "parameter of this request"
            raise ValidationFailed.of(name, f"is not a {what}")
    return found


def _parse(raw: str) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("the query is not UTF-8") from None
    except ValueError:
        raise BadRequest(f"the query has more than {MAX_PARAMETERS} parameters") from None
    sent: dict[str, list[str]] = {}
    for name, value in pairs:
        if _CONTROL.search(name) or _CONTROL.search(value):
            raise BadRequest("the query contains control characters")
        if len(value) > MAX_CHARS:
            raise ValidationFailed.of(name, f"must have at most {MAX_CHARS} characters")
        sent.setdefault(name, []).append(value)
    return sent


def _checked(query: Query, values: Sequence[str]) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(values))
    if not query.many and len(distinct) > 1:
        raise ValidationFailed.of(query.name, "must be given once")
    if query.many and query.limit is not None and len(distinct) > query.limit:
        raise ValidationFailed.of(query.name, f"must have at most {query.limit} values")
    if query.name in ("expand[]", "sort"):
        return distinct
    for value in distinct:
        if not query.min_chars <= len(value) <= query.max_chars:
            raise ValidationFailed.of(
                query.name, f"must have {query.min_chars} to {query.max_chars} characters"
            )
        if query.values and value not in query.values:
            raise ValidationFailed.of(query.name, f"must be one of {_listed(query.values)}")
        if query.type == "boolean" and value not in ("true", "false"):
            raise ValidationFailed.of(query.name, "must be `true` or `false`")
    return distinct


def one(values: Values, name: str, *older: str) -> str | None:
    """The one value of a parameter, under whichever of its names it was sent.

    Raises: ValidationFailed, when two of the names were sent and disagree.
    """
    given = {other: values[other][0] for other in (name, *older) if other in values}
    if len(set(given.values())) > 1:
        raise ValidationFailed.of(next(iter(given)), "conflicts with its older name; send one of them")
    return next(iter(given.values()), None)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)
