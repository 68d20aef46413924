"""An API in Flask that accepts access tokens of a zone.

    python examples/verify_flask.py RESOURCE ISSUER PORT

RESOURCE is the identifier that the API is registered with, `https://api.acme.example/notes` for one; behind a
proxy it is not the address that the API listens on. The verifier is asynchronous and keeps connections, keys
and revocations: one event loop in a thread of its own serves the threads of Flask. Django takes the same.
"""

import asyncio
import sys
import threading
from typing import Any

from flask import Flask, Response, g, jsonify, request

from zonewright import AccessToken, RequestRefused, Verifier, ZoneUnreachable


def api(verifier: Verifier) -> Flask:
    """The application behind that verifier."""
    app = Flask(__name__)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    @app.before_request
    def authenticate() -> Any:
        if request.path == verifier.metadata_path:  # which clients read before they have a token
            return jsonify(dict(verifier.metadata))
        asked = verifier.authenticate(
            request.headers.get("Authorization"),
            method=request.method,
            url=f"{verifier.origin}{request.path}",  # never by the Host header: a client chooses that
            proofs=request.headers.getlist("DPoP"),
        )
        g.token = asyncio.run_coroutine_threadsafe(asked, loop).result(timeout=30)
        g.token.require(*verifier.scopes)
        return None

    @app.errorhandler(RequestRefused)
    def refused(failure: RequestRefused) -> Response:
        return Response(status=failure.status, headers={"WWW-Authenticate": verifier.challenge(failure)})

    @app.errorhandler(ZoneUnreachable)
    def unreachable(failure: ZoneUnreachable) -> Response:
        return Response(status=503, headers={"Retry-After": str(failure.retry_after_seconds or 5)})

    @app.get("/notes")
    def read() -> Response:
        """Who asks, and through whom."""
        return jsonify(shown(g.token))

    @app.post("/notes")
    def write() -> tuple[Response, int]:
        """What needs one more scope."""
        g.token.require("notes.write")
        return jsonify(shown(g.token)), 201

    return app


def shown(token: AccessToken) -> dict[str, object]:
    """The subject of a token, and who acts for it, the caller first."""
    return {"subject": token.subject, "actors": [actor.subject for actor in token.actors]}


def main() -> None:
    """Serve until the process is ended."""
    resource, issuer, port = sys.argv[1:]
    verifier = Verifier(issuer, resource, scopes=["notes.read"], scopes_supported=["notes.write"])
    api(verifier).run("127.0.0.1", int(port))


if __name__ == "__main__":
    main()
