"""Client ids that are URLs (client ID metadata documents), and a zone's allowlists for them.

An address is looked at as raw text before anything parses it, so that no two parsers can read different
things from it.

Spec: draft-ietf-oauth-client-id-metadata-document section 3; service interface, zone `protocols.oauth2.cimd`.
"""

import re
from collections.abc import Iterable

MAX_ADDRESS_CHARS = 2048
ANY = "*"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PATH = r"(?P<path>/[A-Za-z0-9._~!$&'()+,;=:@%/-]*)"
_ADDRESS = re.compile(
    rf"https://(?:{_LABEL}\.)*{_LABEL}(?::[1-9][0-9]{{0,4}})?{_PATH}(?:\?[A-Za-z0-9._~!$&'()+,;=:@%/?-]*)?\Z"
)
_WILDCARD = re.compile(rf"https://(?:{_LABEL}\.)*\*(?:\.{_LABEL})+(?::[1-9][0-9]{{0,4}})?{_PATH}?\Z")
_DOT_SEGMENT = re.compile(r"(?:\.|%2e){1,2}(?:;.*)?\Z", re.IGNORECASE)


def is_address(client_id: str) -> bool:
    """Tell whether a client id can be a document's address: in it is nothing that parsers could differ on."""
    if len(client_id) > MAX_ADDRESS_CHARS or (found := _ADDRESS.match(client_id)) is None:
        return False
    path = found["path"]
    return path != "/" and not any(_DOT_SEGMENT.match(segment) for segment in path.split("/"))


def is_entry(entry: str) -> bool:
    """Tell whether an allowlist can hold this: `*`, an address, or an origin whose one `*` is one label."""
    return entry == ANY or is_address(entry) or _WILDCARD.match(entry) is not None


def allows(entries: Iterable[str], client_id: str) -> bool:
    """Tell whether an allowlist admits an address: `*` stands for exactly one label, and for nothing else."""
    return any(entry in (ANY, client_id) or _matches(entry, client_id) for entry in entries)


def is_vouched_for(entries: Iterable[str], client_id: str) -> bool:
    """Tell whether an allowlist names an address or its site: `*` admits everybody, and names nobody."""
    return allows((entry for entry in entries if entry != ANY), client_id)


def _matches(entry: str, client_id: str) -> bool:
    """Tell whether an origin with a wildcard is the address's origin; an entry may name the path besides."""
    if (wildcard := _WILDCARD.match(entry)) is None:
        return False
    before, after = entry.split("*")
    rest = r"\Z" if wildcard["path"] else "/"
    return re.match(rf"{re.escape(before)}{_LABEL}{re.escape(after)}{rest}", client_id) is not None
