"""The JSON types of snapshots and changesets."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from runtime.domain.identifiers import example_digest, example_id
from runtime.domain.kinds.marks import Example
from runtime.domain.kinds.values import PLAIN_PATTERN, Id, OwnerName, Part, Timestamp, together

ManifestName = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=PLAIN_PATTERN)]
FieldPath = Annotated[str, StringConstraints(max_length=1024)]
LocalId = Annotated[str, StringConstraints(min_length=1, max_length=255)]
# Relative, with forward slashes: no segment is empty, `.` or `..`, and none names a drive.
_ANY, _NO_DOT = r"[^\x00-\x1f\x7f/\\:<]", r"[^\x00-\x1f\x7f/\\:<.]"
_SEGMENT = rf"(?:{_NO_DOT}|\.{_NO_DOT}|\.\.{_ANY}){_ANY}*"
FilePath = Annotated[
    str, StringConstraints(min_length=1, max_length=1024, pattern=rf"^{_SEGMENT}(?:/{_SEGMENT})*$")
]
MAX_LINE = 1_000_000_000
Op = Literal["create", "update", "adopt", "release", "rename", "delivered", "delete"]


class TokenForm(Part):
    """A client credentials request; the id and the secret may also come by HTTP Basic."""

    example: ClassVar[Mapping[str, Any]] = {
        "grant_type": "client_credentials",
        "client_id": example_id("client"),
        "client_secret": "the-secret-shown-once",
    }

    grant_type: Literal["client_credentials"]
    client_id: str | None = None
    client_secret: str | None = None


class Source(Part):
    """The origin of a changeset: repository, commit and CI run."""

    repository: Annotated[
        Annotated[str, StringConstraints(max_length=2048)] | None,
        Example("https://git.acme.example/identity"),
    ] = None
    ref: Annotated[Annotated[str, StringConstraints(max_length=2048)] | None, Example("refs/heads/main")] = (
        None
    )
    commit: Annotated[
        Annotated[str, StringConstraints(max_length=255)] | None,
        Example("9fceb02d0ae598e95dc970b74767f19372d61af8"),
    ] = None
    run_url: Annotated[
        Annotated[str, StringConstraints(max_length=2048)] | None, Example("https://ci.acme.example/runs/17")
    ] = None


class Pointer(Part):
    """An entity by its id, or by the operation of the same changeset that creates it."""

    example: ClassVar[Mapping[str, Any]] = {"local_id": "crm"}
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [together(["id"], ["local_id"]), together(["local_id"], ["id"])]}
    )

    id: Id | None = None
    local_id: LocalId | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.id is None) == (self.local_id is None):
            raise ValueError("give exactly one of `id` and `local_id`")
        return self


class ManifestPlace(Part):
    """The place of a manifest: its file, relative to the repository, and the line that it begins at, from 1.

    It is shown to people. The service reads no file by that name.
    """

    file: Annotated[FilePath, Example("config/policies.yaml")]
    line: Annotated[int, Field(ge=1, le=MAX_LINE), Example(14)]


class Operation(Part):
    """One step of a changeset.

    `delivered` says that the secret which creating the entity has shown is in safe hands. Until then the
    snapshot calls the entity `undelivered`.

    `spec` has the members of the kind's manifest, references by id. Any value in it may be

    - the id of what an operation creates, `{"local_id": ".."}`;
    - a zone's address, `{"address_of": {"id"|"local_id": zone}, "member": "issuer"}`;
    - the id of what a zone is born with, `{"external": handle, "kind": ".."}`, with `owner_type` or without.

    `source` is where its manifest is. The ownership record has it beside the commit of the changeset; an
    operation that writes the record without `source` leaves it with the commit alone.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "op": "create",
        "kind": "ServiceAccount",
        "local_id": "deployer",
        "name": "deployer",
        "spec": {"name": "deployer", "description": "Applies what is merged"},
        "fields": ["name", "description"],
    }

    op: Op
    kind: Annotated[str, StringConstraints(max_length=255)]
    id: Id | None = None
    local_id: LocalId | None = None
    zone: Pointer | None = None
    name: ManifestName | None = None
    spec: dict[str, Any] = Field(default_factory=dict)
    fields: Annotated[list[FieldPath], Field(max_length=10_000)] = Field(default_factory=list)
    secret_versions: dict[str, str] = Field(default_factory=dict)
    protect: bool | None = None
    source: ManifestPlace | None = None


