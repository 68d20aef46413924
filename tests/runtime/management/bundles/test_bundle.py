"""The policy bundle over HTTP: a user's own policies, fetched, replaced and reset as one archive."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.management.bundles.holding import FORBID, PERMIT, VERSION, Holder, archive_of, opened

from runtime.contract.bundles import MEDIA_TYPE
from runtime.domain.policy import schema
from runtime.domain.policy.bundle_archive import Archive, read, write

PAGE = Path(__file__).resolve().parents[4] / "docs" / "policies-of-users.md"


class TestFetching:
    def test_the_manifest_is_of_the_user_and_the_schema(self, ann: Holder) -> None:
        """It names the user it is for, and the version of the schema, whose text is in the archive."""
        manifest, archive, _ = ann.bundle()
        assert manifest["target_type"] == "user"
        assert manifest["target_id"] == ann.person.user.id
        assert manifest["schema"]["version"] == VERSION
        assert archive.schema == schema.get(VERSION).text.encode()

    def test_the_first_access_makes_the_default_policy(self, ann: Holder) -> None:
        """The one entry of the manifest, and the one text of the archive."""
        manifest, archive, _ = ann.bundle()
        (entry,) = manifest["policies"]
        assert entry["name"] == "default-user-access"
        assert set(archive.policies) == {entry["public_id"]}

    def test_the_second_access_answers_the_same(self, ann: Holder) -> None:
        """The same tag as the first, and from then on the same bytes."""
        _, _, etag = ann.bundle()
        again = ann("GET")
        assert opened(again)[2] == etag
        assert again.content == ann("GET").content

    def test_what_the_first_access_made_is_the_users_own(self, ann: Holder) -> None:
        """The policy is a customer's, made by the user, and the set with it is active for the user."""
        (entry,) = ann.bundle()[0]["policies"]
        policy = ann.api.ok("GET", f"/zones/{ann.zone.id}/policies/{entry['public_id']}")
        assert (policy["owner_type"], policy["created_by"]) == ("customer", ann.person.user.id)
        assert ann.set_is_active()

    @pytest.mark.parametrize(
        "known",
        [
            pytest.param("{etag}", id="its tag"),
            pytest.param('"other", W/{etag}', id="weak, among others"),
            pytest.param("*", id="any"),
        ],
    )
    def test_the_present_bundle_is_not_sent_again(self, ann: Holder, known: str) -> None:
        """304 without a body for who has the present one."""
        etag = ann("GET").headers["etag"]
        same = ann("GET", If_None_Match=known.format(etag=etag))
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)

    def test_another_bundle_is_sent(self, ann: Holder) -> None:
        """200 for who has only another one."""
        ann("GET")
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


@dataclass(frozen=True)
class Replaced:
    """A bundle that its user has replaced once.

    Attributes:
        first: the id of the default policy.
        before: the tag that the bundle had.
        now: the manifest, the archive and the tag that the replacement answered.
        ids: the policies' ids by their names.
    """

    ann: Holder
    first: str
    before: str
    now: tuple[dict[str, Any], Archive, str]
    ids: dict[str, str]

    def policy(self, policy_id: str) -> dict[str, Any]:
        """A policy as the management API shows it."""
        shown: dict[str, Any] = self.ann.api.ok("GET", f"/zones/{self.ann.zone.id}/policies/{policy_id}")
        return shown


class TestReplacing:
    @pytest.fixture
    def replaced(self, ann: Holder) -> Replaced:
        """A bundle whose one policy was edited, and to which another was added."""
        manifest, _, before = ann.bundle()
        (first,) = (entry["public_id"] for entry in manifest["policies"])
        sent = archive_of(
            {"public_id": first},
            {"new_policy": "calendar", "sha": "sha256:wrong", "name": "whatever"},
            files={first: FORBID, "calendar": PERMIT, "unlisted": "this is no policy"},
            target_type="user",
            target_id=ann.person.user.id,
        )
        manifest, archive, etag = opened(ann.put(sent, If_Match=before))
        ids = {entry["name"]: entry["public_id"] for entry in manifest["policies"]}
        return Replaced(ann, first, before, (manifest, archive, etag), ids)

    def test_the_answer_is_what_is_in_force(self, replaced: Replaced) -> None:
        """A fetch afterwards answers the same bundle, under a tag that is new."""
        assert replaced.now[2] != replaced.before
        assert replaced.ann.bundle() == replaced.now

    def test_each_policy_has_the_text_that_was_sent(self, replaced: Replaced) -> None:
        """A new one gets an id and its file's name, and a file that the manifest does not list is ignored."""
        first, ids = replaced.first, replaced.ids
        assert ids["default-user-access"] == first
        assert set(ids) == {"default-user-access", "calendar"}
        assert replaced.now[1].policies == {first: FORBID.encode(), ids["calendar"]: PERMIT.encode()}

    def test_an_edited_policy_gets_a_version(self, replaced: Replaced) -> None:
        """The edited one has its second, the added one its first."""
        assert replaced.policy(replaced.first)["latest_version"] == 2
        assert replaced.policy(replaced.ids["calendar"])["latest_version"] == 1

    def test_a_policy_that_is_not_listed_is_archived(self, replaced: Replaced) -> None:
        """The one that is listed stays, and gets no version by it."""
        ann, calendar = replaced.ann, replaced.ids["calendar"]
        manifest, _, _ = opened(ann.put(archive_of({"public_id": calendar})))
        assert [entry["public_id"] for entry in manifest["policies"]] == [calendar]
        assert replaced.policy(replaced.first)["archived_at"]
        assert replaced.policy(calendar)["latest_version"] == 1

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

    @pytest.mark.threat("36h")
    def test_no_cache_gives_it_to_another(self, ann: Holder) -> None:
        """Nor the word that it has not changed."""
        first = ann("GET")
        again = ann("GET", If_None_Match=first.headers["etag"])
        assert (first.status_code, again.status_code) == (200, 304)
        assert {answer.headers["cache-control"] for answer in (first, again)} == {"private, no-cache"}
        assert {answer.headers["vary"] for answer in (first, again)} == {"Authorization"}

    @pytest.mark.threat("28n")
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
    def test_a_bundle_that_was_never_made_can_be_reset(self, ann: Holder) -> None:
        """204, as for one that there is."""
        assert ann("DELETE").status_code == 204

    def test_a_reset_can_be_repeated(self, ann: Holder) -> None:
        """204 without a body both times, and no policy set of the user is active."""
        ann.bundle()
        gone = [ann("DELETE") for _ in range(2)]
        assert [(each.status_code, each.content) for each in gone] == [(204, b"")] * 2
        assert not ann.set_is_active()

    def test_the_next_access_makes_a_new_default(self, ann: Holder) -> None:
        """A default policy with an id of its own, whatever the user had written before the reset."""
        before, _, _ = ann.bundle()
        assert opened(ann.put(archive_of({"new_policy": "mine"})))[0]["policies"][0]["name"] == "mine"
        ann("DELETE")
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
