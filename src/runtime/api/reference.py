"""The API reference: serves the OpenAPI document, and an HTML page generated from it.

Both are made once, when the server starts, and are the same for everybody: nothing in them is a secret.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.shared.etags import seen
from runtime.contract.openapi import openapi

STYLE = "docs.css"
_MAX_AGE = "public, max-age=300"
_POLICY = f"{pages.HEADERS['Content-Security-Policy']}; form-action 'none'"
_PAGE_HEADERS = {**pages.HEADERS, "Content-Security-Policy": _POLICY}
del _PAGE_HEADERS["Pragma"]

_Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TypeWord:
    """A piece of what a type is called; `schema` when it names one that the page describes."""

    text: str
    schema: bool = False


TypeWords = tuple[TypeWord, ...]


@dataclass(frozen=True, slots=True)
class ReferenceMember:
    """A parameter of an operation, or a property of a schema."""

    name: str
    place: str
    type: TypeWords
    required: bool
    deprecated: bool
    about: str


@dataclass(frozen=True, slots=True)
class ReferenceContent:
    """A body or an answer: what it is called, its media type, what it holds, and how that looks."""

    status: str
    about: str
    media: str
    type: TypeWords
    example: str = ""


@dataclass(frozen=True, slots=True)
class ReferenceOperation:
    """One method of one path, without what most operations have. `callers`: who else may call it."""

    id: str
    method: str
    path: str
    summary: str
    callers: str
    parameters: tuple[ReferenceMember, ...]
    bodies: tuple[ReferenceContent, ...]
    answers: tuple[ReferenceContent, ...]


@dataclass(frozen=True, slots=True)
class ReferenceSchema:
    """A schema by name."""

    name: str
    about: str
    members: tuple[ReferenceMember, ...]


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the document and the page."""
    base = urlsplit(app.ctx.settings.public_url).path.rstrip("/")
    document, page = _document(), _page(base)

    @app.get("/openapi.json", name="reference_document")
    async def serve_document(request: Request) -> HTTPResponse:
        return _answer(request, document, {"X-Content-Type-Options": "nosniff"}, "application/json")

    @app.get("/docs", name="reference_page")
    async def serve_page(request: Request) -> HTTPResponse:
        return _answer(request, page, _PAGE_HEADERS, "text/html; charset=utf-8")

    @app.get(f"/docs/{STYLE}", name="reference_style")
    async def serve_style(request: Request) -> HTTPResponse:
        return pages.style_sheet(request.headers.get("if-none-match"), STYLE)


def _answer(
    request: Request, made: tuple[bytes, str], headers: Mapping[str, str], content_type: str
) -> HTTPResponse:
    body, tag = made
    headers = {**headers, "Cache-Control": _MAX_AGE, "ETag": tag}
    if seen(request.headers.get("if-none-match"), tag):
        return HTTPResponse(status=304, headers=headers)
    return HTTPResponse(body, headers=headers, content_type=content_type)


def _tagged(body: bytes) -> tuple[bytes, str]:
    return body, f'"{sha256(body).hexdigest()[:32]}"'


@cache
def _document() -> tuple[bytes, str]:
    return _tagged(orjson.dumps(openapi()))


@lru_cache(maxsize=8)
def _page(base: str) -> tuple[bytes, str]:
    document = orjson.loads(_document()[0])
    operations = [_operation(document, *one) for one in _operations(document)]
    usual = tuple(one for one in _in_most([each.parameters for each in operations]) if one.place == "header")
    refusals = _in_most([each.answers for each in operations])
    refusals = tuple(sorted(refusals, key=lambda refusal: refusal.status))
    groups = {
        tag["name"]: [
            _without(operation, usual, refusals)
            for operation in operations
            if operation.id.partition(".")[0] == tag["name"]
        ]
        for tag in document["tags"]
    }
    text = pages.render(
        "docs",
        style=STYLE,
        base=base,
        info=document["info"],
        security=document["components"]["securitySchemes"],
        groups=groups,
        usual=usual,
        refusals=refusals,
        schemas=[_described(name, found) for name, found in document["components"]["schemas"].items()],
    )
    return _tagged(text.encode())


def _operations(document: _Document) -> Iterable[tuple[str, str, _Document]]:
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            yield path, method.upper(), found


