"""The policy bundle over HTTP: a user's own policies, fetched, replaced and reset as one archive."""

import json
import os
import re
import subprocess
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from tests.runtime.management.conftest import Api
from tests.runtime.management.conftest import Zone as Zone_
from tests.support.factories import App, Company, Person, operator

from runtime.contract.bundles import MEDIA_TYPE
from runtime.contract.routes import ROUTES
from runtime.domain.kinds.zone import Zone
from runtime.domain.policy import schema
from runtime.domain.policy.bundle_archive import MAX_ARCHIVE_BYTES, Archive, read, write
from runtime.services.bundles import keeping, reading
from runtime.services.parts import Parts

T = TypeVar("T")
PATH = "/policy/bundle"
PAGE = Path(__file__).resolve().parents[4] / "docs" / "policies-of-users.md"
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

        async def inside(parts: Parts) -> T:
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


@pytest.fixture(scope="module")
def company(api: Api) -> Company:
    acting = operator(api.organization_id)
    return Company(api.server.parts, acting, api.organization_id, api.server.api_key)


@pytest.fixture(scope="module")
def shared(api: Api, company: Company) -> Zone:
    return api.server.call(lambda parts: company.zone(api.named("zone")))


@pytest.fixture
def make(api: Api, company: Company, shared: Zone) -> Callable[..., Holder]:
    """Somebody new, in the zone that all share unless another is given."""

    def of(zone: Zone = shared) -> Holder:
        async def build(parts: Parts) -> Holder:
            app = await company.app(zone, api.named("app"))
            person = await company.person(zone, f"{api.named('ann')}@acme.test")
            return Holder(api, company, zone, app, person, await company.token(zone, app, person))

        return api.server.call(build)

    return of


@pytest.fixture
def ann(make: Callable[..., Holder]) -> Holder:
    return make()


class TestFetching:
    def test_the_first_access_makes_the_bundle(self, ann: Holder) -> None:
        """From the default policies, as the user's own; the second answers the same, byte for byte."""
        manifest, archive, etag = ann.bundle()
        assert manifest["target_type"] == "user"
        assert manifest["target_id"] == ann.person.user.id
        assert manifest["schema"]["version"] == VERSION
        (entry,) = manifest["policies"]
        assert entry["name"] == "default-user-access"
        assert archive.schema == schema.get(VERSION).text.encode()
        assert set(archive.policies) == {entry["public_id"]}
        again = ann("GET")
        assert opened(again)[2] == etag
        assert again.content == ann("GET").content
        policy = ann.api.ok("GET", f"/zones/{ann.zone.id}/policies/{entry['public_id']}")
        assert (policy["owner_type"], policy["created_by"]) == ("customer", ann.person.user.id)
        assert ann.set_is_active()

    def test_nothing_is_sent_again(self, ann: Holder) -> None:
        """304 without a body for who has the present one."""
        etag = ann("GET").headers["etag"]
        for known in (etag, f'"other", W/{etag}', "*"):
            same = ann("GET", If_None_Match=known)
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
        assert ann("GET", If_None_Match='"other"').status_code == 200

    @pytest.mark.parametrize(
        ("accept", "status"),
        [
            (MEDIA_TYPE, 200),
            ("application/vnd.example.policy-bundle.v1+tar+gzip", 200),
            ("application/octet-stream", 200),
            ("*/*", 200),
            ("application/*;q=0.1", 200),
            ("application/json, */*;q=0.5", 200),
            ("application/json", 406),
            (f"{MEDIA_TYPE};q=0", 406),
            ("application/vnd.service.policy-bundle.v2+tar+gzip", 406),
            ("text/*", 406),
        ],
    )
    def test_there_is_one_codec(self, ann: Holder, accept: str, status: int) -> None:
        """Asked for by name, by another vendor's, as bytes, or as whatever there is."""
        answer = ann("GET", Accept=accept)
        assert answer.status_code == status
        assert answer.headers["content-type"] == (MEDIA_TYPE if status == 200 else "application/json")

    def test_first_accesses_at_once_make_one_bundle(self, ann: Holder) -> None:
        """Whoever comes second gets what the first has made."""
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: ann("GET"), range(4)))
        assert len({opened(answer)[2] for answer in answers}) == 1

    def test_the_callers_request_id_is_a_free_string(self, ann: Holder) -> None:
        """It comes back as it was."""
        assert ann("GET", X_Client_Request_ID="run 17").headers["X-Client-Request-ID"] == "run 17"
        assert ann("GET", X_Client_Request_ID="x" * 256).status_code == 400


