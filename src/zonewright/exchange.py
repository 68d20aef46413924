"""The client half: exchanges the token of a request for a token of the next resource. Spec: RFC 8693."""

import asyncio
import base64
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from time import time
from typing import Any, NamedTuple

import httpx

from zonewright.errors import ExchangeRefused, UserAuthorizationRequired, ZoneUnreachable
from zonewright.fetching import new_client
from zonewright.metadata import ZoneMetadata

_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MAX_CACHED = 10_000
_EXPIRES_EARLY_SECONDS = 30  # a token that is given out lasts at least for the request it is for
_MAX_RETRY_AFTER_SECONDS = 3_600
_MAX_REQUEST_ID_CHARS = 200
_MAX_TOKEN_CHARS = 16_384  # longer ones are no tokens of a zone
_REQUEST_ID = "X-Request-ID"


@dataclass(frozen=True, slots=True)
class ExchangedToken:
    """A token for a resource.

    Attributes:
        token_type: `Bearer` or `DPoP` (RFC 6749 section 7.1); `Bearer` also of a stored key and of another
            provider's token.
        expires_at: seconds since the epoch.
    """

    access_token: str = field(repr=False)
    token_type: str
    scopes: frozenset[str]
    expires_at: float


class _Asked(NamedTuple):
    """What an exchange is about: equal ones have one answer."""

    subject: bytes
    resource: str
    scope: str | None


