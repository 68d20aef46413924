"""The library in a server on the public MCP library."""

from tests.zonewright.conftest import CALENDAR, TOOLS, Site

from zonewright import UserAuthorizationRequired, Verifier
from zonewright.mcp import McpTokens, connect_required


async def test_a_token_becomes_the_mcp_librarys_own(site: Site, verifier: Verifier) -> None:
    """With client, scopes, resource and subject."""
    found = await McpTokens(verifier).verify_token(site.token())
    assert found is not None
    assert (found.client_id, found.scopes, found.resource, found.subject) == (
        site.agent.client_id,
        ["notes.read", "notes.write"],
        TOOLS,
        "ada@acme.test",
    )


async def test_a_token_that_is_refused_is_none(site: Site, verifier: Verifier) -> None:
    """The library answers 401 then."""
    assert await McpTokens(verifier).verify_token(site.token())
    assert await McpTokens(verifier).verify_token(site.token(audience=CALENDAR)) is None


def test_a_connect_link_reaches_the_client() -> None:
    """As the error by which MCP clients show their user a link."""
    error = connect_required(
        UserAuthorizationRequired("connect your calendar", "https://zone.test/connect/1")
    )
    (asked,) = error.elicitations
    assert (error.code, asked.url, asked.message) == (
        -32042,
        "https://zone.test/connect/1",
        "connect your calendar",
    )