class ChangesetHeader(Part):
    """What stands around the operations of a changeset."""

    base_revision: Annotated[int, Field(ge=0), Example(41)]
    owner: OwnerName
    plan_digest: Annotated[
        str, StringConstraints(min_length=1, max_length=255), Example(example_digest("plan"))
    ]
    source: Source = Source()


class Changeset(ChangesetHeader):
    """An ordered list of operations, applied in one transaction."""

    operations: Annotated[list[Operation], Field(min_length=1)]


class OperationResult(Part):
    """The result of one operation. `shown_once` has secrets that no other response has.

    A dry run tells of deletions what goes or ends with them, `{"sessions": 12}`, and whether a client or a
    credential was used within the last thirty days.
    """

    index: Annotated[int, Example(0)]
    op: Op
    kind: Annotated[str, Example("Application")]
    id: str
    name: Annotated[str | None, Example("Calendar agent")] = None
    status: Literal["done"] = "done"
    shown_once: dict[str, str] | None = None
    takes_along: dict[str, int] | None = None
    in_use: bool | None = None


class AuditRange(Part):
    """The sequence numbers of the audit records that a changeset made, both included."""

    first: Annotated[int, Example(1040)]
    last: Annotated[int, Example(1042)]


class DecidingRule(Part):
    """A rule that decides: the policy's name, and the rule's `@id` or its position in the text from 0."""

    policy: Annotated[str, Example("payments")]
    rule: Annotated[str, Example("only-finance")]


class DecisionChange(Part):
    """Recorded requests of one user, application and resource that are decided otherwise from then on.

    `user` is left out for tokens of the application's own, `user_email` for callers who may not read users.
    `actors` is the chain, the application first. `scopes` are those that are lost or gained; it is left out
    where everything at the resource is. `refused_by` says what refuses them, afterwards or until now:
    `policy`; a missing `dependency`; a `scope` that the resource does not offer; or that the `user`, the
    `application` or the `resource` is not there or may not act. `before` and `after` are the rules that
    decide; none where no rule permits.
    """

    user: Annotated[str | None, Example("ada")] = None
    user_email: Annotated[str | None, Example("ada@acme.example")] = None
    application: Annotated[str, Example("billing-agent")]
    resource: Annotated[str, Example("https://api.acme.example")]
    actors: Annotated[list[str], Example(["billing-agent"])]
    scopes: Annotated[list[str] | None, Example(["write"])] = None
    decisions: Annotated[int, Example(30)]
    last_at: Timestamp
    refused_by: Literal["policy", "dependency", "scope", "user", "application", "resource"]
    before: list[DecidingRule]
    after: list[DecidingRule]


class DecisionChanges(Part):
    """How many recorded requests are decided otherwise, of how many users, applications and resources.

    `of_scopes` of the decisions lose or gain some scopes, and are allowed either way; the others are refused
    as a whole on one side. Losses are of requests that were allowed as recorded; gains of those that were
    refused, or got fewer scopes. `examples` are those with most records, at most 20.
    """

    decisions: Annotated[int, Example(30)]
    of_scopes: Annotated[int, Example(12)]
    users: Annotated[int, Example(1)]
    applications: Annotated[int, Example(1)]
    resources: Annotated[int, Example(1)]
    examples: list[DecisionChange]


