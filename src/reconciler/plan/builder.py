"""Builds the plan: matches manifests with entities, diffs them, and orders the operations."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from reconciler.kinds import Entity, Kinds, Manifest, Snapshot
from reconciler.kinds.policy_lists import ACTIVE, POLICY, POLICY_SET
from reconciler.kinds.values import parse_instant

from .actions import ActionFactory
from .cascade import count_cascaded
from .changeset import ChangesetBuilder, local_ids, unlink
from .dependency_order import dependency_order
from .display_names import DisplayNames
from .exclusive_members import taken_from_others
from .inactive_policies import find_inactive_policies
from .lost_providers import find_lost_providers
from .matching import Match, Matcher
from .member_values import leaves
from .missing_names import MissingNameSearch
from .model import BY_OTHERS, Action, FieldChange, Op, Plan, Unmanaged, title_of
from .policy_preview import TEXT, PolicyPreview
from .probable_renames import find_probable_renames
from .replacements import exclusive_place, unlinking_update
from .sets_without_permit import find_sets_without_permit
from .similar_owners import find_similar_owner
from .three_way_diff import PROTECT, fixed_changes, foreign_secret_addresses, three_way_diff, with_new_ids
from .unmanaged import UnmanagedSearch
from .unresolved_references import Suggestions, UnresolvedReference
from .zone_moves import with_zone_moves


class PlanImpossible(Exception):
    """The manifests cannot be planned against the server's state: they name what it does not have."""

    def __init__(self, problems: Iterable[UnresolvedReference]) -> None:
        self.problems = tuple(sorted(problems, key=str))
        super().__init__("\n".join(map(str, self.problems)))


def build_plan(
    manifests: Sequence[Manifest],
    snapshot: Snapshot,
    kinds: Kinds,
    *,
    owner: str,
    tool_version: str,
    server: str = "",
    source: Mapping[str, str] | None = None,
    budgets: Mapping[str, int | str] | None = None,
    renew: Callable[[Action], bool] = lambda _: False,
    zones: Mapping[str, str | None] | None = None,
    hint: Callable[[str, Iterable[str]], str] = lambda _word, _known: "",
    now: datetime | None = None,
) -> Plan:
    """Compute the plan that turns the snapshot into what the manifests describe; deterministic.

    Args:
        renew: whether to replace an object whose one-time secret was never confirmed as delivered.
        zones: name of a zone that another configuration manages -> its owner, where `zonectl.yaml` names it.
        hint: the suggestion at the end of a message for an unknown name, given the known ones.
        now: what expired before and is not on the server is left out; None leaves nothing out.

    Raises:
        PlanImpossible: a reference matches no object.
    """
    builder = _Builder(manifests, snapshot, kinds, owner, zones or {}, hint, renew=renew)
    builder.resolve()
    left_out = builder.leave_out_expired(now) if now is not None else ()
    builder.prepare_replacements()
    for match in builder.in_order():
        builder.settle(match)
    builder.prune()
    preview, operations = builder.preview(), builder.operations.in_order()
    following = preview.of(operations)
    inactive = find_inactive_policies(preview, operations, builder.matcher)
    return Plan(
        tool_version=tool_version,
        owner=owner,
        organization_id=snapshot.organization_id,
        server=server,
        base_revision=snapshot.revision,
        source=dict(source or {}),
        actions=tuple(with_zone_moves(builder.actions)),
        operations=operations,
        owned=dict(sorted(builder.index.counts.items())),
        manifest_count=len(manifests),
        refused=tuple(builder.refused),
        budgets=dict(budgets or {}),
        deciding=following.deciding,
        widened=following.widened,
        exempt=following.exempt,
        unmanaged=builder.unmanaged(),
        unmanaged_truncated=snapshot.undescribable_truncated,
        missing_names=MissingNameSearch(builder.matcher, kinds, builder.zones_looked_at[0], hint).all(),
        without_permit=find_sets_without_permit(builder.matcher.matches, builder.actions, kinds),
        inactive_policies=inactive.policies,
        unseen_policy_sets=inactive.unseen,
        probable_renames=find_probable_renames(builder.actions, kinds),
        lost_providers=find_lost_providers(builder.actions, builder.index, kinds),
        left_out=left_out,
        undelivered=builder.undelivered(),
        similar_owner=find_similar_owner(manifests, builder.index, owner),
        zone_names=builder.names.zones(),
        names_writers=snapshot.names_writers,
        sees_all=snapshot.sees_all,
    )


