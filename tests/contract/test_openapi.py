"""The OpenAPI document is whole: everything is described, shown by an example, and valid."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from runtime.contract.bodies import read
from runtime.contract.bundles import BundleArchive
from runtime.contract.openapi import openapi, security_of
from runtime.contract.routes import ROUTES, Route

DOCUMENT = openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
EACH = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation_id)


def operation_of(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][route.path][route.method.lower()]
    return found


def followed(found: dict[str, Any]) -> dict[str, Any]:
    """What a reference leads to."""
    while "$ref" in found:
        target: Any = DOCUMENT
        for step in found["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        found = target
    return found


@cache
def validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    """Who checks values of a schema, which is given as JSON; making one reads the whole document."""
    whole = {**json.loads(schema), "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with a value; formats count."""
    errors = validator(json.dumps(schema)).iter_errors(value)
    return [f"{error.instance_path}: {error.message}" for error in errors]


def contents(route: Route) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every body and answer of an operation: where it stands, and what it is."""
    operation = operation_of(route)
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"body {media}", content
    for status, answer in operation["responses"].items():
        for media, content in followed(answer).get("content", {}).items():
            yield f"{status} {media}", content


def test_the_document_is_valid_openapi() -> None:
    """The official schema of OpenAPI 3.1 finds nothing wrong."""
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)] == []
    assert DOCUMENT["servers"]
    assert DOCUMENT["components"]["securitySchemes"]


@EACH
def test_everything_has_an_example(route: Route) -> None:
    """Each body, each answer and each refusal shows at least one, and each is what its schema says."""
    assert not [place for place, content in contents(route) if not content["examples"]]
    assert not [
        f"{place} {name}"
        for place, content in contents(route)
        for name, example in content["examples"].items()
        if problems(content["schema"], example["value"])
    ]
    success = operation_of(route)["responses"][str(route.status)]
    assert ("content" in success) == (route.status != 204)


@EACH
def test_examples_of_bodies_are_read(route: Route) -> None:
    """What is shown can be sent: the classes that read bodies take it."""
    assert not [
        (media, model)
        for media, content in operation_of(route).get("requestBody", {}).get("content", {}).items()
        for model, example in zip(route.body, content["examples"].values(), strict=True)
        if model not in (BaseModel, BundleArchive) and read(model, example["value"]) is None
    ]


@EACH
def test_everything_is_described(route: Route) -> None:
    """Each parameter says what it is, each refusal and header too; paths show an example."""
    operation = operation_of(route)
    assert operation["operationId"] == route.operation_id
    assert operation["summary"]
    assert operation["tags"] == [route.operation_id.partition(".")[0]]
    parameters = operation["parameters"]
    assert not [each["name"] for each in parameters if not each.get("description")]
    assert not [each["name"] for each in parameters if each["in"] == "path" and not each["example"]]
    answers = {status: followed(answer) for status, answer in operation["responses"].items()}
    assert not [status for status, answer in answers.items() if not answer["description"]]
    assert not [status for status, answer in answers.items() if "X-Request-ID" not in answer["headers"]]
    assert not [
        (status, name)
        for status, answer in answers.items()
        for name, header in answer["headers"].items()
        if not followed(header)["description"]
    ]


@EACH
def test_refusals_are_listed(route: Route) -> None:
    """What a route can refuse stands there, a conflict with its header; 401 unless anybody may call."""
    responses = operation_of(route)["responses"]
    assert set(responses) >= {str(status) for status in (*route.errors, 400, 413, 429, 500, 503)}
    assert "401" in responses or route.open
    if "409" in responses:
        assert "X-Should-Retry" in followed(responses["409"])["headers"]
    assert ("ETag" in responses[str(route.status)]["headers"]) == route.etag


@EACH
def test_says_who_may_call(route: Route) -> None:
    """A bearer may, unless the route is open or for another kind of token; schemes are defined."""
    security = operation_of(route).get("security", DOCUMENT["security"])
    schemes = {name for alternative in security for name in alternative}
    assert schemes <= set(DOCUMENT["components"]["securitySchemes"])
    assert (security_of(route) is None) == (schemes == {"bearer"} and {} not in security)
    if route.open:
        assert security_of(route) is not None


def test_components_are_described() -> None:
    """Each schema opens with what it is."""
    assert [name for name, schema in SCHEMAS.items() if not schema.get("description")] == []


def test_is_the_same_each_time() -> None:
    """Nothing in the document is drawn by lot, or depends on when it is made."""
    assert openapi() == DOCUMENT
