"""An API in Starlette that accepts access tokens of a zone.

    python examples/verify_starlette.py RESOURCE ISSUER PORT

RESOURCE is the identifier that the API is registered with, `https://api.acme.example/notes` for one; behind a
proxy it is not the address that the API listens on. FastAPI takes the same middleware.
"""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from zonewright import AccessToken, RequestRefused, Verifier
from zonewright.asgi import ProtectedResource


async def read(request: Request) -> JSONResponse:
    """Who asks, and through whom: the verifier has required `notes.read` already."""
    return JSONResponse(shown(request.state.access_token))


async def write(request: Request) -> JSONResponse:
    """What needs one more scope."""
    request.state.access_token.require("notes.write")
    return JSONResponse(shown(request.state.access_token), status_code=201)


def shown(token: AccessToken) -> dict[str, object]:
    """The subject of a token, and who acts for it, the caller first."""
    return {"subject": token.subject, "actors": [actor.subject for actor in token.actors]}


def main() -> None:
    """Serve until the process is ended."""
    resource, issuer, port = sys.argv[1:]
    app = Starlette(routes=[Route("/notes", read), Route("/notes", write, methods=["POST"])])
    verifier = Verifier(issuer, resource, scopes=["notes.read"], scopes_supported=["notes.write"])
    protected = ProtectedResource(app, verifier)
    app.add_exception_handler(RequestRefused, protected.on_refusal)
    uvicorn.run(protected, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
