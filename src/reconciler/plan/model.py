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
    PlanDocument,
    SimilarOwnerDocument,
    UnmanagedDocument,
)

from .canonical_json import canonical_pieces
from .operations import Operation
from .policy_impact import MissingPolicyName, PolicySetChange, PrefixExemption, WidenedAccess

# Members that the digest leaves out: they do not change what the plan does. A merge gives equal manifests
# another commit, and others write something else meanwhile.
BESIDE = (
    "digest",
    "source",
    "base_revision",
    "owned",
    "wanted",
    "guards",
    "problems",
    "losses",
    "unmanaged",
    "unmanaged_truncated",
    "missing_names",
    "undelivered",
    "similar_owner",
    "shown_once",
    "names_writers",
)


NO_MANIFEST = "no manifest describes it any more"  # why something is deleted


class ChangeState(StrEnum):
    """Why a field changes: the outcome of the three-way diff."""

    PENDING = "pending"  # git is ahead: wanted differs from what we last applied
    DRIFT = "drift"  # someone changed what we had applied
    CONFLICT = "conflict"  # both
    CLAIM = "claim"  # the value is there already; from now on it is ours
    RELEASE = "release"  # no longer in git, and at its default already
    KEEP = "keep"  # written again as it is: what is replaced has it anew, or it would follow another member


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
        applied: what we last wrote, for drift and conflicts.
        state: None in creations and deletions.
        in_force: where `before` is what an older version says that is in force: which one, and what in it
            git does not name. With `before_is_latest`, `before` is what the latest one says, which is not.
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
        changes: never empty, except where something else than members changes: its owner, name or secret.
        handle: what the entity is called in the zone, where it has a handle.
        protected: it may not be deleted or replaced.
        takes_along: how many entities that this owner does not manage go with it.
        previous_name: the manifest's name before a rename.
        moved_from, moved_to: the other zone, of what is deleted in one and created in another: nothing moves.
        shown_once: creating it answers a secret that is never shown again.
        secret_ends: the secret that it had stops working.
        deleted: others have deleted what is created or adopted again.
        write: who has changed or deleted what is put back. No part of the plan: not everybody may know it.
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
        }
        found.update({name: value for name, value in optional.items() if value})
        found["changes"] = [change.as_json() for change in self.changes]
        return cast(ActionDocument, found)

    @property
    def destroys(self) -> bool:
        """Tell whether what was there goes away."""
        return self.op in (Op.DELETE, Op.REPLACE)

    @property
    def has_drift(self) -> bool:
        """Tell whether it puts back something that others changed."""
        return self.deleted or any(each.state in BY_OTHERS for each in self.changes)

    @property
    def is_drift(self) -> bool:
        """Tell whether it does nothing but put back what others changed."""
        if self.op is Op.UPDATE:
            return all(change.state in (ChangeState.DRIFT, ChangeState.KEEP) for change in self.changes)
        return self.deleted and self.op in (Op.CREATE, Op.ADOPT)

    @property
    def title(self) -> str:
        """The entity, for people."""
        return f"{self.kind} {self.zone}/{self.name}" if self.zone else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """An unmanaged object, or a field of a managed object that no manifest sets.

    Attributes:
        zone: the zone's name for people.
        name: its handle; what it refers to, where it has none.
        attached_to: what this owner manages and it belongs to: an application's credential, a role's grant.
        member: its path; None for an object.
        values: what is in a list, or the one value of another member.
        listed: the member is a list.
        in_force: it decides in the zone.
        describable: a manifest can describe such; what none can is no drift, whatever it belongs to.
        write: who has written it last.
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
        """What it is listed by."""
        return self.zone or "", self.kind, self.name, self.member or ""

    @property
    def title(self) -> str:
        """The object, for people."""
        return f"{self.kind} {self.zone}/{self.name}" if self.zone else f"{self.kind} {self.name}"

    def as_json(self) -> UnmanagedDocument:
        """As a JSON object; what does not apply is left out."""
        told: UnmanagedDocument = {"kind": self.kind, "zone": self.zone, "name": self.name, "id": self.id}
        if self.member is not None:
            told["member"], told["values"] = self.member, list(self.values)
        if self.attached_to:
            told["attached_to"] = list(self.attached_to)
        if self.in_force:
            told["in_force"] = True
        if not self.describable:
            told["describable"] = False
        if self.write is not None:
            told["write"] = self.write.as_json()
        return told


@dataclass(frozen=True, slots=True)
class SimilarOwner:
    """The owner that was probably meant. `objects`: how many manifests are named as its objects."""

    owner: str
    objects: int

    def as_json(self) -> SimilarOwnerDocument:
        """As a JSON object."""
        return {"owner": self.owner, "objects": self.objects}


@dataclass(frozen=True)
class Plan:
    """Everything that an apply does, in order, bound to the revision it was computed from.

    Attributes:
        actions: for people and guards, one for each entity that changes.
        operations: for the server: the changeset, word for word, except that secrets stand as
            `{"secret": reference}`.
        owned: how many entities of each kind this owner manages now; what the delete budget is a part of.
        wanted: how many manifests there are.
        refused: what makes the plan impossible to apply, whatever is consented to.
        budgets: kind -> how many deletions need no consent, as a number or as `N%` of those that are managed.
        deciding: zones whose deciding policy set changes, or what it may forbid or permit.
        widened: policies in force that restrict less afterwards, though their texts are unchanged.
        exempt: resources that become prefixes, with what stays a resource of its own beneath them.
        unmanaged: what is in the zones that the manifests name and in no configuration. No part of what is
            done, and so of no saved plan.
        unmanaged_truncated: kinds of which the server has more than it tells.
        missing_names: what policies in force name and nothing is called, afterwards either. As `unmanaged`.
        saved: it was read from a file, which somebody else may have written.
        undelivered: what has a secret that was shown once, and of which nobody has said that it arrived.
        similar_owner: who manages most of what the manifests name, where this owner manages nothing.
        names_writers: the server says who has written and deleted what; not to everybody.
        sees_all: what the server did not tell of is not there; else this credential may only not read it.
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
    wanted: int
    refused: tuple[str, ...] = ()
    budgets: Mapping[str, int | str] = field(default_factory=dict)
    deciding: tuple[PolicySetChange, ...] = ()
    widened: tuple[WidenedAccess, ...] = ()
    exempt: tuple[PrefixExemption, ...] = ()
    unmanaged: tuple[Unmanaged, ...] = field(default=(), compare=False)
    unmanaged_truncated: tuple[str, ...] = field(default=(), compare=False)
    missing_names: tuple[MissingPolicyName, ...] = field(default=(), compare=False)
    undelivered: tuple[Action, ...] = field(default=(), compare=False)
    saved: bool = field(default=False, compare=False)
    similar_owner: SimilarOwner | None = field(default=None, compare=False)
    names_writers: bool = field(default=True, compare=False)
    sees_all: bool = field(default=True, compare=False)
    _digest: list[str] = field(default_factory=list, compare=False, repr=False)

    def as_json(self) -> PlanDocument:
        """The plan as JSON, with its digest."""
        lists = {"actions": [each.as_json() for each in self.actions], "operations": list(self.operations)}
        return cast(PlanDocument, {**self._content(), **lists, "digest": self.digest})

    @property
    def digest(self) -> str:
        """`sha256:` and the digest of the canonical JSON: the name of what is done, whenever that is."""
        if not self._digest:
            self._digest.append(digest_of(self._content()))
        return self._digest[0]

    @property
    def idempotency_key(self) -> str:
        """The key under which the server applies the plan once: digest and base revision."""
        return f"{self.digest}@{self.base_revision}"

    def _content(self) -> dict[str, Any]:
        """The members of the plan's JSON; actions come one by one, because as JSON they take much memory."""
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
            "wanted": self.wanted,
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
        """Actions by what they do."""
        counts = Counter(str(action.op) for action in self.actions)
        return {str(op): counts[op] for op in Op if counts[op]}

    def count(self, state: ChangeState) -> int:
        """How many members change for that reason."""
        return sum(change.state is state for action in self.actions for change in action.changes)

    @property
    def empty(self) -> bool:
        """Tell whether there is nothing to do."""
        return not self.operations

    @property
    def destroying(self) -> list[Action]:
        """The actions that delete or replace something."""
        return [action for action in self.actions if action.destroys]

    @property
    def showing_once(self) -> list[Action]:
        """The actions that make a secret which the server shows once."""
        return [action for action in self.actions if action.shown_once]

    @property
    def only_drift(self) -> bool:
        """Tell whether all there is to do is to put back what others changed."""
        return bool(self.actions) and all(action.is_drift for action in self.actions)


def digest_of(content: Mapping[str, object]) -> str:
    """The digest of what a plan's JSON says it does. Spec: RFC 8785 canonical form, SHA-256."""
    digest = hashlib.sha256()
    for piece in canonical_pieces({name: value for name, value in content.items() if name not in BESIDE}):
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"
