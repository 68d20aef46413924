"""The routes as values, and the document made from them."""

import re
from typing import Any

import jsonschema_rs
import pytest

from runtime.contract.openapi import openapi
from runtime.contract.routes import BY_OPERATION, ROUTES, Route
from runtime.domain.kinds import ALL, Verb
from runtime.domain.kinds.base import PageShape

DOCUMENT = openapi()


def test_operations_are_unique() -> None:
    """No two routes share an operation id, or a method and a path."""
    assert len(BY_OPERATION) == len(ROUTES)
    assert len({(route.method, re.sub(r"{\w+}", "{}", route.path)) for route in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ("zones.create", 200),
        ("providers.create", 200),
        ("applications.create", 200),
        ("application_credentials.create", 200),
        ("resources.create", 200),
        ("roles.create", 201),
        ("groups.create", 201),
        ("group_members.add", 201),
        ("group_roles.add", 201),
        ("policies.create", 201),
        ("policy_versions.create", 201),
        ("policy_sets.create", 201),
        ("policy_set_versions.create", 201),
        ("service_accounts.create", 201),
        ("service_account_credentials.create", 201),
        ("application_dependencies.add", 204),
        ("zones.delete", 204),
        ("policies.archive", 200),
        ("policy_sets.archive", 200),
        ("policy_set_versions.update", 200),
        ("secrets.create", 200),
        ("secrets.delete", 204),
        ("api_keys.create", 201),
        ("api_keys.delete", 204),
        ("invitations.create", 201),
        ("invitations.delete", 204),
        ("sso_connection.enable", 201),
        ("sso_connection.disable", 204),
    ],
)
def test_each_route_succeeds_with_its_own_status(operation: str, status: int) -> None:
    """Clients compare these exactly."""
    assert BY_OPERATION[operation].status == status


@pytest.mark.parametrize(
    ("operation", "envelope"),
    [
        ("zones.list", PageShape.ZONE_FULL),
        ("applications.list_credentials", PageShape.ZONE_FULL),
        ("resources.list", PageShape.ZONE),
        ("service_accounts.list", PageShape.ORGANIZATION),
        ("api_keys.list", PageShape.ORGANIZATION),
        ("changesets.list", PageShape.ORGANIZATION),
    ],
)
def test_envelope_of_a_list(operation: str, envelope: PageShape) -> None:
    """Each list has the wrapping that its readers expect."""
    assert BY_OPERATION[operation].envelope is envelope


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation_id)
def test_route_is_documented(route: Route) -> None:
    """Parameters, bodies, answers and refusals of every route stand in the document."""
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    named = {parameter["name"] for parameter in operation["parameters"]}
    assert named >= {query.name for query in route.query} | set(re.findall(r"{(\w+)}", route.path))
    assert str(route.status) in operation["responses"]
    assert "500" in operation["responses"]
    assert ("requestBody" in operation) == bool(route.body)


def test_every_verb_has_a_route() -> None:
    """What a kind allows can be called."""
    assert {f"{kind.operations}.{verb.value}" for kind in ALL for verb in kind.verbs} <= set(BY_OPERATION)


def references(value: Any) -> set[str]:
    """Every `$ref` in the document."""
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(inner) for inner in value.values()))
    return set().union(*(references(inner) for inner in value)) if isinstance(value, list) else set()


def test_references_lead_somewhere() -> None:
    """Every reference in the document has its target."""
    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def test_components_are_valid_schemas() -> None:
    """Every component is JSON Schema 2020-12, as OpenAPI 3.1 wants it."""
    for component in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **component})


def test_no_answer_shows_a_secret() -> None:
    """Secrets appear in bodies, and in the answers of the operations that are there to show one."""
    shown = {"PasswordCredentialCreated": "password", "ServiceAccountCredentialCreated": "client_secret"}
    shown |= {"SecretPassword": "password", "ApiKeyCreated": "api_key"}
    secrets = {"api_key", "client_secret", "password", "secret_hash"}
    told = {
        name: secrets & set(component.get("properties", {}))
        for name, component in DOCUMENT["components"]["schemas"].items()
        if not name.endswith(("Create", "Update", "Input", "Form"))
    }
    assert {name: members for name, members in told.items() if members} == {
        name: {member} for name, member in shown.items()
    }


def test_generic_routes_know_their_verb() -> None:
    """The generic binding finds everything it needs in the route."""
    generic = [route for route in ROUTES if route.verb is not None]
    assert not [route for route in generic if route.kind is None or route.verb not in route.kind.verbs]
    assert not [route for route in generic if route.verb is Verb.LIST and route.envelope is None]