class ExchangeClient:
    """An application of a zone that exchanges tokens.

    Args:
        client_secret: of a `password` credential; or
        client_assertion: makes a signed assertion for each request (`private_key_jwt`, a workload's token).
        http: a client to use; left out, one is made, and closed by `aclose`.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        *,
        client_secret: str | None = None,
        client_assertion: Callable[[], str] | None = None,
        http: httpx.AsyncClient | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        if (client_secret is None) == (client_assertion is None):
            raise ValueError("give either `client_secret` or `client_assertion`")
        self._client_id, self._secret, self._assertion = client_id, client_secret, client_assertion
        self._own_http = http is None
        self._http = http or new_client()
        self._metadata = ZoneMetadata(self._http, issuer)
        self._clock = clock
        self._cached: OrderedDict[_Asked, ExchangedToken] = OrderedDict()
        self._running: dict[_Asked, asyncio.Task[ExchangedToken]] = {}

    async def exchange(
        self, subject_token: str, resource: str, *, scopes: Iterable[str] | None = None
    ) -> ExchangedToken:
        """A token for *resource*, on behalf of *subject_token*'s subject.

        A token that the zone has issued is cached until it is about to expire: whoever it is for sees in the
        zone's revocation list when it is worth nothing any more. Nobody sees that of a key from the vault or
        an account at an outside provider, so the zone is asked for it every time.
        Concurrent calls for the same token cause one request.

        Args:
            scopes: what the token has to allow at most; None for all that user, resource and policies allow.
        Raises: UserAuthorizationRequired, with the link for the user; ExchangeRefused; ZoneUnreachable.
        """
        wanted = None if scopes is None else " ".join(sorted(set(scopes)))
        asked = _Asked(_digest(subject_token), resource, wanted)
        if (cached := self._cached.get(asked)) is not None:
            if cached.expires_at - _EXPIRES_EARLY_SECONDS > self._clock():
                return cached
            del self._cached[asked]
        if (running := self._running.get(asked)) is None:
            running = asyncio.create_task(self._exchange(subject_token, resource, wanted))
            self._running[asked] = running
            running.add_done_callback(lambda done: self._finish(asked, done))
        return await asyncio.shield(running)

    def forget(self, subject_token: str | None = None, resource: str | None = None) -> None:
        """Exchange anew from now on, also where an exchange is under way: after a resource has answered 401.

        Args:
            subject_token: only what this token was exchanged for; None for every token's.
            resource: only tokens for this resource; None for every resource's.
        """
        subject = None if subject_token is None else _digest(subject_token)
        for asked in [*self._cached, *self._running]:
            if subject in (None, asked.subject) and resource in (None, asked.resource):
                self._cached.pop(asked, None)
                self._running.pop(asked, None)

    def _finish(self, asked: _Asked, done: asyncio.Task[ExchangedToken]) -> None:
        """Cache the answer where it may be, unless it was forgotten on its way."""
        if self._running.get(asked) is not done:
            return
        del self._running[asked]
        if done.cancelled() or done.exception() is not None:
            return
        token = done.result()
        if not _is_issued_by(token.access_token, self._metadata.issuer, self._client_id):
            return
        while len(self._cached) >= _MAX_CACHED:
            self._cached.popitem(last=False)
        self._cached[asked] = token

    async def _exchange(self, subject: str, resource: str, scope: str | None) -> ExchangedToken:
        form = {
            "grant_type": _GRANT_TYPE,
            "subject_token": subject,
            "subject_token_type": _ACCESS_TOKEN,
            "resource": resource,
        }
        answer = await self._post(form | ({"scope": scope} if scope is not None else {}))
        return ExchangedToken(
            access_token=str(answer["access_token"]),
            token_type=str(answer["token_type"]),
            scopes=frozenset(str(answer.get("scope", "")).split()),
            expires_at=self._clock() + float(answer.get("expires_in", 0)),
        )

    async def _post(self, form: dict[str, str]) -> dict[str, Any]:
        endpoint = await self._metadata.endpoint("token_endpoint")
        form["client_id"] = self._client_id
        if self._secret is not None:
            form["client_secret"] = self._secret
        elif self._assertion is not None:
            form |= {"client_assertion_type": _JWT_BEARER, "client_assertion": self._assertion()}
        try:
            answer = await self._http.post(endpoint, data=form, follow_redirects=False)
            body = answer.json()
        except (httpx.HTTPError, ValueError, RecursionError) as failure:
            raise ZoneUnreachable(f"{endpoint} does not respond: {type(failure).__name__}") from failure
        if (
            answer.status_code == 200
            and isinstance(body, dict)
            and {"access_token", "token_type"} <= body.keys()
        ):
            return body
        raise _refusal(answer, body if isinstance(body, dict) else {})

    async def aclose(self) -> None:
        """Let go of connections."""
        for running in list(self._running.values()):
            running.cancel()
        if self._own_http:
            await self._http.aclose()


def _refusal(answer: httpx.Response, body: dict[str, Any]) -> ExchangeRefused | ZoneUnreachable:
    error, description = str(body.get("error", "")), str(body.get("error_description", ""))
    if answer.status_code in (429, 503) or answer.status_code >= 500 or not error:
        given = answer.headers.get("retry-after", "")
        is_number = given.isascii() and given.isdigit()
        # Nine digits tell enough: Python reads no number of thousands of them.
        seconds = min(int(given[:9]), _MAX_RETRY_AFTER_SECONDS) if is_number else None
        return ZoneUnreachable(
            f"the token endpoint answers {answer.status_code}", retry_after_seconds=seconds
        )
    reason = str(body["reason"]) if "reason" in body else None
    request_id = answer.headers.get(_REQUEST_ID, "")[:_MAX_REQUEST_ID_CHARS] or None
    if reason == "user_authorization_required" and isinstance(body.get("error_uri"), str):
        return UserAuthorizationRequired(description, body["error_uri"], error=error, request_id=request_id)
    return ExchangeRefused(error, description, reason=reason, request_id=request_id)


def _is_issued_by(token: str, issuer: str, client_id: str) -> bool:
    """Tell whether a token is an access token that the zone has issued to this client. Spec: RFC 9068.

    Nothing of it is verified: it came from the zone. Anything else, a stored key or a provider's token, is
    only passed on by the zone, which calls both kinds access tokens in `issued_token_type`.
    """
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _MAX_TOKEN_CHARS:
        return False
    header, claims = _json_object(parts[0]), _json_object(parts[1])
    return header.get("typ") == "at+jwt" and (claims.get("iss"), claims.get("client_id")) == (
        issuer,
        client_id,
    )


def _json_object(encoded: str) -> dict[str, Any]:
    """A part of a JWT; empty for anything else. Spec: RFC 7515 section 2."""
    try:
        value = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
