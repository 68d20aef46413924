"""Reads `schemas/manifests/*.json` into kinds. No other module knows where the schemas are."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from .member_schemas import (
    HandleSharing,
    Kind,
    MemberSchema,
    read_member_schema,
    special_members,
    wire_schema,
)

API_VERSION = "zonewright/v1"
_FILE = "_file"


class SchemasMissing(RuntimeError):
    """The installation is incomplete: there are no manifest schemas."""


@dataclass(frozen=True)
class Kinds:
    """All kinds, parents first, and the digest of the files they were read from."""

    ordered: tuple[Kind, ...]
    digest: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {kind.name: kind for kind in self.ordered})

    @property
    def by_name(self) -> Mapping[str, Kind]:
        """Kinds by name."""
        found: Mapping[str, Kind] = self.__dict__["_by_name"]
        return found


def schema_directory() -> Path:
    """The directory of manifest schemas: packaged ones first, else the checkout's.

    Raises:
        SchemasMissing: neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "schemas", package.parents[1] / "schemas"):
        if (candidate / "manifests").is_dir():
            return candidate / "manifests"
    raise SchemasMissing(
        "the manifest schemas are missing from this installation; install `zonewright` again"
    )


@lru_cache(maxsize=8)
def load_kinds(directory: Path | None = None) -> Kinds:
    """The kinds that the schemas in *directory* (default: `schema_directory()`) describe."""
    files = sorted((directory or schema_directory()).glob("*.json"))
    digest = hashlib.sha256()
    kinds = []
    for file in files:
        content = file.read_bytes()
        digest.update(file.name.encode() + b"\0" + content + b"\0")
        schema = orjson.loads(content)
        if "x-zonewright" in schema:
            kinds.append(_read_kind(schema))
    kinds.sort(key=lambda kind: (kind.order, kind.name))
    return Kinds(tuple(kinds), digest.hexdigest())


def _read_kind(schema: dict[str, Any]) -> Kind:
    about = schema["x-zonewright"]
    spec = read_member_schema(schema["properties"]["spec"], schema)
    files = {
        name: name.removesuffix(_FILE)
        for name in spec.members
        if name.endswith(_FILE) and name.removesuffix(_FILE) in spec.members
    }
    about_members = schema["properties"]["spec"]["properties"]
    local = frozenset(name for name, member in about_members.items() if member.get("x-local"))
    sent = MemberSchema(
        members={
            name: shape for name, shape in spec.members.items() if name not in files and name not in local
        },
        required=spec.required,
    )
    paths = list(special_members(spec))
    return Kind(
        name=about["kind"],
        collection=about["collection"],
        scope=about["scope"],
        handle=about.get("handle"),
        handle_default=bool(about.get("handle_default")),
        handle_decided=frozenset(about.get("handle_decided", ())),
        handle_shared=HandleSharing(**about["handle_shared"]) if "handle_shared" in about else None,
        order=int(about["order"]),
        requires=tuple(about.get("requires", ())),
        schema=schema,
        spec=spec,
        wire=wire_schema(sent),
        files=files,
        cedar={name: each["x-cedar"] for name, each in about_members.items() if "x-cedar" in each},
        local=local,
        references=tuple((path, shape.ref) for path, shape in paths if shape.ref),
        addresses=tuple(path for path, shape in paths if shape.address),
        secrets=tuple(path for path, shape in paths if shape.secret),
        sole=tuple(name for name, shape in spec.members.items() if shape.sole),
        expiry=next((name for name, shape in spec.members.items() if shape.expiry), None),
        shown_once=about.get("shown_once"),
    )
