"""An API in Sanic that accepts access tokens of a zone.

    python examples/verify_sanic.py RESOURCE ISSUER PORT

RESOURCE is the identifier that the API is registered with, `https://api.acme.example/notes` for one; behind a
proxy it is not the address that the API listens on.
"""

import sys
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.response import json

from zonewright import AccessToken, Verifier
from zonewright.sanic import protect

app: Sanic[Any, Any] = Sanic("notes")


@app.get("/notes")
async def read(request: Request) -> HTTPResponse:
    """Who asks, and through whom: the verifier has required `notes.read` already."""
    return json(shown(request.ctx.access_token))


@app.post("/notes")
async def write(request: Request) -> HTTPResponse:
    """What needs one more scope."""
    request.ctx.access_token.require("notes.write")
    return json(shown(request.ctx.access_token), status=201)


def shown(token: AccessToken) -> dict[str, object]:
    """The subject of a token, and who acts for it, the caller first."""
    return {"subject": token.subject, "actors": [actor.subject for actor in token.actors]}


def main() -> None:
    """Serve until the process is ended."""
    resource, issuer, port = sys.argv[1:]
    protect(app, Verifier(issuer, resource, scopes=["notes.read"], scopes_supported=["notes.write"]))
    app.run(host="127.0.0.1", port=int(port), single_process=True, access_log=False, motd=False)


if __name__ == "__main__":
    main()