class TestReplacing:
    def test_policies_are_changed_added_and_taken_away(self, ann: Holder) -> None:
        """An edited policy gets a version, a new one an id, one that is not listed is archived."""
        manifest, _, etag = ann.bundle()
        (first,) = (entry["public_id"] for entry in manifest["policies"])
        sent = archive_of(
            {"public_id": first},
            {"new_policy": "calendar", "sha": "sha256:wrong", "name": "whatever"},
            files={first: FORBID, "calendar": PERMIT, "unlisted": "this is no policy"},
            target_type="user",
            target_id=ann.person.user.id,
        )
        manifest, archive, changed = opened(ann.put(sent, If_Match=etag))
        assert changed != etag
        assert ann.bundle() == (manifest, archive, changed)
        ids = {entry["name"]: entry["public_id"] for entry in manifest["policies"]}
        assert ids["default-user-access"] == first
        assert set(ids) == {"default-user-access", "calendar"}
        assert archive.policies == {first: FORBID.encode(), ids["calendar"]: PERMIT.encode()}
        path = f"/zones/{ann.zone.id}/policies"
        assert ann.api.ok("GET", f"{path}/{first}")["latest_version"] == 2
        assert ann.api.ok("GET", f"{path}/{ids['calendar']}")["latest_version"] == 1

        manifest, _, _ = opened(ann.put(archive_of({"public_id": ids["calendar"]})))
        assert [entry["public_id"] for entry in manifest["policies"]] == [ids["calendar"]]
        assert ann.api.ok("GET", f"{path}/{first}")["archived_at"]
        assert ann.api.ok("GET", f"{path}/{ids['calendar']}")["latest_version"] == 1

    def test_what_was_fetched_can_be_sent_back(self, ann: Holder) -> None:
        """Nothing changes by it, not even a version; names and digests may be any."""
        fetched = ann("GET")
        sent = opened(ann.put(fetched.content, If_Match=fetched.headers["etag"]))
        assert sent == ann.bundle() == opened(fetched)
        manifest, archive, etag = sent
        manifest["policies"][0] |= {"name": "other", "sha": "other"}
        manifest["schema"]["sha"] = "other"
        other = Archive(json.dumps(manifest).encode(), b"no schema at all", archive.policies)
        assert opened(ann.put(write(other)))[2] == etag

    def test_names_of_files_can_repeat(self, ann: Holder) -> None:
        """A new policy never takes the place of another, whatever its file is called."""
        manifest, _, _ = opened(ann.put(archive_of({"new_policy": "same"})))
        kept = {"public_id": manifest["policies"][0]["public_id"]}
        manifest, archive, _ = opened(ann.put(archive_of(kept, {"new_policy": "same"})))
        assert sorted(entry["name"] for entry in manifest["policies"]) == ["same", "same-2"]
        assert len(archive.policies) == 2

    @pytest.mark.parametrize("first", [True, False], ids=["before any access", "after one"])
    def test_an_empty_bundle_is_one(self, ann: Holder, first: bool) -> None:
        """A user may allow nothing at all."""
        if not first:
            ann.bundle()
        assert opened(ann.put(archive_of()))[0]["policies"] == []

    def test_a_stale_tag_changes_nothing(self, ann: Holder) -> None:
        """412, and everything is as it was; the tag is optional."""
        assert ann.put(archive_of(), If_Match='"old"').status_code == 412
        assert ann.put(archive_of(), If_Match="*").status_code == 412  # there is nothing yet
        before = ann.bundle()
        refused = ann.put(archive_of({"new_policy": "x"}), If_Match='"old"')
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
        assert ann.bundle() == before
        assert ann.put(archive_of({"new_policy": "x"}), If_Match=f'"old", {before[2]}').status_code == 200
        assert ann.put(archive_of(), If_Match="*").status_code == 200

    @pytest.mark.threat(28)
    def test_of_several_at_once_one_wins(self, ann: Holder) -> None:
        """They all name the tag they have seen: one 200, the others 412."""
        etag = ann.bundle()[2]
        sent = [archive_of({"new_policy": f"policy-{n}"}) for n in range(4)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda one: ann.put(one, If_Match=etag), sent))
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
        (won,) = [answer for answer in answers if answer.status_code == 200]
        assert ann.bundle() == opened(won)


