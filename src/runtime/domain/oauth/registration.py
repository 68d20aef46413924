"""Client metadata (RFC 7591): strict parsing; members that are not supported are dropped.

Members that are unknown here, or that only an administrator decides, are not part of what is kept: a client
cannot set its consent, its owner, its traits or how far it is trusted.

Spec: RFC 7591 section 2; zone interface, sections 3 and 4.
"""

import json
import unicodedata
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from runtime.domain.errors import (
    InvalidClientMetadata,
    InvalidRedirectUri,
    InvalidScope,
    InvalidSoftwareStatement,
)
from runtime.domain.kinds.user_agent import ClientMetadata
from runtime.domain.kinds.values import ApplicationType
from runtime.domain.oauth import logout, redirect_uris
from runtime.domain.oauth import scopes as scope_strings

MAX_REDIRECT_URIS = 20
MAX_NAME_CHARS = 100
MAX_TEXT_CHARS = 2048
MAX_CONTACTS = 10
MAX_SHOWN_CHARS = 200  # of a URI that a refusal repeats
ID_TOKEN_ALGORITHMS = ("RS256", "ES256")
GRANT_TYPES = ("authorization_code", "refresh_token")
_ADDRESSES = ("client_uri", "logo_uri", "policy_uri", "tos_uri")
_TEXTS = ("software_id", "software_version")
# Letters that nobody sees, and that turn the direction of those around them: a name made of them is a lie.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def read(document: Mapping[str, Any], *, on_loopback: bool = False) -> ClientMetadata:
    """The metadata of a public client that a registration request asks for, as it will be kept.

    Grant and response types that such clients may not have are left out; every client is a public one,
    whatever way to authenticate it asks for.

    Args:
        on_loopback: for development: logout tokens may go to plain HTTP on the server's own machine.
    Raises: InvalidRedirectUri, InvalidClientMetadata, InvalidSoftwareStatement.
    """
    if document.get("software_statement") is not None:
        raise InvalidSoftwareStatement("`software_statement` is not supported")
    addresses = {name: _address(document, name) for name in _ADDRESSES}
    texts = {name: _text(document, name) for name in _TEXTS}
    uris = _redirect_uris(document)
    application_type = _application_type(document, uris)
    return ClientMetadata(
        redirect_uris=uris,
        client_name=_name(document),
        application_type=application_type,
        grant_types=_some_of(document, "grant_types", GRANT_TYPES),
        response_types=_some_of(document, "response_types", ("code",)),
        id_token_signed_response_alg=_id_token_algorithm(document),
        scope=_scope(document),
        contacts=_contacts(document),
        post_logout_redirect_uris=_post_logout_redirect_uris(document, application_type),
        backchannel_logout_uri=_backchannel_logout_uri(document, on_loopback=on_loopback),
        backchannel_logout_session_required=_truth(document, "backchannel_logout_session_required"),
        **addresses,
        **texts,
    )


def dynamic_client_id(metadata: ClientMetadata) -> str:
    """The client id of whoever registers that metadata: the same for the same, so nothing is kept twice."""
    kept = metadata.model_dump(mode="json", exclude_none=True)
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"ua:{sha256(text.encode()).hexdigest()}"


def display_name(metadata: ClientMetadata) -> str:
    """What people see: the name it gives itself, else where its first redirect URI leads."""
    if metadata.client_name is not None:
        return metadata.client_name
    first = urlsplit(metadata.redirect_uris[0])
    return first.hostname or first.scheme


def _shown(uri: str) -> str:
    """The URI in backticks, cut off where it is long."""
    return f"`{uri}`" if len(uri) <= MAX_SHOWN_CHARS else f"`{uri[:MAX_SHOWN_CHARS]}`..."


def _redirect_uris(document: Mapping[str, Any]) -> list[str]:
    uris = document.get("redirect_uris")
    if not isinstance(uris, list) or not uris or not all(isinstance(uri, str) for uri in uris):
        raise InvalidRedirectUri("`redirect_uris` must be a list of at least one URI")
    if len(uris) > MAX_REDIRECT_URIS:
        raise InvalidRedirectUri(f"`redirect_uris` must have at most {MAX_REDIRECT_URIS} entries")
    return sorted(set(uris))


def _application_type(document: Mapping[str, Any], uris: list[str]) -> ApplicationType:
    """The type it names, or the one that its redirect URIs speak of; each of them must fit it.

    Many native clients leave the type out, though the standard's default is `web`.
    """
    named = document.get("application_type")
    if named is None:
        fits_web = all(redirect_uris.registration_refusal(uri, ApplicationType.WEB) is None for uri in uris)
        named = "web" if fits_web else "native"
    if named not in ("web", "native"):
        raise InvalidClientMetadata("`application_type` must be `web` or `native`")
    chosen = ApplicationType(named)
    for uri in uris:
        if reason := redirect_uris.registration_refusal(uri, chosen):
            raise InvalidRedirectUri(f"`redirect_uris`: {_shown(uri)} {redirect_uris.EXPLANATIONS[reason]}")
    return chosen


