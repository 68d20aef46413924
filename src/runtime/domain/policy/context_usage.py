"""The parts of a request that a policy reads: others cannot change its decision.

So decisions are cached by the members of the context that are read, and users whom no policy tells apart are
asked about once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_CONTEXT = {"Var": "context"}
_ACCESSES = (".", "has")
_USER = "User"
_OWN_ATTRIBUTES = frozenset({"identifier", "email"})  # of users; groups and roles are their parents
_PRINCIPAL = {"Var": "principal"}
_LOOK_UPS = (".", "has", "in", "is", "getTag", "hasTag")  # what they look up may be in one request only
_NO_USERS = ({"Var": "resource"}, {"Var": "action"}, _CONTEXT)


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """What of a request one policy reads.

    Attributes:
        resource_id: the only resource it applies to; None when it can apply to any.
        names: the members of the context it reads; None when it may read all of them.
        users: identifiers of the users for whom it may decide otherwise than for others with the same groups
            and roles; None when that may be any.
        is_about_principal: whether it applies, or fails, by the principal alone: to any action on any
            resource, or to none.
    """

    resource_id: str | None
    names: frozenset[str] | None
    users: frozenset[str] | None = frozenset()
    is_about_principal: bool = False


UNKNOWN = ContextUsage(None, None, None)


def context_usage(policy: Mapping[str, Any]) -> ContextUsage:
    """What a policy reads of a request.

    Args:
        policy: in Cedar's JSON form, where strings are written without escapes.
    """
    names: set[str] = set()
    everything = _collect(policy.get("conditions", []), names)
    users: set[str] = set()
    anybody = _collect_users([policy.get("principal"), policy.get("conditions")], users)
    return ContextUsage(
        _only_resource(policy),
        None if everything else frozenset(names),
        None if anybody else frozenset(users),
        _is_for_any_request(policy)
        and _is_about_principal([each.get("body") for each in policy.get("conditions", [])]),
    )


def used_attributes(reads: Iterable[ContextUsage], resource_id: str) -> frozenset[str] | None:
    """The members of the context that some policy reads in a request for this resource; None for all."""
    names: set[str] = set()
    for each in reads:
        if each.resource_id not in (None, resource_id):
            continue
        if each.names is None:
            return None
        names |= each.names
    return frozenset(names)


def told_apart(reads: Iterable[ContextUsage], resource_id: str) -> frozenset[str] | None:
    """The users whom some policy may tell from others in a request for this resource; None for any user."""
    users: set[str] = set()
    for each in reads:
        if each.resource_id not in (None, resource_id):
            continue
        if each.users is None:
            return None
        users |= each.users
    return frozenset(users)


def _collect(node: Any, names: set[str]) -> bool:
    """Add the members of the context that an expression names; True when it uses the context as a whole."""
    if node == _CONTEXT:
        return True
    everything = False
    if isinstance(node, list):
        for each in node:
            everything |= _collect(each, names)
        return everything
    if not isinstance(node, Mapping):
        return False
    for operator, operands in node.items():
        if operator in _ACCESSES and isinstance(operands, Mapping) and operands.get("left") == _CONTEXT:
            attribute = operands.get("attr")
            names.update([attribute] if isinstance(attribute, str) else attribute or [])
        else:
            everything |= _collect(operands, names)
    return everything


def _collect_users(node: Any, users: set[str]) -> bool:
    """Add the users that an expression names; True when it may read what is one user's own."""
    anybody = False
    if isinstance(node, list):
        for each in node:
            anybody |= _collect_users(each, users)
        return anybody
    if not isinstance(node, Mapping):
        return False
    if node.get("type") == _USER and isinstance(node.get("id"), str):
        users.add(node["id"])
        return False
    for operator, operands in node.items():
        if operator in _ACCESSES and isinstance(operands, Mapping) and operands.get("left") not in _NO_USERS:
            attribute = operands.get("attr")
            named = {attribute} if isinstance(attribute, str) else set(attribute or ())
            anybody |= bool(named & _OWN_ATTRIBUTES)
        anybody |= _collect_users(operands, users)
    return anybody


def _is_for_any_request(policy: Mapping[str, Any]) -> bool:
    """Tell whether its head constrains neither action nor resource."""
    return all(policy.get(part, {}).get("op") == "All" for part in ("action", "resource"))


def _is_about_principal(expression: Any) -> bool:
    """Tell whether an expression, or each of a list, comes to the same in all requests of one principal."""
    if isinstance(expression, list):
        return all(map(_is_about_principal, expression))
    if not isinstance(expression, Mapping):
        return True
    for operator, operands in expression.items():
        if operator == "Var":
            return bool(expression == _PRINCIPAL)
        if operator in _LOOK_UPS and not _begins_with_principal(operands):
            return False
        if not _is_about_principal([*operands.values()] if isinstance(operands, Mapping) else operands):
            return False
    return True


def _begins_with_principal(operands: Any) -> bool:
    """Tell whether what is looked up is the principal, or something of it."""
    left = operands.get("left") if isinstance(operands, Mapping) else None
    while isinstance(left, Mapping) and isinstance(left.get("."), Mapping):
        left = left["."].get("left")
    return bool(left == _PRINCIPAL)


def _only_resource(rule: Mapping[str, Any]) -> str | None:
    head = rule.get("resource", {})
    entity = head.get("entity", {})
    if head.get("op") == "==" and entity.get("type") == "Resource" and isinstance(entity.get("id"), str):
        return str(entity["id"])
    return None
