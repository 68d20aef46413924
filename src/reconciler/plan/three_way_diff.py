"""The three-way diff of one entity.

For each field: `applied`, what was applied last; `wanted`, what git says; `found`, what the server has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from reconciler.kinds import Entity, InForce, Kind, MemberSchema

from .member_values import as_written, leaves, normalized, same_value, value_at
from .model import CHANGING, ChangeState, FieldChange

PROTECT = "lifecycle.protect"


def three_way_diff(
    kind: Kind,
    wanted: Mapping[str, Any],
    secrets: Mapping[str, Mapping[str, Any]],
    found: Entity,
    *,
    protect: bool = False,
    ignores: Callable[[str], bool] = lambda _: False,
) -> list[FieldChange]:
    """Every member that changes, and why; sorted by path.

    Args:
        wanted: leaf path -> value, references resolved.
        secrets: leaf path -> `{"from_env": .., "version": ..}` or `{"keep": True}`.
        protect: the manifest's protection.
        ignores: whether a member is ignored, by its path.
    """
    record = found.ownership
    owned = record.fields if record else frozenset()
    applied = record.applied if record else {}
    texts, spec = kind.text_paths, found.spec
    one_version = found.in_force is None
    changes = []
    for path, value in wanted.items():
        change = None
        # Most members are equal. Of texts, and where there are versions, more than one value counts.
        if not (one_version and value == value_at(spec, path) and path not in texts):
            change = _compare_found(kind, path, value, found, text=path in texts)
        if change is None and path not in owned and record is not None:
            change = FieldChange(path, value, value, ChangeState.CLAIM)
        if change is not None:
            changes.append(change)
    for path in owned.difference(wanted, secrets):
        shape = shape_in(kind, path, found)
        value = value_at(found.spec, path)
        if ignores(path) or _stays(path, shape, value, wanted):
            changes.append(FieldChange(path, value, value, ChangeState.RELEASE))
        elif not shape.secret:
            changes.append(_compare_removed(path, shape, value, applied))
    if secrets or (record is not None and record.secret_versions):
        moved = {
            change.path for change in changes if change.state not in (ChangeState.RELEASE, ChangeState.CLAIM)
        }
        changes.extend(_compare_secrets(kind, secrets, found, moved))
    if (record is not None and record.protect) != protect:
        changes.append(
            FieldChange(PROTECT, record is not None and record.protect, protect, ChangeState.PENDING)
        )
    return sorted(changes, key=lambda change: change.path)


def shape_in(kind: Kind, path: str, found: Entity) -> MemberSchema:
    """The shape at a path, with the entity's own default where that is the value of another member."""
    shape = kind.leaf(path)
    if shape.default_from is None:
        return shape
    return replace(shape, default=found.spec.get(shape.default_from))


def _stays(path: str, shape: MemberSchema, found: Any, wanted: Mapping[str, Any]) -> bool:
    """Tell whether an object that was managed as empty stays, because it has members of git or of others."""
    if not shape.nested:
        return False
    still = any(each.startswith(path + ".") for each in wanted)
    return still or any(
        normalized(below, value) is not None for _, below, value in leaves(shape, found or {})
    )


def _compare_found(kind: Kind, path: str, wanted: object, found: Entity, *, text: bool) -> FieldChange | None:
    """One member against the server's value; with versions, against the active version's too."""
    shape = shape_in(kind, path, found)
    record = found.ownership
    owned = record is not None and path in record.fields
    applied = record.applied if record else {}
    there = as_written(kind, found, path, value_at(found.spec, path))
    written = _compare_member(path, shape, wanted, there, applied, owned=owned, text=text)
    version = found.in_force
    if version is None or path not in version.spec:
        return written
    active = as_written(kind, found, path, version.spec[path])
    decides = _compare_member(path, shape, wanted, active, applied, owned=owned, text=text)
    if written is not None and _decides_nothing(written, decides):
        return replace(
            written, in_force=InForce(version.version, version.latest_version, before_is_latest=True)
        )
    if decides is None:
        return written
    unnamed = tuple(
        each for each in version.contents if not isinstance(wanted, list) or each.id not in wanted
    )
    return replace(decides, in_force=replace(version, spec={}, contents=unnamed))


def _decides_nothing(written: FieldChange, decides: FieldChange | None) -> bool:
    """Tell whether only the latest text differs from git: the active one is git's, or was."""
    if decides is None:
        return True
    return written.state is ChangeState.CONFLICT and decides.state is ChangeState.PENDING


def _compare_member(
    path: str,
    shape: MemberSchema,
    wanted: Any,
    found: Any,
    applied: Mapping[str, Any],
    *,
    owned: bool,
    text: bool,
) -> FieldChange | None:
    if wanted == found or same_value(shape, wanted, found, text=text):
        return None
    if not owned:
        return FieldChange(path, found, wanted, ChangeState.PENDING)
    base = value_at(applied, path)
    if same_value(shape, base, found, text=text):
        return FieldChange(path, found, wanted, ChangeState.PENDING)
    state = ChangeState.DRIFT if same_value(shape, base, wanted, text=text) else ChangeState.CONFLICT
    return FieldChange(path, found, wanted, state, base)


