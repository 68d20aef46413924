"""Invitations as they are read, accepted and left to expire."""

import re
from datetime import timedelta

import httpx
from sqlalchemy import text
from tests.runtime.management.conftest import Api
from tests.support.mail import delivered

from runtime.domain.identifiers import new_id
from runtime.services.container import Services


def address(stem: str = "ada") -> str:
    return f"{stem}-{new_id()[:8]}@acme.example"


def path(api: Api, rest: str = "") -> str:
    return f"/organizations/{api.organization_id}/invitations{rest}"


def token_of(api: Api, email: str) -> str:
    """The token in the mail to that address."""
    sent = delivered(api.server, email).get_content()
    tokens = set(re.findall(r"(?:invitation=|/invitations/)([A-Za-z0-9_-]{43})", sent))
    assert len(tokens) == 1
    return tokens.pop()


def stranger(api: Api, method: str, rest: str, **headers: str) -> httpx.Response:
    """A request of somebody who has no credential."""
    return httpx.request(method, f"{api.server.url}/invitations{rest}", headers=headers, timeout=30)


def accept(api: Api, token: str, **headers: str) -> httpx.Response:
    return stranger(api, "POST", f"/{token}/accept", **headers)


def expire(api: Api, invitation_id: str) -> None:
    """Let the time of an invitation have run out."""

    async def work(services: Services) -> None:
        async with services.database.transaction() as conn:
            past = services.clock() - timedelta(seconds=1)
            await conn.execute(
                text("UPDATE invitations SET expires_at = :past WHERE id = :id"),
                {
                    "past": past.isoformat(timespec="microseconds")
                    if services.database.dialect == "sqlite"
                    else past,
                    "id": invitation_id,
                },
            )

    api.server.call(work)
