"""Types of the JSON documents that `--output json` prints. `schemas/output/` is generated from them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

PLAN: Literal["zonewright/plan/v1"] = "zonewright/plan/v1"
DRIFT: Literal["zonewright/drift/v1"] = "zonewright/drift/v1"
RECEIPT: Literal["zonewright/receipt/v1"] = "zonewright/receipt/v1"
VALIDATION: Literal["zonewright/validation/v1"] = "zonewright/validation/v1"
FORMATTING: Literal["zonewright/formatting/v1"] = "zonewright/formatting/v1"
EXPLANATION: Literal["zonewright/explanation/v1"] = "zonewright/explanation/v1"
DECISIONS: Literal["zonewright/decisions/v1"] = "zonewright/decisions/v1"
SECRETS: Literal["zonewright/secrets/v1"] = "zonewright/secrets/v1"
ERROR: Literal["zonewright/error/v1"] = "zonewright/error/v1"


class ToolDocument(TypedDict):
    """The tool that made the plan."""

    name: str
    version: str


class PartDocument(TypedDict):
    """An active object that git does not list, such as a policy of the active policy set, with its text."""

    kind: str
    name: str
    version: int
    spec: Mapping[str, Any]


class InForceDocument(TypedDict):
    """The active version of an object, where that is not the latest one.

    `before` is the active version's value; with `before_is_latest` it is the latest version's, which is
    inactive.
    """

    version: int
    latest_version: int
    contents: Sequence[PartDocument]
    before_is_latest: NotRequired[bool]


class ChangeDocument(TypedDict):
    """The change of one member: its values before and after.

    A secret appears as `{"secret": reference}`, and one that is stored already as `{"version": ..}`. `state`
    is the reason of the change; creations and deletions have none. `applied` is the value that git applied
    last.
    """

    field: str
    before: Any
    after: Any
    state: NotRequired[Literal["pending", "drift", "conflict", "claim", "release", "keep"]]
    applied: NotRequired[Any]
    in_force: NotRequired[InForceDocument]


class WriteDocument(TypedDict):
    """One write: its time, its actor as `type id` (if the caller may read that), and its changeset."""

    at: str
    actor: NotRequired[str]
    changeset: NotRequired[str]


class ActionDocument(TypedDict):
    """The action on one object. `reason` is `file:line` of its manifest, or a sentence without one.

    `moved_from`, `moved_to`: the other zone, of an object that is deleted in one and created again in the
    other. `deleted`: the object was deleted by others and is created again. `keep`: the object is replaced
    only because its manifest omits this member; with this value in its `spec` it is kept. `write`, in drift
    alone: the last write.
    """

    op: Literal["create", "update", "adopt", "rename", "replace", "release", "delete"]
    kind: str
    name: str
    reason: str
    zone: NotRequired[str]
    id: NotRequired[str]
    handle: NotRequired[str]
    protected: NotRequired[bool]
    takes_along: NotRequired[int]
    previous_name: NotRequired[str]
    moved_from: NotRequired[str]
    moved_to: NotRequired[str]
    shown_once: NotRequired[bool]
    secret_ends: NotRequired[bool]
    deleted: NotRequired[bool]
    keep: NotRequired[Mapping[str, str]]
    write: NotRequired[WriteDocument]
    changes: Sequence[ChangeDocument]


class UnmanagedDocument(TypedDict):
    """An object that no configuration manages, or a member of a managed object that no manifest sets.

    `values` are the items of a list, or the one value of another `member` that differs from its default.
    `name` is the handle, or for a kind without handles what the object refers to. `attached_to` lists the
    managed objects that it belongs to. `in_force`: it is active in the zone. `describable` is false for
    objects that no kind of manifest describes: a secret of a vault, a member of a zone, a service account's
    credential.
    """

    kind: str
    zone: str | None
    name: str
    id: str
    member: NotRequired[str]
    values: NotRequired[Sequence[Any]]
    attached_to: NotRequired[Sequence[str]]
    in_force: NotRequired[bool]
    describable: NotRequired[bool]
    write: NotRequired[WriteDocument]


class WidenedDocument(TypedDict):
    """An active policy that restricts less than before, because a name in its text matches other objects now.

    `name` is written as in the policy. `rule` is how the policy uses it: `forbid`, `permit unless`, `forbid
    unless`; with `if` where other conditions apply too. `loses`, `gains`: the objects that the name no longer
    matches, or newly matches; for a prefix resource also addresses, `/*` for all below one. `empty`: it
    matches nothing any more. `gone`: no object has this name; `now`: the new name of the renamed object.
    """

    zone: str
    name: str
    policy: str
    place: str
    rule: Literal["forbid", "forbid unless", "forbid if", "permit unless", "permit if"]
    loses: NotRequired[Sequence[str]]
    gains: NotRequired[Sequence[str]]
    empty: NotRequired[bool]
    gone: NotRequired[bool]
    now: NotRequired[str]


class PrefixExemptionDocument(TypedDict):
    """A resource that becomes a prefix, and the existing `resources` below it that it does not cover.

    Each of these stays a resource of its own: policies that name the prefix do not apply to it.
    """

    zone: str
    prefix: str
    resources: Sequence[str]


class MissingNameDocument(TypedDict):
    """A name in an active policy that no object of the zone has, so that the rule never matches.

    `name` is written as in the policy. `managed`: this owner manages the policy.
    """

    zone: str
    name: str
    policy: str
    place: str
    managed: NotRequired[bool]


class DecidingDocument(TypedDict):
    """The active policy set of a zone changes, or the active policies may forbid less or permit more.

    `before` and `after` are policy sets; `after` is null where none is active. `forbids` are policies with a
    `forbid` that are no longer active; `forbids_less` stay active with a `forbid` that was removed or may
    apply to less. `permits` are policies with a `permit` that become active; `permits_more` stay active with
    a `permit` that is new or may apply to more. `first` describes the default policies where they become
    active again, `first_ended` where they no longer are. `drift`: git's policy set was active until somebody
    activated another one on the server, or deleted it; `forbids_again` are policies with a `forbid` that are
    inactive because of that.
    """

    zone: str
    before: str
    after: str | None
    forbids: NotRequired[Sequence[str]]
    forbids_less: NotRequired[Sequence[str]]
    permits: NotRequired[Sequence[str]]
    permits_more: NotRequired[Sequence[str]]
    first: NotRequired[Sequence[str]]
    first_ended: NotRequired[Sequence[str]]
    drift: NotRequired[bool]
    forbids_again: NotRequired[Sequence[str]]


class ProbableRenameDocument(TypedDict):
    """An object that is deleted while a similar one is created in the same zone: perhaps it is renamed.

    `deleted` and `created` are `Kind zone/name`, `place` is that of the new manifest. With `previous_name` in
    its `lifecycle.previous_names`, and the members of `keep` in its `spec`, the object stays what it is.
    `differing`: the members in which the two differ, besides the identifier.
    """

    deleted: str
    created: str
    place: str
    previous_name: str
    differing: NotRequired[Sequence[str]]
    keep: NotRequired[Mapping[str, str]]


class InactivePolicyDocument(TypedDict):
    """A policy that decides nothing after the plan, because the active policy set does not list it.

    `policy` and `active_set` are `Kind zone/name`; `active_set` is null where the zone's default policies are
    active. `place` and `set_place` are those of the two manifests; without a `set_place`, the active set is
    not of this configuration: `set_owner` manages it, or nobody does. `listed_by`: inactive policy sets of
    the configuration that list the policy, each with its place. `unchanged`: the plan does not write it.
    """

    policy: str
    place: str
    active_set: str | None
    set_place: NotRequired[str]
    set_owner: NotRequired[str]
    listed_by: NotRequired[Sequence[str]]
    unchanged: NotRequired[bool]


class LostProviderDocument(TypedDict):
    """A resource that stays and loses its credential provider, each as `Kind zone/identifier`.

    `deleted`: the plan deletes the provider; otherwise the resource's manifest no longer names it. `refused`:
    exchanges for the resource are refused from then on, because no manifest of the plan says what issues its
    tokens instead; otherwise the zone issues them itself.
    """

    resource: str
    provider: str
    deleted: bool
    refused: bool


class GuardDocument(TypedDict):
    """A reason why a plan is refused. `stale`: the server has changed since; otherwise a guard refuses it."""

    code: str
    message: str
    stale: bool


class ProblemDocument(TypedDict):
    """A problem, with its place in the manifests and its member where these are known.

    `line` and `column` count from 1. `object` is `Kind zone/name`.
    """

    code: str
    message: str
    path: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]
    object: NotRequired[str]
    field: NotRequired[str]


class CascadeDocument(TypedDict):
    """What the server deletes together with an object that a plan deletes, as counted in the dry run.

    `object` is `Kind zone/name`. `in_use`: a client or a credential that was used within thirty days.
    """

    object: str
    takes_along: Mapping[str, int]
    in_use: bool


class NamedRuleDocument(TypedDict):
    """A rule of a policy: its `@id`, or its place among the rules of the text, from 0."""

    policy: str
    rule: str


class ChangedRequestDocument(TypedDict):
    """A request whose decision changes: how often it was recorded, and last when.

    `user` is null for a token of the application's own. `user_email` is there for callers who may read users.
    `actors` are those that the token names (`act`), the application itself first. `scopes` are those that are
    lost or gained; without it, the application has nothing at the resource on one side. `refused_by` is what
    refuses them, now or afterwards: `policy`, a `dependency` that is not declared, a `scope` that the
    resource does not offer, or a `user`, an `application` or a `resource` that is gone or may not act.
    `before` and `after` are the rules that decide now, and afterwards; none where no rule permits it.
    """

    user: str | None
    user_email: NotRequired[str]
    application: str
    resource: str
    actors: Sequence[str]
    scopes: NotRequired[Sequence[str]]
    decisions: int
    last_at: str
    refused_by: NotRequired[str]
    before: Sequence[NamedRuleDocument]
    after: Sequence[NamedRuleDocument]


class ChangedDecisionsDocument(TypedDict):
    """The number of decisions that change, and of the users, applications and resources that they are of.

    `of_scopes` of the decisions only lose or gain scopes, and are allowed either way. `examples` are those of
    the requests that were recorded most often.
    """

    decisions: int
    of_scopes: int
    users: int
    applications: int
    resources: int
    examples: Sequence[ChangedRequestDocument]


class DecisionImpactDocument(TypedDict):
    """Recorded decisions of a zone that change under the plan, as the server found in the dry run.

    The decisions `recorded` from `since` on were looked at; where `complete` is false there may be older ones
    of the same period that were not. `replayed` of these were decided again, with the present and the
    proposed policies, and `reproduced` of them the present policies decide as was recorded. `not_replayed`
    counts the others by reason: `gone`, a user, application or resource is gone; `too_many`, the dry run had
    no time for them; `unavailable`, the zone's encryption key is not available. `unrecorded` names what rules
    look at and records do not have: the replay assumes it. `loses` are allowed requests that would be refused
    or get fewer scopes, `gains` refused ones that would be allowed, and those that would get more scopes.
    """

    zone: str
    zone_id: str
    since: str
    complete: bool
    recorded: int
    replayed: int
    reproduced: int
    not_replayed: Mapping[str, int]
    unrecorded: Sequence[str]
    loses: ChangedDecisionsDocument
    gains: ChangedDecisionsDocument


class ExpiryDocument(TypedDict):
    """A manifest whose object has expired, or does so within two weeks from now.

    `object` is `Kind zone/name`; `path` and `line` are the place of the manifest, `expires_at` is as written
    there.
    """

    object: str
    path: str
    line: int
    expires_at: str
    expired: bool


class SimilarOwnerDocument(TypedDict):
    """The owner of most objects that the manifests name, while the plan's own owner manages nothing."""

    owner: str
    objects: int


