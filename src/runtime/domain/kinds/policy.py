"""Policies and policy sets with their immutable versions, and the policy schema versions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from runtime.domain.identifiers import example_digest
from runtime.domain.kinds.base import ARCHIVED_VERBS, Kind, Listing, PageShape, Verb, ZoneEntity
from runtime.domain.kinds.marks import Example, Expand, Mark, Ref
from runtime.domain.kinds.queries import Query
from runtime.domain.kinds.values import (
    Description,
    Email,
    Id,
    Name,
    OwnerType,
    Part,
    PolicySetMode,
    PolicyTargetType,
    SchemaStatus,
    Timestamp,
    together,
)
from runtime.domain.kinds.zone import ZONE

# Entities as policies write them, each with the escapes that Cedar has in strings.
EntityName = Annotated[
    str, StringConstraints(max_length=4096, pattern=r'^[A-Za-z_][A-Za-z0-9_]*::"(?:[^"\\]|\\.)*"$')
]
# The policy that examples show.
EXAMPLE_CEDAR = "permit (principal, action, resource);"
Names = Annotated[list[EntityName], Field(max_length=1_000)]


class ActorUser(Part):
    """The user who made a change; null for other actors."""

    id: str
    email: Email | None
    zone_id: str


BY_USER = Annotated[ActorUser | None, Mark.DERIVED, Expand("user")]


class Policy(ZoneEntity):
    """A named policy; its text lives in versions."""

    organization_id: Annotated[Id, Mark.INTERNAL]
    name: Annotated[Name, Mark.HANDLE, Example("Calendar in office hours")]
    description: Annotated[
        Description | None, Mark.KEPT, Example("The calendar agent works from 8 to 18")
    ] = None
    absent_names: Annotated[
        Names | None,
        Mark.SET,
        Field(description="Entities that the policy names and that need not exist in the zone."),
        Example(['Group::"leavers"']),
    ] = None
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    target_type: Annotated[PolicyTargetType, Mark.INTERNAL] = PolicyTargetType.ZONE
    archived_at: Annotated[Timestamp | None, Mark.SERVER] = None
    created_by: Annotated[str, Mark.SERVER]
    created_by_user: BY_USER = None
    latest_schema_version: Annotated[str | None, Mark.SERVER, Example("2026-11-21")] = None
    latest_version: Annotated[int | None, Mark.SERVER] = None
    latest_version_id: Annotated[Id | None, Mark.SERVER] = None
    updated_by: Annotated[str | None, Mark.SERVER] = None
    updated_by_user: BY_USER = None


class PolicyContent(Part):
    """What a manifest of a policy has besides: its Cedar text, inline or from a `.cedar` file."""

    cedar: Annotated[str, Mark.CEDAR, Field(description="The policy's text in Cedar.")]


class PolicySources(Part):
    """What only a manifest of a policy has: the file of its text, and names that are not in git."""

    cedar_file: Annotated[
        str, Field(min_length=1, description="Path of a `.cedar` file, relative to the manifest.")
    ]
    external_names: Annotated[
        Names | None,
        Mark.SET,
        Field(description="Entities that the policy names and that exist in the zone, but not in git."),
    ] = None


class PolicyVersion(ZoneEntity):
    """One immutable text of a policy, in canonical formatting."""

    organization_id: Annotated[Id, Mark.INTERNAL]
    updated_at: Annotated[Timestamp, Mark.INTERNAL]
    policy_id: Annotated[Id, Mark.SERVER]
    version: Annotated[int, Mark.SERVER]
    schema_version: Annotated[str, Mark.FIXED, Example("2026-11-21")]
    cedar_json: Annotated[dict[str, Any] | None, Mark.FIXED, Example({"effect": "permit"})] = None
    cedar_raw: Annotated[str | None, Mark.FIXED, Example(EXAMPLE_CEDAR)] = None
    sha: Annotated[str, Mark.SERVER, Example(example_digest(EXAMPLE_CEDAR))]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    archived_at: Annotated[Timestamp | None, Mark.SERVER] = None
    archived_by: Annotated[str | None, Mark.SERVER] = None
    archived_by_user: BY_USER = None
    created_by: Annotated[str, Mark.SERVER]
    created_by_user: BY_USER = None
    # What the text names and nothing in the zone is called: of a single version, when there is some.
    unknown_names: Annotated[list[str] | None, Mark.DERIVED] = None


class PolicyVersionBody(Part):
    """A policy's new text, in one of Cedar's two notations.

    `cedar_json` takes both JSON forms of Cedar: one policy, or a policy set, which answers always have.
    """

    example: ClassVar[Mapping[str, Any]] = {"schema_version": "2026-11-21", "cedar_raw": EXAMPLE_CEDAR}
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                together(["cedar_raw"], ["cedar_json"]),
                together(["cedar_json"], ["cedar_raw"]),
            ]
        }
    )

    schema_version: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    cedar_raw: Annotated[str, StringConstraints(max_length=262_144)] | None = None
    cedar_json: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_notation(self) -> Self:
        if (self.cedar_raw is None) == (self.cedar_json is None):
            raise ValueError("give exactly one of `cedar_raw` and `cedar_json`")
        return self


class PolicySet(ZoneEntity):
    """A named set of policy versions; one set is bound to a zone at a time and decides."""

    organization_id: Annotated[Id, Mark.INTERNAL]
    name: Annotated[Name, Mark.HANDLE, Example("Acme product policies")]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    target_type: Annotated[PolicyTargetType, Mark.FIXED, Mark.API_ONLY] = PolicyTargetType.ZONE
    target_id: Annotated[Id | None, Mark.SERVER] = None
    archived_at: Annotated[Timestamp | None, Mark.SERVER] = None
    created_by: Annotated[str, Mark.SERVER]
    created_by_user: BY_USER = None
    latest_version: Annotated[int | None, Mark.SERVER] = None
    latest_version_id: Annotated[Id | None, Mark.SERVER] = None
    updated_by: Annotated[str | None, Mark.SERVER] = None
    updated_by_user: BY_USER = None
    # The binding, as it stands in the table of bindings.
    active: Annotated[bool, Mark.DERIVED, Example(True)] = False
    active_version: Annotated[int | None, Mark.DERIVED] = None
    active_version_id: Annotated[Id | None, Mark.DERIVED] = None
    mode: Annotated[PolicySetMode | None, Mark.DERIVED] = None
    shadow_version: Annotated[int | None, Mark.DERIVED] = None
    shadow_version_id: Annotated[Id | None, Mark.DERIVED] = None
    scope_type: Annotated[PolicyTargetType, Mark.DERIVED, Example("zone")] = PolicyTargetType.ZONE
    scope_target_id: Annotated[Id | None, Mark.DERIVED] = None


class NewPolicySet(Part):
    """What the body of a new policy set has besides: what it is bound to, which is its zone."""

    scope_type: Literal["zone"] | None = None


class ActivationBody(Part):
    """Activates a version of a policy set; it cannot be deactivated, only replaced."""

    active: Literal[True]


class PolicySetContent(Part):
    """What a manifest of a policy set has besides: its policies, each at its latest version."""

    policies: Annotated[list[Id], Ref("Policy")]
    active: Annotated[bool, Mark.SOLE] = True


class PolicySetManifestEntry(Part):
    """One policy version in a set. `sha` is filled by the service."""

    policy_id: str
    policy_version_id: str
    sha: Annotated[str | None, Mark.SERVER, Example(example_digest(EXAMPLE_CEDAR))] = None


class PolicySetManifest(Part):
    """The policy versions of a set version, in order."""

    entries: list[PolicySetManifestEntry]


class AttestationStatement(Part):
    """The service's attestation of a stored policy set version."""

    attested_at: Timestamp
    attested_by: str
    key_id: Annotated[str, Example("k-2026-11")]
    manifest_sha: Annotated[str, Example(example_digest("manifest"))]
    policy_set_id: str
    policy_set_version: int
    status: str
    type: str = "policy_set_attestation"
    v: int = 1
    zone_id: str