def _operation(document: _Document, path: str, method: str, found: _Document) -> ReferenceOperation:
    answers: list[ReferenceContent] = []
    for status, answer in found["responses"].items():
        told = _followed(document, answer)
        answers += _contents(told, status, told["description"]) or [
            ReferenceContent(status, told["description"], "", ())
        ]
    body = found.get("requestBody", {})
    return ReferenceOperation(
        id=found["operationId"],
        method=method,
        path=path,
        summary=found["summary"],
        callers=_callers(document, found),
        parameters=tuple(_parameter(parameter) for parameter in found["parameters"]),
        bodies=tuple(_contents(body, "", "required" if body.get("required") else "optional")),
        answers=tuple(answers),
    )


def _callers(document: _Document, found: _Document) -> str:
    """Who may call an operation that is not for every bearer."""
    if "security" not in found:
        return ""
    schemes = document["components"]["securitySchemes"]
    told = [schemes[name]["description"] for alternative in found["security"] for name in alternative]
    if {} in found["security"] or not told:
        told.append("Nothing has to be sent in the header.")
    return " ".join(told)


def _followed(document: _Document, found: _Document) -> _Document:
    """What a reference leads to."""
    if "$ref" in found:
        answer: _Document = document["components"]["responses"][found["$ref"].rpartition("/")[2]]
        return answer
    return found


def _contents(found: _Document, status: str, about: str) -> list[ReferenceContent]:
    return [
        ReferenceContent(status, about, media, words(content["schema"]), _example(status, content))
        for media, content in found.get("content", {}).items()
    ]


def _example(status: str, content: _Document) -> str:
    """The first example of a body or of a success; refusals all look alike."""
    if status >= "3":
        return ""
    value = next(iter(content["examples"].values()))["value"]
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _parameter(found: _Document) -> ReferenceMember:
    return ReferenceMember(
        name=found["name"],
        place=found["in"],
        type=words(found["schema"]),
        required=found["required"],
        deprecated=found.get("deprecated", False),
        about=found.get("description", ""),
    )


def _described(name: str, schema: _Document) -> ReferenceSchema:
    required = schema.get("required", ())
    members = tuple(
        ReferenceMember(member, "", words(found), member in required, False, found.get("description", ""))
        for member, found in schema.get("properties", {}).items()
    )
    return ReferenceSchema(name, schema.get("description", ""), members)


def _in_most(each: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """What more than half of the operations have, told once."""
    found = Counter(one for several in each for one in several)
    return tuple(one for one, times in found.items() if 2 * times > len(each))


def _without(
    operation: ReferenceOperation, usual: tuple[ReferenceMember, ...], refusals: tuple[ReferenceContent, ...]
) -> ReferenceOperation:
    return ReferenceOperation(
        id=operation.id,
        method=operation.method,
        path=operation.path,
        summary=operation.summary,
        callers=operation.callers,
        parameters=tuple(one for one in operation.parameters if one not in usual),
        bodies=operation.bodies,
        answers=tuple(one for one in operation.answers if one not in refusals),
    )


def words(schema: _Document) -> TypeWords:
    """What a type is called: `list of Zone`, `string or null`, `"asc" or "desc"`."""
    if "$ref" in schema:
        return (TypeWord(schema["$ref"].rpartition("/")[2], schema=True),)
    for joined, between in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " of ")):
        if joined in schema:
            return _between([words(inner) for inner in schema[joined]], between)
    if "enum" in schema:
        return _between([(TypeWord(f'"{value}"'),) for value in schema["enum"]], " or ")
    if "const" in schema:
        return (TypeWord(f'"{schema["const"]}"'),)
    types = schema.get("type", "any")
    if isinstance(types, list):
        return _between([words({**schema, "type": one}) for one in types], " or ")
    if types == "array":
        return (TypeWord("list of "), *words(schema.get("items", {})))
    items = schema.get("properties", {}).get("items", {}).get("items")
    if types == "object" and items is not None:  # what a page is a page of
        return words(items)
    return (TypeWord(f"{types} ({schema['format']})" if "format" in schema and types == "string" else types),)


def _between(found: list[TypeWords], between: str) -> TypeWords:
    joined: list[TypeWord] = []
    for each in found:
        joined += [TypeWord(between), *each] if joined else each
    return tuple(joined)
