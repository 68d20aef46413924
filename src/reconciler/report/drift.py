"""Renders drift: what others changed, deleted or attached since the last apply."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from reconciler.output_documents import DRIFT, ActionDocument, DriftDocument
from reconciler.plan import Action, MissingPolicyName, Plan, PolicySetChange, SimilarOwner, Unmanaged
from reconciler.plan.delete_budget import ZONE
from reconciler.plan.model import BY_OTHERS, Op
from reconciler.terminal import Line, Styled

from .change_notes import AUDIT_UNREADABLE, unmanaged_line, write_line
from .plans import action_lines, indented
from .policy_impact import missing_name_lines, policy_set_drift_lines
from .value_diff import counted, whole_lines


@dataclass(frozen=True)
class Drift:
    """What others did to what a configuration describes.

    Attributes:
        changed: actions with nothing but drift and conflicts in them.
        deleted: what is gone, as what an apply makes again.
        attached: objects in no configuration that belong to a managed one: grants, credentials.
        unmanaged: all else in these zones that is in no configuration, with what no manifest can describe.
        unmanaged_truncated: kinds of which there is more than the server tells.
        deciding: zones in which others have activated another policy set than git's.
        similar_owner: for whom this may be meant, where the owner of the run manages nothing.
        managed: how many objects that owner manages.
        pending: the manifests describe what is not applied.
        refused: what a plan is refused for; what those manifests describe is not compared.
        names_writers: who has done it is told, as far as it is known.
        unseen: what the manifests describe and may be there, where this credential cannot read.
        missing_names: what git's policies in force name and nothing is called.
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
        """Tell whether there is nothing to compare: not the same as no drift."""
        return not self and not self.managed and (self.pending or bool(self.refused))

    @property
    def incomplete(self) -> bool:
        """Tell whether some of what the manifests describe is not compared."""
        return self.nothing_applied or bool(self.refused or self.unseen)

    def as_json(self, *, unmanaged: bool) -> DriftDocument:
        """The drift as a JSON object."""
        told: DriftDocument = {
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
            told["deciding"] = [each.as_json() for each in self.deciding]
        if self.missing_names:
            told["missing_names"] = [each.as_json() for each in self.missing_names]
        if unmanaged:
            told["unmanaged"] = [each.as_json() for each in self.unmanaged]
        if self.unmanaged_truncated:
            told["unmanaged_truncated"] = list(self.unmanaged_truncated)
        if self.similar_owner is not None:
            told["similar_owner"] = self.similar_owner.as_json()
        if not self.names_writers:
            told["names_writers"] = False
        if self.unseen:
            told["unseen"] = list(self.unseen)
        return told


def drift_of(plan: Plan, ignored: Collection[str] = ()) -> Drift:
    """What others did, as a plan shows it.

    Args:
        ignored: kinds of which objects that nobody manages may be attached to managed ones.
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
    """What would be made and may be there: what is in no zone, zones, and what is in these."""
    made = [each for each in actions if each.op is Op.CREATE and not each.deleted]
    zones = {each.name for each in made if each.kind == ZONE}
    return (each.title for each in made if each.zone is None or each.zone in zones)


def _action_json(action: Action) -> ActionDocument:
    told: ActionDocument = {**action.as_json()}
    if action.write is not None:
        told["write"] = action.write.as_json()
    return told


def drift_lines(drift: Drift, *, unmanaged: bool = False) -> Iterator[Line]:
    """Drift as text; with *unmanaged*, all that is in no configuration."""
    for each in drift.deciding:
        yield from policy_set_drift_lines(each)
    yield from missing_name_lines(drift.missing_names)
    for action in (*drift.changed, *drift.deleted):
        yield from action_lines(action)
    for beside in drift.attached:
        yield from _attached_lines(beside)
    if unmanaged:
        for beside in drift.unmanaged:
            yield from unmanaged_lines(beside)
    yield _summary(drift)
    if drift.unmanaged and not unmanaged:
        yield f"  {unmanaged_line(drift.unmanaged, drift.unmanaged_truncated)}"
    if unmanaged and drift.unmanaged_truncated:
        yield (
            Styled("note", "yellow"),
            f": there is more of {', '.join(drift.unmanaged_truncated)} than the server lists",
        )
    if drift.unseen:
        more = f" and {len(drift.unseen) - 1:,} more" if len(drift.unseen) > 1 else ""
        said = (
            f": {drift.unseen[0]}{more} may exist, but this credential cannot read it;"
            " one that is not bound to zones, with a role for all of the organization, compares everything"
        )
        yield Styled("not compared", "yellow"), said
    for refused in drift.refused:
        yield Styled("not compared", "yellow"), f": {refused}"
    if not drift.names_writers and (drift or (unmanaged and drift.unmanaged)):
        yield Styled("note", "yellow"), f": {AUDIT_UNREADABLE}"


def _summary(drift: Drift) -> str:
    if drift.nothing_applied:
        return (
            f"nothing to compare: `{drift.owner}` manages nothing here that this credential may read;"
            " drift compares what was applied; `zonectl plan` shows what an apply would do"
        )
    members = sum(len(action.changes) for action in drift.changed)
    counts = ((members, "member", "changed"), (len(drift.deleted), "object", "deleted"))
    told = [f"{counted(number, word)} {done} by others" for number, word, done in counts if number]
    if drift.attached:
        told.append(f"{counted(len(drift.attached), 'object')} attached by others")
    if drift.missing_names:
        told.append(f"{counted(len(drift.missing_names), 'name')} in active policies that match no object")
    return ", ".join(told) or "no drift"


def _attached_lines(found: Unmanaged) -> Iterator[Line]:
    to = ", ".join(found.attached_to)
    yield Styled(f"! {found.title}", "magenta"), f"  attached to {to}, in no configuration"
    if found.write is not None:
        yield f"    {write_line(found.write, 'last written')}"
    yield "    an apply leaves it: write a manifest for it, or delete it on the server"


def unmanaged_lines(found: Unmanaged) -> Iterator[Line]:
    """One thing that is in no configuration."""
    notes = "  in no configuration, and in force" if found.in_force else "  in no configuration"
    if not found.describable:
        of = f", attached to {', '.join(found.attached_to)}" if found.attached_to else ""
        notes = f"  of a kind that no manifest describes{of}"
    if found.member is not None:
        notes = f"  `{found.member}` is in no manifest"
    yield Styled(f"? {found.title}", "cyan"), notes
    if found.member is not None:
        yield from indented(
            whole_lines(found.member, list(found.values) if found.listed else found.values[0], "="), 4
        )
    if found.write is not None:
        yield f"    {write_line(found.write, 'last written')}"
