"""Declarations of query parameters: those of lists derived from the kinds' `Listing`, others by hand."""

from enum import StrEnum

from runtime.domain.kinds.base import Kind, PageShape
from runtime.domain.kinds.marks import Member
from runtime.domain.kinds.queries import Query, values_of
from runtime.domain.kinds.values import OwnerType, SecretType, ZoneRole
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome

AFTER = Query("after", about="the cursor that the page starts after")
BEFORE = Query("before", about="the cursor that the page ends before; not together with `after`")
LIMIT = Query("limit", "integer", limit=100, about="entries a page, 50 when absent")
CURSOR = Query("cursor", deprecated=True, about="older name of `after`")
ORDER = Query("order", values=("asc", "desc"), about="`desc` when absent")
SCOPE = (
    Query("scope_type", about="with `scope_id`: the scope of the assignment"),
    Query("scope_id", about="with `scope_type`"),
)
ZONE_ROLE = Query("role", values=values_of(ZoneRole), about="`role` equals")
# What the audit trail can be selected by.
AUDITED = (
    Query("filter[kind]", many=True, limit=100, about="kinds of the changed objects, such as `Application`"),
    Query("filter[entity_id]", many=True, limit=100, about="ids of the changed objects"),
    Query("filter[zone_id]", many=True, limit=100, about="ids of the zones of the changed objects"),
    Query("filter[actor_id]", many=True, limit=100, about="ids of the actors"),
    Query("filter[action]", many=True, limit=100, about="operations, such as `applications.update`"),
    Query("filter[changeset_id]", many=True, limit=100, about="ids of the changesets"),
)
_EVENTS = (
    "endpoints, pages, grant types, and what has ended: `sign_out` and `signed_out` are pages,"
    " `user_sign_out` is the end of a session whose user signed out"
)
# What decision records can be selected by.
DECIDED = (
    Query("filter[request_id]", many=True, limit=100, about="request ids, as in the header `X-Request-ID`"),
    Query("filter[user_id]", many=True, limit=100, about="ids of users"),
    Query("filter[application_id]", many=True, limit=100, about="ids of applications"),
    Query("filter[resource_id]", many=True, limit=100, about="ids of resources"),
    Query(
        "filter[user]",
        many=True,
        min_chars=1,
        limit=10,
        about="ids, identifiers or e-mail addresses of users",
    ),
    Query(
        "filter[application]",
        many=True,
        min_chars=1,
        limit=10,
        about="ids, identifiers or manifest names of applications",
    ),
    Query(
        "filter[resource]",
        many=True,
        min_chars=1,
        limit=10,
        about="ids, identifiers or manifest names of resources",
    ),
    Query("filter[event]", many=True, values=values_of(DecisionEvent), about=_EVENTS),
    Query("filter[outcome]", many=True, values=values_of(DecisionOutcome), about="outcomes"),
)
OF_SECRETS = (
    Query("entity_id", about="id of the entity that owns them"),
    Query("type", values=values_of(SecretType), about="required with `owner_type`"),
    Query("owner_type", values=values_of(OwnerType), about="who manages the entity that owns them"),
)
SINCE = Query("since", format="date-time", about="RFC 3339: this moment and later")
UNTIL = Query("until", format="date-time", about="RFC 3339: before this moment")


def expand(*values: str) -> Query:
    return Query("expand[]", many=True, values=values, aliases=("expand",))


def paging(*expands: str, cursor: bool = False) -> tuple[Query, ...]:
    return (AFTER, BEFORE, LIMIT, *((CURSOR,) if cursor else ()), expand(*(expands or ("total_count",))))


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
        values = _values(members.get(name))
        boolean = name in members and members[name].value_type is bool
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
        values = _values(members.get(member))
        older = f"filter[{member}]" if member in listing.filters else ""
        found.append(
            Query(spelled, values=values, about=f"older form of `{older}`" if older else f"`{member}` equals")
        )
    if listing.search:
        found.append(_search(listing.ordered))
        found.extend(
            Query(f"query[{name}]", many=True, min_chars=1, max_chars=255) for name in listing.search
        )
    if listing.sorts != ("created_at",) or listing.ordered:
        found.append(Query("sort", values=listing.sorts, about="a leading `-` means descending"))
    if listing.ordered:
        found.append(ORDER)
    found.extend(listing.more)
    found.append(expand(*listing.expands))
    return tuple(found)


def _values(member: Member | None) -> tuple[str, ...]:
    """The values that a filter on a member takes, when its type is an enumeration."""
    if member is None:
        return ()
    type_ = member.value_type
    return values_of(type_) if isinstance(type_, type) and issubclass(type_, StrEnum) else ()


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
    more = kind.listing.retrieve_more if kind.listing else ()
    return (*more, expand(*expands)) if expands else more
