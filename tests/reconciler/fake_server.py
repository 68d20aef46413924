"""A small management API in memory that speaks snapshots and changesets: a model of the server for tests.

`World` is pure: it can be driven without a network. `FakeServer` puts it behind real HTTP.
"""

import copy
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reconciler.cedar import Vocabulary, parse_policies
from reconciler.client.api import read_snapshot
from reconciler.kinds import Kinds, MemberSchema, Snapshot, load_kinds
from reconciler.plan.member_values import leaves
from runtime.api.shared.etags import seen
from runtime.contract.bodies import parse
from runtime.contract.changes import Changeset
from runtime.domain.errors import Problem, ValidationFailed
from runtime.domain.kinds import BY_NAME
from runtime.domain.oauth.resource_overlaps import PlacedResource, ResourceOverlaps
from runtime.domain.policy.defaults import all_defaults
from runtime.services.management.changesets.changeset import PackedOperation, packed
from runtime.services.management.changesets.problems import located
from runtime.services.management.changesets.references import placeholder, resolved
from runtime.services.management.changesets.specs import split_spec
from runtime.services.management.credential_scope import LENT
from runtime.storage.sql.deletion_effects import WORDS

ORGANIZATION = "org00000000000000000000001"
LABEL = "acme"
API_KEY = "zwk_test"
NOW = "2026-01-31T08:00:00.000000Z"


# The policies that every zone begins with.
FIRST = [
    {
        "name": each.name,
        "description": each.description,
        "cedar": each.text,
    }
    for each in all_defaults()
]