class DecisionImpact(Part):
    """What a changeset makes of the decisions that a zone has recorded: replayed in the dry run.

    `recorded` are the decisions of policies since `since` that were looked at: of all zones of the changeset
    the newest 100,000 at most. `since` is thirty days ago, or later where `complete` is false: then older
    ones were not looked at, or none at all. `replayed` of them were decided again, by what the zone has now
    and by what the changeset makes of it; `reproduced` of these come to what was recorded by what it has now.
    `not_replayed` says of how many a user, application or resource is `gone`, how many were `too_many` for
    one dry run, and how many are of a zone whose encryption key is `unavailable`. `unrecorded` are the
    members of the context that rules look at and that are not recorded: the replay assumes all scopes of the
    resource, a sign-in at the time of the request without `acr`, and the present time.
    """

    zone_id: str
    since: Timestamp
    complete: bool
    recorded: Annotated[int, Example(100_000)]
    replayed: Annotated[int, Example(99_210)]
    reproduced: Annotated[int, Example(99_100)]
    not_replayed: Annotated[dict[str, int], Example({"gone": 790})]
    unrecorded: Annotated[list[str], Example(["acr"])]
    loses: DecisionChanges
    gains: DecisionChanges


class ChangesetResult(Part):
    """The result of a changeset. `id` is null on a dry run.

    `decision_impact` is told by a dry run that writes to what policies decide by, for each existing zone with
    recorded decisions that the caller may list.
    """

    id: str | None
    base_revision: Annotated[int, Example(41)]
    revision: Annotated[int, Example(42)]
    dry_run: bool
    operations: list[OperationResult]
    audit: AuditRange | None = None
    decision_impact: list[DecisionImpact] | None = None


class Receipt(Part):
    """The receipt of an applied changeset. `operations` is their number."""

    id: str
    owner: Annotated[str, Example("acme/identity")]
    source: Source
    plan_digest: Annotated[str, Example(example_digest("plan"))]
    base_revision: Annotated[int, Example(41)]
    revision: Annotated[int, Example(42)]
    operations: int
    audit: AuditRange | None = None
    created_at: Timestamp
    created_by: str


class AuditActor(Part):
    """The actor of a change: an API key, a service account, a user, an operator, or the service itself."""

    type: Annotated[str, Example("api_key")]
    id: str


class AuditEvent(Part):
    """An event of the audit trail. `hash` covers the other members, `previous_hash` among them."""

    id: str
    sequence: Annotated[int, Example(1042)]
    at: Timestamp
    actor: AuditActor
    action: Annotated[str, Example("applications.update")]
    kind: Annotated[str, Example("Application")]
    entity_id: str
    zone_id: str | None
    changeset_id: str | None
    request_id: str | None
    before: Annotated[dict[str, Any] | None, Example({"name": "Calendar"})]
    after: Annotated[dict[str, Any] | None, Example({"name": "Calendar agent"})]
    previous_hash: Annotated[str, Example(example_digest("previous"))]
    hash: Annotated[str, Example(example_digest("this"))]


class Ownership(Part):
    """The configuration that manages an entity, and what it last wrote. `applied` has no secrets.

    `source` is that of the changeset that wrote the record last, with `file` and `line` of the manifest as
    they were then.
    """

    owner: Annotated[str, Example("acme/identity")]
    name: Annotated[str, Example("Calendar agent")]
    fields: Annotated[list[str], Example(["name", "description"])]
    applied: Annotated[dict[str, Any], Example({"name": "Calendar agent"})]
    secret_versions: dict[str, str]
    source: Annotated[dict[str, Any], Example({"repository": "https://git.acme.example/identity"})]
    protect: bool
    undelivered: bool


class SnapshotStart(Part):
    """The first line of a snapshot.

    `names_writers`: the caller may read the audit log, and is told who has written and deleted, and when.
    `sees_all`: what is not in it is not there; no zone and no kind is kept from the caller.
    """

    type: Literal["snapshot"] = "snapshot"
    organization_id: str
    label: Annotated[str, Example("acme")]
    revision: Annotated[int, Example(42)]
    names_writers: bool
    sees_all: bool