def _post_logout_redirect_uris(
    document: Mapping[str, Any], application_type: ApplicationType
) -> list[str] | None:
    """Where the browser may be sent after signing out: held to the rules of redirect URIs."""
    uris = document.get("post_logout_redirect_uris")
    if not uris:
        return None
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise InvalidClientMetadata("`post_logout_redirect_uris` must be a list of URIs")
    if len(uris) > MAX_REDIRECT_URIS:
        raise InvalidClientMetadata(
            f"`post_logout_redirect_uris` must have at most {MAX_REDIRECT_URIS} entries"
        )
    for uri in uris:
        if reason := redirect_uris.registration_refusal(uri, application_type):
            explanation = redirect_uris.EXPLANATIONS[reason]
            raise InvalidClientMetadata(f"`post_logout_redirect_uris`: {_shown(uri)} {explanation}")
    return sorted(set(uris))


def _backchannel_logout_uri(document: Mapping[str, Any], *, on_loopback: bool) -> str | None:
    """Where logout tokens are posted to. Spec: OpenID Connect Back-Channel Logout section 2.2."""
    address = _address(document, "backchannel_logout_uri")
    if address is not None and (reason := logout.address_refusal(address, on_loopback=on_loopback)):
        raise InvalidClientMetadata(
            f"`backchannel_logout_uri`: {_shown(address)} {logout.EXPLANATIONS[reason]}"
        )
    return address


def _truth(document: Mapping[str, Any], member: str) -> bool | None:
    value = document.get(member)
    if value is not None and not isinstance(value, bool):
        raise InvalidClientMetadata(f"`{member}` must be true or false")
    return value


def _some_of(document: Mapping[str, Any], member: str, served: tuple[str, ...]) -> list[str]:
    """Those of the types that are served; the first of them is what makes the rest mean anything."""
    asked = document.get(member)
    if asked is None:
        return list(served)
    if not isinstance(asked, list) or not all(isinstance(each, str) for each in asked):
        raise InvalidClientMetadata(f"`{member}` must be a list of strings")
    if served[0] not in asked:
        raise InvalidClientMetadata(f"`{member}` must name `{served[0]}`, the only supported value")
    return [each for each in served if each in asked]


def _id_token_algorithm(document: Mapping[str, Any]) -> str | None:
    """What ID tokens are to be signed with. A client that waits for another algorithm could read none."""
    wanted = _text(document, "id_token_signed_response_alg")
    if wanted is not None and wanted not in ID_TOKEN_ALGORITHMS:
        raise InvalidClientMetadata("`id_token_signed_response_alg` must be `RS256` or `ES256`")
    return wanted


def _name(document: Mapping[str, Any]) -> str | None:
    name = _text(document, "client_name")
    if name is None:
        return None
    name = unicodedata.normalize("NFC", name).strip()
    if not name or len(name) > MAX_NAME_CHARS:
        raise InvalidClientMetadata(f"`client_name` must have 1 to {MAX_NAME_CHARS} characters")
    if "<" in name or ">" in name or any(unicodedata.category(letter) in _UNSEEN for letter in name):
        raise InvalidClientMetadata(
            "`client_name` must not contain `<`, `>`, control or invisible characters"
        )
    return name


def _text(document: Mapping[str, Any], member: str) -> str | None:
    value = document.get(member)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS or not value.isprintable():
        raise InvalidClientMetadata(
            f"`{member}` must be a printable string of at most {MAX_TEXT_CHARS} characters"
        )
    return value


def _address(document: Mapping[str, Any], member: str) -> str | None:
    """An address of a page or a picture. Nothing here loads it; who shows it must not be handed a script."""
    value = _text(document, member)
    if value is None:
        return None
    try:
        parts = urlsplit(value)
    except ValueError:
        raise InvalidClientMetadata(f"`{member}` must be an http or https URL") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or not value.isascii():
        raise InvalidClientMetadata(f"`{member}` must be an http or https URL")
    return value


def _scope(document: Mapping[str, Any]) -> str | None:
    """What the client means to ask for. It is taken note of and binds nobody."""
    scope = _text(document, "scope")
    try:
        return scope_strings.to_text(scope_strings.parse(scope)) if scope else None
    except InvalidScope:
        raise InvalidClientMetadata("`scope` must be a list of scope names, separated by spaces") from None


def _contacts(document: Mapping[str, Any]) -> list[str] | None:
    contacts = document.get("contacts")
    if not contacts:
        return None
    if not isinstance(contacts, list) or len(contacts) > MAX_CONTACTS:
        raise InvalidClientMetadata(f"`contacts` must be a list of at most {MAX_CONTACTS} strings")
    return sorted({text for each in contacts if (text := _text({"contacts": each}, "contacts"))}) or None
