"""The API client's calls: find zones, fetch a snapshot, dry-run and apply a changeset, read decisions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx
import orjson
import stamina

from reconciler.kinds import (
    Entity,
    IncludedVersion,
    InForce,
    MissingName,
    Ownership,
    Snapshot,
    Tombstone,
    Undescribable,
    Write,
)

from .connection import Connection
from .errors import ApiError, NotReached, Rejected, rejection
from .snapshots import SnapshotCache
from .transport import (
    TOKEN_PATH,
    ReadOnlyTransport,
    RetriedAnswer,
    SecretsTransport,
    WritingTransport,
    backoff,
    http_client,
    wants_retry,
)

NDJSON = "application/x-ndjson"
ATTEMPTS = 5
_PAGE = 100
_MOST_NAMED = 20
_NO_OWNER = "-"  # for what is told whoever asks
_LOOK = "; check the address, including `https` or `http`, and that the server is running"

Progress = Callable[[int, int], None]
T = TypeVar("T")

stamina.instrumentation.set_on_retry_hooks(())  # nothing but a command's own output is printed


@dataclass(frozen=True)
class ChangesetOutcome:
    """The result of a changeset. `replayed`: it was applied before, and this is the first answer again."""

    body: Mapping[str, Any]
    replayed: bool = False


class SendState(Enum):
    """What is known of a changeset after it was sent."""

    NOTHING = auto()  # nothing was sent, or the server refused it: nothing was changed
    UNANSWERED = auto()  # it may have arrived: the outcome is unknown
    ANSWERED = auto()  # it is applied


NOWHERE = "there is nothing at this address"  # the server's message for an unknown path


class Api:
    """The management API for one command. Make one with `Api.open`."""

    def __init__(
        self,
        connection: Connection,
        client: httpx.Client,
        cache: SnapshotCache | None,
        accepted: Callable[[], None] | None = None,
    ) -> None:
        self._connection, self._client, self._cache, self._accepted = connection, client, cache, accepted
        self._token: str | None = connection.api_key
        self._organization: str | None = connection.organization
        self.sent = SendState.NOTHING

    @classmethod
    @contextmanager
    def open(
        cls,
        connection: Connection,
        *,
        writes: bool,
        secrets: bool = False,
        inner: httpx.BaseTransport | None = None,
        cache: SnapshotCache | None = None,
        accepted: Callable[[], None] | None = None,
    ) -> Iterator["Api"]:
        """The API; with *writes* false, its transport refuses every request that changes something.

        With *secrets*, it admits those that change secrets in a vault, in place of changesets.

        *accepted* is called once, when the server has accepted the credential.
        """
        admitted = WritingTransport if writes else ReadOnlyTransport
        transport = SecretsTransport if secrets else admitted
        with http_client(connection.server, transport=transport, inner=inner) as client:
            yield cls(connection, client, cache, accepted)

    def snapshot(self, owner: str, zones: Iterable[str] = ()) -> Snapshot:
        """The objects that concern a configuration, as far as the caller may read them. Raises ApiError.

        Args:
            zones: zones of other configurations that this one refers to, by the names those use.
        """
        organization = self.organization()
        query = urlencode([("owner", owner), *(("zone", zone) for zone in sorted(zones))])
        path = f"/organizations/{quote(organization, safe='')}/snapshot?{query}"
        cached = self._cache.find(self._connection, path) if self._cache else None
        headers = {"Accept": NDJSON}
        if cached is not None:
            headers["If-None-Match"] = cached.etag
        answer = self._send("GET", path, headers=headers)
        if answer.status_code == 304 and cached is not None:
            self._note_accepted()
            return read_snapshot(cached.body)
        self._check(answer)
        found = read_snapshot(answer.content)
        if self._cache is not None and (etag := answer.headers.get("ETag")):
            self._cache.keep(self._connection, path, etag, answer.content)
        return found

    def organization(self) -> str:
        """The organization's id or label; from the server when it was not given. Raises ApiError."""
        if self._organization is None:
            answer = self._send("GET", "/organizations")
            self._check(answer)
            items = _json(answer).get("items") or []
            if len(items) != 1:
                raise ApiError(
                    f"the caller belongs to {len(items)} organizations; say which with --organization"
                )
            self._organization = str(items[0]["id"])
        return self._organization

    def zones(self) -> list[Mapping[str, Any]]:
        """All zones that the caller may read. Raises ApiError."""
        return list(self._all("/zones", ()))

    def zone(self, name: str | None, *, is_exact: bool = False) -> Mapping[str, Any]:
        """The zone of that id, slug or manifest's name; without a name the only one not of the organization.

        Args:
            is_exact: a manifest's name is not enough, for what must not go to another zone: whoever may
                commit to a configuration of the organization chooses those.
        Raises: ApiError when there is none, or more than one to choose from.
        """
        found = self.zones()
        if name is not None:
            chosen = [each for each in found if name in (each["id"], each["slug"])]
            if not chosen:
                chosen = self._zones_called(name, found)
                if is_exact and chosen:
                    raise ApiError(f"`--zone {name}` is a manifest's name; give the slug: {_slugs(chosen)}")
        else:
            chosen = [each for each in found if each.get("owner_type") != "platform"]
        if len(chosen) == 1:
            return chosen[0]
        if name is not None and chosen:
            raise ApiError(
                f"`--zone {name}`: several zones have this manifest name; give the slug of one:"
                f" {_slugs(chosen)}"
            )
        if name is not None:
            raise ApiError(
                f"`--zone {name}`: no zone has this id, slug or manifest name; give the slug; this credential"
                f" can read {_slugs(found)}"
            )
        raise ApiError(f"say which zone with `--zone SLUG`; this credential can read {_slugs(found)}")

    def _zones_called(self, name: str, zones: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those of the zones whose manifest has that name; none where the caller may not read snapshots."""
        try:
            entities = self.snapshot(_NO_OWNER).entities  # with the zones of every owner
        except ApiError:
            return []
        called = {
            each.id
            for each in entities
            if each.kind == "Zone" and each.ownership is not None and each.ownership.name == name
        }
        return [each for each in zones if each["id"] in called]

    def provider(self, zone_id: str, provider_id: str) -> Mapping[str, Any]:
        """The provider of that id. Raises ApiError."""
        answer = self._send("GET", f"/zones/{zone_id}/providers/{quote(provider_id, safe='')}")
        self._check(answer)
        return _json(answer)

    def decisions(
        self, zone_id: str, asked: Iterable[tuple[str, str]], *, limit: int
    ) -> Iterator[Mapping[str, Any]]:
        """The newest decision records of a zone that were asked for, at most *limit*. Raises ApiError.

        Args:
            asked: query parameters.
        """
        return islice(self._all(f"/zones/{zone_id}/decisions", asked, at_once=limit), limit)

    def explain(self, zone_id: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Whether an application would get a token for a user now, and why. Raises ApiError."""
        answer = self._send("POST", f"/zones/{zone_id}/explain", json=asked)
        self._check(answer)
        return _json(answer)

    def resource(self, zone_id: str, name: str) -> Mapping[str, Any]:
        """The resource of that id or identifier. Raises ApiError."""
        path = f"/zones/{zone_id}/resources"
        for member in ("identifier", "id"):
            if found := list(islice(self._all(path, [(f"filter[{member}]", name)]), 1)):
                return found[0]
        raise ApiError(f"no resource of the zone has the identifier or id `{name}`")

    def resources_by_id(self, zone_id: str, ids: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """Id -> resource, for those of the ids that are resources. Raises ApiError."""
        wanted, found = sorted(set(ids)), dict[str, Mapping[str, Any]]()
        for first in range(0, len(wanted), _MOST_NAMED):
            asked = [("filter[id]", each) for each in wanted[first : first + _MOST_NAMED]]
            found |= {str(each["id"]): each for each in self._all(f"/zones/{zone_id}/resources", asked)}
        return found

    def secrets(self, zone_id: str, entity_id: str | None = None) -> list[Mapping[str, Any]]:
        """The secrets in the zone's vault, without their values; with *entity_id* those of one object.

        Raises: ApiError.
        """
        query = f"?{urlencode({'entity_id': entity_id})}" if entity_id is not None else ""
        answer = self._send("GET", f"/zones/{zone_id}/secrets{query}")
        self._check(answer)
        found = _body(answer)
        if not isinstance(found, list):
            raise NotReached("the answer is not from this API; check the server's address")
        return found

    def create_secret(
        self, zone_id: str, resource_id: str, name: str, data: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Store a secret of a resource; it is sent once, since two would be stored. Raises ApiError."""
        body = {"name": name, "entity_id": resource_id, "data": data}
        answer = self._send("POST", f"/zones/{zone_id}/secrets", json=body, repeats=False)
        self._check(answer)
        return _json(answer)

    def replace_secret(self, zone_id: str, secret_id: str, data: Mapping[str, str]) -> Mapping[str, Any]:
        """Give a secret another value. Raises ApiError."""
        answer = self._send("PATCH", f"/zones/{zone_id}/secrets/{secret_id}", json={"data": data})
        self._check(answer)
        return _json(answer)

    def delete_secret(self, zone_id: str, secret_id: str) -> None:
        """Delete a secret. Raises ApiError."""
        self._check(self._send("DELETE", f"/zones/{zone_id}/secrets/{secret_id}"))

    def _all(
        self, path: str, asked: Iterable[tuple[str, str]], *, at_once: int = _PAGE
    ) -> Iterator[Mapping[str, Any]]:
        """All items of a list, page by page."""
        query = [*asked, ("limit", str(min(at_once, _PAGE)))]
        after: list[tuple[str, str]] = []
        while True:
            answer = self._send("GET", f"{path}?{urlencode([*query, *after])}")
            self._check(answer)
            page = _json(answer)
            yield from page["items"]
            if not page["page_info"]["has_next_page"]:
                return
            after = [("after", page["page_info"]["end_cursor"])]

    def dry_run(self, body: Mapping[str, Any], progress: Progress | None = None) -> ChangesetOutcome:
        """Have the server check a changeset without applying it. Raises ApiError.

        Args:
            progress: called with operations done and all operations.
        """
        return self._changeset(body, {}, {"dry_run": "true"}, progress or _unheard)

    def apply(
        self, body: Mapping[str, Any], key: str, progress: Progress | None = None, *, default: Any = None
    ) -> ChangesetOutcome:
        """Apply a changeset, wholly or not at all. Raises ApiError.

        Args:
            key: the same key sent again is answered with the first result.
            progress: called with operations done and all operations.
            default: turns values that JSON cannot represent (secrets) into text, at the moment of sending.
        """
        try:
            return self._changeset(body, {"Idempotency-Key": key}, {}, progress, default=default)
        except Rejected as error:
            if error.status < 500:  # a gateway answers 502 or 504 for a request that it has forwarded
                self.sent = SendState.NOTHING
            raise

    def confirm(self, body: Mapping[str, Any], key: str) -> None:
        """Confirm delivered secrets to the server, by a second changeset. Raises ApiError.

        The known outcome of the first one stays as it is.
        """
        sent = self.sent
        try:
            self._changeset(body, {"Idempotency-Key": key}, {}, None)
        finally:
            self.sent = sent

    def _changeset(
        self,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        query: Mapping[str, str],
        progress: Progress | None,
        *,
        default: Any = None,
    ) -> ChangesetOutcome:
        path = f"/organizations/{quote(self.organization(), safe='')}/changesets"
        content = orjson.dumps(body, default=default)
        accept = NDJSON if progress else "application/json"
        sent = {"Content-Type": "application/json", "Accept": accept, **headers}
        answer, last = self._send_streaming(path, content, sent, query, progress)
        if last is None:
            self._check(answer)
            last = _json(answer)
        if last.get("type") == "error":
            raise rejection(int(last.get("status", 500)), last)
        if not query:
            self.sent = SendState.ANSWERED
        self._note_accepted()
        return ChangesetOutcome(last, answer.headers.get("Idempotent-Replay") == "true")

    def _send_streaming(
        self,
        path: str,
        content: bytes,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        progress: Progress | None,
    ) -> tuple[httpx.Response, dict[str, Any] | None]:
        """The answer, and its last line when it is a stream of lines."""

        def once() -> tuple[httpx.Response, dict[str, Any] | None]:
            complete = {**headers, **self._authorization()}
            with (
                nullcontext() if query else self._sending(),
                self._client.stream(
                    "POST", path, content=content, headers=complete, params=query or None
                ) as answer,
            ):
                if wants_retry(answer):
                    answer.read()
                    raise RetriedAnswer(answer)
                if not answer.headers.get("Content-Type", "").startswith(NDJSON):
                    answer.read()
                    return answer, None
                return answer, _last_line(answer.iter_bytes(), progress)

        return self._retrying(once)

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Track a changeset that is sent in this block: without a connection, nothing was sent."""
        before, self.sent = self.sent, SendState.UNANSWERED
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            self.sent = before
            raise

    def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        *,
        repeats: bool = True,
    ) -> httpx.Response:
        def once() -> httpx.Response:
            complete = {**(headers or {}), **self._authorization()}
            answer = self._client.request(method, path, headers=complete, json=json)
            if repeats and wants_retry(answer):
                raise RetriedAnswer(answer)
            return answer

        return self._retrying(once, attempts=ATTEMPTS if repeats else 1)

    def _retrying(self, once: Callable[[], T], *, attempts: int = ATTEMPTS) -> T:
        """Repeat the request until there is an answer, as often as it may be sent."""
        try:
            for attempt in stamina.retry_context(on=backoff, attempts=attempts, timeout=120.0):
                with attempt:
                    return once()
        except RetriedAnswer as error:
            raise rejection(error.response.status_code, _body(error.response)) from error
        except httpx.HTTPError as error:
            raise NotReached(f"{self._connection.server} cannot be reached ({error}){_LOOK}") from error
        raise NotReached(f"{self._connection.server} cannot be reached{_LOOK}")

    def _authorization(self) -> dict[str, str]:
        if self._token is None:
            credential = (self._connection.client_id or "", self._connection.client_secret or "")
            answer = self._client.post(TOKEN_PATH, data={"grant_type": "client_credentials"}, auth=credential)
            if wants_retry(answer):
                raise RetriedAnswer(answer)
            self._check(answer)
            self._token = str(_json(answer)["access_token"])
        return {"Authorization": f"Bearer {self._token}"}

    def _note_accepted(self) -> None:
        if self._accepted is not None:
            accepted, self._accepted = self._accepted, None
            accepted()

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code in (200, 201, 204):
            self._note_accepted()
            return
        if answer.has_redirect_location:
            raise NotReached(
                f"{self._connection.server} redirects to `{answer.headers['Location']}`; credentials do not "
                "follow redirects: nothing was sent there. Name the server's own address with `--server`"
            )
        body = _body(answer)
        message = body.get("message") if isinstance(body, dict) else None
        if answer.status_code == 404 and message in (None, NOWHERE):
            raise NotReached(
                f"there is no management API at {self._connection.server}; give the server's base URL, "
                "without the path of a zone or of the API"
            )
        raise rejection(answer.status_code, body)


def _slugs(zones: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"`{each['slug']}` ({each['name']})" for each in zones[:_MOST_NAMED]) or "none"


def _body(answer: httpx.Response) -> Any:
    try:
        return orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        return None


def _json(answer: httpx.Response) -> dict[str, Any]:
    body = _body(answer)
    if not isinstance(body, dict):
        raise NotReached("the answer is not from this API; check the server's address")
    return body


def _unheard(_done: int, _total: int) -> None:
    """A progress that is not shown: the server streams lines all the same, so that no wait is long."""


def _last_line(parts: Iterator[bytes], progress: Progress | None) -> dict[str, Any]:
    """The line that is not about progress. Raises NotReached for anything but such a stream."""
    for text in _lines(parts):
        try:
            line = orjson.loads(text)
            if line["type"] != "progress":
                found: dict[str, Any] = line
                return found
            if progress is not None:
                progress(int(line["done"]), int(line["total"]))
        except (ValueError, TypeError, KeyError) as error:
            raise NotReached("the answer is not from this API; check the server's address") from error
    raise httpx.RemoteProtocolError("the answer was cut off")


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Lines that end in a line feed; other line ends of Unicode do not count."""
    begun: list[bytes] = []  # of a line that may be long and arrive in parts
    for part in parts:
        *ended, rest = part.split(b"\n")
        for end in ended:
            if (line := b"".join([*begun, end])).strip():
                yield line
            begun.clear()
        begun.append(rest)
    if (line := b"".join(begun)).strip():
        yield line


def read_snapshot(body: bytes) -> Snapshot:
    """The snapshot in an answer. Raises NotReached when it is incomplete or something else."""
    try:
        lines = [orjson.loads(line) for line in body.splitlines() if line]
        head, end = lines[0], lines[-1]
        if head["type"] != "snapshot" or end["type"] != "end" or end["count"] != len(lines) - 2:
            raise NotReached("the snapshot was cut off; try again")
        gone = [line for line in lines[1:-1] if line.get("type") == "tombstone"]
        entities = [line for line in lines[1:-1] if line.get("type") != "tombstone"]
        return Snapshot(
            head["organization_id"],
            head["revision"],
            tuple(_read_entity(line) for line in entities),
            tuple(_read_tombstone(line) for line in gone),
            names_writers=head.get("names_writers") is not False,
            sees_all=head.get("sees_all") is not False,
            undescribable=tuple(_read_undescribable(each) for each in end.get("undescribable") or ()),
            undescribable_truncated=tuple(end.get("undescribable_truncated") or ()),
        )
    except (orjson.JSONDecodeError, AttributeError, KeyError, IndexError, TypeError) as error:
        raise NotReached("the answer is not a snapshot; check the server's address") from error


def _read_entity(line: Mapping[str, Any]) -> Entity:
    record = line.get("ownership")
    ownership = None
    if record is not None:
        ownership = Ownership(
            owner=record["owner"],
            name=record["name"],
            fields=frozenset(record["fields"]),
            applied=record.get("applied") or {},
            secret_versions=record.get("secret_versions") or {},
            protect=bool(record.get("protect")),
            undelivered=bool(record.get("undelivered")),
        )
    return Entity(
        kind=line["kind"],
        id=line["id"],
        zone_id=line["zone_id"],
        zone=line["zone"],
        handle=line["handle"],
        owner_type=line["owner_type"],
        spec=line["spec"],
        ownership=ownership,
        secrets_set=frozenset(line.get("secrets_set") or ()),
        revision=line["revision"],
        secrets_overwritten=frozenset(line.get("secrets_overwritten") or ()),
        last_change=_read_last_change(line.get("last_change")),
        in_force=_read_in_force(line["in_force"]) if "in_force" in line else None,
    )


def _read_tombstone(line: Mapping[str, Any]) -> Tombstone:
    return Tombstone(
        kind=line["kind"],
        id=line["id"],
        zone_id=line["zone_id"],
        owner=line["owner"],
        name=line["name"],
        deleted=_read_write(line["deleted_at"], line),
    )


def _read_undescribable(line: Mapping[str, Any]) -> Undescribable:
    return Undescribable(
        kind=line["kind"],
        id=line["id"],
        zone_id=line["zone_id"],
        name=line["name"],
        of=line.get("of"),
        role=line.get("role"),
        last_change=_read_last_change(line.get("last_change")),
    )


def _read_last_change(line: Mapping[str, Any] | None) -> Write | None:
    return None if line is None else _read_write(line["at"], line)


def _read_write(at: str, line: Mapping[str, Any]) -> Write:
    actor = line.get("actor")
    return Write(at, f"{actor['type']} {actor['id']}" if actor else None, line.get("changeset_id"))


def _read_in_force(line: Mapping[str, Any]) -> InForce:
    parts = tuple(IncludedVersion(**each) for each in line.get("contents") or ())
    activated = _read_last_change(line.get("activated"))
    missing = tuple(MissingName(**each) for each in line.get("missing_names") or ())
    written = line["version"], line["latest_version"], line["spec"]
    return InForce(*written, parts, activated, missing_names=missing)