class PlanDocument(TypedDict):
    """A plan, as it is printed and as `--out` saves it.

    `digest` is computed over all members except `source` (the commit that the plan was made from) and those
    that depend on the moment or on the caller: `guards` and `problems` (why the plan is refused now);
    `losses` (what the server deletes along); `decision_impact` (recorded decisions that change; left out
    where the server has not looked, or the caller may not read decisions); `unmanaged` (objects of the zones
    that no configuration manages) and `unmanaged_truncated` (kinds of which the server did not list all);
    `missing_names` (names in active policies that match no object, also after an apply); `without_permit`
    (titles of policy sets that refuse every token, since no policy in them has a `permit`);
    `inactive_policies` (policies of the owner that no active policy set lists: they decide nothing);
    `probable_renames` (objects that are deleted while a similar one is created); `left_out` (titles of
    objects that are not created, since they have expired already); `lost_providers` (resources that stay and
    lose their credential provider); `undelivered` (titles of objects whose one-time secret was never
    confirmed as delivered); `similar_owner` (the owner that was probably intended); `expiring` (manifests of
    objects that have expired or expire soon; not in a saved plan); and `shown_once` (titles of objects whose
    secret the server shows once: an apply without `--secrets-dir` is refused). `names_writers` is false where
    this credential may not read who wrote what. `delete_budgets` are those of `zonectl.yaml`.
    """

    format: Literal["zonewright/plan/v1"]
    tool: ToolDocument
    owner: str
    organization_id: str
    server: str
    base_revision: int
    source: Mapping[str, str]
    summary: Mapping[str, int]
    actions: Sequence[ActionDocument]
    operations: Sequence[Mapping[str, Any]]
    owned: Mapping[str, int]
    wanted: int
    refused: Sequence[str]
    digest: str
    delete_budgets: NotRequired[Mapping[str, int | str]]
    deciding: NotRequired[Sequence[DecidingDocument]]
    widened: NotRequired[Sequence[WidenedDocument]]
    exempt: NotRequired[Sequence[PrefixExemptionDocument]]
    unmanaged: NotRequired[Sequence[UnmanagedDocument]]
    unmanaged_truncated: NotRequired[Sequence[str]]
    missing_names: NotRequired[Sequence[MissingNameDocument]]
    without_permit: NotRequired[Sequence[str]]
    inactive_policies: NotRequired[Sequence[InactivePolicyDocument]]
    probable_renames: NotRequired[Sequence[ProbableRenameDocument]]
    left_out: NotRequired[Sequence[str]]
    lost_providers: NotRequired[Sequence[LostProviderDocument]]
    guards: NotRequired[Sequence[GuardDocument]]
    problems: NotRequired[Sequence[ProblemDocument]]
    losses: NotRequired[Sequence[CascadeDocument]]
    decision_impact: NotRequired[Sequence[DecisionImpactDocument]]
    undelivered: NotRequired[Sequence[str]]
    similar_owner: NotRequired[SimilarOwnerDocument]
    shown_once: NotRequired[Sequence[str]]
    names_writers: NotRequired[bool]
    expiring: NotRequired[Sequence[ExpiryDocument]]


