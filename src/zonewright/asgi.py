"""Protects an ASGI application (Starlette, FastAPI, FastMCP): metadata, tokens, challenges.

    verifier = Verifier("https://zone.example", "https://api.example/notes", scopes=["notes.read"])
    app = ProtectedResource(app, verifier)

Every request then has a verified token, which `access_token(scope)` gives; in Starlette and FastAPI it is
`request.state.access_token`. A handler that needs more calls `token.require("notes.write")`: what that raises
is answered by this middleware, or, where the framework has error handlers of its own, by
`app.add_exception_handler(RequestRefused, protected.on_refusal)`.
"""

import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import quote

from zonewright.access_token import AccessToken
from zonewright.errors import RequestRefused, ZoneUnreachable
from zonewright.verifier import Verifier

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_STATE = "access_token"
_Refusal = tuple[int, dict[str, str]]  # status and headers


class ProtectedResource:
    """The application, behind a verifier.

    Args:
        public: paths that need no token, a health check for one.
    """

    def __init__(self, app: App, verifier: Verifier, *, public: Collection[str] = ()) -> None:
        self._app, self._verifier, self._public = app, verifier, frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == self._verifier.metadata_path:
            await self._send_metadata(scope, send)
        elif scope["path"] in self._public or _is_preflight(scope):
            await self._app(scope, receive, send)
        else:
            await self._authenticated(scope, receive, send)

    async def _authenticated(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
            token = await self._token_of(scope)
            token.require(*self._verifier.scopes)
            scope.setdefault("state", {})[_STATE] = token
            await self._app(scope, receive, send)

        await _run(with_token, scope, receive, send, self._refusal)

    def _refusal(self, failure: Exception) -> _Refusal | None:
        if isinstance(failure, RequestRefused):
            return failure.status, {"www-authenticate": self._verifier.challenge(failure)}
        return _unavailable(failure)

    async def _token_of(self, scope: Scope) -> AccessToken:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        return await self._verifier.authenticate(
            given,
            method=scope.get("method", "GET"),
            url=self._verifier.origin + _path_of(scope),
            proofs=[value.decode("latin-1") for name, value in scope["headers"] if name == b"dpop"],
        )

    async def _send_metadata(self, scope: Scope, send: Send) -> None:
        headers = {"content-type": "application/json", "access-control-allow-origin": "*"}
        if scope["method"] not in ("GET", "HEAD"):
            await _respond(send, 405, {"allow": "GET, HEAD"}, b"")
            return
        body = json.dumps(dict(self._verifier.metadata)).encode()
        await _respond(send, 200, headers | {"cache-control": "max-age=300"}, body, scope["method"] == "HEAD")

    def on_refusal(self, _request: object, refused: RequestRefused) -> App:
        """An error handler of Starlette and FastAPI for RequestRefused: the answer as an ASGI application."""

        async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
            headers = {"www-authenticate": self._verifier.challenge(refused), "cache-control": "no-store"}
            await _respond(send, refused.status, headers, b"")

        return answer


def _path_of(scope: Scope) -> str:
    """The path of a request as it was sent, with its escapes; servers may leave it out. Spec: ASGI, HTTP."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"]) if raw is None else raw.partition(b"?")[0].decode("latin-1")


class RetryLater:
    """The application, whose requests are answered 503 with `Retry-After` where it raises ZoneUnreachable.

    For applications that verify tokens by themselves, MCP servers with `McpTokens` for one: frameworks answer
    500 to what they do not know. `ProtectedResource` does the same.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            await _run(self._app, scope, receive, send, _unavailable)
        else:
            await self._app(scope, receive, send)


class _HeldError:
    """Sends an answer, but holds a 500 back: frameworks send one first, and raise its cause afterwards."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held: list[Message] = []
        self.begun = False

    async def __call__(self, message: Message) -> None:
        is_error = message["type"] == "http.response.start" and message["status"] == 500
        if is_error or len(self._held) == 1:  # an answer has one start and, as a rule, one body
            self._held.append(message)
            return
        await self.release()
        self.begun = True
        await self._send(message)

    async def release(self) -> None:
        """Send what was held back."""
        while self._held:
            self.begun = True
            await self._send(self._held.pop(0))


async def _run(
    app: App, scope: Scope, receive: Receive, send: Send, refusal: Callable[[Exception], _Refusal | None]
) -> None:
    """Run the application. What it raises is answered, if there is a refusal for it and no answer yet."""
    sending = _HeldError(send)
    try:
        await app(scope, receive, sending)
    except Exception as failure:
        refused = None if sending.begun else refusal(failure)
        if refused is None:
            await sending.release()
            raise
        await _refuse(scope, send, *refused)
        return
    await sending.release()


def _unavailable(failure: Exception) -> _Refusal | None:
    if not isinstance(failure, ZoneUnreachable):
        return None
    return failure.status, {"retry-after": str(failure.retry_after_seconds or 5)}


async def _refuse(scope: Scope, send: Send, status: int, headers: dict[str, str]) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await _respond(send, status, headers | {"cache-control": "no-store"}, b"")


def access_token(scope: Scope) -> AccessToken:
    """The verified token of a request. Raises KeyError on a path that needs none."""
    token: AccessToken = scope["state"][_STATE]
    return token


def _is_preflight(scope: Scope) -> bool:
    """Tell whether browsers ask with that for permission: it never has a token. Spec: Fetch 3.2.2."""
    names = {name for name, _ in scope["headers"]}
    return scope.get("method") == "OPTIONS" and b"access-control-request-method" in names


async def _respond(
    send: Send, status: int, headers: dict[str, str], body: bytes, is_head: bool = False
) -> None:
    fields = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    fields.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": b"" if is_head else body})