class TestResetting:
    def test_back_to_the_default(self, ann: Holder) -> None:
        """Archived; the next access begins anew; doing it twice, or before anything, is the same."""
        assert ann("DELETE").status_code == 204
        before, _, _ = ann.bundle()
        assert opened(ann.put(archive_of({"new_policy": "mine"})))[0]["policies"][0]["name"] == "mine"
        for _ in range(2):
            gone = ann("DELETE")
            assert (gone.status_code, gone.content) == (204, b"")
        assert not ann.set_is_active()
        after, _, _ = ann.bundle()
        assert after["policies"][0]["name"] == "default-user-access"
        assert after["policies"][0]["public_id"] != before["policies"][0]["public_id"]

    def test_nothing_is_left_of_a_deleted_user(self, make: Callable[..., Holder]) -> None:
        """Their policies go with them; nobody else's do."""
        ann = make()
        bob = make()
        before = bob.bundle()
        (mine,) = [entry["public_id"] for entry in ann.bundle()[0]["policies"]]
        path = f"/zones/{ann.zone.id}/policies/{mine}"
        ann.api.ok("GET", path)
        ann.api.ok("DELETE", f"/zones/{ann.zone.id}/users/{ann.person.user.id}")
        ann.api.refused(404, "GET", path)
        assert ann("GET").status_code == 401
        assert bob.bundle() == before


def test_reconcilers_do_not_see_what_users_wrote(ann: Holder) -> None:
    """The snapshot is of what is configured."""
    ann.bundle()
    text = ann.api("GET", f"/organizations/{ann.api.organization_id}/snapshot?zone={ann.zone.id}").text
    assert "default-zone-policies" in text
    assert "default-user-access" not in text


def test_the_commands_of_the_documentation(ann: Holder, tmp_path: Path) -> None:
    """They work as they stand, with the two values they take from their surroundings."""
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "TOKEN": ann.token, "SERVER": ann.api.server.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest, archive, _ = ann.bundle()
    assert {entry["name"] for entry in manifest["policies"]} == {"default-user-access", "no-payroll"}
    assert any(b"payroll.example" in text for text in archive.policies.values())
    assert read((tmp_path / "stored.tgz").read_bytes()) == archive