class DriftDocument(TypedDict):
    """The drift of managed objects, and how many objects no configuration manages.

    `managed` counts the objects of the owner. When it is 0 and there are manifests, `nothing_applied` is
    true: nothing was compared, which does not mean that there is no drift. `refused` lists why a plan would
    be refused, for example because another owner manages an object; such objects are not compared either.
    `similar_owner` and `names_writers`: as in a plan. `unseen` lists manifests whose objects this credential
    may not read; they are not compared. `drift` lists members that others changed, `deleted` objects that an
    apply creates again, and `attached` objects that others attached to managed ones. `unmanaged_truncated`,
    as in a plan: the server did not list all objects of these kinds, and `unmanaged_count` is too low.
    `deciding` lists zones where another policy set than git's is active, in the form of the apply that would
    restore it: `before` is the set that is active now. `missing_names` lists names in the owner's active
    policies that match no object.
    """

    format: Literal["zonewright/drift/v1"]
    managed: int
    nothing_applied: bool
    refused: Sequence[str]
    drift: Sequence[ActionDocument]
    deleted: Sequence[ActionDocument]
    attached: Sequence[UnmanagedDocument]
    deciding: NotRequired[Sequence[DecidingDocument]]
    missing_names: NotRequired[Sequence[MissingNameDocument]]
    unmanaged_count: int
    unmanaged: NotRequired[Sequence[UnmanagedDocument]]
    unmanaged_truncated: NotRequired[Sequence[str]]
    similar_owner: NotRequired[SimilarOwnerDocument]
    names_writers: NotRequired[bool]
    unseen: NotRequired[Sequence[str]]