class Refused(Exception):
    """The model answers with an error."""

    def __init__(
        self, status: int, code: str, message: str, field: str = "", *, details: Sequence[Problem] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field = status, code, message, field
        self.details = details

    def body(self, path: str = "") -> dict[str, Any]:
        """The error body; with details where a member or an operation is wrong."""
        details = self.details or ([Problem(self.code, self.message, self.field)] if self.field else [])
        return {
            "message": self.message,
            "code": self.code,
            "status": self.status,
            **({"details": [asdict(each) for each in details]} if details else {}),
            "path": path,
            "request_id": "request0000000000000000001",
            "timestamp": NOW,
        }


def well_formed(body: Any) -> dict[str, Any]:
    """The body of a changeset as the server's own contract has it. Raises Refused."""
    try:
        parsed = parse(Changeset, body)
    except ValidationFailed as error:
        found = error.problems or [Problem("validation_error", error.detail, None)]
        details = tuple(error.problems)
        raise Refused(400, error.code, error.detail, found[0].field or "", details=details) from error
    for index, operation in enumerate(body["operations"]):
        if operation["kind"] not in load_kinds().by_name:
            message = f"unknown kind `{operation['kind']}`"
            raise Refused(400, "validation_error", message, f"operations[{index}].kind")
    for index, operation in enumerate(packed(parsed).operations):
        _require_spec(index, operation)
    return dict(body)


def _require_spec(index: int, operation: PackedOperation) -> None:
    """Refuse a spec that the server's own contract refuses. Raises Refused."""
    if operation.op != "create" and (
        BY_NAME[operation.kind].variants or operation.op not in ("update", "adopt")
    ):
        return
    try:
        split_spec(operation, resolved(operation.spec, placeholder), dry_run=True)
    except ValidationFailed as error:
        problems = located(error, index, operation)
        raise Refused(400, error.code, error.detail, problems[0].field or "", details=problems) from error


def _without_empty(members: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The members without those of these names that are empty."""
    return {name: value for name, value in members.items() if value or name not in names}


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def slug_of(name: str) -> str:
    """The slug that a zone of that name gets."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def only(spec: Mapping[str, Any], paths: Collection[str]) -> dict[str, Any]:
    """What of a spec is at these dotted paths."""
    found: dict[str, Any] = {}
    for path in paths:
        *above, name = path.split(".")
        at: Any = spec
        for step in above:
            at = at.get(step) or {}
        if at.get(name) is not None:
            below = found
            for step in above:
                below = below.setdefault(step, {})
            below[name] = at[name]
    return found


def is_written(spec: Any, path: str) -> bool:
    """Tell whether a spec has something at a dotted path, be it nothing."""
    for name in path.split("."):
        if not isinstance(spec, dict) or name not in spec:
            return False
        spec = spec[name]
    return True


def in_lower_case(shape: MemberSchema, value: Any) -> Any:
    """Addresses as the server keeps them."""
    if isinstance(value, dict):
        return {
            name: in_lower_case(shape.members.get(name, MemberSchema()), each) for name, each in value.items()
        }
    if isinstance(value, list):
        return [in_lower_case(shape, each) for each in value]
    return value.lower() if shape.caseless and isinstance(value, str) else value


def with_defaults(shape: MemberSchema, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec with every default that the schema states."""
    filled = dict(spec)
    for name, below in shape.members.items():
        if below.nested and (filled.get(name) is not None or _stands_alone(below)):
            filled[name] = with_defaults(below, filled.get(name) or {})
        elif filled.get(name) is None and below.resets_to is not None:
            filled[name] = copy.copy(below.resets_to)
    return {name: value for name, value in filled.items() if value is not None}


def _stands_alone(shape: MemberSchema) -> bool:
    return any(below.resets_to not in (None, []) or _stands_alone(below) for below in shape.members.values())


@dataclass
class World:
    """An organization: entities by id, and the revision that counts its changes."""

    kinds: Kinds
    entities: dict[str, dict[str, Any]] = field(default_factory=dict)
    revision: int = 1
    made: int = 0
    audited: int = 0
    secrets: dict[tuple[str, str], str] = field(default_factory=dict)
    receipts: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)  # owner -> revision of its last changeset
    bound_owner: str | None = None  # what the one credential is limited to
    bound_zones: frozenset[str] | None = None
    tombstones: list[dict[str, Any]] = field(default_factory=list)
    in_use: frozenset[str] = frozenset()  # ids of what was used lately
    decision_impact: list[dict[str, Any]] | None = None  # what dry runs answer; None leaves it out

    def new_id(self, kind: str) -> str:
        """An id nobody has."""
        self.made += 1
        return f"{kind.lower()[:12]}{self.made:014d}"

    def add(
        self, kind: str, spec: Mapping[str, Any], zone_id: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Put an entity there, as if somebody had made it by hand."""
        entity = {
            "type": "entity",
            "kind": kind,
            "id": self.new_id(kind),
            "zone_id": zone_id,
            "owner_type": "customer",
            "spec": dict(spec),
            "ownership": None,
            "secrets_set": [],
            **more,
        }
        self.entities[entity["id"]] = entity
        self.finish(entity)
        if kind == "Zone":
            issuer = f"https://id.example/z/{entity['id']}"
            entity["spec"]["slug"] = slug_of(spec["name"])
            entity["spec"]["addresses"] = {
                "issuer": issuer,
                "redirect_uri": f"{issuer}/oauth/callback",
                "token_endpoint": f"{issuer}/oauth/token",
            }
            self.finish(entity)
            for role in ("zone_manager", "zone_viewer"):
                self.add("Role", {"identifier": role}, entity["id"], owner_type="platform")
            for provider in ("service-sts", "service-vault"):
                named = {"identifier": provider, "name": provider}
                self.add("Provider", named, entity["id"], owner_type="platform")
            first = [self.add("Policy", each, entity["id"], owner_type="platform")["id"] for each in FIRST]
            default = {"name": "default-zone-policies", "policies": first, "active": True}
            self.add("PolicySet", default, entity["id"], owner_type="platform")
        return entity

    def finish(self, entity: dict[str, Any]) -> None:
        """Fill in what the server works out."""
        kind = self.kinds.by_name[entity["kind"]]
        entity["spec"] = with_defaults(kind.wire, entity["spec"])
        entity["handle"] = entity["spec"].get(kind.handle) if kind.handle else None
        entity["zone"] = self.entities[entity["zone_id"]]["spec"]["slug"] if entity["zone_id"] else None
        entity["revision"] = self.revision

    @staticmethod
    def merged(entity: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
        """The spec of an entity after a merge patch; a provider is its own issuer, if nothing is said."""
        before = entity["spec"]
        after: dict[str, Any] = merge(before, patch)
        oauth2 = (after.get("protocols") or {}).get("oauth2")
        if entity["kind"] == "Provider" and isinstance(oauth2, dict):
            stated = ((patch.get("protocols") or {}).get("oauth2") or {}).get("issuer")
            if oauth2.get("issuer") in (None, before.get("identifier")) and stated is None:
                oauth2["issuer"] = after["identifier"]
        return after

    def zones_of_others(self, owner: str, names: Collection[str]) -> set[str]:
        """The zones that others manage and this owner has nothing in, but for those of these names."""
        zones = {
            each["id"]
            for each in self.entities.values()
            if each["kind"] == "Zone"
            and (record := each["ownership"]) is not None
            and record["owner"] != owner
            and {each["id"], each["handle"], record["name"]}.isdisjoint(names)
        }
        mine = (each for each in self.entities.values() if (each["ownership"] or {}).get("owner") == owner)
        return zones - {each["zone_id"] for each in mine}

    def snapshot_body(self, owner: str | None = None, zones: Collection[str] = ()) -> bytes:
        """The snapshot as JSON lines."""
        order = {kind.name: kind.order for kind in self.kinds.ordered}
        entities = sorted(self.entities.values(), key=lambda each: (order[each["kind"]], each["id"]))
        head = {
            "type": "snapshot",
            "organization_id": ORGANIZATION,
            "label": LABEL,
            "revision": self.revision,
            "names_writers": True,
            "sees_all": self.bound_zones is None,
        }
        gone = sorted(self.tombstones, key=lambda each: (each["kind"], each["name"], each["id"]))
        if owner is not None:
            others = self.zones_of_others(owner, zones)
            entities = [each for each in entities if each["zone_id"] not in others]
            gone = [each for each in gone if each["zone_id"] not in others]
        if self.bound_zones is not None:
            entities = [each for each in entities if (each["zone_id"] or each["id"]) in self.bound_zones]
            gone = [each for each in gone if (each["zone_id"] or each["id"]) in self.bound_zones]
        entities = [_without_empty(each, "secrets_set", "secrets_overwritten") for each in entities]
        lines = [head, *entities, *gone, {"type": "end", "count": len(entities) + len(gone)}]
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def snapshot(self) -> Snapshot:
        """The snapshot as the reconciler reads it."""
        return read_snapshot(self.snapshot_body())

    def changeset(self, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Apply a changeset, wholly or not at all. Raises Refused."""
        body = well_formed(body)
        self.require_bound(body)
        trial = replace(
            self,
            entities=copy.deepcopy(self.entities),
            secrets=dict(self.secrets),
            tombstones=list(self.tombstones),
        )
        trial.revision += 1
        results = _Run(trial, body, dry_run=dry_run).run()
        for each in results if dry_run else ():
            if each["op"] == "delete" and each["kind"] not in ("Policy", "PolicySet"):
                each |= {"takes_along": self.losses(each["id"]), "in_use": each["id"] in self.in_use}
        if not dry_run:
            self.entities, self.revision, self.made = trial.entities, trial.revision, trial.made
            self.secrets, self.tombstones = trial.secrets, trial.tombstones
            self.applied[body["owner"]] = trial.revision
        audit = {"first": self.audited + 1, "last": self.audited + len(results)}
        self.audited += 0 if dry_run else len(results)
        return {
            "id": None if dry_run else f"changeset{trial.revision:017d}",
            "base_revision": body["base_revision"],
            "revision": trial.revision,
            "dry_run": dry_run,
            "operations": results,
            **({} if dry_run else {"audit": audit}),
            **({"decision_impact": self.decision_impact} if dry_run and self.decision_impact else {}),
        }

    def require_bound(self, body: Mapping[str, Any]) -> None:
        """Refuse what the credential is not for. Raises Refused."""
        if self.bound_owner not in (None, body["owner"]):
            message = f"this credential is bound to the owner `{self.bound_owner}`, not to `{body['owner']}`"
            raise Refused(403, "forbidden", message, "owner")
        if self.bound_zones is None:
            return
        for index, operation in enumerate(body["operations"]):
            zone_id = (
                operation.get("id") if operation["kind"] == "Zone" else operation.get("zone", {}).get("id")
            )
            if zone_id is None and operation["op"] == "create":
                message = "this credential is bound to existing zones: it cannot create a zone"
                raise Refused(403, "forbidden", message, f"operations[{index}]")
            if zone_id is not None and zone_id not in self.bound_zones:
                message = f"this credential is not bound to zone `{zone_id}`"
                raise Refused(403, "forbidden", message, f"operations[{index}]")

    def create_by_hand(self, kind: str, zone_id: str, spec: Mapping[str, Any]) -> str:
        """Make an entity as anybody does; gives its id."""
        self.revision += 1
        return str(self.add(kind, spec, zone_id)["id"])

    def update_by_hand(self, entity_id: str, patch: Mapping[str, Any]) -> None:
        """Change an entity as anybody does."""
        entity = self.entities[entity_id]
        secrets = {name for (name,) in self.kinds.by_name[entity["kind"]].secrets}
        for member in secrets & patch.keys():
            self.overwrite_by_hand(entity_id, member)
        self.revision += 1
        entity["spec"] = self.merged(entity, {k: v for k, v in patch.items() if k not in secrets})
        self.finish(entity)

    def delete_by_hand(self, gone: str) -> None:
        """Take an entity away as anybody does: whoever manages what goes hears of it."""
        before = dict(self.entities)
        self.revision += 1
        self.delete(gone)
        if before[gone]["zone_id"]:
            self.let_decide(before[gone]["zone_id"])
        self.add_tombstones(before[each] for each in before.keys() - self.entities.keys())

    def bound(self, owner: str) -> "World":
        """The same, for a credential of that configuration."""
        self.bound_owner = owner
        return self

    def tried(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a dry run answers. Raises Refused."""
        return self.changeset(body, dry_run=True)

    def add_tombstones(self, gone: Iterable[Mapping[str, Any]]) -> None:
        """Keep that these are gone, for those who manage them."""
        for entity in gone:
            if (record := entity["ownership"]) is not None:
                known = {name: entity[name] for name in ("kind", "id", "zone_id", "zone")}
                told = {"owner": record["owner"], "name": record["name"], "revision": self.revision}
                when = {"deleted_at": NOW, "actor": {"type": "user", "id": "ann"}}
                self.tombstones.append({"type": "tombstone", **known, **told, **when, "changeset_id": None})

    def overwrite_by_hand(self, entity_id: str, member: str) -> None:
        """Give a secret another value, as anybody does."""
        self.revision += 1
        entity = self.entities[entity_id]
        self.secrets[entity_id, member] = "by hand"
        entity["secrets_overwritten"] = sorted({*entity.get("secrets_overwritten", ()), member})
        entity["revision"] = self.revision

    def let_decide(self, zone_id: str, wanted: str | None = None) -> None:
        """Let one policy set of a zone decide: the one that is wanted, the one that does, or the first."""
        sets = [each for each in self.entities.values() if each["kind"] == "PolicySet"]
        sets = [each for each in sets if each["zone_id"] == zone_id]
        active = [each["id"] for each in sets if each["spec"].get("active") and each["id"] == wanted]
        active += [each["id"] for each in sets if each["spec"].get("active")]
        active += [each["id"] for each in sets if each["owner_type"] == "platform"]
        for each in sets:
            each["spec"] = {**each["spec"], "active": each["id"] == active[0]}

    def delete(self, gone: str) -> None:
        """Take an entity away, and what is in it."""
        for part in self.parts_of(gone):
            self.entities.pop(part["id"], None)
        del self.entities[gone]
        for each in list(self.entities.values()):
            if each["zone_id"] == gone:
                del self.entities[each["id"]]
            else:
                each["spec"] = _forget(each["spec"], gone)

    def parts_of(self, whole: str) -> list[dict[str, Any]]:
        """What is nothing without an entity: what names it by a member that never changes."""
        found = []
        for each in self.entities.values():
            shape = self.kinds.by_name[each["kind"]].wire
            if any(
                below.fixed and below.ref and value == whole
                for _, below, value in leaves(shape, each["spec"])
            ):
                found.append(each)
        return found

    def losses(self, gone: str) -> dict[str, int]:
        """How many of what go with an entity: its parts, and what joins it to others."""
        entity, found = self.entities[gone], Counter[str]()
        for each in self.parts_of(gone):
            found[WORDS[self.kinds.by_name[each["kind"]].collection.replace("-", "_")]] += 1
        found["dependencies"] += len(entity["spec"].get("dependencies", ()))
        found["dependencies"] += sum(
            gone in each["spec"].get("dependencies", ()) for each in self.entities.values()
        )
        found["members"] += len(entity["spec"].get("members", ()))
        return {name: number for name, number in sorted(found.items()) if number}

    def find(self, kind: str, name: str) -> dict[str, Any]:
        """The entity with that manifest name or handle."""
        for entity in self.entities.values():
            names = ((entity["ownership"] or {}).get("name"), entity["handle"])
            if entity["kind"] == kind and name in names:
                return entity
        raise KeyError(name)


class _Run:
    """One changeset on a copy of the world."""

    def __init__(self, world: World, body: Mapping[str, Any], *, dry_run: bool) -> None:
        self.world, self.body, self.dry_run = world, body, dry_run
        self.local: dict[str, str] = {}
        self.index = 0
        self.handles: list[tuple[int, dict[str, Any]]] = []  # operation, entity that has got its handle
        self.before = dict(world.entities)
        self.placed = {
            key: (each["handle"], each["spec"].get("prefix"))
            for key, each in self.before.items()
            if each["kind"] == "Resource"
        }
        self.deciding: dict[str, str] = {}  # zone -> the policy set that is to decide
        self.policies: dict[str, int] = {}  # policy that was written -> the operation
        self.called = {
            key: (each["zone_id"], each["kind"], each["handle"]) for key, each in self.before.items()
        }

    def run(self) -> list[dict[str, Any]]:
        self.require_base()
        results, refusals = [], []
        for index, operation in enumerate(self.body["operations"]):
            self.index = index
            try:
                results.append(
                    _without_empty({"index": index, **self.one(operation), "status": "done"}, "name")
                )
            except Refused as error:
                error.field = f"operations[{index}]" + (f".{error.field}" if error.field else "")
                if not self.dry_run:  # which tells of all that is wrong
                    raise
                refusals.append(error)
        if refusals:
            first = refusals[0]
            first.details = [Problem(each.code, each.message, each.field) for each in refusals]
            raise first
        self.check_handles()
        self.check_names()
        self.check_apart()
        for zone_id in {each["zone_id"] for each in self.world.entities.values() if each["zone_id"]}:
            self.world.let_decide(zone_id, self.deciding.get(zone_id))
        self.check_named()
        self.acknowledge()
        return results

    def check_named(self) -> None:
        """What policies name has to be there: those that are written now, and those that decide."""
        entities = self.world.entities
        there = {(each["zone_id"], each["kind"], each["handle"]) for each in entities.values()}
        for policy_id, index in self.policies.items():
            for name, place in self.named(entities[policy_id]) if policy_id in entities else ():
                if name not in there:
                    message = f"{place}: the zone has no {name[1]} `{name[2]}`"
                    raise Refused(400, "validation_error", message, f"operations[{index}].spec.cedar")
        lost = {each: key for key, each in self.called.items() if each not in there}
        sets = [each for each in entities.values() if each["kind"] == "PolicySet" and each["spec"]["active"]]
        for policy_id in {one for each in sets for one in each["spec"].get("policies", ())}:
            for name, place in self.named(entities[policy_id]) if policy_id not in self.policies else ():
                if name in lost:
                    message = f"policy `{entities[policy_id]['handle']}` is in force and names it ({place})"
                    raise Refused(400, "validation_error", message, self.place_of(lost[name]))

    def named(self, policy: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], str]]:
        """What a policy names and does not call absent, with the place in its text."""
        text, kind = policy["spec"].get("cedar") or "", self.world.kinds.by_name["Policy"]
        for each in parse_policies(text, Vocabulary.read(kind.cedar["cedar"])).mentions:
            if str(each.name) not in policy["spec"].get("absent_names", ()):
                before = text[: each.begin]
                column = each.begin - before.rfind("\n")
                place = f"line {before.count(chr(10)) + 1}, column {column}"
                yield (policy["zone_id"], each.name.type, each.name.id), place

    def place_of(self, entity_id: str) -> str:
        """The operation that has taken an entity's name away, and the member."""
        for index, operation in enumerate(self.body["operations"]):
            if operation.get("id") == entity_id:
                member = self.world.kinds.by_name[operation["kind"]].handle
                return f"operations[{index}]" + ("" if operation["op"] == "delete" else f".spec.{member}")
        raise KeyError(entity_id)

    def check_names(self) -> None:
        """What a configuration calls its objects is unique in a zone and kind, when a changeset ends."""
        named = Counter(
            (each["zone_id"], each["kind"], record["owner"], record["name"])
            for each in self.world.entities.values()
            if (record := each["ownership"]) is not None
        )
        for index, operation in enumerate(self.body["operations"]):
            local_id = operation.get("local_id", "")
            entity = self.world.entities.get(operation.get("id") or self.local.get(local_id, ""))
            if entity is None or entity["ownership"] is None or "name" not in operation:
                continue
            place = (entity["zone_id"], entity["kind"], entity["ownership"]["owner"], operation["name"])
            if named[place] > 1:
                message = f"the name `{operation['name']}` is already used by another {entity['kind']}"
                raise Refused(409, "conflict", message, f"operations[{index}]")

    def check_handles(self) -> None:
        """Handles are unique when a changeset ends."""
        present = [(each["zone_id"], each["kind"], each["handle"]) for each in self.world.entities.values()]
        for index, entity in self.handles:
            mine = (entity["zone_id"], entity["kind"], entity["handle"])
            if entity["id"] in self.world.entities and present.count(mine) > 1:
                member = self.world.kinds.by_name[entity["kind"]].handle
                where = f"operations[{index}].spec.{member}"
                raise Refused(409, "conflict", f"`{entity['handle']}` is taken", where)

    def check_apart(self) -> None:
        """No resource is another one in another spelling, nor stands beneath what others have as a prefix."""
        for index, entity in self.handles:
            was, zone_id = self.placed.get(entity["id"]), entity["zone_id"]
            if entity["kind"] != "Resource" or entity["id"] not in self.world.entities:
                continue
            is_now = (entity["handle"], entity["spec"].get("prefix"))
            overlaps = ResourceOverlaps(
                PlacedResource(each["id"], each["handle"], each["spec"].get("prefix") is True)
                for each in self.world.entities.values()
                if (each["kind"], each["zone_id"]) == ("Resource", zone_id)
            )
            one, where = overlaps.find(entity["id"]), f"operations[{index}].spec.identifier"
            if "://" not in entity["handle"] or was == is_now:
                continue
            if (was is None or was[0] != is_now[0]) and (twin := overlaps.find_equal(one)) is not None:
                message = f"`{one.identifier}` is the same URL as `{twin.identifier}` of another resource"
                raise Refused(409, "conflict", message, where)
            if (around := overlaps.find_prefix(one)) is not None:
                self.refuse_others_of(around.id, where)

    def refuse_others_of(self, entity_id: str, where: str = "") -> None:
        """What a bound credential leaves alone."""
        owner = (self.world.entities[entity_id]["ownership"] or {}).get("owner")
        if self.world.bound_owner is not None and owner not in (None, self.world.bound_owner):
            raise Refused(403, "forbidden", f"`{entity_id}` belongs to the configuration `{owner}`", where)

    def refuse_lent(self, entity: dict[str, Any]) -> None:
        """What an object of nobody has from other configurations, a bound credential does not get with it."""
        spec, entities = entity["spec"], self.world.entities
        if self.world.bound_owner is None or entity["ownership"] is not None:
            return
        if entity["kind"] == "Resource" and (provider_id := spec.get("credential_provider_id")) is not None:
            self.refuse_others_of(provider_id)
        for resource_id in spec.get("dependencies", ()) if entity["kind"] == "Application" else ():
            provider_id = entities[resource_id]["spec"].get("credential_provider_id")
            if provider_id is not None and entities[provider_id]["spec"].get("type") != "service-sts":
                self.refuse_others_of(resource_id)

    def require_base(self) -> None:
        """Refuse what was planned before something that it makes, or its own configuration, was written."""
        base, owner, newest = self.body["base_revision"], self.body["owner"], self.world.revision - 1
        if base > newest:
            message = f"the base revision {base} does not exist: the newest is {newest}"
            raise Refused(412, "precondition_failed", message)
        if all(operation["op"] == "delivered" for operation in self.body["operations"]):
            return
        for index, operation in enumerate(self.body["operations"]):
            if operation["op"] == "create" and self.made_since(base, operation):
                message = f"{operation['kind']} `{operation['name']}` has changed"
                raise Refused(412, "precondition_failed", message, f"operations[{index}]")
            entity = self.world.entities.get(operation.get("id", ""))
            if entity is not None and entity["revision"] > base:
                message = f"{entity['id']} was changed by somebody at 12:00"
                raise Refused(412, "precondition_failed", message, f"operations[{index}]")
        if owner in self.world.applied and self.world.applied[owner] > base:
            message = f"`{owner}` was applied meanwhile"
            raise Refused(412, "precondition_failed", message, "base_revision")

    def made_since(self, base: int, operation: Mapping[str, Any]) -> bool:
        """Tell whether something has the handle that a creation asks for and was written after the base."""
        kind, zone = self.world.kinds.by_name[operation["kind"]], operation.get("zone", {}).get("id")
        if kind.handle is None or (kind.zoned and zone is None):
            return False
        handle = operation.get("spec", {}).get(kind.handle)
        if kind.name == "Zone":
            handle = slug_of(operation["spec"].get("name", ""))
        return handle is not None and any(
            (each["kind"], each["zone_id"], each["handle"]) == (kind.name, zone, handle)
            and each["revision"] > base
            for each in self.world.entities.values()
        )

    def acknowledge(self) -> None:
        """The owner has seen what was gone when it planned; others hear of what went along."""
        owner, base = self.body["owner"], self.body["base_revision"]
        gone = [self.before[each] for each in self.before.keys() - self.world.entities.keys()]
        self.world.add_tombstones(each for each in gone if (each["ownership"] or {}).get("owner") != owner)
        self.world.tombstones = [
            each for each in self.world.tombstones if each["owner"] != owner or each["revision"] > base
        ]

    def one(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        op = operation["op"]
        if op == "create":
            return self.create(operation)
        if op == "delete" and operation["id"] in self.before.keys() - self.world.entities.keys():
            # It went with something deleted just before.
            return {"op": op, "kind": operation["kind"], "id": operation["id"], "name": None}
        entity = self.target(operation)
        if entity["owner_type"] == "platform" and op == "adopt":
            message = f"{entity['kind']} `{entity['id']}` is managed by the service and cannot be adopted"
            raise Refused(403, "forbidden", message)
        owner = (entity["ownership"] or {}).get("owner")
        if owner not in (None, self.body["owner"]):
            message = (
                f"{entity['kind']} `{entity['ownership']['name']}` belongs to `{owner}`;"
                f" release it there before the operation `{op}`"
            )
            raise Refused(409, "conflict", message)
        if owner is None and op != "adopt":
            message = f"{entity['kind']} `{entity['id']}` has no owner; adopt it before the operation `{op}`"
            raise Refused(409, "conflict", message)
        if op == "adopt":
            self.refuse_lent(entity)
        if op == "delete":
            self.require_unprotected(entity)
            self.delete(entity)
        elif op == "release":
            entity["ownership"] = None
        elif op == "rename":
            entity["ownership"] |= {"name": operation["name"], "source": self.source_of(operation)}
        elif op == "delivered":
            entity["ownership"]["undelivered"] = False
        else:
            self.write(entity, operation)
        return {"op": op, "kind": entity["kind"], "id": entity["id"], "name": operation.get("name")}

    def require_unprotected(self, entity: Mapping[str, Any]) -> None:
        """Refuse to delete what is protected, or a zone with something protected in it."""
        for each in (entity, *self.world.entities.values()):
            within = each is entity or each["zone_id"] == entity["id"]
            if within and (each["ownership"] or {}).get("protect"):
                raise Refused(409, "conflict", f"{each['kind']} `{each['ownership']['name']}` is protected")

    def source_of(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """The origin of the changeset, with the place of the operation's manifest."""
        return {**self.body["source"], **operation.get("source", {})}

    def target(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        entity_id = operation["id"] if "id" in operation else self.created(operation["local_id"])
        entity, zone_id = self.world.entities.get(entity_id), self.zone_of(operation)
        if (
            entity is None
            or entity["kind"] != operation["kind"]
            or (zone_id is not None and entity["zone_id"] != zone_id)
        ):
            raise Refused(404, "not_found", f"there is no {operation['kind']} `{entity_id}`")
        return entity

    def zone_of(self, operation: Mapping[str, Any]) -> str | None:
        """The id of the zone that an operation names."""
        zone = operation.get("zone")
        if zone is None:
            return None
        zone_id = zone.get("id") or self.created(zone["local_id"])
        if zone_id not in self.world.entities:
            raise Refused(404, "not_found", f"there is no Zone `{zone_id}`")
        return str(zone_id)

    def created(self, local_id: str, at: str = "") -> str:
        """The id of what an earlier operation has created."""
        if local_id not in self.local:
            raise Refused(400, "validation_error", f"no earlier operation creates `{local_id}`", at)
        return self.local[local_id]

    def create(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        zone_id, kind = self.zone_of(operation), self.world.kinds.by_name[operation["kind"]]
        if kind.zoned and zone_id is None:
            raise Refused(400, "validation_error", f"{kind.name} needs a `zone`")
        if operation["local_id"] in self.local:
            raise Refused(
                400,
                "validation_error",
                f"`local_id` `{operation['local_id']}` is used by two create operations",
            )
        # Known before the members are resolved: they may refer to the zone that is being made.
        entity = self.world.add(operation["kind"], {"name": operation["spec"].get("name", "x")}, zone_id)
        self.local[operation["local_id"]] = entity["id"]
        if operation["kind"] != "Zone":
            entity["spec"] = {}
        self.write(entity, operation)
        done = {"op": "create", "kind": entity["kind"], "id": entity["id"], "name": operation["name"]}
        if kind.shows_once(operation["spec"]):
            done["shown_once"] = {"password": f"password of {entity['id']}"}
            entity["ownership"]["undelivered"] = True
        return done

    def write(self, entity: dict[str, Any], operation: Mapping[str, Any]) -> None:
        kind = self.world.kinds.by_name[entity["kind"]]
        spec = dict(operation.get("spec", {}))
        for (member,) in kind.secrets:
            if member in spec:
                value = spec.pop(member)
                if isinstance(value, dict) and not self.dry_run:
                    message = "is a placeholder; send the secret itself"
                    raise Refused(400, "validation_error", message, f"spec.{member}")
                entity["secrets_overwritten"] = [
                    each for each in entity.get("secrets_overwritten", ()) if each != member
                ]
                entity["secrets_set"] = [each for each in entity["secrets_set"] if each != member]
                if value is not None:
                    entity["secrets_set"].append(member)
                    self.world.secrets[entity["id"], member] = (
                        value if isinstance(value, str) else "(dry run)"
                    )
        unknown = spec.keys() - kind.wire.members.keys()
        if unknown:
            raise Refused(400, "validation_error", "is not a member", f"spec.{min(unknown)}")
        if any(value == "forbidden" for value in spec.values()):
            raise Refused(400, "validation_error", "may not be `forbidden`", "spec.name")
        resolved = {
            name: self.resolve(value, entity["zone_id"], f"spec.{name}") for name, value in spec.items()
        }
        for name, value in resolved.items():
            if (entity["kind"], name) in LENT and value not in (None, entity["spec"].get(name)):
                self.refuse_others_of(value)
        entity["spec"] = in_lower_case(kind.wire, self.world.merged(entity, resolved))
        self.world.finish(entity)
        if entity["kind"] == "Policy":
            self.policies[entity["id"]] = self.index
        if entity["kind"] == "PolicySet" and entity["spec"]["active"] and "active" in resolved:
            self.deciding[entity["zone_id"]] = entity["id"]
        if entity["handle"] is not None and kind.handle in kind.wire.members:
            self.handles.append((self.index, entity))
        before = entity["ownership"] or {"applied": {}, "fields": []}
        claimed = [
            path
            for path in operation["fields"]
            if operation["op"] != "create" and path not in before["fields"] and not is_written(resolved, path)
        ]
        applied = merge(only(entity["spec"], claimed), merge(before["applied"], resolved))
        entity["ownership"] = {
            "owner": self.body["owner"],
            "name": operation["name"],
            "fields": operation["fields"],
            "applied": only(applied, operation["fields"]),
            "secret_versions": operation.get("secret_versions", {}),
            "source": self.source_of(operation),
            "protect": operation.get("protect", False),
            "undelivered": before.get("undelivered", False),
        }

    def resolve(self, value: Any, zone_id: str | None, at: str) -> Any:
        """The value with ids in place of references; *at*: its member, for errors."""
        if isinstance(value, list):
            return [self.resolve(each, zone_id, f"{at}[{n}]") for n, each in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"local_id"}:
            return self.created(value["local_id"], at)
        if "address_of" in value:
            zone = value["address_of"].get("id") or self.created(value["address_of"]["local_id"], at)
            return self.world.entities[zone]["spec"]["addresses"][value["member"]]
        if "external" in value:
            for entity in self.world.entities.values():
                if (entity["kind"], entity["handle"], entity["zone_id"]) == (
                    value["kind"],
                    value["external"],
                    zone_id,
                ):
                    return entity["id"]
            raise Refused(400, "validation_error", f"there is no {value['kind']} `{value['external']}`", at)
        return {name: self.resolve(each, zone_id, f"{at}.{name}") for name, each in value.items()}

    def delete(self, entity: dict[str, Any]) -> None:
        self.world.delete(entity["id"])


def _forget(value: Any, gone: str) -> Any:
    """Foreign keys: a reference to what was deleted is emptied."""
    if isinstance(value, dict):
        return {name: _forget(each, gone) for name, each in value.items() if each != gone}
    if isinstance(value, list):
        return [_forget(each, gone) for each in value if each != gone]
    return value


class FakeServer:
    """The model behind real HTTP on a free port of this machine."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.failures: list[tuple[int, dict[str, str]]] = []  # answered first, in order
        self.drop_answers = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Nothing is logged."""

            def do_GET(self) -> None:
                outer.answer(self)

            def do_POST(self) -> None:
                outer.answer(self)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    @classmethod
    @contextmanager
    def running(cls, world: World) -> Iterator["FakeServer"]:
        """A server for the length of a test."""
        server = cls(world)
        thread = threading.Thread(
            target=server._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        try:
            yield server
        finally:
            server.stop_listening()
            thread.join()

    def stop_listening(self) -> None:
        """Take no more connections; what is being answered is."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        parts = urlsplit(request.path)
        own = f"/organizations/{ORGANIZATION}"
        path = re.sub(f"^/organizations/{LABEL}(?=/|$)", own, parts.path)
        self.requests.append((request.command, request.path))
        content = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if self.failures:
            status, headers = self.failures.pop(0)
            self.send(request, status, {"code": "unavailable", "message": "later", "status": status}, headers)
        elif parts.path == "/service-account-token":
            self.send(request, 200, {"access_token": API_KEY, "token_type": "Bearer", "expires_in": 3600})
        elif request.headers.get("Authorization") != f"Bearer {API_KEY}":
            self.refuse(request, Refused(401, "unauthorized", "the bearer credential is not valid"))
        elif path == "/organizations":
            page = {"has_next_page": False, "has_prev_page": False, "start_cursor": "a", "end_cursor": "a"}
            listed = {**dict.fromkeys(("created_at", "updated_at"), NOW), "id": ORGANIZATION, "label": LABEL}
            listed |= {"name": LABEL, "sso_enabled": False, "zone_id": "zone00000000000000"}
            self.send(request, 200, {"items": [listed], "page_info": page})
        elif path == f"{own}/snapshot":
            query = parse_qs(parts.query)
            self.snapshot(request, *query.get("owner", ()), zones=query.get("zone", ()))
        elif path == f"{own}/changesets":
            self.changeset(request, content, dry_run=parse_qs(parts.query).get("dry_run") == ["true"])
        elif path.endswith(("/snapshot", "/changesets")):
            message = f"there is no Organization `{path.split('/')[2]}`"
            self.refuse(request, Refused(404, "not_found", message))
        else:
            self.refuse(request, Refused(404, "not_found", "there is nothing at this address"))

    def refuse(self, request: BaseHTTPRequestHandler, refused: Refused) -> None:
        """Send an error, as the last line where the caller takes lines."""
        body = refused.body(urlsplit(request.path).path)
        if request.command == "POST" and "ndjson" in request.headers.get("Accept", ""):
            self.send(request, refused.status, json.dumps({"type": "error", **body}).encode() + b"\n")
        else:
            self.send(request, refused.status, body)

    def snapshot(
        self, request: BaseHTTPRequestHandler, owner: str | None = None, *, zones: Collection[str] = ()
    ) -> None:
        """Answer a snapshot, or that it is as before."""
        etag = f'"{self.world.revision}"'
        if seen(request.headers.get("If-None-Match"), etag):
            self.send(request, 304, None, {"ETag": etag})
        else:
            self.send(request, 200, self.world.snapshot_body(owner, zones), {"ETag": etag})

    def changeset(self, request: BaseHTTPRequestHandler, content: bytes, *, dry_run: bool) -> None:
        """Answer a changeset, as lines when the caller takes them."""
        headers = {}
        try:
            body = self.read(content)
            self.bodies.append(body)
            key = request.headers.get("Idempotency-Key", body["plan_digest"])
            if key != body["plan_digest"]:
                message = "must be the `plan_digest` of the body"
                raise Refused(400, "validation_error", message, "Idempotency-Key")
            if not dry_run and (body["owner"], key) in self.world.receipts:
                result = self.replayed(body)
                headers["Idempotent-Replay"] = "true"
            else:
                result = self.world.changeset(body, dry_run=dry_run)
                if not dry_run:
                    self.keep(body, result)
        except Refused as error:
            self.refuse(request, error)
            return
        if self.drop_answers:
            self.drop_answers -= 1
            request.close_connection = True
            return
        if "ndjson" in request.headers.get("Accept", ""):
            total = len(body["operations"])
            lines = [{"type": "progress", "done": total, "total": total}, {"type": "result", **result}]
            self.send(request, 200, b"".join(json.dumps(line).encode() + b"\n" for line in lines), headers)
        else:
            self.send(request, 200, result, headers)

    @staticmethod
    def read(content: bytes) -> dict[str, Any]:
        """The body of a changeset. Raises Refused."""
        try:
            return well_formed(json.loads(content))
        except json.JSONDecodeError as error:
            raise Refused(400, "bad_request", f"the body is not JSON: {error}") from error

    def keep(self, body: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Keep an answer without what it shows once: the same plan sent again is answered with it."""
        kept = [{k: v for k, v in each.items() if k != "shown_once"} for each in result["operations"]]
        place = body["owner"], body["plan_digest"]
        self.world.receipts[place] = (_digest(body), {**result, "operations": kept})

    def replayed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the first time. Raises Refused."""
        first, result = self.world.receipts[body["owner"], body["plan_digest"]]
        if first != _digest(body):
            message = "is the digest of a plan that is already applied"
            raise Refused(409, "conflict", message, "plan_digest")
        return result

    @staticmethod
    def send(
        request: BaseHTTPRequestHandler, status: int, content: Any, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send one answer; bytes go as JSON lines."""
        lines = isinstance(content, bytes)
        body = content if lines else b"" if content is None else json.dumps(content).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/x-ndjson" if lines else "application/json")
        request.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
