"""Kinds that a role cannot see answer the same whether an entity exists or not: status, text and headers.

The cases are the cells of the checked-in matrix that say 404, so a new route is covered as soon as it exists.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import event
from tests.runtime.management.access.matrix import CHECKED, TOLD, single_sign_on
from tests.runtime.management.conftest import Api
from tests.runtime.management.tenants import Tenant, body_of, fill, id_of, parameters

from runtime.contract.routes import Route
from runtime.domain.identifiers import new_id
from runtime.services.management.access.permissions import ROLES

HIDDEN = [(route, role) for route in CHECKED for role in ROLES if TOLD[route.operation_id][role] == "404"]


@pytest.fixture(scope="module")
def tenant(api: Api) -> Tenant:
    tenant = fill(api.zone())
    return Tenant(tenant.zone, {**tenant.ids, "changesets": api.apply()})


@pytest.fixture(scope="module")
def senders(api: Api) -> dict[str, Api]:
    return {role: api.with_role(role) for role in ROLES}


def bodies(api: Api, tenant: Tenant, route: Route) -> list[dict[str, Any] | None]:
    """What the route is sent: what is there already, what is not, and what nobody could accept."""
    body = body_of(route)
    if body is None:
        return [None]
    known = {"email": tenant.ids["invitations"]["email"], "name": tenant.ids["service-accounts"]["name"]}
    taken = {name: known.get(name, value) for name, value in body.items()}
    return [body, taken, {"nothing": 1}] if "email" in body or "name" in body else [body]


def told(response: httpx.Response, ids: list[str]) -> tuple[int, str, list[str]]:
    """What an answer says, the ids of its request taken out."""
    body = {
        name: value
        for name, value in response.json().items()
        if name not in ("request_id", "timestamp", "path")
    }
    text = repr(body)
    for each in ids:
        text = text.replace(each, "ID")
    return response.status_code, text, sorted(set(response.headers) - {"x-request-id", "content-length"})


# What keeps the kinds that some role does not see.
_TABLES = ("api_keys", "audit_events", "invitations", "organization_users", "service_account")


@contextmanager
def statements(api: Api) -> Iterator[set[str]]:
    """What is asked of the database about such kinds."""
    asked: set[str] = set()

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        of_key_in_use = statement.startswith("UPDATE api_keys")  # now and then, behind an answer
        if any(name in statement for name in _TABLES) and not of_key_in_use:
            asked.add(statement)

    engine = api.server.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.threat("42d")
@pytest.mark.parametrize(("route", "role"), HIDDEN, ids=lambda one: getattr(one, "operation_id", one))
def test_nothing_is_looked_up(
    api: Api, senders: dict[str, Api], tenant: Tenant, route: Route, role: str
) -> None:
    """So the time that the refusal takes depends on nothing that is hidden: the tables are not even asked."""
    path = route.path
    for name in parameters(route):
        path = path.replace(f"{{{name}}}", id_of(tenant, route, name))
    with statements(api) as of_every_call:
        senders[role].ok("GET", "/organizations")
        api.ok("GET", "/organizations")
    with single_sign_on(api, route):
        with statements(api) as asked:
            senders[role](route.method, path, body_of(route))
        assert asked <= of_every_call
        if route.method == "GET" and "sso" not in route.path:
            with statements(api) as asked:
                api.ok("GET", path)
            assert asked - of_every_call


@pytest.mark.threat("42a", "42b", "42c", "42e")
@pytest.mark.parametrize(("route", "role"), HIDDEN, ids=lambda one: getattr(one, "operation_id", one))
def test_a_hidden_kind_is_404_whatever_is_sent(
    api: Api, senders: dict[str, Api], tenant: Tenant, route: Route, role: str
) -> None:
    """With ids that are there, with ids that are not, and with any body: one and the same 404."""
    names = [name for name in parameters(route) if name not in ("organization_id", "organizationId")]

    def answers(sender: Api, *, there: bool) -> set[tuple[int, str, tuple[str, ...]]]:
        path, ids = route.path, []
        for name in parameters(route):
            real = id_of(tenant, route, name)
            ids.append(real if there or name not in names else new_id())
            path = path.replace(f"{{{name}}}", ids[-1])
        found = set()
        for body in bodies(api, tenant, route):
            status, text, headers = told(sender(route.method, path, body), ids)
            if "unknown member" in text or "is required" in text:
                continue  # that is said before anything is looked at
            found.add((status, text, tuple(headers)))
        return found

    with single_sign_on(api, route):
        present = answers(senders[role], there=True)
        if names:
            assert answers(senders[role], there=False) == present
        assert len(present) == 1
        assert next(iter(present))[0] == 404
        if route.method == "GET":
            assert {status for status, *_ in answers(api, there=True)} == {200}


def test_the_cells_are_all_of_them() -> None:
    """The matrix has such cells, for several roles: the test above is about something."""
    assert len(HIDDEN) > 40
    assert {role for _, role in HIDDEN} >= {"org_member", "zone_manager", "zone_viewer"}