_SECRET = "its secret"


class _Builder:
    def __init__(
        self,
        manifests: Sequence[Manifest],
        snapshot: Snapshot,
        kinds: Kinds,
        owner: str,
        zones: Mapping[str, str | None],
        hint: Callable[[str, Iterable[str]], str],
        *,
        renew: Callable[[Action], bool],
    ) -> None:
        matcher = Matcher(manifests, snapshot, owner, zones)
        self.owner, self.hint, self.renew = owner, hint, renew
        self.matcher, self.index, self.kinds = matcher, matcher.index, kinds
        self.names = DisplayNames(matcher.index, owner, self._new_label, matcher.renamed())
        self.shown = self.names.shown
        self.actions_for = ActionFactory(self.kinds, self.shown, matcher.index.gone_by_id)
        # Parents first; within a kind changes before creations, so that a handle is free before it is taken.
        self.matches = sorted(
            matcher.matches.values(),
            key=lambda each: (
                each.manifest.kind.order,
                each.found is None,
                each.key.zone or "",
                each.key.name,
            ),
        )
        # Deleted by others and created again -> its pointer in the changeset: the former id was applied
        # before.
        self._renewed: dict[str, Any] = {
            match.deleted.id: match.pointer.get("id", match.pointer)
            for match in self.matches
            if match.deleted is not None
        }
        self._gone_first: frozenset[str] = frozenset()
        self._unlinked: dict[str, Mapping[str, object]] = {}  # id -> references that it loses
        self.operations = ChangesetBuilder()
        self.actions: list[Action] = []
        self.refused: list[str] = []

    def resolve(self) -> None:
        """Resolve every reference. Replacements are determined first: references to them get a new id."""
        problems, suggestions = list[UnresolvedReference](), Suggestions(self.hint)
        for match in self.matches:
            problems += self.matcher.missing(match)
            unresolved = self.matcher.resolve(match)
            for path, error in unresolved:
                message = f"{error}{suggestions.hint(error.word, error.known)}"
                problems.append(UnresolvedReference(match.manifest, message, path))
            if unresolved:
                continue
            if match.found is not None and not match.released:
                match.replaced = fixed_changes(match.manifest.kind, match.wanted, match.found)
                lost = not match.replaced and _has_undelivered_secret(match)
                if lost and self.renew(self.actions_for.of_match(match, Op.UPDATE, ())):
                    match.replaced = [_SECRET]
        if problems:
            raise PlanImpossible(problems)

    def leave_out_expired(self, now: datetime) -> tuple[str, ...]:
        """Mark what has expired and does not exist as left out: creating it would have no effect.

        Returns:
            Its titles, sorted. What others refer to is none of it.
        """
        expired = [
            match
            for match in self.matches
            if match.found is None
            and match.foreign is None
            and not match.released
            and _has_expired(match.manifest, now)
        ]
        if not expired:
            return ()
        referred = {
            each for match in self.matches for value in match.wanted.values() for each in local_ids(value)
        }
        for match in expired:
            match.left_out = match.local_id not in referred
        return tuple(
            sorted(
                title_of(match.key.kind, match.key.zone, match.key.name)
                for match in expired
                if match.left_out
            )
        )

    def undelivered(self) -> tuple[Action, ...]:
        """Objects with a one-time secret that was never confirmed as delivered, and that are not replaced."""
        return tuple(
            self.actions_for.of_match(match, Op.UPDATE, ())
            for match in self.matches
            if not match.replaced and _has_undelivered_secret(match)
        )

    def prepare_replacements(self) -> None:
        """Delete replaced objects before the creation of their replacements, without references to them."""
        replaced = [match.found for match in self.matches if match.replaced and match.found is not None]
        going = sorted([*replaced, *self._displaced()], key=self._children_first)
        if not going:
            return
        self._gone_first = frozenset(entity.id for entity in going)
        # References were resolved before all replacements were known.
        for match in self.matches:
            match.wanted.clear()
            match.secrets.clear()
            self.matcher.resolve(match)
        for match in self.matches:
            record = match.found.ownership if match.found is not None else None
            if match.found is None or match.replaced or record is None or record.owner != self.owner:
                continue
            cleared = unlink(match.found, match.manifest.kind, self._gone_first)
            if cleared:
                update = unlinking_update(match.found, record, cleared, match.manifest.origin)
                self.operations.first.append(update)
                self._unlinked[match.found.id] = cleared
        for entity in going:
            self.operations.delete(entity, first=True)

    def _displaced(self) -> list[Entity]:
        """Deleted objects that are similar to a new one, where there is exactly one candidate."""
        taken = {
            place
            for match in self.matches
            if match.new
            and (place := exclusive_place(match.manifest.kind, self._zone_id(match), match.wanted))
        }
        found = []
        for entity in self.pruned() if taken else ():
            kind = self.kinds.by_name.get(entity.kind)
            values = {path: value for path, _, value in leaves(kind.wire, entity.spec)} if kind else {}
            if kind is not None and exclusive_place(kind, entity.zone_id, values) in taken:
                found.append(entity)
        return found

    def _zone_id(self, match: Match) -> str | None:
        return (self._zone_pointer(match) or {}).get("id")

    def in_order(self) -> list[Match]:
        """The matches in order of creation: each after those it refers to, unless there is a cycle."""
        created = {match.local_id: n for n, match in enumerate(self.matches) if match.new}
        if not created:
            return self.matches
        needs: list[set[int]] = []
        for match in self.matches:
            found = {created[each] for value in match.wanted.values() for each in local_ids(value)}
            if (zone := self._zone_pointer(match)) is not None and "local_id" in zone:
                found.add(created[zone["local_id"]])
            needs.append(found - {len(needs)})
        return [self.matches[n] for n in dependency_order(needs)]

    def settle(self, match: Match) -> None:
        """The action that one manifest needs, if any."""
        manifest = match.manifest
        if match.left_out:
            return
        if match.released:
            self._release(match)
            return
        if match.foreign is not None:
            title = f"{manifest.kind.name} `{match.handle or manifest.name}`"
            self.refused.append(
                f"{manifest.origin}: {title} belongs to the configuration `{match.foreign}`; write "
                "`{external: ...}` to refer to it; to take it over, let "
                f"`{match.foreign}` apply `lifecycle: {{release: true}}` first"
            )
            return
        if manifest.kind.sole:
            self._refuse_displacing(match)
        if match.found is None:
            self._create(match, Op.CREATE, None)
        elif match.replaced:
            self._replace(match)
        else:
            self._change(match)

    def _refuse_displacing(self, match: Match) -> None:
        """Refuse to take a value that one object of a zone can have from another owner's object."""
        manifest, within = match.manifest, self.index.in_zone.get(self._zone_id(match) or "", ())
        for member, record in taken_from_others(manifest.kind, match.wanted, within, self.owner):
            self.refused.append(
                f"{manifest.origin}: only one {manifest.kind.name} of a zone can have `{member}: true`, and"
                f" `{record.name}` of `{record.owner}` has it; write `{member}: false`, or let"
                f" `{record.owner}` do so first"
            )

    def _zone_pointer(self, match: Match) -> dict[str, str] | None:
        if not match.manifest.kind.zoned:
            return None
        return self.matcher.zone_pointer(match.manifest.zone or "")

    def _release(self, match: Match) -> None:
        """Release an entity, unless it is unmanaged already."""
        found = match.found
        if found is None or found.ownership is None or found.ownership.owner != self.owner:
            return
        self.operations.release(found)
        self.actions.append(self.actions_for.of_match(match, Op.RELEASE, ()))

    def _create(self, match: Match, op: Op, before: tuple[FieldChange, ...] | None) -> None:
        changes = before
        if changes is None:
            changes = self.actions_for.creation_changes(match)
        if match.manifest.lifecycle.get("protect"):
            changes = (*changes, FieldChange(PROTECT, None, True))
        self.operations.create(match, self._zone_pointer(match))
        kind = match.manifest.kind
        self.actions.append(
            self.actions_for.of_match(match, op, changes, shown_once=kind.shows_once(match.manifest.spec))
        )

    def _replace(self, match: Match) -> None:
        found, manifest = match.found, match.manifest
        assert found is not None  # noqa: S101 - a replacement replaces something
        if match.adopted:
            self.refused.append(
                f"{manifest.origin}: {found.kind} `{found.handle}` is not managed from git and differs "
                f"in {_listed(match.replaced)}, which cannot change; correct the manifest first"
            )
            return
        if found.kind == "Zone":
            self.refused.append(
                f"{manifest.origin}: {_listed(match.replaced)} of a zone cannot change; "
                "replacing the zone would delete everything in it"
            )
            return
        self._create(match, Op.REPLACE, self.actions_for.replacement_changes(match, found))
        handle = found.handle
        if handle is not None and match.replaced == [manifest.omitted_handle]:
            self.actions[-1] = replace(self.actions[-1], keep=(match.replaced[0], handle))

    def _change(self, match: Match) -> None:
        found, manifest = match.found, match.manifest
        assert found is not None  # noqa: S101 - only existing entities change
        if self._renewed and found.ownership is not None:
            applied = with_new_ids(found.ownership.applied, self._renewed)
            found = replace(found, ownership=replace(found.ownership, applied=applied))
        protect = bool(manifest.lifecycle.get("protect", False))
        changes = three_way_diff(
            manifest.kind, match.wanted, match.secrets, found, protect=protect, ignores=match.ignores
        )
        for secret, address in foreign_secret_addresses(
            manifest.kind, match.wanted, found, changes, match.ignores
        ):
            self.refused.append(
                f"{manifest.origin}: `{secret}` would be sent to the `{address}` set on the server, which "
                "the manifest omits; add it to the manifest, or `null` to clear it"
            )
        unchanged = not changes and found.id not in self._unlinked
        if unchanged and not match.adopted and match.previous_name is None:
            return
        if match.previous_name is not None:
            self.operations.rename(match)
        if changes or match.adopted:
            self.operations.change(
                "adopt" if match.adopted else "update", match, self._zone_pointer(match), changes
            )
        op = Op.ADOPT if match.adopted else Op.RENAME if match.previous_name else Op.UPDATE
        changes = sorted(
            [*changes, *self.actions_for.implied_changes(match, found, changes, self._unlinked)],
            key=lambda each: each.path,
        )
        if changes or op is not Op.UPDATE:
            shown = self.actions_for.shown_changes(manifest.kind, found, changes)
            self.actions.append(self.actions_for.of_match(match, op, shown))

    def pruned(self) -> list[Entity]:
        """Managed entities that no manifest describes any more; children first."""
        gone = [entity for entity in self.index.owned.values() if entity.id not in self.matcher.taken]
        return sorted(gone, key=self._children_first)

    def _children_first(self, entity: Entity) -> tuple[int, str, str]:
        kind, record = self.kinds.by_name.get(entity.kind), entity.ownership
        return -(kind.order if kind else 0), entity.zone or "", record.name if record else ""

    def prune(self) -> None:
        """Delete managed entities that no manifest describes any more."""
        gone = self.pruned()
        gone_ids = {entity.id for entity in gone}
        for entity in gone:
            if entity.id not in self._gone_first:
                self.operations.delete(entity)
            cascaded = count_cascaded(self.index, entity.id, gone_ids)
            zone = self._zone_name(entity)
            self.actions.append(self.actions_for.of_deletion(entity, zone, takes_along=cascaded))

    def preview(self) -> PolicyPreview:
        """The inputs for predicting the policy impact."""
        written = {
            match.entity_key: (str(text), match.manifest.files.get(TEXT))
            for match in self.matches
            if match.manifest.kind.name == POLICY and (text := match.wanted.get(TEXT))
        }
        return PolicyPreview(
            self.kinds,
            self.index.in_zone,
            self.names.zone,
            {each.local_id: each.found.id for each in self.matches if each.replaced and each.found},
            written,
            frozenset(self._out_of_force()),
            lambda key: self._new_label(key) if key in self._by_local_id else self.shown(key),
        )

    def _out_of_force(self) -> Iterator[str]:
        """Policy sets of git that were active until somebody deleted them or activated others."""
        changed = {
            each.id
            for each in self.actions
            if each.kind == POLICY_SET
            for change in each.changes
            if change.path == ACTIVE and change.after is True and change.state in BY_OTHERS
        }
        for match in self.matches:
            if match.manifest.kind.name == POLICY_SET and (match.deleted or match.entity_key in changed):
                yield match.entity_key

    def unmanaged(self) -> tuple[Unmanaged, ...]:
        """Objects in the zones of these manifests, of any owner, that no configuration manages.

        Of kinds without a zone, only those that these manifests have.
        """
        zones, beside = self.zones_looked_at
        taken = frozenset(self.matcher.taken)
        return UnmanagedSearch(
            self.index, self.kinds, zones, beside, taken, self.matcher.owner, self.shown
        ).all()

    @cached_property
    def zones_looked_at(self) -> tuple[dict[str, str], set[str]]:
        """The zones of these manifests, of any owner, id -> name; and the kinds without a zone."""
        zones: dict[str, str] = {}
        named: dict[str, Manifest] = {}
        beside = set()
        for match in self.matches:
            kind = match.manifest.kind
            if kind.name == "Zone":
                zone_id = match.found.id if match.found is not None else ""
                zones[zone_id] = match.manifest.name
            elif kind.zoned:
                named[match.manifest.zone or ""] = match.manifest
            else:
                beside.add(kind.name)
        for name, manifest in named.items():
            zones.setdefault(self.matcher.zone_id(manifest) or "", name)
        zones.pop("", None)  # a zone that does not exist yet
        return zones, beside

    def _zone_name(self, entity: Entity) -> str | None:
        """The manifests' name of an entity's zone; its slug when none describes it."""
        return self.names.zone(entity.zone_id) if entity.zone_id in self.index.by_id else entity.zone

    @cached_property
    def _by_local_id(self) -> Mapping[str, Match]:
        return {match.local_id: match for match in self.matches}

    def _new_label(self, local_id: str) -> str:
        match = self._by_local_id[local_id]
        return f"{match.key.kind}/{match.key.name}" + (" (the new one)" if match.replaced else "")


def _has_expired(manifest: Manifest, now: datetime) -> bool:
    """Tell whether the manifest says that its object has no effect any more."""
    value = manifest.spec.get(manifest.kind.expiry) if manifest.kind.expiry is not None else None
    end = parse_instant(value) if isinstance(value, str) else None
    return end is not None and end <= now


def _has_undelivered_secret(match: Match) -> bool:
    found = match.found
    if found is None or found.ownership is None or match.foreign is not None or match.released:
        return False
    return found.ownership.undelivered and match.manifest.kind.shows_once(found.spec)


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)