class AuditDocument(TypedDict):
    """The first and the last sequence number of the audit records of a changeset."""

    first: int
    last: int


class ResultDocument(TypedDict):
    """The result of one operation."""

    index: int
    op: str
    kind: str
    id: str
    name: NotRequired[str | None]
    status: NotRequired[str]


class ZoneAddressDocument(TypedDict):
    """A zone that was created: its manifest's name, and by what the server and applications know it."""

    name: str
    id: str
    slug: str
    issuer: str


class ReceiptDocument(TypedDict):
    """The receipt of an apply. Without operations nothing changed, and no request was sent.

    `replayed`: the plan had been applied before. `problems`: it was applied, but a later step failed. `zones`
    are those that it created. `secret_files` have secrets that are shown once, also of a replayed apply.
    """

    format: Literal["zonewright/receipt/v1"]
    changeset_id: str | None
    plan_digest: str
    organization_id: str
    server: str
    owner: str
    source: Mapping[str, str]
    base_revision: int
    revision: int
    replayed: bool
    finished_at: str
    audit: AuditDocument | None
    summary: Mapping[str, int]
    operations: Sequence[ResultDocument]
    secret_files: Sequence[str]
    zones: NotRequired[Sequence[ZoneAddressDocument]]
    problems: NotRequired[Sequence[ProblemDocument]]


