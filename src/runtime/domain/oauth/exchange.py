"""Token exchange parameters (RFC 8693): parses the form, checks `may_act`.

Spec: RFC 8693; zone interface, section 6.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from runtime.domain.errors import InvalidGrant, InvalidRequest
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.forms import decode_value
from runtime.domain.oauth.resources import at_most_one

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
REFRESH_TOKEN = "urn:ietf:params:oauth:token-type:refresh_token"

# One text for every cause, so that nobody can probe which it was.
SUBJECT_REFUSED = "the subject token is not valid here"
ACTOR_REFUSED = "the actor token is not valid here"
TARGET_REFUSED = "no token is issued to this application for that resource"

# Parameters that restrict a token in ways this service does not know: refused, never ignored.
_RESTRICTIONS = frozenset({"authorization_details", "claims", "req_cnf", "dpop_jkt"})
_MAY_ACT_MEMBERS = frozenset({"sub", "iss", "client_id"})


class ExchangeRequest(NamedTuple):
    """A well-formed exchange request.

    Attributes:
        resource: what the request calls the target; which resource that is, the zone says.
        audiences: further names that must mean the same target.
        scopes: None when the request names none.
    """

    subject_token: str
    resource: str
    audiences: tuple[str, ...]
    scopes: frozenset[str] | None
    actor_token: str | None


def read_request(
    form: Mapping[str, str], resources: tuple[str, ...], audiences: tuple[str, ...]
) -> ExchangeRequest:
    """The request in a form.

    Raises: InvalidRequest, InvalidScope; InvalidTarget for more than one resource.
    """
    if not _RESTRICTIONS.isdisjoint(form):
        raise InvalidRequest(
            "`authorization_details`, `claims`, `req_cnf` and `dpop_jkt` are not supported in token exchange"
        )
    subject_token = form.get("subject_token")
    if subject_token is None:
        raise InvalidRequest("`subject_token` is required")
    if form.get("subject_token_type") != ACCESS_TOKEN:
        raise InvalidRequest(f"`subject_token_type` must be `{ACCESS_TOKEN}`")
    requested_type = form.get("requested_token_type", ACCESS_TOKEN)
    if requested_type == REFRESH_TOKEN:
        raise InvalidRequest("a token exchange issues no refresh tokens; request an access token")
    if requested_type != ACCESS_TOKEN:
        raise InvalidRequest(f"`requested_token_type` must be `{ACCESS_TOKEN}`")
    actor_token = form.get("actor_token")
    if (actor_token is None) != ("actor_token_type" not in form):
        raise InvalidRequest("send both `actor_token` and `actor_token_type`, or neither")
    if actor_token is not None and form["actor_token_type"] != ACCESS_TOKEN:
        raise InvalidRequest(f"`actor_token_type` must be `{ACCESS_TOKEN}`")
    resource = at_most_one(resources)
    if resource is None and audiences:
        raise InvalidRequest("name the target in `resource`; `audience` may only repeat it")
    if resource is None:
        raise InvalidRequest("`resource` is required")
    scope = form.get("scope")
    return ExchangeRequest(
        subject_token=subject_token,
        resource=resource,
        audiences=audiences,
        scopes=None if scope is None else scope_strings.parse(scope),
        actor_token=actor_token,
    )


def read_scope(encoded: bytes | None) -> frozenset[str] | None:
    """The scopes of a request, from that parameter as it stands in a form; None when the request names none.

    Raises: InvalidRequest, InvalidScope.
    """
    return scope_strings.parse(decode_value(encoded)) if encoded else None  # sent empty is not sent


def check_may_act(may_act: Any, *, actor: str, client_id: str, issuer: str) -> None:
    """Check the actor against the subject token's `may_act`, which binds with or without an actor token.

    Raises: InvalidGrant when it names another actor, or in a way that is not understood here.
    """
    if may_act is None:
        return
    expected = {"sub": actor, "client_id": client_id, "iss": issuer}
    understood = isinstance(may_act, Mapping) and "sub" in may_act and may_act.keys() <= _MAY_ACT_MEMBERS
    if not understood or any(expected[name] != value for name, value in may_act.items()):
        raise InvalidGrant(SUBJECT_REFUSED, internal="may_act names another actor")
