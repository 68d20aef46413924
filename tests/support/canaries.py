"""Words that must be found nowhere, and the places where one looks for them."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
import orjson
import redis
from sqlalchemy import select

from runtime.services.container import Services
from runtime.storage.sql.tables import METADATA
from runtime.storage.state.memory import InProcessState

_SHORTEST = 8  # shorter words are found by chance
_PUBLIC = frozenset({"client_id", "response_type", "scope"})


@dataclass
class Canaries:
    """What must not be found, by what it is: `secrets` anywhere, `told` (in addresses) in no log."""

    secrets: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def keep(self, what: str, secret: str | None) -> str:
        """Remember a secret; it comes back. Of a JWT the signature counts, which nobody else can make."""
        assert secret, what
        assert len(secret) >= _SHORTEST, what
        self.secrets[secret.rpartition(".")[2] if secret.count(".") == 2 else secret] = what
        return secret

    def keep_tokens(self, what: str, answer: httpx.Response) -> dict[str, Any]:
        """Remember every token of a successful answer; the answer's members."""
        assert answer.status_code == 200, (what, answer.text)
        members: dict[str, Any] = answer.json()
        for name, value in members.items():
            if name.endswith("_token") or name == "token":
                self.keep(f"{what}: {name}", value)
        return members

    def keep_visits(self, visited: Iterable[httpx.Response], *names: str) -> None:
        """Remember what a browser was shown: of addresses these parameters as secrets, the others as told."""
        for response in visited:
            for address in (str(response.request.url), response.headers.get("location", "")):
                for name, value in parse_qsl(urlsplit(address).query):
                    if name in names:
                        self.keep(name, value)
                    elif len(value) >= _SHORTEST and name not in _PUBLIC and "/" not in value:
                        self.told[value] = f"parameter `{name}`"

    def found_in(self, places: Mapping[str, bytes], *, told: bool = False) -> list[str]:
        """What is found, and where: as it is, as part of an address, in Base64 or in hexadecimal digits."""
        words = {**self.secrets, **(self.told if told else {})}
        everything = b"\n".join(places.values())
        hits = [(what, form) for word, what in words.items() for form in _forms(word) if form in everything]
        return [
            f"{what} in {place}" for what, form in hits for place, found in places.items() if form in found
        ]


def _forms(word: str) -> set[bytes]:
    raw = word.encode()
    forms = {raw, quote(word, safe="").encode(), raw.hex().encode()}
    for lead in range(3):  # where it begins within three bytes; what its neighbours decide is cut off
        coded = base64.b64encode(b"\0" * lead + raw)[(0, 2, 3)[lead] :].rstrip(b"=")[:-1]
        forms |= {coded, coded.translate(bytes.maketrans(b"+/", b"-_"))}
    return forms


async def tables(services: Services) -> dict[str, bytes]:
    """Everything in the database: table and column -> all its values."""
    found: dict[str, bytes] = {}
    async with services.database.reading() as conn:
        for table in METADATA.sorted_tables:
            rows = (await conn.execute(select(table))).mappings().all()
            for column in table.columns:
                found[f"{table.name}.{column.name}"] = b"\n".join(_bytes(row[column.name]) for row in rows)
    return found


def short_lived(services: Services) -> dict[str, bytes]:
    """Everything in the short-lived state: kind of key -> keys and values."""
    return _gathered(_entries(services))


def _entries(services: Services) -> Iterator[tuple[str, bytes]]:
    if isinstance(services.state, InProcessState):
        for entries in (services.state._cached, services.state._marks):
            yield from ((key, value) for key, (_, value) in list(entries.items()))
        return
    with redis.Redis.from_url(str(services.settings.redis_url)) as client:
        for key in client.scan_iter():
            yield key.decode(), client.get(key) or b""


def _gathered(entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for key, value in entries:
        kind = key.removeprefix("zonewright:").partition(":")[0]
        found[f"state {kind}"] = found.get(f"state {kind}", b"") + key.encode() + b" " + value + b"\n"
    return found


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return orjson.dumps(value) if isinstance(value, dict | list) else str(value).encode()
