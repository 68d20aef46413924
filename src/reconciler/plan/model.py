"""The plan as a value: actions with their field changes, operations of the changeset, and the digest."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, cast

from reconciler.kinds import InForce, Write
from reconciler.output_documents import (
    PLAN,
    ActionDocument,
    ChangeDocument,
    InactivePolicyDocument,
    LostProviderDocument,
    PlanDocument,
    ProbableRenameDocument,
    SimilarOwnerDocument,
    UnmanagedDocument,
)

from .canonical_json import canonical_pieces
from .operations import Operation
from .policy_impact import MissingPolicyName, PolicySetChange, PrefixExemption, WidenedAccess

# Members that the digest leaves out, because they do not change what the plan does: the commit differs after
# a merge that leaves the manifests equal, and the others depend on the moment.
NOT_IN_DIGEST = (
    "digest",
    "source",
    "base_revision",
    "owned",
    "wanted",
    "guards",
    "problems",
    "losses",
    "decision_impact",
    "unmanaged",
    "unmanaged_truncated",
    "missing_names",
    "without_permit",
    "inactive_policies",
    "probable_renames",
    "left_out",
    "lost_providers",
    "undelivered",
    "similar_owner",
    "shown_once",
    "names_writers",
    "expiring",
)


NO_MANIFEST = "no manifest describes it any more"  # why something is deleted


def title_of(kind: str, zone: str | None, name: str) -> str:
    """An object as text for people: `Application retail/portal`, `Zone retail`."""
    return f"{kind} {zone}/{name}" if zone else f"{kind} {name}"


class ChangeState(StrEnum):
    """Why a field changes: the outcome of the three-way diff."""

    PENDING = "pending"  # git is ahead: the manifest differs from what was applied last
    DRIFT = "drift"  # somebody changed what was applied
    CONFLICT = "conflict"  # both
    CLAIM = "claim"  # the server has this value already; from now on the owner manages the member
    RELEASE = "release"  # removed from git, and at its default already
    KEEP = "keep"  # written again unchanged: in a replacement, or because it would follow another member


class Op(StrEnum):
    """What an action does to an entity."""

    CREATE = "create"
    UPDATE = "update"
    ADOPT = "adopt"
    RENAME = "rename"
    REPLACE = "replace"
    RELEASE = "release"
    DELETE = "delete"


BY_OTHERS = (ChangeState.DRIFT, ChangeState.CONFLICT)
CHANGING = (ChangeState.PENDING, *BY_OTHERS)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """The change of one field, before and after. Secrets appear as `{"secret": reference}`, never as values.

    Attributes:
        applied: the value applied last, for drift and conflicts.
        state: None in creations and deletions.
        in_force: the active version, where `before` is a value of that older version; and what in it git does
            not list. With `before_is_latest`, `before` is the latest version's value, which is inactive.
    """

    path: str
    before: Any
    after: Any
    state: ChangeState | None = None
    applied: Any = None
    in_force: InForce | None = None

    def as_json(self) -> ChangeDocument:
        """The change as a JSON object."""
        found: dict[str, Any] = {"field": self.path, "before": self.before, "after": self.after}
        if self.state is not None:
            found["state"] = str(self.state)
        if self.state in BY_OTHERS:
            found["applied"] = self.applied
        if self.in_force is not None:
            found["in_force"] = {
                "version": self.in_force.version,
                "latest_version": self.in_force.latest_version,
                "contents": [asdict(part) for part in self.in_force.contents],
                **({"before_is_latest": True} if self.in_force.before_is_latest else {}),
            }
        return cast(ChangeDocument, found)


@dataclass(frozen=True, slots=True)
class Action:
    """The planned change of one entity, with its reason.

    Attributes:
        zone: the zone's name for people.
        id: None for creations.
        reason: `file:line` of the manifest, or why without one.
        changes: empty only where something other than members changes: the owner, the manifest name or the
            secret.
        handle: the entity's handle in the zone, if its kind has one.
        protected: it may not be deleted or replaced.
        takes_along: how many entities that this owner does not manage are deleted with it.
        previous_name: the manifest's name before a rename.
        moved_from, moved_to: the other zone, of an entity that is deleted in one and created in the other.
        shown_once: the answer to its creation has a secret that is never shown again.
        secret_ends: the secret that it had stops working.
        deleted: the entity was deleted by others, and is created or adopted again.
        keep: of a replacement only because the manifest omits its fixed handle, the member and the value to
            write so that the object is kept.
        write: the last write by others, where it reverts one. Not in the digest: not every caller may read
            it.
    """

    op: Op
    kind: str
    zone: str | None
    name: str
    id: str | None
    reason: str
    changes: tuple[FieldChange, ...] = ()
    handle: str | None = None
    protected: bool = False
    takes_along: int = 0
    previous_name: str | None = None
    moved_from: str | None = None
    moved_to: str | None = None
    shown_once: bool = False
    secret_ends: bool = False
    deleted: bool = False
    keep: tuple[str, str] | None = None
    write: Write | None = field(default=None, compare=False)

    def as_json(self) -> ActionDocument:
        """The action as a JSON object; what does not apply is left out."""
        found: dict[str, Any] = {
            "op": str(self.op),
            "kind": self.kind,
            "name": self.name,
            "reason": self.reason,
        }
        optional = {
            "zone": self.zone,
            "id": self.id,
            "handle": self.handle,
            "protected": self.protected,
            "takes_along": self.takes_along,
            "previous_name": self.previous_name,
            "moved_from": self.moved_from,
            "moved_to": self.moved_to,
            "shown_once": self.shown_once,
            "secret_ends": self.secret_ends,
            "deleted": self.deleted,
            "keep": dict([self.keep]) if self.keep is not None else None,
        }
        found.update({name: value for name, value in optional.items() if value})
        found["changes"] = [change.as_json() for change in self.changes]
        return cast(ActionDocument, found)

    @property
    def destroys(self) -> bool:
        """Tell whether it deletes an existing entity, or replaces it."""
        return self.op in (Op.DELETE, Op.REPLACE)

    @property
    def has_drift(self) -> bool:
        """Tell whether it reverts a change by others."""
        return self.deleted or any(each.state in BY_OTHERS for each in self.changes)

    @property
    def is_drift(self) -> bool:
        """Tell whether it only reverts changes by others."""
        if self.op is Op.UPDATE:
            return all(change.state in (ChangeState.DRIFT, ChangeState.KEEP) for change in self.changes)
        return self.deleted and self.op in (Op.CREATE, Op.ADOPT)

    @property
    def title(self) -> str:
        """The entity as text for people: kind, zone and name."""
        return title_of(self.kind, self.zone, self.name)


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """An unmanaged object, or a field of a managed object that no manifest sets.

    Attributes:
        zone: the zone's name for people.
        name: its handle; for a kind without handles, what it refers to.
        attached_to: the managed objects that it belongs to: a credential's application, an assignment's role.
        member: its path; None for an object.
        values: the items of a list, or the one value of another member.
        listed: the member is a list.
        in_force: it is active in the zone.
        describable: there is a kind of manifest for it; what has none is not reported as drift.
        write: the last write.
    """

    kind: str
    zone: str | None
    name: str
    id: str
    attached_to: tuple[str, ...] = ()
    member: str | None = None
    values: tuple[Any, ...] = ()
    listed: bool = True
    in_force: bool = False
    describable: bool = True
    write: Write | None = field(default=None, compare=False)

    @property
    def place(self) -> tuple[str, str, str, str]:
        """The key that unmanaged objects are sorted by."""
        return self.zone or "", self.kind, self.name, self.member or ""

    @property
    def title(self) -> str:
        """The object as text for people."""
        return title_of(self.kind, self.zone, self.name)

    def as_json(self) -> UnmanagedDocument:
        """As a JSON object; what does not apply is left out."""
        document: UnmanagedDocument = {"kind": self.kind, "zone": self.zone, "name": self.name, "id": self.id}
        if self.member is not None:
            document["member"], document["values"] = self.member, list(self.values)
        if self.attached_to:
            document["attached_to"] = list(self.attached_to)
        if self.in_force:
            document["in_force"] = True
        if not self.describable:
            document["describable"] = False
        if self.write is not None:
            document["write"] = self.write.as_json()
        return document


@dataclass(frozen=True, slots=True)
class SimilarOwner:
    """The owner that was probably intended. `objects`: how many manifests name one of its objects."""

    owner: str
    objects: int

    def as_json(self) -> SimilarOwnerDocument:
        """As a JSON object."""
        return {"owner": self.owner, "objects": self.objects}


@dataclass(frozen=True, slots=True)
class ProbableRename:
    """An object that is deleted, and the similar one that is created.

    Attributes:
        place: `file:line` of the new object's manifest.
        differing: the members in which the two differ, besides the handle.
        handle: the member with the handle, where the old value would have to be written to be kept.
        old_handle: that value.
        is_fixed: it never changes: with another one the object is replaced, also under `previous_names`.
    """

    kind: str
    zone: str | None
    before: str
    after: str
    place: str
    differing: tuple[str, ...] = ()
    handle: str | None = None
    old_handle: str | None = None
    is_fixed: bool = False

    def as_json(self) -> ProbableRenameDocument:
        """As a JSON object; what does not apply is left out."""
        document: ProbableRenameDocument = {
            "deleted": title_of(self.kind, self.zone, self.before),
            "created": title_of(self.kind, self.zone, self.after),
            "place": self.place,
            "previous_name": self.before,
        }
        if self.differing:
            document["differing"] = list(self.differing)
        if self.handle is not None and self.old_handle is not None:
            document["keep"] = {self.handle: self.old_handle}
        return document


@dataclass(frozen=True, slots=True)
class InactivePolicy:
    """A policy of the plan's owner that the active policy set does not list: it decides nothing.

    Attributes:
        zone: the zone's name for people.
        place: `file:line` of its manifest.
        active_set: the title of the active policy set; None for the zone's default policies.
        set_place: `file:line` of that set's manifest, where this configuration has one.
        set_owner: the other configuration that manages that set, where one does.
        listed_by: the inactive policy sets of this configuration that list the policy, each with its place.
        unchanged: the plan does not write it.
    """

    zone: str | None
    policy: str
    place: str
    active_set: str | None = None
    set_place: str | None = None
    set_owner: str | None = None
    listed_by: tuple[str, ...] = ()
    unchanged: bool = False

    def as_json(self) -> InactivePolicyDocument:
        """As a JSON object; what does not apply is left out."""
        document: InactivePolicyDocument = {
            "policy": title_of("Policy", self.zone, self.policy),
            "place": self.place,
            "active_set": self.active_set,
        }
        if self.set_place is not None:
            document["set_place"] = self.set_place
        if self.set_owner is not None:
            document["set_owner"] = self.set_owner
        if self.listed_by:
            document["listed_by"] = list(self.listed_by)
        if self.unchanged:
            document["unchanged"] = True
        return document


@dataclass(frozen=True, slots=True)
class LostProvider:
    """A resource that stays, and the credential provider that it loses.

    Attributes:
        zone: the zone's name for people.
        resource, provider: identifiers.
        is_deleted: the provider is deleted; otherwise the resource's manifest no longer names it.
        is_refused: exchanges for the resource are refused afterwards; otherwise the zone issues its tokens.
        has_stored_keys: the provider is the vault, which has keys; otherwise it issues tokens.
    """

    zone: str | None
    resource: str
    provider: str
    is_deleted: bool = False
    is_refused: bool = False
    has_stored_keys: bool = False

    @property
    def title(self) -> str:
        """The resource as text for people."""
        return title_of("Resource", self.zone, self.resource)

    def as_json(self) -> LostProviderDocument:
        """As a JSON object."""
        return {
            "resource": self.title,
            "provider": title_of("Provider", self.zone, self.provider),
            "deleted": self.is_deleted,
            "refused": self.is_refused,
        }


@dataclass(frozen=True)
class Plan:
    """Everything that an apply does, in order, bound to the revision it was computed from.

    Attributes:
        actions: what reviewers and guards read; one for each entity that changes.
        operations: the changeset as it is sent, except that each secret is a `{"secret": reference}`.
        owned: how many entities of each kind this owner manages now; delete budgets are relative to it.
        manifest_count: the number of manifests.
        refused: reasons why the plan cannot be applied, which no consent lifts.
        budgets: kind -> how many deletions need no consent: a number, or `N%` of the managed objects.
        deciding: zones where the active policy set, or what it may forbid or permit, changes.
        widened: active policies that restrict less afterwards, though their texts are unchanged.
        exempt: resources that become prefixes, with the resources below that they do not cover.
        unmanaged: objects in the zones of the manifests that no configuration manages. Shown to reviewers
            only, and so not in a saved plan.
        unmanaged_truncated: kinds of which the server did not list all objects.
        without_permit: titles of policy sets that refuse every token: no policy in them has a `permit`.
        inactive_policies: policies of its owner that decide nothing, since no active set lists them.
        unseen_policy_sets: zones with policies of its owner where the snapshot does not show the active set.
        probable_renames: objects that are deleted while a similar one is created beside them.
        lost_providers: resources that stay and lose their credential provider.
        left_out: titles of what has expired and does not exist: it is not created.
        missing_names: names in active policies that match no object, also after the plan. Shown as
            `unmanaged` is.
        saved: it was read from a file, which somebody else may have written.
        undelivered: objects with a one-time secret that was never confirmed as delivered.
        similar_owner: the owner of most objects that the manifests name, where this owner manages nothing.
        zone_names: zone id -> its name for people, of the zones that there are.
        names_writers: the server names the actor of each write; not every caller may read that.
        sees_all: an entity missing from the snapshot does not exist; otherwise the caller may lack
            permission.
    """

    tool_version: str
    owner: str
    organization_id: str
    server: str
    base_revision: int
    source: Mapping[str, str]
    actions: tuple[Action, ...]
    operations: tuple[Operation, ...]
    owned: Mapping[str, int]
    manifest_count: int
    refused: tuple[str, ...] = ()
    budgets: Mapping[str, int | str] = field(default_factory=dict)
    deciding: tuple[PolicySetChange, ...] = ()
    widened: tuple[WidenedAccess, ...] = ()
    exempt: tuple[PrefixExemption, ...] = ()
    unmanaged: tuple[Unmanaged, ...] = field(default=(), compare=False)
    unmanaged_truncated: tuple[str, ...] = field(default=(), compare=False)
    missing_names: tuple[MissingPolicyName, ...] = field(default=(), compare=False)
    without_permit: tuple[str, ...] = field(default=(), compare=False)
    inactive_policies: tuple[InactivePolicy, ...] = field(default=(), compare=False)
    unseen_policy_sets: frozenset[str] = field(default=frozenset(), compare=False)
    probable_renames: tuple[ProbableRename, ...] = field(default=(), compare=False)
    lost_providers: tuple[LostProvider, ...] = field(default=(), compare=False)
    left_out: tuple[str, ...] = field(default=(), compare=False)
    undelivered: tuple[Action, ...] = field(default=(), compare=False)
    saved: bool = field(default=False, compare=False)
    similar_owner: SimilarOwner | None = field(default=None, compare=False)
    zone_names: Mapping[str, str] = field(default_factory=dict, compare=False)
    names_writers: bool = field(default=True, compare=False)
    sees_all: bool = field(default=True, compare=False)
    _digest: list[str] = field(default_factory=list, compare=False, repr=False)

    def as_json(self) -> PlanDocument:
        """The plan as JSON, with its digest."""
        lists = {"actions": [each.as_json() for each in self.actions], "operations": list(self.operations)}
        return cast(PlanDocument, {**self._content(), **lists, "digest": self.digest})

    @property
    def digest(self) -> str:
        """`sha256:` and the digest of the canonical JSON: the same for equal plans, made at any time."""
        if not self._digest:
            self._digest.append(digest_of(self._content()))
        return self._digest[0]

    @property
    def idempotency_key(self) -> str:
        """The key under which the server applies the plan once: digest and base revision."""
        return f"{self.digest}@{self.base_revision}"

    def _content(self) -> dict[str, Any]:
        """The members of the plan's JSON. Actions are yielded one by one: as JSON they take much memory."""
        content: dict[str, Any] = {
            "format": PLAN,
            "tool": {"name": "zonectl", "version": self.tool_version},
            "owner": self.owner,
            "organization_id": self.organization_id,
            "server": self.server,
            "base_revision": self.base_revision,
            "source": dict(self.source),
            "summary": self.summary(),
            "actions": (action.as_json() for action in self.actions),
            "operations": self.operations,
            "owned": dict(self.owned),
            "wanted": self.manifest_count,
            "refused": list(self.refused),
        }
        if self.deciding:
            content["deciding"] = [each.as_json() for each in self.deciding]
        if self.widened:
            content["widened"] = [each.as_json() for each in self.widened]
        if self.exempt:
            content["exempt"] = [each.as_json() for each in self.exempt]
        if self.undelivered:
            content["undelivered"] = [each.title for each in self.undelivered]
        if self.similar_owner is not None:
            content["similar_owner"] = self.similar_owner.as_json()
        if self.showing_once:
            content["shown_once"] = [each.title for each in self.showing_once]
        if not self.names_writers:
            content["names_writers"] = False
        if self.budgets:
            content["delete_budgets"] = dict(self.budgets)
        return content

    def summary(self) -> dict[str, int]:
        """The number of actions by operation."""
        counts = Counter(str(action.op) for action in self.actions)
        return {str(op): counts[op] for op in Op if counts[op]}

    def count(self, state: ChangeState) -> int:
        """How many members change for this reason."""
        return sum(change.state is state for action in self.actions for change in action.changes)

    @property
    def empty(self) -> bool:
        """Tell whether there are no operations."""
        return not self.operations

    @property
    def destroying(self) -> list[Action]:
        """The actions that delete or replace an entity."""
        return [action for action in self.actions if action.destroys]

    @property
    def showing_once(self) -> list[Action]:
        """The actions that create a secret which the server shows once."""
        return [action for action in self.actions if action.shown_once]

    @property
    def only_drift(self) -> bool:
        """Tell whether all operations revert changes by others."""
        return bool(self.actions) and all(action.is_drift for action in self.actions)


def digest_of(content: Mapping[str, object]) -> str:
    """The digest of a plan's JSON, without the members that change nothing. Spec: RFC 8785, SHA-256."""
    digest = hashlib.sha256()
    for piece in canonical_pieces(
        {name: value for name, value in content.items() if name not in NOT_IN_DIGEST}
    ):
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"
