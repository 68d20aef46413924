"""The walk: every operation of the contract, in an order in which each has something to work on."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from tests.runtime.management.conftest import Api
from tests.walk.asking import at, check_selected, items_of, values
from tests.walk.checking import CheckingClient
from tests.walk.recipes import (
    BEFORE_THE_END,
    BESIDE,
    BESIDE_NULL,
    BODIES,
    DROP,
    MADE,
    PLACES,
    SPECIAL,
)

from runtime.contract.answers import plain
from runtime.contract.routes import BY_OPERATION, IRREGULAR, ROUTES, Route
from runtime.domain import kinds
from runtime.domain.kinds import Kind, Verb
from runtime.domain.kinds.marks import members, part_of

# Variants of which so many may have the same handle: two secrets of one client id.
_ALIKE = {"password": 2}
_VARIANT = re.compile(r"(?:Create|Update|Input|Body)$")


class Walk:
    """One walk over one server.

    Attributes:
        made: kind -> the entity of it that the walk goes by.
        second: kind -> another entity of it.
        variants: class of a union -> the entity of that class.
        ids: kind -> its id.
        problems: what was not as documented.
    """

    def __init__(self, api: Api, client: type[CheckingClient] = CheckingClient) -> None:
        self.api = api
        self.client = client(api.client, api.ok("GET", "/openapi.json"))
        self.problems: list[str] = []
        self.made: dict[str, dict[str, Any]] = {}
        self.second: dict[str, dict[str, Any]] = {}
        self.variants: dict[str, dict[str, Any]] = {}
        self.remember("Organization", api.ok("GET", f"/organizations/{api.organization_id}"))

    @property
    def ids(self) -> dict[str, str]:
        return {name: str(entity["id"]) for name, entity in self.made.items() if "id" in entity}

    def remember(self, name: str, entity: dict[str, Any]) -> None:
        """Go by this entity from now on."""
        self.made[name] = entity

    def go(self) -> None:
        """Make everything, look at it in every way, change it, and take it away."""
        for kind in kinds.ALL:
            self._try(self._make, kind)
        for route in IRREGULAR:
            if route.method in ("POST", "PUT", "PATCH"):
                self._try(self._act, route)
        for route in ROUTES:
            if route.method == "GET":
                self._try(self._look, route)
        for kind in kinds.ALL:
            if Verb.UPDATE in kind.verbs:
                self._try(self._change, kind)
        for step in BEFORE_THE_END:
            step(self)
        for route in reversed(IRREGULAR):
            if route.method == "DELETE":
                self._try(self._act, route)
        for kind in reversed(kinds.ALL):
            self._try(self._end, kind)

    def _try(self, step: Callable[[Any], None], what: Kind | Route) -> None:
        """Go on after what is wrong, so that one walk tells everything."""
        try:
            step(what)
        except (AssertionError, KeyError) as failure:
            name = what.operation_id if isinstance(what, Route) else what.name
            self.problems.append(f"{name}: {failure!r}")

    # --- making

    def _make(self, kind: Kind) -> None:
        if kind.name in MADE:
            made = MADE[kind.name](self)
            route = BY_OPERATION[f"{kind.operations}.retrieve"]
            self.remember(kind.name, {"id": made})
            self.remember(kind.name, self.client.send(route.operation_id, self.path_of(route)))
        if Verb.CREATE not in kind.verbs:
            return
        route = BY_OPERATION[f"{kind.operations}.create"]
        if route.operation_id in SPECIAL:
            SPECIAL[route.operation_id](self)
            return
        for number, (name, example) in enumerate(self.client.examples_of(route).items()):
            body = _another(self.body_of(kind, name, example), number)
            entity = self.client.send(route.operation_id, self.path_of(route), body=body)
            self.variants[_VARIANT.sub("", name)] = entity
            self.made.setdefault(kind.name, entity)
            if kind.handle in body:
                for _ in range(_ALIKE.get(str(body.get("type")), 1) - 1):
                    self.client.send(route.operation_id, self.path_of(route), body=body)
                self.client.send(route.operation_id, self.path_of(route), body=body, status=409)
            second = self.client.send(route.operation_id, self.path_of(route), body=_another(body, 17))
            self.second.setdefault(kind.name, second)

    def body_of(self, kind: Kind | None, name: str, example: dict[str, Any]) -> dict[str, Any]:
        """The document's example of a body with everything in it that has to fit what is there."""
        body = {**example, **BODIES.get(name, {})}
        for member in list(body):
            known = kind.members().get(member) if kind is not None else None
            if body[member] is DROP:
                del body[member]
            elif known is not None and known.ref is not None:
                body[member] = self.ids[known.ref.kind]
            elif member in ("organization_id", "zone_id", "user_id"):
                body[member] = self.ids[
                    {"organization_id": "Organization", "zone_id": "Zone"}.get(member, "User")
                ]
        found: dict[str, Any] = self.filled(body)
        return found

    def filled(self, value: Any) -> Any:
        """The value with `{Kind}` and `{Kind.member}` replaced by what they stand for."""
        if isinstance(value, dict):
            return {name: self.filled(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        if value == "{revision}":
            return self._revision()
        match = re.fullmatch(r"{(\w+)(?:\.(\w+))?}", value) if isinstance(value, str) else None
        return self.made[match[1]][match[2] or "id"] if match else value

    def _revision(self) -> int:
        lines = self.api.client.get(f"/organizations/{self.ids['Organization']}/snapshot").text
        return int(re.search(r'"revision":(\d+)', lines)[1])  # type: ignore[index]

    def path_of(self, route: Route) -> dict[str, str]:
        """The values of a path's parameters."""
        found = {}
        for match in re.finditer(r"{(\w+)}", route.path):
            kind = next((kind for kind in kinds.ALL if kind.item_path == route.path[: match.end()]), None)
            place = f"{{{kind.name}}}" if kind else PLACES[match[1]]
            found[match[1]] = str(place(self) if callable(place) else self.filled(place))
        return found

    def _act(self, route: Route) -> None:
        """Send what is none of the generic operations, as the document shows it."""
        if route.operation_id in SPECIAL:
            SPECIAL[route.operation_id](self)
            return
        examples = self.client.examples_of(route) if route.body else {"": None}
        for name, example in examples.items():
            body = self.body_of(None, name, example) if example is not None else None
            answer = self.client.send(route.operation_id, self.path_of(route), body=body)
            if name == "ChangesetInput":
                self.remember("Changeset", answer)

    # --- looking

    def _look(self, route: Route) -> None:
        if route.operation_id in SPECIAL:
            SPECIAL[route.operation_id](self)
            return
        path = self.path_of(route)
        plain = self.client.send(route.operation_id, path)
        items = items_of(plain)
        for query in route.query:
            for value in values(self, route, query, items):
                asked = {**self.filled(BESIDE.get(query.name, {})), query.name: value}
                if query.name in ("after", "before", "cursor"):
                    asked["limit"] = "1"
                answer = self.client.send(route.operation_id, path, query=asked)
                check_selected(route, query, value, answer)
        if "If-None-Match" in route.headers:
            tag = self.api(route.method, re.sub(r"{(\w+)}", lambda m: path[m[1]], route.path)).headers["ETag"]
            self.client.send(route.operation_id, path, headers={"If-None-Match": tag}, status=304)

    # --- changing

    def _change(self, kind: Kind) -> None:
        route = BY_OPERATION[f"{kind.operations}.update"]
        for number, (name, example) in enumerate(self.client.examples_of(route).items(), start=30):
            path = self.path_of(route)
            variant = self.variants.get(_VARIANT.sub("", name))
            if kind.variants and variant is not None:
                path[kind.item] = variant["id"]
            body = _another(self.body_of(kind, name, example), number)
            if Verb.UPDATE in kind.conditional:
                self.client.send(route.operation_id, path, body=body, headers={"If-Match": '"0"'}, status=412)
            changed = self.client.send(route.operation_id, path, body=body)
            assert not [
                f"{route.operation_id}: `{member}` did not change"
                for member, value in body.items()
                if member in changed and not isinstance(value, dict | list) and changed[member] != value
            ]
            if name.endswith("Update"):
                self._clear(route, path, name)

    def _clear(self, route: Route, path: Mapping[str, str], name: str) -> None:
        """Null for every member, however deep: cleared where it may be, refused by name where not."""
        schema = self.client.followed({"$ref": f"#/components/schemas/{name}"})
        classes = route.kind.classes if route.kind else ()
        model = next(each for each in classes if each.__name__ == name.removesuffix("Update"))
        for place, nullable in self._nulls(schema):
            body: dict[str, Any] = dict(BESIDE_NULL.get(".".join((name, *place)), {}))
            inner = body
            for step in place[:-1]:
                inner = inner.setdefault(step, {})
            inner[place[-1]] = None
            answer = self.client.send(route.operation_id, path, body=body, status=None if nullable else 400)
            if nullable:
                expected = default(model, place)
                assert expected is ... or at(answer, place) == expected, (
                    f"{route.operation_id} {place}: {answer}"
                )
            else:
                told = [detail["field"] for detail in answer["details"]]
                assert told == [".".join(place)], f"{route.operation_id}: {body} is refused for {told}"

    def _nulls(self, schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Each member of a body, and whether it takes null: the inner ones before what they are in."""
        for name, member in schema["properties"].items():
            forms = member.get("anyOf", member.get("oneOf", [member]))
            objects = [inner for form in forms if "properties" in (inner := self.client.followed(form))]
            if len(objects) == 1:  # one of several is replaced whole
                yield from (((name, *place), nullable) for place, nullable in self._nulls(objects[0]))
            types = [form.get("type", ()) for form in forms]
            yield (name,), any(one == "null" or "null" in one for one in types)

    # --- ending

    def _end(self, kind: Kind) -> None:
        verb = next((verb for verb in (Verb.DELETE, Verb.ARCHIVE) if verb in kind.verbs), None)
        if verb is None or kind.name not in self.made:
            return
        route = BY_OPERATION[f"{kind.operations}.{verb.value}"]
        if route.operation_id in SPECIAL:
            SPECIAL[route.operation_id](self)
            return
        retrieve = BY_OPERATION.get(f"{kind.operations}.retrieve")
        path = self.path_of(route)
        answer = self.client.send(route.operation_id, path)
        if retrieve is None or retrieve.path != route.path:
            return
        if verb is Verb.DELETE:
            self.client.send(retrieve.operation_id, path, status=404)
            self.client.send(route.operation_id, path, status=404)
        else:
            assert answer["archived_at"]
            assert self.client.send(retrieve.operation_id, path)["archived_at"]


def _another(body: dict[str, Any], number: int) -> dict[str, Any]:
    """The same body for another entity, where two may not have the same."""
    if not number:
        return body
    other = {
        "identifier": "{value}-{n}",
        "name": "{value}-{n}",
        "subject": "{value}-{n}",
        "email": "{n}-{value}",
    }
    return {
        member: other[member].format(value=value, n=number) if member in other else value
        for member, value in body.items()
    }


def default(model: type[BaseModel], place: tuple[str, ...]) -> Any:
    """What a member is where nothing is said of it; `...` where the service decides."""
    for step in place[:-1]:
        part = part_of(members(model)[step].annotation)
        assert part is not None
        model = part
    field = model.model_fields[place[-1]]
    return ... if field.is_required() else plain(field.get_default(call_default_factory=True))
