"""Every operation of the management API as a value: the generic ones from the kinds, the others by hand."""

from runtime.contract.routes import changes, decisions, organizations, policies, zones
from runtime.contract.routes.generic import GENERIC
from runtime.contract.routes.route import METHODS, ListEnvelope, Route

__all__ = [
    "BY_OPERATION",
    "GENERIC",
    "IRREGULAR",
    "METHODS",
    "ROUTES",
    "ListEnvelope",
    "Route",
    "routes_text",
]

IRREGULAR: tuple[Route, ...] = (
    organizations.ROUTES + zones.ROUTES + policies.ROUTES + changes.ROUTES + decisions.ROUTES
)

ROUTES: tuple[Route, ...] = GENERIC + IRREGULAR

BY_OPERATION: dict[str, Route] = {route.operation_id: route for route in ROUTES}


def routes_text() -> str:
    """The list of all operations, one a line: method, path, operation id."""
    lines = sorted((route.path, route.method, route.operation_id) for route in ROUTES)
    return "".join(f"{method:<6} {path}  {operation_id}\n" for path, method, operation_id in lines)
