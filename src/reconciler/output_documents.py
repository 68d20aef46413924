"""Types of the JSON documents that `--output json` prints. `schemas/output/` is generated from them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

PLAN: Literal["zonewright/plan/v1"] = "zonewright/plan/v1"
DRIFT: Literal["zonewright/drift/v1"] = "zonewright/drift/v1"
RECEIPT: Literal["zonewright/receipt/v1"] = "zonewright/receipt/v1"
VALIDATION: Literal["zonewright/validation/v1"] = "zonewright/validation/v1"
FORMATTING: Literal["zonewright/formatting/v1"] = "zonewright/formatting/v1"
ERROR: Literal["zonewright/error/v1"] = "zonewright/error/v1"


class ToolDocument(TypedDict):
    """What made the plan."""

    name: str
    version: str


class PartDocument(TypedDict):
    """Something that is in force and in no list of git, with what it says."""

    kind: str
    name: str
    version: int
    spec: Mapping[str, Any]


class InForceDocument(TypedDict):
    """Which version is in force, where that is not the latest one.

    `before` is what it says, or with `before_is_latest` what the latest one says, which does not decide.
    """

    version: int
    latest_version: int
    contents: Sequence[PartDocument]
    before_is_latest: NotRequired[bool]


class ChangeDocument(TypedDict):
    """One member, before and after.

    A secret stands as `{"secret": reference}`, one that is there as `{"version": ..}`. `state` says why it
    changes; creations and deletions have none. `applied` is what was last written from git.
    """

    field: str
    before: Any
    after: Any
    state: NotRequired[Literal["pending", "drift", "conflict", "claim", "release", "keep"]]
    applied: NotRequired[Any]
    in_force: NotRequired[InForceDocument]


class WriteDocument(TypedDict):
    """When somebody wrote, and who: `type id`, as far as the caller may know; and in which changeset."""

    at: str
    actor: NotRequired[str]
    changeset: NotRequired[str]


class ActionDocument(TypedDict):
    """What happens to one object. `reason` is `file:line` of its manifest, or says why without one.

    `moved_from`, `moved_to`: the zone, of what is deleted in one and made anew in another.
    `deleted`: others have deleted what is made again. `write`, in drift alone: who wrote or deleted last.
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
    write: NotRequired[WriteDocument]
    changes: Sequence[ChangeDocument]


class UnmanagedDocument(TypedDict):
    """An object that no configuration manages, or a member of a managed one that no manifest has.

    `values` are those of a list, or the one value of another `member` that is not at its default.
    `name` is the handle; what it refers to, where there is none. `attached_to` names what the owner manages
    and the object belongs to. `in_force`: it decides in the zone. `describable` is false of what no kind of
    manifest describes: a secret of a vault, a member of a zone, a service account's credential.
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
    """A policy in force that holds back less than before, because what its text names is another.

    `name` is written as in the text, and `rule` says how that goes by it: `forbid`, `permit unless`,
    `forbid unless`; with `if` where it depends on more. `loses`, `gains`: who or what belongs to the name no
    longer, or from now on; of a resource that is a prefix also addresses, `/*` for all beneath one. `empty`:
    nobody does any more. `gone`: nothing is called so; `now`: the new name.
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
    """A resource that is a prefix from now on, and `resources` beneath it that were there before.

    Each of these stays a resource of its own: what policies say of the prefix does not hold for it.
    """

    zone: str
    prefix: str
    resources: Sequence[str]


class MissingNameDocument(TypedDict):
    """A name in a policy in force that nothing in the zone has, so that the rule matches nobody.

    `name` is written as in the text. `managed`: the policy is the owner's, so git means it to hold.
    """

    zone: str
    name: str
    policy: str
    place: str
    managed: NotRequired[bool]


class DecidingDocument(TypedDict):
    """Another policy set decides in a zone than before, or the same one may forbid less or permit more.

    `after` is null where none decides. `forbids` are policies with a `forbid` that decide no longer, and
    `forbids_less` those that decide as before with one that is gone, or is written so that it may apply to
    less. `permits` are policies with a `permit` that decide only now, and `permits_more` those that decide as
    before with one that is new, or is written so that it may apply to more. `first` describes the policies
    that the zone began with, where these decide again, `first_ended` where they no longer do. `drift`: git's
    set decided before somebody let another one decide on the server, or deleted it; `forbids_again` are
    policies with a `forbid` that are not in force because of that.
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


class GuardDocument(TypedDict):
    """Why a plan is not applied. `stale`: the server is not as it was; else a guard stands against it."""

    code: str
    message: str
    stale: bool


class ProblemDocument(TypedDict):
    """Something wrong, with the place in the manifests and the member where these are known.

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
    """What goes with an object that a plan deletes, counted when the plan was tried out.

    `object` is `Kind zone/name`. `in_use`: a client or a credential that was used within thirty days.
    """

    object: str
    takes_along: Mapping[str, int]
    in_use: bool


