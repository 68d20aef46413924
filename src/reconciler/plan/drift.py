"""Detects drift: what others changed, deleted or attached on the server since the last apply."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from reconciler.output_documents import DRIFT, ActionDocument, DriftDocument

from .delete_budget import ZONE
from .model import BY_OTHERS, Action, Op, Plan, SimilarOwner, Unmanaged
from .policy_impact import MissingPolicyName, PolicySetChange


@dataclass(frozen=True)
class Drift:
    """Changes made on the server to what a configuration manages, by others than its own applies.

    Attributes:
        changed: actions whose changes are all drift or conflicts: members that others changed.
        deleted: create actions for managed objects that others deleted.
        attached: unmanaged objects that belong to a managed one: grants, credentials.
        unmanaged: the other unmanaged objects in the zones of the configuration.
        unmanaged_truncated: kinds of which the server has more objects than it lists.
        deciding: zones in which others activated another policy set than the one in git.
        similar_owner: an owner with a similar name, where the owner of this run manages nothing.
        managed: number of objects that the owner manages.
        pending: the manifests have changes that are not applied yet.
        refused: why the plan is refused; the manifests concerned are not compared.
        names_writers: the credential may read the audit trail, so authors are shown.
        unseen: titles of objects that may exist, but that this credential cannot read.
        missing_names: names in git's active policies that match no object.
    """

    changed: tuple[Action, ...]
    deleted: tuple[Action, ...]
    attached: tuple[Unmanaged, ...]
    unmanaged: tuple[Unmanaged, ...]
    deciding: tuple[PolicySetChange, ...] = ()
    similar_owner: SimilarOwner | None = None
    owner: str = ""
    managed: int = 0
    pending: bool = False
    refused: tuple[str, ...] = ()
    names_writers: bool = True
    unseen: tuple[str, ...] = ()
    unmanaged_truncated: tuple[str, ...] = ()
    missing_names: tuple[MissingPolicyName, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.deleted or self.attached or self.missing_names)

    @property
    def nothing_applied(self) -> bool:
        """Tell whether nothing was compared, which does not mean that there is no drift."""
        return not self and not self.managed and (self.pending or bool(self.refused))

    @property
    def incomplete(self) -> bool:
        """Tell whether some manifests were not compared."""
        return self.nothing_applied or bool(self.refused or self.unseen)

    def as_json(self, *, unmanaged: bool) -> DriftDocument:
        """The drift as a JSON object."""
        document: DriftDocument = {
            "format": DRIFT,
            "managed": self.managed,
            "nothing_applied": self.nothing_applied,
            "refused": list(self.refused),
            "drift": [_action_json(each) for each in self.changed],
            "deleted": [_action_json(each) for each in self.deleted],
            "attached": [each.as_json() for each in self.attached],
            "unmanaged_count": len(self.unmanaged),
        }
        if self.deciding:
            document["deciding"] = [each.as_json() for each in self.deciding]
        if self.missing_names:
            document["missing_names"] = [each.as_json() for each in self.missing_names]
        if unmanaged:
            document["unmanaged"] = [each.as_json() for each in self.unmanaged]
        if self.unmanaged_truncated:
            document["unmanaged_truncated"] = list(self.unmanaged_truncated)
        if self.similar_owner is not None:
            document["similar_owner"] = self.similar_owner.as_json()
        if not self.names_writers:
            document["names_writers"] = False
        if self.unseen:
            document["unseen"] = list(self.unseen)
        return document


def detect_drift(plan: Plan, ignored: Collection[str] = ()) -> Drift:
    """Collect the drift that a plan shows.

    Args:
        ignored: kinds whose unmanaged objects may be attached to managed ones without being drift.
    """
    changed, deleted = [], []
    for action in plan.actions:
        if action.deleted:
            deleted.append(replace(action, changes=()))
            continue
        changes = tuple(each for each in action.changes if each.state in BY_OTHERS)
        if changes:
            changed.append(replace(action, op=Op.UPDATE, changes=changes))
    attached = tuple(
        each for each in plan.unmanaged if each.attached_to and each.describable and each.kind not in ignored
    )
    rest = tuple(each for each in plan.unmanaged if each not in attached)
    deciding = tuple(each for each in plan.deciding if each.drift)
    return Drift(
        tuple(changed),
        tuple(deleted),
        attached,
        rest,
        deciding,
        plan.similar_owner,
        plan.owner,
        sum(plan.owned.values()),
        bool(plan.actions),
        plan.refused,
        plan.names_writers,
        () if plan.sees_all else tuple(_unseen(plan.actions)),
        plan.unmanaged_truncated,
        tuple(each for each in plan.missing_names if each.managed),
    )


def _unseen(actions: Iterable[Action]) -> Iterator[str]:
    """Titles of the objects to create that may exist unseen: those outside zones, new zones, and in these."""
    made = [each for each in actions if each.op is Op.CREATE and not each.deleted]
    zones = {each.name for each in made if each.kind == ZONE}
    return (each.title for each in made if each.zone is None or each.zone in zones)


def _action_json(action: Action) -> ActionDocument:
    document: ActionDocument = {**action.as_json()}
    if action.write is not None:
        document["write"] = action.write.as_json()
    return document
