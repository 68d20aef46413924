"""Small factories: manifests, plans, and a world that a plan is applied to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson

from reconciler.apply.changeset_body import changeset_body, replace_secrets
from reconciler.kinds import Kinds, Manifest, Origin, Snapshot, load_kinds
from reconciler.plan import Plan, build_plan, misidentified_objects, read_plan, saved_plan_discrepancies

OWNER = "acme/identity"


class AnyWorld(Protocol):
    """What plans are made from and carried out by: the model, or the real server."""

    @property
    def kinds(self) -> Kinds: ...

    def snapshot(self) -> Snapshot: ...

    def changeset_body(self, body: Mapping[str, Any]) -> dict[str, Any]: ...


def manifest(
    kind: str,
    name_: str,
    zone_: str | None = "workforce",
    /,
    *,
    lifecycle: dict[str, Any] | None = None,
    origin: Origin | None = None,
    **spec: Any,
) -> Manifest:
    """A manifest as the loader gives it."""
    found = load_kinds().by_name[kind]
    return Manifest(
        kind=found,
        zone=zone_ if found.zoned else None,
        name=name_,
        spec=spec,
        origin=origin or Origin(f"{kind}.yaml", 1),
        lifecycle=lifecycle or {},
    )


def zone(name: str = "workforce", **spec: Any) -> Manifest:
    """A zone's manifest."""
    return manifest("Zone", name, **{"name": name, **spec})


def plan_for(
    world: AnyWorld,
    manifests: Sequence[Manifest],
    owner: str = OWNER,
    kinds: Kinds | None = None,
    zones: Mapping[str, str | None] | None = None,
) -> Plan:
    """The plan for a world. *zones*: those of other owners, as the settings name them.

    Whatever a test plans, it could be saved, and applied from the file.
    """
    known, snapshot = kinds or world.kinds, world.snapshot()
    plan = build_plan(manifests, snapshot, known, owner=owner, tool_version="test", zones=zones)
    if kinds is None and not plan.refused and manifests:
        saved = read_plan(orjson.dumps(replace(plan, _digest=[]).as_json()))
        told = [*misidentified_objects(saved, snapshot), *saved_plan_discrepancies(saved, snapshot)]
        assert not told, (told, saved.as_json())
    return plan


def carry_out(world: AnyWorld, plan: Plan) -> None:
    """Apply a plan to a world, secrets as placeholders."""
    operations = [
        {**each, "spec": replace_secrets(each["spec"], lambda _: "secret")} if "spec" in each else dict(each)
        for each in plan.operations
    ]
    world.changeset(changeset_body(plan, operations))


def settle(
    world: AnyWorld,
    manifests: Sequence[Manifest],
    owner: str = OWNER,
    zones: Mapping[str, str | None] | None = None,
) -> Plan:
    """Plan and apply; gives the plan."""
    plan = plan_for(world, manifests, owner, zones=zones)
    if not plan.empty:
        carry_out(world, plan)
    return plan


def changed(company: list[Manifest], kind: str, name_: str, /, **spec: Any) -> list[Manifest]:
    """The company with some members of one manifest set, or left out (None)."""
    found = []
    for each in company:
        if (each.kind.name, each.name) == (kind, name_):
            merged = {**each.spec, **spec}
            kept = {member: value for member, value in merged.items() if value is not None}
            each = manifest(kind, name_, lifecycle=dict(each.lifecycle), **kept)
        found.append(each)
    return found


def without(company: list[Manifest], *names: str) -> list[Manifest]:
    """The company without some manifests."""
    return [each for each in company if each.name not in names]