@pytest.mark.threat(28)
class TestContents:
    """What a well-formed archive must not say."""

    @pytest.mark.parametrize(
        ("sent", "field"),
        [
            (archive_of({"new_policy": "a"}, {"new_policy": "a"}), "policies[1]"),
            (archive_of({"public_id": "a"}, {"new_policy": "a"}), "policies[1]"),
            (archive_of({"new_policy": "a"}, files={}), "policies/a.cedar"),
            (archive_of({"public_id": "unknown"}), "policies[0]"),
            (archive_of({}, files={}), "policies[0]"),
            (archive_of({"public_id": "a", "new_policy": "b"}, files={"a": PERMIT}), "policies[0]"),
            (archive_of({"new_policy": "../a"}, files={"a": PERMIT}), "policies[0].new_policy"),
            (archive_of({"new_policy": "a", "more": 1}), "policies[0].more"),
            (archive_of(*({"new_policy": f"p{n}"} for n in range(101))), "policies"),
            (archive_of(target_id="somebody-else"), "target_id"),
            (archive_of(target_type="zone"), "target_type"),
            (archive_of(schema={"version": "1999-01-01"}), "schema.version"),
            (archive_of(schema={}), "schema.version"),
            (archive_of({"new_policy": "a"}, files={"a": "permit (principal"}), "policies/a.cedar"),
            (archive_of({"new_policy": "a"}, files={"a": "// nothing"}), "policies/a.cedar"),
            (
                archive_of(
                    {"new_policy": "a"},
                    files={"a": "permit (principal, action, resource) when { context.nope };"},
                ),
                "policies/a.cedar",
            ),
        ],
    )
    def test_is_refused_with_its_place(self, ann: Holder, sent: bytes, field: str) -> None:
        """400 `bundle_invalid` that names what is wrong; nothing changes."""
        before = ann.bundle()
        refused = ann.put(sent)
        assert refused.status_code == 400, refused.text
        told = refused.json()
        assert told["code"] == "bundle_invalid"
        assert told["details"][0]["field"] == field
        assert ann.bundle() == before

    @pytest.mark.parametrize(
        "manifest",
        [b"", b"{", b"[]", b"\xff", b'{"policies": [], "policies": []}', b"[" * 60_000, b'"text"', b"null"],
    )
    def test_a_manifest_is_read_strictly(self, ann: Holder, manifest: bytes) -> None:
        """JSON in UTF-8, an object, no member twice, and not nested without end."""
        refused = ann.put(write(Archive(manifest)))
        assert (refused.status_code, refused.json()["code"]) == (400, "bundle_invalid")

    def test_texts_are_bounded_together(self, ann: Holder) -> None:
        """Policies that are small one by one may still be too much."""
        text = f"{PERMIT}// {'x' * 60_000}"
        few, many = ([{"new_policy": f"p{n}"} for n in range(count)] for count in (2, 3))
        assert 3 * len(text) > reading.MAX_TEXT_BYTES
        assert ann.put(archive_of(*few, files={f"p{n}": text for n in range(2)})).status_code == 200
        refused = ann.put(archive_of(*many, files={f"p{n}": text for n in range(3)}))
        assert (refused.status_code, refused.json()["code"]) == (400, "bundle_invalid")

    @pytest.mark.threat(29)
    def test_texts_that_grow_are_measured_as_they_are_kept(self, ann: Holder) -> None:
        """A list of thousands is laid out one element a line: what is sent small would be kept large."""

        def listing(count: int, depth: int = 1) -> str:
            whole, part = (
                "[" * depth + ",".join(["1"] * count) + "]" * depth,
                "[" * (depth - 1) + "1" + "]" * (depth - 1),
            )
            return f"permit (principal, action, resource) when {{ {whole}.contains({part}) }};"

        assert ann.put(archive_of({"new_policy": "p"}, files={"p": listing(1_000)})).status_code == 200
        began = time.perf_counter()
        for text, told in ((listing(30_000), "commas"), (listing(4_000, depth=20), "laid out")):
            refused = ann.put(archive_of({"new_policy": "p"}, files={"p": text}))
            assert (refused.status_code, refused.json()["code"]) == (400, "bundle_invalid")
            assert told in refused.json()["message"]
        assert time.perf_counter() - began < 4  # 6 s and more before lists were bounded
        several, text = [{"new_policy": f"p{n}"} for n in range(6)], listing(4_000)
        assert 6 * len(text) < reading.MAX_TEXT_BYTES
        refused = ann.put(archive_of(*several, files={f"p{n}": text for n in range(6)}))
        assert "together" in refused.json()["message"]

    @pytest.mark.threat(31)
    def test_writes_are_counted(self, ann: Holder, make: Callable[..., Holder]) -> None:
        """Whoever writes without end waits; others do not, and reading goes on."""
        one = archive_of({"new_policy": "p"})
        assert ann.put(one).status_code == 200
        for _ in range(keeping.WRITES_A_MINUTE):
            last = ann("DELETE")
        assert (last.status_code, last.json()["code"]) == (429, "rate_limit_exceeded")
        assert ann.put(one).status_code == 429
        assert ann("GET").status_code == 200
        assert make().put(one).status_code == 200

    def test_a_policy_of_somebody_else_is_unknown(self, make: Callable[..., Holder]) -> None:
        """Another user's policy, and one of the zone, in the words of one that does not exist."""
        ann = make()
        bob = make()
        theirs = bob.bundle()[0]["policies"][0]["public_id"]
        zone = ann.api.ok("GET", f"/zones/{ann.zone.id}/policies")["items"][0]["id"]
        answers = [ann.put(archive_of({"public_id": each})) for each in (theirs, zone, "x" * 26)]
        assert {answer.status_code for answer in answers} == {400}
        told = {
            answer.json()["message"].replace(each, "ID")
            for answer, each in zip(answers, (theirs, zone, "x" * 26), strict=True)
        }
        assert len(told) == 1
        assert bob.bundle()[0]["policies"][0]["public_id"] == theirs

    @pytest.mark.parametrize(
        ("media", "status"),
        [
            (MEDIA_TYPE, 200),
            ("application/octet-stream", 200),
            ("application/vnd.example.policy-bundle.v1+tar+gzip; x=y", 200),
            ("application/json", 415),
            ("application/gzip", 415),
            ("application/vnd.service.policy-bundle.v2+tar+gzip", 415),
            ("multipart/form-data", 415),
        ],
    )
    def test_codec(self, ann: Holder, media: str, status: int) -> None:
        """Other media types are not looked into."""
        assert ann.put(archive_of(), Content_Type=media).status_code == status

    @pytest.mark.parametrize("size", [MAX_ARCHIVE_BYTES + 1, 10 * MAX_ARCHIVE_BYTES])
    @pytest.mark.parametrize("chunked", [False, True])
    def test_size(self, ann: Holder, size: int, chunked: bool) -> None:
        """A body that is too large is not read to its end, whether it tells its size or not."""
        assert ann.put(archive_of()).status_code == 200
        body = bytes(size)
        parts = (body[start : start + 65536] for start in range(0, size, 65536))
        sent: Any = parts if chunked else body
        with suppress(httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):  # hung up
            assert ann.put(sent).status_code == 413
        assert ann.put(archive_of()).status_code == 200


