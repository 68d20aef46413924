"""The roles that may call each operation: the table behind `schemas/route-permissions.txt`."""

from runtime.contract.routes import ROUTES, Route
from runtime.domain.kinds import Verb
from runtime.services.management.access.permissions import ROLES, allows, sees

_HEAD = """\
# What each role gets from each operation of the management API: `yes`, or the status that refuses it. What a
# role does not see is 404, what it sees and may not do is 403. An entity of another tenant is always 404.
# `open` takes no credential, `zone user` an access token of a zone's user, `person` a signed-in person.
"""

# The second half of an operation's name -> the verb that it takes.
_VERBS = {
    **{verb.value: verb for verb in Verb},
    "add": Verb.CREATE,
    "assign": Verb.CREATE,
    "disable": Verb.DELETE,
    "enable": Verb.CREATE,
    "remove": Verb.DELETE,
    "revoke": Verb.DELETE,
    "set_default": Verb.UPDATE,
    "validate": Verb.UPDATE,
}
_BY_METHOD = {"POST": Verb.CREATE, "PUT": Verb.UPDATE, "PATCH": Verb.UPDATE, "DELETE": Verb.DELETE}
# Operations that show something else than what they are called after.
_CELLS: dict[str, tuple[str, Verb]] = {
    "applications.list_credentials": ("application_credentials", Verb.LIST),
    "applications.list_resources": ("resources", Verb.LIST),
    "policy_set_versions.list_policies": ("policy_versions", Verb.LIST),
    "organizations.list_identities": ("organization_users", Verb.LIST),
    "organizations.list_roles": ("organizations", Verb.RETRIEVE),
}
# Groups of operations whose row has another name.
_ROWS = {"members": "zone_members"}
# What only people do: an organization is made, and a token exchanged, in a person's name.
_PEOPLE = frozenset({"organizations.create", "organizations.exchange_token"})


def cell(route: Route) -> tuple[str, Verb]:
    """The row and the verb of the table that an operation takes."""
    if route.operation_id in _CELLS:
        return _CELLS[route.operation_id]
    subject, action = route.operation_id.split(".")
    read = Verb.LIST if route.envelope is not None else Verb.RETRIEVE
    return _ROWS.get(subject, subject), _VERBS.get(action) or _BY_METHOD.get(route.method, read)


def outcome(route: Route, role: str) -> str:
    """What a role gets: `yes`, `403` or `404`; a word for operations that no role decides about."""
    if route.open:
        return "open"
    if route.zone_token:
        return "zone user"
    if route.operation_id in _PEOPLE:
        return "person"
    subject, verb = cell(route)
    if not sees(role, subject):
        return "404"
    return "yes" if allows(role, subject, verb) else "403"


def text() -> str:
    """The matrix as it stands in `schemas/route-permissions.txt`."""
    lines: list[tuple[str, ...]] = [("METHOD", "PATH", "OPERATION", *ROLES)]
    for route in sorted(ROUTES, key=lambda route: (route.path, route.method)):
        cells = [outcome(route, role) for role in ROLES]
        lines.append((route.method, route.path, route.operation_id, *cells))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    told = ["  ".join(f"{word:<{width}}" for word, width in zip(line, widths, strict=True)) for line in lines]
    return _HEAD + "".join(f"{line.rstrip()}\n" for line in told)