class DiagnosticDocument(TypedDict):
    """A problem in a file. Lines and columns count from 1; 0 means the file as a whole.

    `path` is relative to the directory on the command line, or to the common parent of several. In text
    output it is relative to the working directory.
    """

    path: str
    line: int
    column: int
    end_column: int
    code: str
    message: str


class ValidationDocument(TypedDict):
    """The problems in manifests; `plan`, `drift` and `apply` print this too when manifests are invalid.

    `expiring`, of valid manifests: those whose objects have expired or expire soon. `warnings`, of valid
    manifests: what is probably not meant.
    """

    format: Literal["zonewright/validation/v1"]
    valid: bool
    files: int
    manifests: int
    diagnostics: Sequence[DiagnosticDocument]
    warnings: NotRequired[Sequence[DiagnosticDocument]]
    expiring: NotRequired[Sequence[ExpiryDocument]]


class FormattedFileDocument(TypedDict):
    """A file whose manifests are not in canonical form; `diff` with `--diff`, secrets masked."""

    path: str
    diff: NotRequired[Sequence[str]]


class FormattingDocument(TypedDict):
    """The result of `fmt`: `changed` lists the files that it wrote, or with `--check` would have written.

    `diagnostics` lists the problems of files that it left unchanged.
    """

    format: Literal["zonewright/formatting/v1"]
    files: int
    written: bool
    changed: Sequence[FormattedFileDocument]
    diagnostics: Sequence[DiagnosticDocument]


class ManifestSourceDocument(TypedDict):
    """The manifest that a policy was last written from, as the server's ownership record has it."""

    owner: str
    name: str
    file: NotRequired[str]
    line: NotRequired[int]
    commit: NotRequired[str]
    repository: NotRequired[str]


class DecidingPolicyDocument(TypedDict):
    """A rule that decided: a `permit` where the request was allowed, a `forbid` where it was refused."""

    rule: str
    policy_version_id: str
    policy_id: NotRequired[str]
    policy: NotRequired[str]
    version: NotRequired[int]
    source: NotRequired[ManifestSourceDocument]


