"""Policy bundles on the wire: the manifest, and the ETag that is equal for equal content."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from runtime.domain.kinds.values import Id, Part, PolicyTargetType
from runtime.domain.policy.bundle_archive import STEM_PATTERN, Archive

MEDIA_TYPE = "application/vnd.service.policy-bundle.v1+tar+gzip"
MAX_POLICIES = 100

_Stem = Annotated[str, StringConstraints(pattern=rf"^{STEM_PATTERN}$")]
_Advice = Annotated[str, StringConstraints(max_length=2048)]  # not read, made again by the service


class BundleArchive(BaseModel):
    """A gzipped tar: `manifest.json`, `schema.cedarschema`, and `policies/<public_id>.cedar` for each policy.

    In a bundle that is sent, a new policy is `policies/<new_policy>.cedar`. `BundleManifest` is the manifest.
    """


class BundleSchemaRef(Part):
    """The version of the schema that the policies are written against."""

    version: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    sha: _Advice | None = None


class BundlePolicyRef(Part):
    """A policy of the bundle: one that is there already, or a new one by the name of its file."""

    public_id: _Stem | None = None
    new_policy: _Stem | None = None
    name: _Advice | None = None
    sha: _Advice | None = None

    @model_validator(mode="after")
    def _one_way_of_naming(self) -> Self:
        if (self.public_id is None) == (self.new_policy is None):
            raise ValueError("give exactly one of `public_id` and `new_policy`")
        return self

    @property
    def stem(self) -> str:
        """The name of the policy's file, without `policies/` and `.cedar`."""
        return self.public_id or self.new_policy or ""


class BundleManifest(Part):
    """The list of policies that decides what is in a bundle: `manifest.json`, the first member."""

    model_config = ConfigDict(populate_by_name=True)

    schema_ref: Annotated[BundleSchemaRef, Field(alias="schema")]
    policies: Annotated[list[BundlePolicyRef], Field(max_length=MAX_POLICIES)]
    target_type: Literal[PolicyTargetType.USER] | None = None
    target_id: Id | None = None


@dataclass(frozen=True, slots=True)
class BundlePolicy:
    """One policy as it is stored. `name` is for people and means nothing."""

    public_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """What is in force for a user. `schema`: text of the schema of that version."""

    target_id: str
    schema_version: str
    schema: str
    policies: tuple[BundlePolicy, ...]

    @property
    def etag(self) -> str:
        """The same for two bundles that mean the same, whatever their policies are called."""
        told = _manifest(self)
        for entry in told["policies"]:
            del entry["name"]
        return f'"{sha256(rfc8785.dumps(told)).hexdigest()}"'

    def archive(self) -> Archive:
        """The members of the archive that carries the bundle."""
        return Archive(
            rfc8785.dumps(_manifest(self)) + b"\n",
            self.schema.encode(),
            {each.public_id: each.text.encode() for each in self.policies},
        )


def _manifest(bundle: Bundle) -> dict[str, Any]:
    return {
        "schema": {"version": bundle.schema_version, "sha": _sha(bundle.schema)},
        "target_type": PolicyTargetType.USER.value,
        "target_id": bundle.target_id,
        "policies": [
            {"public_id": each.public_id, "name": each.name, "sha": _sha(each.text)}
            for each in sorted(bundle.policies, key=lambda each: each.public_id)
        ],
    }


def _sha(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"