class TestWhoMayAsk:
    def both(self, holder: Holder, token: str) -> set[int]:
        """What reading, writing and resetting with another token answer."""
        other = Holder(**{**vars(holder), "token": token})
        return {other("GET").status_code, other.put(archive_of()).status_code, other("DELETE").status_code}

    @pytest.mark.threat(13)
    def test_a_token_for_something_else_is_refused(self, ann: Holder) -> None:
        """A resource's, an application's own, an ID token, a service account's, an API key."""
        assert ann("GET").status_code == 200

        async def others(company: Company) -> dict[str, str]:
            resource = await company.resource(ann.zone, "https://api.test")
            view = await company.parts.zones.view(ann.zone.id)
            now = company.parts.clock()
            claims = {"iss": view.issuer, "aud": view.issuer, "sub": ann.person.user.identifier}
            claims |= {"iat": int(now.timestamp()), "exp": int(now.timestamp()) + 60, "jti": "j"}
            claims |= {"client_id": ann.app.client_id, "sid": ann.person.session_id}
            key = view.signing(view.access_token_algorithm)
            return {
                "right": key.sign(claims, typ="at+jwt"),
                "resource": await company.token(ann.zone, ann.app, ann.person, audience=resource.identifier),
                "own": key.sign({name: claims[name] for name in claims if name != "sid"}, typ="at+jwt"),
                **{
                    typ: key.sign(claims, typ=typ) for typ in ("JWT", "logout+jwt", "m2m+jwt", "secevent+jwt")
                },
            }

        tokens = ann.run(others)
        assert Holder(**{**vars(ann), "token": tokens.pop("right")})("GET").status_code == 200
        tokens |= {"key": ann.api.server.api_key, "text": "x", "dots": "a.b.c"}
        for name, token in tokens.items():
            assert self.both(ann, token) == {401}, name

    @pytest.mark.threat(13)
    def test_a_token_for_the_zone_opens_nothing_else(self, ann: Holder) -> None:
        """The management API refuses it on every route."""
        assert ann("GET").status_code == 200
        for route in ROUTES:
            if route.open or route.zone_token or route.body:
                continue
            path = route.path.replace("{zoneId}", ann.zone.id).replace("{", "").replace("}", "")
            headers = {"Authorization": f"Bearer {ann.token}"}
            assert ann.api.client.request(route.method, path, headers=headers).status_code == 401, route.path

    @pytest.mark.threat(12)
    @pytest.mark.threat(28)
    def test_a_bundle_is_its_users_alone(self, make: Callable[..., Holder]) -> None:
        """Two users of a zone, and the same application in another zone, never see each other's."""
        ann, bob = make(), make()
        eve = make(ann.run(lambda company: company.zone(ann.api.named("zone"))))
        assert len({each.bundle()[0]["target_id"] for each in (ann, bob, eve)}) == 3
        before = bob.bundle()
        assert ann.put(archive_of()).status_code == 200
        assert bob.bundle() == before

        async def forge(company: Company) -> str:
            mine, other = [await company.parts.zones.view(each.zone.id) for each in (ann, eve)]
            now = int(company.parts.clock().timestamp())
            claims = {"iss": mine.issuer, "aud": mine.issuer, "sub": ann.person.user.identifier, "iat": now}
            claims |= {
                "client_id": ann.app.client_id,
                "sid": ann.person.session_id,
                "jti": "j",
                "exp": now + 60,
            }
            return other.signing(other.access_token_algorithm).sign(claims, typ="at+jwt")

        assert self.both(ann, ann.run(forge)) == {401}

    @pytest.mark.threat(24)
    def test_who_registered_themselves_has_no_say(self, ann: Holder) -> None:
        """A client that nobody here manages gets no further than its token: 403, and nothing changes."""
        before = ann.bundle()
        client = Zone_(ann.api, ann.api.ok("GET", f"/zones/{ann.zone.id}")).user_agent()["identifier"]
        other = replace(ann.app, client_id=client)
        token = ann.run(lambda company: company.token(ann.zone, other, ann.person))
        assert self.both(ann, token) == {403}
        assert ann.bundle() == before

    def test_what_has_ended_is_refused(self, make: Callable[..., Holder]) -> None:
        """A token that is over, a session that was revoked, a user who is disabled, an application gone."""
        ann = make()
        before = ann.api.server.parts.clock() - timedelta(hours=2)
        expired = ann.run(lambda company: company.token(ann.zone, ann.app, ann.person, now=before))
        assert self.both(ann, expired) == {401}
        endings: dict[str, Callable[[Holder], tuple[Any, ...]]] = {
            "session": lambda one: ("DELETE", f"/sessions/{one.person.session_id}"),
            "user": lambda one: ("PATCH", f"/users/{one.person.user.id}", {"status": "disabled"}),
            "application": lambda one: ("DELETE", f"/applications/{one.app.id}"),
        }
        for name, end in endings.items():
            holder = make()
            assert holder("GET").status_code == 200
            method, path, *body = end(holder)
            ann.api.ok(method, f"/zones/{ann.zone.id}{path}", *body)
            assert self.both(holder, holder.token) == {401}, name
