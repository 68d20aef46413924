"""A user who holds a policy bundle, and what is in one."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from tests.runtime.management.conftest import Api
from tests.support.factories import App, Company, Person

from runtime.contract.bundles import MEDIA_TYPE
from runtime.domain.kinds.zone import Zone
from runtime.domain.policy import schema
from runtime.domain.policy.bundle_archive import Archive, read, write
from runtime.services.container import Services

T = TypeVar("T")
PATH = "/policy/bundle"
VERSION = schema.CURRENT_VERSION
PERMIT = "permit (principal, action, resource);\n"
FORBID = "forbid (principal, action, resource);\n"


@dataclass
class Holder:
    """A user of a zone, with an application that has the user's token for the zone itself."""

    api: Api
    company: Company
    zone: Zone
    app: App
    person: Person
    token: str

    def run(self, ask: Callable[[Company], Awaitable[T]]) -> T:
        """Something done beside the API, on the server's own loop."""

        async def inside(services: Services) -> T:
            return await ask(self.company)

        return self.api.server.call(inside)

    def __call__(self, method: str, content: bytes | None = None, **headers: str) -> httpx.Response:
        """A request with the token, and headers by name with `_` for `-`."""
        sent = {"Authorization": f"Bearer {self.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.api.client.request(method, PATH, content=content, headers=sent)

    def put(self, content: bytes, **headers: str) -> httpx.Response:
        return self("PUT", content, **{"Content_Type": MEDIA_TYPE} | headers)

    def set_is_active(self) -> bool:
        """Whether the user's newest policy set, as the management API shows it, is bound to the user."""
        path = f"/zones/{self.zone.id}/policy-sets?filter[target_type]=user&limit=100"
        mine = [one for one in self.api.ok("GET", path)["items"] if one["name"].endswith(self.person.user.id)]
        assert {one["target_id"] for one in mine if one["active"]} <= {self.person.user.id}
        return bool(mine[0]["active"])

    def bundle(self) -> tuple[dict[str, Any], Archive, str]:
        """The manifest, the archive and the tag of what is in force."""
        return opened(self("GET"))


def opened(response: httpx.Response) -> tuple[dict[str, Any], Archive, str]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    archive = read(response.content)
    return json.loads(archive.manifest), archive, response.headers["etag"]


def archive_of(*entries: dict[str, Any], files: dict[str, str] | None = None, **more: Any) -> bytes:
    """A bundle with these entries; each policy permits unless `files` says otherwise."""
    stems = [entry.get("public_id") or entry.get("new_policy") or "" for entry in entries]
    texts = dict.fromkeys(stems, PERMIT) if files is None else files
    manifest = {"schema": {"version": VERSION}, "policies": list(entries)} | more
    return write(Archive(json.dumps(manifest).encode(), None, {stem: texts[stem].encode() for stem in texts}))
