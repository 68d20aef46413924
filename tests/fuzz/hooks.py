"""schemathesis hooks: the one check whose built-in form knows too little of this service."""

import re
from typing import Any

import schemathesis
from schemathesis import SerializationContext
from schemathesis.checks import CheckContext
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.openapi.checks import RejectedPositiveData
from schemathesis.specs.openapi.checks import positive_data_acceptance as built_in

from runtime.contract.bundles import MEDIA_TYPE

# Why a request is refused although each of its values is what its schema says. A schema cannot know what else
# there is, nor compare one parameter with another; the interface asks for 400 in all of these cases.
_BEYOND_SCHEMAS = (
    # an id in a body or a query that leads nowhere
    r"`.*` is no [\w, ]+ of this (?:zone|organization)",
    r"no \w+ with the id `.*` exists in the (?:zone|organization)",
    r"no application, resource, provider or user `.*` exists in the zone",
    r"there is no (?:user|application|resource) `.*` in the zone",
    r"`.*` may be `.*",
    r"`.*` is not a version of policy `.*`",
    r"unknown schema version `.*`; known: .*",
    r"unknown kind `.*`.*",
    # what an entity is already, or what a list has twice
    r"`data\.type` cannot change: it is `.*`",
    r"`manifest\..*` policy `.*` is in the manifest already",
    # a default that follows from another member
    r"`protocols\.oauth2\.issuer` must be an absolute URI",
    # which keys zones may have, the settings say
    r"(?:`encryption_key\.arn` )?is not a key that this service may use.*",
    # a part of a key, for a zone that has none of which it could be a part
    r"`encryption_key\.(?:arn|type)` is required(?: \(and 1 more\))?",
    # which addresses a pattern may stand for
    r"`protocols\.oauth2\.cimd\.allowed_client_ids.*",
    # a text in a language of its own
    r"line \d+, column \d+: .*",
    # a cursor that the service did not give out
    r"is not a cursor of this list",
    # a role that keys bound to an owner or to zones cannot have
    r"must not be `org_admin` for a key with `owner` or `zones`",
    # parameters that exclude or contradict one another, or that only mean something together
    r"cannot be combined with .*",
    r"conflicts with .*; send one of them",
    r"conflicts with .*",
    r"is the older name of .* and conflicts with it; send one of them",
    r"must be sent together with .*",
    r"is required with .*",
    r"must not repeat a member; `status` cannot be combined with others",
    r"`status` cannot be combined with `before` or `order=asc`",
    r"must be the `plan_digest` of the body",
    # what only this caller, or this address, can say
    r"must be the organization of the caller",
    r"must be the zone in the path",
    r"only platform roles on the organization's home zone can have a scope",
    # what this installation, or no mail server, can reach
    r"is not an address that mail can be sent to",
)
_MEANT = re.compile("|".join(_BEYOND_SCHEMAS), re.DOTALL)


@schemathesis.serializer(MEDIA_TYPE)
def send_bytes(_context: SerializationContext, value: Any) -> Any:
    """A body that is bytes, sent as it is."""
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.check
def valid_data_acceptance(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    """The built-in `positive_data_acceptance`, without the refusals that no schema can foresee."""
    try:
        return built_in(ctx, response, case)
    except RejectedPositiveData:
        if not _is_meant(response, case):
            raise
        return None


def _is_meant(response: Response, case: Case) -> bool:
    """Tell whether the refusal is about something beyond schemas."""
    told = response.json()
    if response.status_code == 412:  # what the request was based on is made up
        return "If-Match" in (case.headers or {}) or "base_revision" in (case.body or {})
    if response.status_code == 413:  # the address is longer than any server reads
        return len(str(response.request.url)) > 8000
    if told.get("code") == "bundle_invalid":  # bytes by lot are no archive
        return True
    details = told.get("details", ())
    return bool(details) and all(_is_beyond_schemas(detail) for detail in details)


def _is_beyond_schemas(detail: dict[str, str]) -> bool:
    message = detail["message"]
    return bool(_MEANT.fullmatch(message) or _MEANT.fullmatch(f"`{detail.get('field')}` {message}"))
