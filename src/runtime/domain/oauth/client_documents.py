"""Client ID metadata documents: parsing and validation.

What the document says counts only if it names the very text of its address.

Spec: draft-ietf-oauth-client-id-metadata-document section 4; zone interface, section 4.
"""

from collections.abc import Mapping
from typing import Any

from runtime.domain.errors import InvalidClientMetadata
from runtime.domain.kinds.user_agent import ClientMetadata
from runtime.domain.oauth import registration
from runtime.domain.oauth.client_ids import is_address

_SECRETS = ("client_secret", "client_secret_expires_at")
_KEY_MEMBERS = ("kty", "use", "alg", "kid", "n", "e", "crv", "x", "y")


def read(document: object, client_id: str, *, on_loopback: bool = False) -> ClientMetadata:
    """What the document at *client_id* says, as it will be kept.

    A client without a secret of ours proves itself with its own key (`private_key_jwt`), or not at all.

    Args:
        on_loopback: as in a registration.
    Raises: InvalidRedirectUri, InvalidClientMetadata, InvalidSoftwareStatement.
    """
    if not isinstance(document, Mapping):
        raise InvalidClientMetadata("the document is not a JSON object")
    if document.get("client_id") != client_id:
        raise InvalidClientMetadata("`client_id` in the document must be the URL of the document")
    if any(name in document for name in _SECRETS):
        raise InvalidClientMetadata("the document must not contain a client secret: it is public")
    method = document.get("token_endpoint_auth_method", "none")
    if method not in ("none", "private_key_jwt"):
        raise InvalidClientMetadata("`token_endpoint_auth_method` must be `none` or `private_key_jwt`")
    kept = registration.read(document, on_loopback=on_loopback)
    return kept if method == "none" else kept.model_copy(update=_keys(document) | _CONFIDENTIAL)


def needs_new_consent(before: ClientMetadata, after: ClientMetadata) -> bool:
    """Tell whether it is another client now than users agreed to: its name, keys, or where it is answered."""
    return (
        not set(after.redirect_uris) <= set(before.redirect_uris)
        or registration.display_name(before) != registration.display_name(after)
        or _identity(before) != _identity(after)
    )


_CONFIDENTIAL = {"token_endpoint_auth_method": "private_key_jwt"}


def _identity(metadata: ClientMetadata) -> tuple[Any, ...]:
    # Keys behind an address are the client's to rotate; the address is not.
    return metadata.token_endpoint_auth_method, metadata.jwks_uri, metadata.jwks


def _keys(document: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a confidential client signs with: at an address, or in the document itself."""
    jwks_uri, jwks = document.get("jwks_uri"), document.get("jwks")
    if (jwks_uri is None) == (jwks is None):
        raise InvalidClientMetadata("`private_key_jwt` requires exactly one of `jwks_uri` and `jwks`")
    if jwks_uri is not None:
        if not isinstance(jwks_uri, str) or not is_address(jwks_uri):
            raise InvalidClientMetadata("`jwks_uri` must be an https URL")
        return {"jwks_uri": jwks_uri}
    keys = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(keys, list) or not all(isinstance(key, Mapping) for key in keys):
        raise InvalidClientMetadata("`jwks` is not a JWK set")
    if any(key.get("kty") == "oct" or "d" in key for key in keys):
        raise InvalidClientMetadata("`jwks` holds a key that is not public")
    return {"jwks": {"keys": [_public_key(key) for key in keys]}}


def _public_key(key: Mapping[str, Any]) -> dict[str, str]:
    """What verifying takes of a key, as plain text."""
    members = {name: key[name] for name in _KEY_MEMBERS if name in key}
    if not all(
        isinstance(value, str) and value.isascii() and value.isprintable() for value in members.values()
    ):
        raise InvalidClientMetadata("`jwks` holds a key that cannot be read")
    return members