class DecisionDocument(TypedDict):
    """What became of one request: a sign-in, a token request, a revocation or the end of a session.

    `error` is the code that the client got, `reason` what it did not get to know. `step` numbers the steps of
    a token exchange. `user` is the identifier, `user_email` the address now, for callers who may read users;
    both are null for a user who is deleted. `requests` is above 1 where refusals of one sort were only
    counted.
    """

    id: str
    at: str
    zone: str
    request_id: str | None
    event: str
    outcome: str
    error: str | None
    reason: str | None
    step: int | None
    step_name: str | None
    user_id: str | None
    application_id: str | None
    user_agent_id: str | None
    user: str | None
    user_email: NotRequired[str | None]
    application: str | None
    resource: str | None
    credential_id: str | None
    resource_id: str | None
    actors: Sequence[str]
    policies: Sequence[DecidingPolicyDocument]
    requests: int


class ExplainedStepDocument(TypedDict):
    """A step of an exchange.

    `assumed`: what it needs is not there, and the answer goes on as if it were. `also_refused`: an earlier
    step refuses, and this one would, too, if the earlier ones passed and the user agreed to everything.
    `not_reached`: an earlier step refuses, and nothing is known against this one.
    """

    step: int
    name: str
    outcome: Literal["passed", "assumed", "refused", "also_refused", "not_reached"]
    detail: NotRequired[str]


class ExplainedHopDocument(TypedDict):
    """One exchange of the chain: what an application gets for the token that it has.

    `actors` are those that the token would name (`act`), the application itself first, whichever step
    refuses.
    """

    application: str
    resource: str | None
    allowed: bool
    error: str | None
    reason: str | None
    steps: Sequence[ExplainedStepDocument]
    scopes: Sequence[str]
    actors: Sequence[str]
    policies: Sequence[DecidingPolicyDocument]
    left_out: Sequence[str]
    left_out_by: Sequence[DecidingPolicyDocument]
    unpermitted: NotRequired[Sequence[str]]
    remedies: Sequence[str]


class UnresolvedDocument(TypedDict):
    """A name that nothing in the zone has, or several objects; `member` is the option that says it."""

    member: Literal["application", "via", "user", "resource"]
    name: str
    reason: str
    remedy: str


class ExplanationDocument(TypedDict):
    """Whether an application would get a token now, and why; one hop for each of `--via`, and its own.

    `user` is null for a token of the application's own (client credentials). `session` is the sign-in that
    the answer rests on: null for such a token, and where none is active: then one that begins now is assumed.
    Names in `unresolved` end the command with 1; a refusal then says nothing but that.
    """

    format: Literal["zonewright/explanation/v1"]
    zone: str
    at: str
    allowed: bool
    user: str | None
    session: str | None
    unresolved: NotRequired[Sequence[UnresolvedDocument]]
    hops: Sequence[ExplainedHopDocument]


class DecisionsDocument(TypedDict):
    """Decision records, the newest first."""

    format: Literal["zonewright/decisions/v1"]
    decisions: Sequence[DecisionDocument]


class SecretDocument(TypedDict):
    """A secret in the vault of a zone, without its value.

    `resource`: identifier of the resource that it is of; left out for another object, which `entity_id`
    names.
    """

    id: str
    entity_id: str
    resource: NotRequired[str]
    name: str
    type: str
    version: int
    updated_at: str


class SecretsDocument(TypedDict):
    """Secrets in the vault of a zone: those that there are, or the one that was stored or deleted."""

    format: Literal["zonewright/secrets/v1"]
    zone: str
    secrets: Sequence[SecretDocument]


class ErrorDocument(TypedDict):
    """The failure of a command without a result: wrong usage, a server out of reach, an interruption."""

    format: Literal["zonewright/error/v1"]
    exit_code: int
    message: str
    problems: Sequence[ProblemDocument]


ALL = {
    "plan": PlanDocument,
    "drift": DriftDocument,
    "receipt": ReceiptDocument,
    "validation": ValidationDocument,
    "formatting": FormattingDocument,
    "decisions": DecisionsDocument,
    "secrets": SecretsDocument,
    "explanation": ExplanationDocument,
    "error": ErrorDocument,
}
"""Name of the schema -> the document that it describes."""
