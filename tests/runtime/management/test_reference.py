"""The management API describes itself: the document, and the page made from it."""

import re
from pathlib import Path

import httpx
import orjson
import pytest
from tests.runtime.management.conftest import Api

from runtime.api.reference import words
from runtime.contract.routes import ROUTES

CHECKED_IN = Path(__file__).parents[3] / "schemas" / "openapi.json"


@pytest.fixture(scope="module")
def page(api: Api) -> httpx.Response:
    return httpx.get(f"{api.server.url}/docs", trust_env=False)


def test_the_document_is_the_checked_in_one(api: Api) -> None:
    """Anybody may read it: it is what `schemas/openapi.json` says."""
    found = httpx.get(f"{api.server.url}/openapi.json", trust_env=False)

    assert found.status_code == 200
    assert found.headers["content-type"] == "application/json"
    assert orjson.loads(found.content) == orjson.loads(CHECKED_IN.read_bytes())


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/docs/docs.css"])
def test_is_kept_until_it_changes(api: Api, path: str) -> None:
    """Caches may keep each of them, and ask by its tag whether it is still the same."""
    first = api("GET", path)
    tag = first.headers["etag"]

    assert first.status_code == 200
    assert first.headers["cache-control"].startswith("public, max-age=")
    assert api("GET", path).content == first.content
    again = api("GET", path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert api("GET", path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_page_has_every_operation(page: httpx.Response) -> None:
    """Each operation stands under its own anchor with its method, path and summary."""
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    missing = []
    for route in ROUTES:
        _, _, told = page.text.partition(f'id="{route.operation_id}"')
        told = told.partition("</details>")[0]
        shown = [f">{each}</code>" for each in (route.method, route.path, route.status)]
        shown += [f"<code>{parameter.name}</code>" for parameter in route.query]
        missing += [(route.operation_id, each) for each in shown if each not in told]

    assert not missing


def test_what_most_operations_have_is_told_once(page: httpx.Response) -> None:
    """The usual header and refusals stand at the top, and only what differs with an operation."""
    _, _, told = page.text.partition('id="everywhere"')
    told, _, rest = told.partition("</section>")
    assert "<code>X-Client-Request-ID</code>" in told
    assert not [
        status
        for status in ("400", "401", "403", "404", "413", "429", "500", "503")
        if f">{status}</code>" not in told
    ]
    zones = rest.partition('id="zones.list"')[2].partition("</details>")[0]
    assert ">503</code>" not in zones


def test_the_page_shows_examples(page: httpx.Response) -> None:
    """A body and an answer as they look."""
    told = page.text.partition('id="zones.create"')[2].partition("</details>")[0]
    assert told.count("<pre") == 2
    assert "Acme product" in told


def test_the_page_needs_nobody_else(page: httpx.Response) -> None:
    """No script, no style of its own, no outside address; the policy of the page would refuse them too."""
    policy = page.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "style-src 'self'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", page.text)
    addresses = re.findall(r'(?:href|src)="([^"]*)"', page.text)
    assert not [each for each in addresses if not each.startswith(("#", "/docs", "/openapi.json"))]


def test_every_link_of_the_page_leads_somewhere(page: httpx.Response) -> None:
    """A schema or a group that is named is on the page, once."""
    ids = re.findall(r'id="([^"]*)"', page.text)

    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', page.text)) <= set(ids)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({}, "any"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "uri"}, "string (uri)"),
        ({"type": ["string", "null"], "format": "uri"}, "string (uri) or null"),
        ({"type": "string", "enum": ["asc", "desc"]}, '"asc" or "desc"'),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Zone"}}, "list of Zone"),
        ({"anyOf": [{"$ref": "#/components/schemas/Zone"}, {"type": "null"}]}, "Zone or null"),
        ({"const": "entity", "type": "string"}, '"entity"'),
    ],
)
def test_types_in_words(schema: dict[str, object], told: str) -> None:
    """A type is called what a reader would call it."""
    assert "".join(word.text for word in words(schema)) == told
