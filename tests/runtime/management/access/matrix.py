"""The checked-in matrix of roles by route, and what a route needs before its cells can be tried."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.runtime.management.conftest import Api
from tests.runtime.management.tenants import BODIES

from runtime.contract.routes import ROUTES, Route

MATRIX = Path(__file__).parents[4] / "schemas" / "route-permissions.txt"


def told_by_the_file() -> dict[str, dict[str, str]]:
    """Operation -> role -> what the checked-in file says."""
    lines = [line for line in MATRIX.read_text("utf-8").splitlines() if not line.startswith("#")]
    header, *rows = [re.split(r" {2,}", line) for line in lines]
    return {row[2]: dict(zip(header[3:], row[3:], strict=True)) for row in rows}


TOLD = told_by_the_file()

# What only people do, whatever a key's role: `test_user_callers` has it.
CHECKED = [route for route in ROUTES if set(TOLD[route.operation_id].values()) <= {"yes", "403", "404"}]


@contextmanager
def single_sign_on(api: Api, route: Route) -> Iterator[None]:
    """The organization with single sign-on while a route is called that wants it, without it afterwards."""
    if not route.operation_id.startswith("sso_connection."):
        yield
        return
    path = f"/organizations/{api.organization_id}/sso-connection"
    if route.method != "POST":
        api.ok("POST", path, BODIES["sso-connection"])
    yield
    api("DELETE", path)