class SimilarOwnerDocument(TypedDict):
    """Who manages what `objects` manifests are named as, while the owner of the plan manages nothing."""

    owner: str
    objects: int


class PlanDocument(TypedDict):
    """A plan, as it is saved and as it is printed.

    `digest` names it. It covers everything but `source`, the commit that it was made from, and what stands
    against it now: `guards`, and the server's `problems`. Nor does it cover `losses`, which change all day;
    `unmanaged`, what is in its zones and in no configuration, with `unmanaged_truncated`, the kinds of which
    there is more than the server tells; `missing_names`, what policies in force name there and nothing is
    called, after an apply either; `undelivered`, the titles of objects whose secret nobody has said to have
    arrived; `similar_owner`, for whom this may be meant; and `shown_once`, the titles of objects whose secret
    the server makes and shows once: an apply without `--secrets-dir` is refused.
    `names_writers` is false where this credential may not know who has written what. `delete_budgets` are
    those of `zonectl.yaml`.
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
    guards: NotRequired[Sequence[GuardDocument]]
    problems: NotRequired[Sequence[ProblemDocument]]
    losses: NotRequired[Sequence[CascadeDocument]]
    undelivered: NotRequired[Sequence[str]]
    similar_owner: NotRequired[SimilarOwnerDocument]
    shown_once: NotRequired[Sequence[str]]
    names_writers: NotRequired[bool]


class DriftDocument(TypedDict):
    """What others did to what the manifests describe, and how much is in no configuration.

    `managed` is how many objects the owner manages. With none, `nothing_applied` is true where the manifests
    describe something: there is nothing to compare, which is no word on drift. `refused` is what a plan would
    be refused for, such as manifests of what another owner has: that is not compared either.
    `similar_owner`, as in a plan: the owner of the run manages nothing, and this one may be meant.
    `names_writers`, as in a plan: it is false where this credential may not know who has written what.
    `unseen` is what the manifests describe and this credential may not read, if it is there: not compared.
    `drift` is what they changed, `deleted` what an apply makes again, and `attached` what they put beside.
    `unmanaged_truncated`, as in a plan: there is more of these kinds, and `unmanaged_count` is too low.
    `deciding`: zones in which other policies decide than git's, as what an apply makes of it: `before` is the
    set that decides now. `missing_names`: what the owner's policies in force name and nothing is called.
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
    """The first and the last sequence number of the audit records that a changeset made."""

    first: int
    last: int


class ResultDocument(TypedDict):
    """What one operation did."""

    index: int
    op: str
    kind: str
    id: str
    name: NotRequired[str | None]
    status: NotRequired[str]


class ReceiptDocument(TypedDict):
    """What an apply did. Without operations there was nothing to do, and the server was asked for nothing.

    `replayed`: the plan had been applied before. `problems`: it is applied, but something after that failed.
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
    problems: NotRequired[Sequence[ProblemDocument]]


class DiagnosticDocument(TypedDict):
    """Something wrong in a file. Lines and columns count from 1; 0 is the file as a whole.

    `path` is relative to the directory that was named, of several to the one around them; in text it is
    relative to where the command runs.
    """

    path: str
    line: int
    column: int
    end_column: int
    code: str
    message: str


class ValidationDocument(TypedDict):
    """What is wrong with manifests. `plan`, `drift` and `apply` print it too, when there is anything."""

    format: Literal["zonewright/validation/v1"]
    valid: bool
    files: int
    manifests: int
    diagnostics: Sequence[DiagnosticDocument]


class FormattedFileDocument(TypedDict):
    """A file whose manifests are not in canonical form; `diff` with `--diff`, secrets masked."""

    path: str
    diff: NotRequired[Sequence[str]]


class FormattingDocument(TypedDict):
    """What `fmt` did: `changed` lists the files it wrote, or with `--check` would have written.

    `diagnostics` says why files were left as they are.
    """

    format: Literal["zonewright/formatting/v1"]
    files: int
    written: bool
    changed: Sequence[FormattedFileDocument]
    diagnostics: Sequence[DiagnosticDocument]


class ErrorDocument(TypedDict):
    """A command that came to nothing else: wrong usage, a server that is not reached, an interruption."""

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
    "error": ErrorDocument,
}
"""Name of the schema -> the document that it describes."""
