"""An MCP client of another make, with a person and a browser: it finds the zone, and its way in, by itself.

    python examples/mcp_client.py CONFIG SERVER TOOL [ARGUMENTS] --as EMAIL --password-stdin [--tokens FILE]

CONFIG is what MCP clients have: `{"mcpServers": {"notes": {"url": "http://..."}}}`. Prints what the tool
says, and on standard error what the client did on the way. The public MCP library does all of it; only the
browser is ours.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from acme import Browser, Page, Unexpected
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

CALLBACK = "http://localhost:8710/callback"


@dataclass
class Kept:
    """What the client remembers between runs: its registration and its tokens, in a file if there is one."""

    file: Path | None = None
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            kept = json.loads(self.file.read_text("utf-8"))
            self.tokens = OAuthToken.model_validate(kept["tokens"])
            self.client = OAuthClientInformationFull.model_validate(kept["client"])

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self._write()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info
        self._write()

    def _write(self) -> None:
        if self.file is not None and self.tokens is not None and self.client is not None:
            kept = {name: getattr(self, name).model_dump(mode="json") for name in ("tokens", "client")}
            self.file.write_text(json.dumps(kept), "utf-8")


@dataclass
class Person:
    """Who uses the client: signs in where the browser is sent, and agrees to what it is asked."""

    email: str
    password: str
    browser: Browser = field(default_factory=Browser)
    asked: list[str] = field(default_factory=list)
    answer: str = ""

    async def go(self, address: str) -> None:
        """Open the address the client names, and do what is asked until the browser comes back."""
        self.answer = await asyncio.to_thread(self._go, address)

    async def came_back(self) -> AuthorizationCodeResult:
        """What the browser brings back."""
        back = {name: values[0] for name, values in parse_qs(urlsplit(self.answer).query).items()}
        if "code" not in back:
            raise Unexpected(f"the zone answered {back}")
        return AuthorizationCodeResult(code=back["code"], state=back.get("state"), iss=back.get("iss"))

    def _go(self, address: str) -> str:
        place = self.browser.open(address, until=CALLBACK)
        for _ in range(10):
            if isinstance(place, str):
                return place
            place = self._act(place)
        raise Unexpected("the sign-in does not end")

    def _act(self, page: Page) -> Page | str:
        self.asked.append(urlsplit(page.url).path.rpartition("/")[2])
        if "password" in page.forms[0]["fields"]:
            credentials = {"email": self.email, "password": self.password}
            return self.browser.submit(page, credentials, until=CALLBACK)
        return self.browser.submit(page, {}, button="allow", until=CALLBACK)


def provider(
    url: str, person: Person, kept: Kept, *, client_metadata_url: str | None = None
) -> OAuthClientProvider:
    """The library's own way through authorization; it is told nothing about the zone."""
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(client_name="Example MCP client", redirect_uris=[CALLBACK]),  # type: ignore[list-item]
        kept,
        redirect_handler=person.go,
        callback_handler=person.came_back,
        client_metadata_url=client_metadata_url,
    )


async def call(url: str, auth: OAuthClientProvider, tool: str, arguments: dict[str, Any]) -> str:
    """What a tool of the server at that address says."""
    async with (
        httpx2.AsyncClient(auth=auth, trust_env=False, timeout=30) as http,
        streamable_http_client(url, http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        said = await session.call_tool(tool, arguments)
        return "\n".join(each.text for each in said.content if each.type == "text")


def main() -> int:
    """Call one tool."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path)
    arguments.add_argument("server")
    arguments.add_argument("tool")
    arguments.add_argument("arguments", nargs="?", default="{}")
    arguments.add_argument("--as", dest="email", required=True)
    arguments.add_argument("--password-stdin", action="store_true", required=True)
    arguments.add_argument("--tokens", type=Path)
    chosen = arguments.parse_args()
    url = json.loads(chosen.config.read_text("utf-8"))["mcpServers"][chosen.server]["url"]
    person, kept = Person(chosen.email, sys.stdin.readline().strip()), Kept(chosen.tokens)
    auth = provider(url, person, kept)
    try:
        print(asyncio.run(call(url, auth, chosen.tool, json.loads(chosen.arguments))))
    finally:
        person.browser.close()
    told = kept.client.client_id if kept.client else None
    print(f"client id {told}; pages shown: {', '.join(person.asked) or 'none'}", file=sys.stderr)
    print(f"scope of the token: {kept.tokens.scope if kept.tokens else None}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
