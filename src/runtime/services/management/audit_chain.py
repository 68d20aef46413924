"""The audit log's hash chain: each record holds the hash of itself and of all records before it."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from runtime.domain.kinds.values import rfc3339
from runtime.storage.sql import organization_revision


def chained(
    head: organization_revision.OrganizationHead, records: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The records with their sequence numbers, each with the hash of itself and of all before it."""
    chained = []
    previous = head.audit_hash
    for sequence, record in enumerate(records, head.audit_sequence + 1):
        numbered = {**record, "sequence": sequence, "previous_hash": previous}
        previous = record_hash(numbered)
        chained.append({**numbered, "hash": previous})
    return chained


def record_hash(record: Mapping[str, Any]) -> str:
    """The hash of an audit record: over its members without `hash`, in canonical JSON."""
    members = {
        str(name): rfc3339(value) if isinstance(value, datetime) else value
        for name, value in record.items()
        if name not in ("hash", "organization_id")
    }
    return sha256(orjson.dumps(members, option=orjson.OPT_SORT_KEYS)).hexdigest()
