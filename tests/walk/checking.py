"""A caller of the management API who compares every answer with the OpenAPI document."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import httpx
import jsonschema_rs

from runtime.contract.routes import BY_OPERATION, Route

Document = dict[str, Any]


class CheckingClient:
    """Sends requests by operation, remembers which operations were sent, and checks what comes back.

    Attributes:
        walked: the operations that have answered with the status of their success.
    """

    def __init__(self, client: httpx.Client, document: Document) -> None:
        self._client = client
        self._document = closed(document)
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}  # by schema, as JSON
        self.walked: set[str] = set()

    def calling(self, client: httpx.Client) -> "CheckingClient":
        """The same walk, with somebody else calling."""
        other = copy.copy(self)
        other._client = client
        return other

    def send(
        self,
        operation: str,
        path: Mapping[str, str],
        *,
        query: Mapping[str, str | list[str]] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> Any:
        """What an operation answers; None when the answer is empty.

        Args:
            path: the values of the path's parameters.
            status: what it must answer; that of success when absent.
        Raises: AssertionError, when anything about the answer is not what the document says.
        """
        route = self.route(operation)
        request_id = str(uuid4())
        given = {"X-Client-Request-ID": request_id, **(headers or {})}
        sent: dict[str, Any] = {"params": query, "headers": given}
        if isinstance(body, bytes):
            sent["content"], given["Content-Type"] = body, route.takes
        elif body is not None:
            sent |= {"data": body} if route.form else {"json": body}
        response = self.ask(route, path, **sent)
        told = f"{route.method} {response.request.url} {body}: {response.status_code} {response.text[:2000]}"
        assert response.status_code == (status or route.status), told
        assert response.headers.get("X-Client-Request-ID") == request_id, told
        problems = [*self._headers(route, response), *self._content(route, response)]
        assert not problems, f"{told}\n" + "\n".join(problems)
        if response.status_code == route.status:
            self.walked.add(operation)
        return _value(response)

    def route(self, operation: str) -> Route:
        """The operation of that name."""
        return BY_OPERATION[operation]

    def ask(self, route: Route, path: Mapping[str, str], *, method: str = "", **sent: Any) -> httpx.Response:
        """The answer to a request at the address of an operation, whatever it is."""
        address = re.sub(r"{(\w+)}", lambda match: path[match[1]], route.path)
        request = self._client.build_request(method or route.method, address, **sent)
        if route.open:
            del request.headers["Authorization"]
        return self._client.send(request)

    def schema_of(self, route: Route) -> Document:
        """The schema of what an operation takes, with references still in it."""
        operation = self._document["paths"][route.path][route.method.lower()]
        found: Document = next(iter(operation["requestBody"]["content"].values()))["schema"]
        return found

    def followed(self, schema: Document) -> Document:
        """What a reference leads to."""
        return (
            self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            if "$ref" in schema
            else schema
        )

    def examples_of(self, route: Route) -> dict[str, Any]:
        """The bodies that the document shows for an operation, by the class that each is of."""
        operation = self._document["paths"][route.path][route.method.lower()]
        content = next(iter(operation["requestBody"]["content"].values()))
        return {name: copy.deepcopy(example["value"]) for name, example in content["examples"].items()}

    def _answer(self, route: Route, status: int) -> Document:
        responses = self._document["paths"][route.path][route.method.lower()]["responses"]
        assert str(status) in responses, f"{route.operation_id} does not say that it answers {status}"
        answer: Document = responses[str(status)]
        if "$ref" in answer:
            answer = self._document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        return answer

    def _headers(self, route: Route, response: httpx.Response) -> Iterator[str]:
        for name, header in self._answer(route, response.status_code)["headers"].items():
            found = self._document["components"]["headers"][header["$ref"].rpartition("/")[2]]
            value = response.headers.get(name)
            if value is None:
                if found.get("required"):
                    yield f"there is no header {name}"
            else:
                yield from self._wrong(found["schema"], value)

    def _content(self, route: Route, response: httpx.Response) -> Iterator[str]:
        contents = self._answer(route, response.status_code).get("content", {})
        media = response.headers.get("content-type", "").partition(";")[0]
        if not contents:
            if response.content:
                yield "an answer without content has some"
        elif media not in contents:
            yield f"the content type `{media}` is not one of {', '.join(contents)}"
        elif media == "application/json":
            yield from self._wrong(contents[media]["schema"], response.json())
        elif media == "application/x-ndjson":
            for line in response.text.splitlines():
                yield from self._wrong(contents[media]["schema"], json.loads(line))

    def _wrong(self, schema: Document, value: Any) -> Iterator[str]:
        for error in self._validator(schema).iter_errors(value):
            yield f"{'/'.join(map(str, error.instance_path))}: {error.message}"

    def _validator(self, schema: Document) -> jsonschema_rs.Draft202012Validator:
        """Who checks values of a schema: made once, since that reads the whole document."""
        key = json.dumps(schema)
        if key not in self._validators:
            whole = {**schema, "components": self._document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return self._validators[key]


def _value(response: httpx.Response) -> Any:
    if not response.content:
        return None
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    return response.content


def closed(document: Document) -> Document:
    """The document with nothing allowed in answers that it does not name.

    Readers have to ignore members they do not know, so the document allows them; the walk does not.
    """
    strict = copy.deepcopy(document)
    schemas = strict["components"]["schemas"]
    parts = {name for schema in _within(strict, "allOf") for name in _referred(schema)}
    for name, schema in schemas.items():
        if "properties" in schema and name not in parts:
            schema.setdefault("additionalProperties", False)
    return strict


def _within(value: Any, key: str) -> Iterator[Any]:
    """Everything that stands under a key, wherever."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from _within(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _within(inner, key)


def _referred(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