class PolicySetVersion(ZoneEntity):
    """One immutable composition of a policy set."""

    organization_id: Annotated[Id, Mark.INTERNAL]
    zone_id: Annotated[Id, Mark.INTERNAL]
    updated_at: Annotated[Timestamp, Mark.INTERNAL]
    policy_set_id: Annotated[Id, Mark.SERVER]
    version: Annotated[int, Mark.SERVER]
    schema_version: Annotated[str, Mark.FIXED, Example("2026-11-21")]
    manifest: Annotated[PolicySetManifest, Mark.FIXED]
    manifest_sha: Annotated[str, Mark.SERVER, Example(example_digest("manifest"))]
    attestation: Annotated[AttestationStatement | None, Mark.SERVER] = None
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    active: Annotated[bool, Mark.DERIVED, Example(True)] = False
    archived_at: Annotated[Timestamp | None, Mark.SERVER] = None
    archived_by: Annotated[str | None, Mark.SERVER] = None
    archived_by_user: BY_USER = None
    created_by: Annotated[str, Mark.SERVER]
    created_by_user: BY_USER = None


class PolicySchema(Part):
    """A version of the Cedar schema, as seen from a zone. The texts are part of the service, not rows."""

    version: Annotated[str, Example("2026-11-21")]
    archived_at: Timestamp | None = None
    cedar_schema: Annotated[str | None, Example("entity User;")] = None
    cedar_schema_json: Annotated[
        dict[str, Any] | None, Example({"": {"entityTypes": {"User": {}}, "actions": {}}})
    ] = None
    created_at: Timestamp
    deprecated_at: Timestamp | None = None
    is_default: Annotated[bool, Example(True)]
    status: SchemaStatus
    updated_at: Timestamp


