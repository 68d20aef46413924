"""The members of a kind that a create or an update request may set."""

from functools import cache

from pydantic import BaseModel

from runtime.domain.kinds.base import Verb
from runtime.domain.kinds.marks import Mark, Member, members, part_of

_REFUSED = (Mark.SERVER, Mark.DERIVED, Mark.INTERNAL)


@cache
def settable(model: type[BaseModel], verb: Verb) -> dict[str, Member]:
    """The members of a class that the body of a create or an update may have, by name."""
    return {name: member for name, member in members(model).items() if is_taken(member, verb)}


def is_taken(member: Member, verb: Verb) -> bool:
    """Tell whether the body of a create or an update may have a member."""
    if member.has(*_REFUSED) or member.expand is not None:
        return False
    late = member.has(Mark.LATER) or (member.ref is not None and member.ref.late)
    if verb is Verb.CREATE:
        return not late
    fixed = member.has(Mark.FIXED) and member.name != "type"  # `type` may be repeated, see `read_patch`
    return not (fixed or member.has(Mark.INPUT))


def is_mixed(member: Member) -> bool:
    """Tell whether a member is an object of which the service decides a part."""
    part = part_of(member.annotation)
    return part is not None and any(
        inner.has(Mark.SERVER) or is_mixed(inner) for inner in members(part).values()
    )


def nullable_in_patch(member: Member, *, nested: bool) -> bool:
    """Tell whether null in an update clears the member, or puts its default back.

    Spec: management API, `null_in_patch`; members of parts with a default take null too, and those that the
    service makes up.
    """
    if member.has(Mark.KEPT):
        return False
    has_default = not member.required or member.has(Mark.MADE)
    return member.nullable or is_mixed(member) or (nested and has_default)