def _compare_removed(
    path: str, shape: MemberSchema, found: object, applied: Mapping[str, object]
) -> FieldChange:
    """A member that left the manifest is set to its default, so that others' changes of it are not kept."""
    default = shape.resets_to
    if shape.fixed or same_value(shape, default, found):
        return FieldChange(path, found, found, ChangeState.RELEASE)
    base, after = value_at(applied, path), None if shape.default_from else default
    if same_value(shape, base, found):
        return FieldChange(path, found, after, ChangeState.PENDING)
    return FieldChange(path, found, after, ChangeState.CONFLICT, base)


def _compare_secrets(
    kind: Kind, secrets: Mapping[str, Mapping[str, object]], found: Entity, moved: AbstractSet[str]
) -> Iterator[FieldChange]:
    """Secrets are compared by the version of their source: values are never read back.

    A secret bound to an address is sent again when that changes, because the server then drops it.

    Args:
        moved: paths of the members that change.
    """
    versions = found.ownership.secret_versions if found.ownership else {}
    for path, reference in secrets.items():
        if "keep" in reference:
            continue
        before = {"version": versions[path]} if path in versions else None
        if path in found.secrets_overwritten and path in versions:
            state = ChangeState.DRIFT if versions[path] == reference["version"] else ChangeState.PENDING
            yield FieldChange(
                path, {**(before or {}), "overwritten": True}, {"secret": dict(reference)}, state
            )
        elif path not in found.secrets_set:
            state = ChangeState.DRIFT if before == {"version": reference["version"]} else ChangeState.PENDING
            yield FieldChange(path, None, {"secret": dict(reference)}, state)
        elif before != {"version": reference["version"]} or _is_moved(kind.leaf(path).bound_to, moved):
            yield FieldChange(path, before or {"set": True}, {"secret": dict(reference)}, ChangeState.PENDING)
    owned = found.ownership.fields if found.ownership else frozenset()
    for path in owned.intersection(versions).difference(secrets):
        if kind.leaf(path).secret:
            if path in found.secrets_set:
                yield FieldChange(path, {"version": versions[path]}, None, ChangeState.PENDING)
            else:
                yield FieldChange(path, None, None, ChangeState.RELEASE)


def stored_secrets(found: Entity) -> dict[str, dict[str, Any]]:
    """The secrets of an entity: path -> how each is shown, with its version where git has set it."""
    versions = found.ownership.secret_versions if found.ownership else {}
    return {
        path: {
            **({"version": versions[path]} if path in versions else {"set": True}),
            **({"overwritten": True} if path in found.secrets_overwritten else {}),
        }
        for path in sorted(found.secrets_set)
    }


def _is_moved(bound_to: tuple[str, ...], moved: AbstractSet[str]) -> bool:
    """Tell whether one of these members changes, by itself or with an object around it."""
    return any(address == path or address.startswith(f"{path}.") for address in bound_to for path in moved)


def foreign_secret_addresses(
    kind: Kind,
    wanted: Mapping[str, Any],
    found: Entity,
    changes: Iterable[FieldChange],
    ignores: Callable[[str], bool],
) -> Iterator[tuple[str, str]]:
    """Secrets that would be sent to an address which somebody else has set: each with the member that has it.

    Secrets of git are sent to addresses of git only. Otherwise anybody who may change the entity on the
    server could set an address that the manifest leaves out, and receive the secret.

    Args:
        changes: what `three_way_diff` found.
        ignores: members that the manifest ignores expressly.
    """
    moved = {change.path for change in changes if change.state in CHANGING}
    for path in sorted(moved):
        for address in kind.leaf(path).bound_to:
            named = address in wanted or ignores(address) or _is_moved((address,), moved)
            if not named and _is_set(kind.leaf(address), value_at(found.spec, address), found, wanted):
                yield path, address


def _is_set(shape: MemberSchema, value: object, found: Entity, wanted: Mapping[str, object]) -> bool:
    """Tell whether somebody has set a member; one equal to the managed member it defaults to is not set."""
    origin = shape.default_from
    by_default = origin is not None and origin in wanted and value == found.spec.get(origin)
    return value is not None and not by_default


def fixed_changes(kind: Kind, wanted: Mapping[str, object], found: Entity) -> list[str]:
    """The fixed members that would have to change; if there are any, the entity is replaced."""
    owned = found.ownership.fields if found.ownership else frozenset()
    changes = []
    for path in kind.fixed_paths:
        if path not in wanted and path not in owned:
            continue
        shape = kind.leaf(path)
        # A removed member gets its default. Members of a fixed object are alternatives: one replaces another.
        value = wanted.get(path, shape.resets_to)
        if not same_value(shape, value, value_at(found.spec, path)):
            changes.append(path)
    return sorted(changes)


def with_new_ids(value: object, renewed: Mapping[str, object]) -> Any:
    """A value with the ids of deleted entities replaced by pointers to their replacements."""
    if isinstance(value, dict):
        return {name: with_new_ids(each, renewed) for name, each in value.items()}
    if isinstance(value, list):
        return [with_new_ids(each, renewed) for each in value]
    return renewed.get(value, value) if isinstance(value, str) else value