# The notation of policy texts in responses; the `format` of every operation that returns some.
FORMAT = Query("format", values=("cedar", "json"), about="notation of the Cedar texts in the response")

_SET_PAGE = Listing(
    envelope=PageShape.ZONE,
    filters=("owner_type", "target_type"),
    search=("name",),
    sorts=("created_at", "status"),
    expands=("total_count", "user"),
    ordered=True,
    more=(
        Query("filter[active]", "boolean", about="whether a version of it is bound to the zone"),
        Query("active", "boolean", deprecated=True, older_form_of="filter[active]"),
        Query(
            "filter[scope_type]",
            many=True,
            values=("zone",),
            deprecated=True,
            older_form_of="filter[target_type]",
        ),
    ),
)
_VERSION_PAGE = Listing(envelope=PageShape.ZONE, expands=("total_count", "user"), ordered=True)
_VERSION_VERBS = frozenset({Verb.LIST, Verb.CREATE, Verb.RETRIEVE, Verb.ARCHIVE})

POLICY = Kind(
    entity=Policy,
    collection="policies",
    operations="policies",
    parent=ZONE,
    item="policy_id",
    verbs=ARCHIVED_VERBS,
    listing=Listing(
        envelope=PageShape.ZONE,
        filters=("id", "owner_type", "target_type"),
        search=("name", "description"),
        expands=("total_count", "user"),
        ordered=True,
    ),
    created=201,
    manifest=True,
    extras=PolicyContent,
    local=PolicySources,
    conditional=frozenset({Verb.UPDATE}),
)

POLICY_VERSION = Kind(
    entity=PolicyVersion,
    collection="versions",
    operations="policy_versions",
    parent=POLICY,
    item="version_id",
    verbs=_VERSION_VERBS,
    listing=replace(_VERSION_PAGE, more=(FORMAT,), retrieve_more=(FORMAT,)),
    created=201,
    bodies={Verb.CREATE: PolicyVersionBody},
    unique_together={"version": ("zone_id", "policy_id", "version")},
)

POLICY_SET = Kind(
    entity=PolicySet,
    collection="policy-sets",
    operations="policy_sets",
    parent=ZONE,
    item="policy_set_id",
    verbs=ARCHIVED_VERBS,
    listing=_SET_PAGE,
    created=201,
    manifest=True,
    extras=PolicySetContent,
    inputs={Verb.CREATE: NewPolicySet},
    conditional=frozenset({Verb.UPDATE, Verb.ARCHIVE}),
)

POLICY_SET_VERSION = Kind(
    entity=PolicySetVersion,
    collection="versions",
    operations="policy_set_versions",
    parent=POLICY_SET,
    item="version_id",
    verbs=_VERSION_VERBS | {Verb.UPDATE},
    listing=_VERSION_PAGE,
    created=201,
    bodies={Verb.UPDATE: ActivationBody},
    unique_together={"version": ("zone_id", "policy_set_id", "version")},
)
