"""Declarations of query parameters: those of lists derived from the kinds' `Listing`, others by hand."""

from dataclasses import dataclass
from enum import StrEnum

from runtime.domain.kinds.base import Kind, PageShape
from runtime.domain.kinds.values import (
    ApplicationTrait,
    GrantStatus,
    OrganizationRole,
    OwnerType,
    PolicyTargetType,
    ProviderType,
    SecretType,
    SessionStatus,
    SessionType,
    ZoneRole,
)


@dataclass(frozen=True)
class Query:
    """One query parameter.

    Attributes:
        name: as OpenAPI shows it; the spellings in `aliases` mean the same.
        type: the JSON type of one value.
        many: whether it can be repeated.
        format: what a string must be besides, as JSON Schema calls it.
        values: the only values it takes, when it is limited to some.
        limit: how many values it takes at most, or how large an integer may be.
        deprecated: whether it is only kept for older clients.
    """

    name: str
    type: str = "string"
    format: str = ""
    many: bool = False
    values: tuple[str, ...] = ()
    limit: int | None = None
    deprecated: bool = False
    aliases: tuple[str, ...] = ()
    about: str = ""


def _values(enum: type[StrEnum]) -> tuple[str, ...]:
    return tuple(str(value) for value in enum)


# Members whose filters take only some values: name -> the values.
_LIMITED: dict[str, tuple[str, ...]] = {
    "owner_type": _values(OwnerType),
    "role": _values(OrganizationRole),
    "target_type": _values(PolicyTargetType),
    "type": _values(ProviderType),
}

AFTER = Query("after", about="the cursor that the page starts after")
BEFORE = Query("before", about="the cursor that the page ends before; not together with `after`")
LIMIT = Query("limit", "integer", limit=100, about="entries a page, 50 when absent")
CURSOR = Query("cursor", deprecated=True, about="older name of `after`")
ORDER = Query("order", values=("asc", "desc"), about="`desc` when absent")
FORMAT = Query("format", values=("cedar", "json"), about="notation of the Cedar texts in the response")
SCOPE = (
    Query("scope_type", about="with `scope_id`: the scope of the assignment"),
    Query("scope_id", about="with `scope_type`"),
)
ZONE_ROLE = Query("role", values=_values(ZoneRole), about="`role` equals")
TRAITS = _values(ApplicationTrait)
# What the audit trail can be selected by.
AUDITED = (
    Query("filter[kind]", many=True, limit=100, about="kinds of the changed objects, such as `Application`"),
    Query("filter[entity_id]", many=True, limit=100, about="ids of the changed objects"),
    Query("filter[zone_id]", many=True, limit=100, about="ids of the zones of the changed objects"),
    Query("filter[actor_id]", many=True, limit=100, about="ids of the actors"),
    Query("filter[action]", many=True, limit=100, about="operations, such as `applications.update`"),
    Query("filter[changeset_id]", many=True, limit=100, about="ids of the changesets"),
)
OF_SECRETS = (
    Query("entity_id", about="id of the entity that owns them"),
    Query("type", values=_values(SecretType), about="required with `owner_type`"),
    Query("owner_type", values=_values(OwnerType), about="who manages the entity that owns them"),
)
SINCE = Query("since", format="date-time", about="RFC 3339: this moment and later")
UNTIL = Query("until", format="date-time", about="RFC 3339: before this moment")


def expand(*values: str) -> Query:
    return Query("expand[]", many=True, values=values, aliases=("expand",))


def paging(*expands: str, cursor: bool = False) -> tuple[Query, ...]:
    return (AFTER, BEFORE, LIMIT, *((CURSOR,) if cursor else ()), expand(*(expands or ("total_count",))))


_ACTIVE = Query("active", values=("true",), deprecated=True, about="older form of `status=active`")

# Query parameters of single lists that no member of the kind stands behind.
_MORE: dict[str, tuple[Query, ...]] = {
    "applications.list": (
        Query("traits", many=True, values=TRAITS, about="has any of these traits"),
        Query("traits[all]", many=True, values=TRAITS, about="has all of these traits"),
    ),
    "resources.list": (
        Query(
            "filter[traits]",
            many=True,
            about="traits of the providing application: all of one value (commas), any of repeated ones",
        ),
    ),
    "users.list": (
        Query("filter[groups]", many=True, about="ids of groups the user is in"),
        Query("filter[role]", many=True, limit=100, about="identifiers of roles assigned directly"),
        Query("role_source", values=("user", "group", "all"), about="`user` when absent"),
    ),
    "users.retrieve": (Query("role_source", values=("user", "group", "all"), about="`user` when absent"),),
    "policies.list": (),
    "policy_versions.list": (FORMAT,),
    "policy_versions.retrieve": (FORMAT,),
    "policy_sets.list": (
        Query("filter[active]", "boolean"),
        Query("active", "boolean", deprecated=True),
        Query("filter[scope_type]", many=True, values=("zone",), deprecated=True),
    ),
    "sessions.list": (
        Query("status", values=_values(SessionStatus)),
        _ACTIVE,
        Query("session_type", values=_values(SessionType)),
        Query(
            "include_nested",
            values=("true",),
            about="include the application sessions below browser sessions",
        ),
    ),
    "delegated_grants.list": (
        Query("status", values=_values(GrantStatus)),
        _ACTIVE,
        Query("sort", values=("created_at",), about="a leading `-` means descending"),
    ),
}


def list_query(kind: Kind) -> tuple[Query, ...]:
    """The query parameters of a kind's list."""
    listing = kind.listing
    if listing is None:
        return ()
    found = [AFTER, BEFORE, LIMIT]
    if listing.cursor:
        found.append(CURSOR)
    members = kind.members()
    for name in listing.filters:
        values = _LIMITED.get(name, ())
        boolean = name in members and members[name].annotation is not str and name == "external"
        single = boolean or name in listing.single
        found.append(
            Query(
                f"filter[{name}]",
                "boolean" if boolean else "string",
                many=not single,
                values=values,
                limit=100 if name == "id" else None,
            )
        )
    for spelled, member in listing.plain.items():
        values = _LIMITED.get(member, ())
        older = f"filter[{member}]" if member in listing.filters else ""
        found.append(
            Query(spelled, values=values, about=f"older form of `{older}`" if older else f"`{member}` equals")
        )
    if listing.search:
        found.append(_search(listing.ordered))
        found.extend(Query(f"query[{name}]", many=True) for name in listing.search)
    if listing.sorts != ("created_at",) or listing.ordered:
        found.append(Query("sort", values=listing.sorts, about="a leading `-` means descending"))
    if listing.ordered:
        found.append(ORDER)
    found.extend(_MORE.get(f"{kind.operations}.list", ()))
    found.append(expand(*listing.expands))
    return tuple(found)


def _search(plain: bool) -> Query:
    """The search over every searchable member; policy paths write it without brackets."""
    name, alias = ("query", "query[]") if plain else ("query[]", "query")
    return Query(
        name, many=True, aliases=(alias,), about="text contained in any searchable member, ignoring case"
    )


def retrieve_query(kind: Kind) -> tuple[Query, ...]:
    expands: tuple[str, ...] = ()
    if kind.listing is not None:
        keep_total = kind.listing.envelope is PageShape.ORGANIZATION
        expands = tuple(value for value in kind.listing.expands if keep_total or value != "total_count")
        if kind.listing.retrieve_expands is not None:
            expands = kind.listing.retrieve_expands
    more = _MORE.get(f"{kind.operations}.retrieve", ())
    return (*more, expand(*expands)) if expands else more