class PartInForce(Part):
    """A policy in the active policy set version: its version and text."""

    kind: str
    id: str
    name: str
    version: int
    spec: dict[str, Any]


class LastChange(Part):
    """The last write: actor, time, and the `action` of the audit event."""

    at: Timestamp
    action: Annotated[str, Example("applications.update")]
    actor: AuditActor
    changeset_id: str | None


class MissingName(Part):
    """`Type::"id"` in an active policy that names no entity of the zone, and its position in the text."""

    policy_id: str
    policy: str
    type: str
    id: str
    line: int
    column: int


class InForce(Part):
    """The active version of a policy or a policy set in the zone.

    Attributes:
        spec: what `spec` would say of that version, where that differs from what was written last.
        contents: of a policy set, everything that decides; left out when that is what the lines of the
            policies say.
        activated: who let it decide, where it is not the latest; for those who may read the audit log.
        missing_names: of a policy set, what its policies name and nothing in the zone is called, unless the
            policy says so in `absent_names`: rules about these never match.
    """

    version: int
    latest_version: int
    spec: Annotated[dict[str, Any], Example({"name": "Calendar agent"})]
    contents: list[PartInForce] | None = None
    activated: LastChange | None = None
    missing_names: list[MissingName] | None = None


class SnapshotEntity(Part):
    """One entity of a snapshot, parents first. References in `spec` are ids; sealed members never appear.

    `last_change` stands where somebody has written since the owner did, or nobody owns it, and is told to
    those who may read the audit log.
    """

    type: Literal["entity"] = "entity"
    kind: Annotated[str, Example("Application")]
    id: str
    zone_id: str | None
    zone: Annotated[str | None, Example("acme-product")]
    handle: Annotated[str | None, Example("calendar-agent")]
    owner_type: Annotated[Literal["customer", "platform"], Example("customer")]
    spec: Annotated[dict[str, Any], Example({"name": "Calendar agent"})]
    secrets_set: Annotated[list[str] | None, Example(["client_secret"])] = None
    secrets_overwritten: list[str] | None = None
    ownership: Ownership | None
    revision: Annotated[int, Example(42)]
    in_force: InForce | None = None
    last_change: LastChange | None = None


class SnapshotTombstone(Part):
    """A deleted entity that `owner` manages; listed until the next changeset of that owner.

    Who deleted it, and in which changeset, is told to those who may read the audit log.
    """

    type: Literal["tombstone"] = "tombstone"
    kind: Annotated[str, Example("Application")]
    id: str
    zone_id: str | None
    zone: Annotated[str | None, Example("acme-product")]
    owner: Annotated[str, Example("acme/identity")]
    name: Annotated[str, Example("Calendar agent")]
    revision: Annotated[int, Example(42)]
    deleted_at: Timestamp
    actor: AuditActor | None = None
    changeset_id: str | None = None


class Undescribable(Part):
    """An entity that no manifest kind can describe, in the snapshot's zones or of a service account.

    A `Secret` of a vault, never what it says; a `ZoneMember`; a `ServiceAccountCredential`. `of` is the id of
    what it was made for. `name` of a member is the address, or the id of the organization user for those who
    may not list these. `last_change` is told to those who may read the audit log.
    """

    kind: Annotated[str, Example("Application")]
    id: str
    zone_id: str | None
    zone: Annotated[str | None, Example("acme-product")]
    name: Annotated[str, Example("Calendar agent")]
    of: str | None = None
    role: str | None = None
    last_change: LastChange | None = None


class SnapshotEnd(Part):
    """The last line of a snapshot; without it the stream was cut off. `count`: the number of lines before it.

    `undescribable` is what the caller may list of kinds that no manifest describes, at most 500 of each;
    `undescribable_truncated` names the kinds of which there is more. Both are left out where there is none.
    """

    type: Literal["end"] = "end"
    count: int
    undescribable: list[Undescribable] | None = None
    undescribable_truncated: list[str] | None = None
