"""A walk that first tries to set more with each body than is the caller's to set."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import httpx
from pydantic import BaseModel
from tests.walk.checking import CheckingClient

from runtime.contract.routes import ROUTES, Route
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ALL, Kind, Verb
from runtime.domain.kinds.marks import Mark, members, part_of

# What an attacker would like to say, with a value that would mean something.
WISHES: dict[str, Any] = {
    "owner_type": "platform",
    "organization_id": new_id(),
    "zone_id": new_id(),
    "id": new_id(),
    "client_secret_set": True,
    "external": True,
    "status": "active",
    "permissions": {"zones": {"delete": True}},
}
# The interface says of this body that it is any object, and ignored.
IGNORED = frozenset({"policy_schemas.set_default"})
# What a changeset calls what a route does.
OPS = {Verb.CREATE: ("create",), Verb.UPDATE: ("update", "adopt")}
_AT_ONCE = 80  # more than a hundred mistakes are counted, not named
_OURS = (Mark.SERVER, Mark.INTERNAL, Mark.DERIVED)


@cache
def decided_here() -> frozenset[str]:
    """Every member of any kind that the service decides, and a few that are none."""
    names = {
        member.name for kind in ALL for model in kind.classes for member in members(model).values()
        if member.has(*_OURS)
    }  # fmt: skip
    return frozenset(names | {"__proto__", "__class__", "secret_hash", "revision", "epoch"})


def inner(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places inside a kind's parts that the service decides, as `("protocols", "oauth2", "issuer")`."""
    for name, member in members(model).items():
        if above and member.has(*_OURS):
            yield (*above, name)
        elif not member.has(*_OURS) and (part := part_of(member.annotation)) is not None:
            yield from inner(part, (*above, name))


class GreedyClient(CheckingClient):
    """Sends each body that is to succeed with more in it first: refused by name, and nothing has changed.

    Attributes:
        tried: operation -> the members, and places inside of them, that it has refused to be told.
        granted: operation -> those of the wishes that its bodies may have.
        specs: the operations of a changeset, and the kinds, whose specifications have refused the same.
    """

    def __init__(self, client: httpx.Client, document: dict[str, Any]) -> None:
        super().__init__(client, document)
        self.organization_id = str(client.get("/organizations").json()["items"][0]["id"])
        self.tried: dict[str, set[str]] = {}
        self.specs: set[tuple[str, str]] = set()
        self._bodies: set[tuple[str, Any]] = set()
        self.granted: dict[str, set[str]] = {}

    def send(self, operation: str, path: Mapping[str, str], *, body: Any = None, **more: Any) -> Any:
        """As ever, after what has to be refused. Raises AssertionError when that is not."""
        route = self.route(operation)
        if isinstance(body, dict) and more.get("status") is None and not route.form:
            known = (operation, body.get("type"))
            if known not in self._bodies and operation not in IGNORED:
                self._bodies.add(known)
                self._wish(route, path, body)
        return super().send(operation, path, body=body, **more)

    def _wish(self, route: Route, path: Mapping[str, str], body: dict[str, Any]) -> None:
        taken = self._taken(route)
        self.granted.setdefault(route.operation_id, set()).update(WISHES.keys() & taken)
        before = self._seen(route, path)
        for name, value in WISHES.items():
            if name not in taken:
                self._refused(route, path, {**body, name: value}, {name})
        for value in ("x", None):
            for some in batched(sorted(decided_here() - taken), _AT_ONCE):
                self._refused(route, path, {**body, **dict.fromkeys(some, value)}, set(some))
        for model in route.kind.classes if route.kind and route.verb else ():
            for place in inner(model):
                if place[0] in taken:
                    self._refused(route, path, _put(body, place), {_named(body, place)})
        if route.verb in OPS and route.kind and route.kind.manifest and in_changesets(route.kind, route.verb):
            self._wish_by_changeset(route, path, body, taken)
        assert self._seen(route, path) == before, f"{route.operation_id} has changed something"

    def _wish_by_changeset(
        self, route: Route, path: Mapping[str, str], body: dict[str, Any], taken: set[str]
    ) -> None:
        """The same, in the specification of an operation of a changeset: create, or update and adopt."""
        assert route.kind is not None
        assert route.verb is not None
        id_ = {} if route.verb is Verb.CREATE else {"id": path[route.kind.item]}
        place = {"zone": {"id": path["zoneId"]}} if "zoneId" in path else {}
        changesets = self.route("changesets.create")
        for names in batched(sorted((decided_here() | WISHES.keys()) - taken), _AT_ONCE):
            spec = {**body, **{name: WISHES.get(name, "x") for name in names}}
            for op in OPS[route.verb]:
                step = {"op": op, "kind": route.kind.name, "name": "greedy", "spec": spec, **id_, **place}
                base = {"base_revision": 0, "owner": "greedy", "plan_digest": "x"}
                sent, at = base | {"operations": [step]}, {"organization_id": self.organization_id}
                self.specs.add((op, route.kind.name))
                self._refused(changesets, at, sent, {f"operations[0].spec.{name}" for name in names})

    def _refused(self, route: Route, path: Mapping[str, str], body: dict[str, Any], names: set[str]) -> None:
        """Each of these members is named in a 400."""
        answer = self.ask(route, path, json=body)
        assert answer.status_code == 400, (
            f"{route.operation_id} takes {names}: {answer.status_code} {answer.text}"
        )
        told = answer.json()
        assert told["code"] == "validation_error", told
        fields = {detail["field"] for detail in told["details"]}
        assert names <= fields, f"{route.operation_id} does not name {sorted(names - fields)}: {told}"
        self.tried.setdefault(route.operation_id, set()).update(names)

    def _taken(self, route: Route) -> set[str]:
        """The members that some body of an operation may have."""
        schema = self.followed(self.schema_of(route))
        forms = schema.get("oneOf", schema.get("anyOf", [schema]))
        return {name for form in forms for name in self.followed(form).get("properties", {})}

    def _seen(self, route: Route, path: Mapping[str, str]) -> Any:
        """What is there before and after: the entity, or the list that a new one would be in."""
        if any(each.path == route.path and each.method == "GET" for each in ROUTES):
            query = {"limit": "100"} if route.method == "POST" else None
            answer = self.ask(route, path, method="GET", params=query)
            told = answer.json() if answer.status_code == 200 else answer.status_code
            return told.get("items", told) if isinstance(told, dict) else told
        return None


def in_changesets(kind: Kind, verb: Verb) -> bool:
    """Whether a specification is read before the entity is looked at, whose type may say how."""
    return verb is Verb.CREATE or not kind.variants


def batched(names: list[str], size: int) -> Iterator[list[str]]:
    """The names, so many at a time."""
    return (names[start : start + size] for start in range(0, len(names), size))


def _put(value: Any, place: tuple[str, ...]) -> Any:
    """The body with something at that place, in the first element of arrays, and the rest as it was."""
    if not place:
        return "https://evil.example"
    if isinstance(value, list):
        return [_put(value[0], place), *value[1:]]
    first, *rest = place
    within = value if isinstance(value, dict) else {}
    return {**within, first: _put(within.get(first), tuple(rest))}


def _named(value: Any, place: tuple[str, ...]) -> str:
    """How a refusal names that place, as `manifest.entries[0].sha`."""
    name = ""
    for step in place:
        name += f"[0].{step}" if isinstance(value, list) else f".{step}"
        value = value[0] if isinstance(value, list) else value
        value = value.get(step) if isinstance(value, dict) else None
    return name.lstrip(".")
