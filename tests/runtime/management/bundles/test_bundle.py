"""The policy bundle over HTTP: a user's own policies, fetched, replaced and reset as one archive."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.runtime.management.bundles.holding import FORBID, PERMIT, VERSION, Holder, archive_of, opened

from runtime.contract.bundles import MEDIA_TYPE
from runtime.domain.policy import schema
from runtime.domain.policy.bundle_archive import Archive, read, write

PAGE = Path(__file__).resolve().parents[4] / "docs" / "policies-of-users.md"


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

    @pytest.mark.threat("36h")
    def test_no_cache_gives_it_to_another(self, ann: Holder) -> None:
        """Nor the word that it has not changed."""
        first = ann("GET")
        again = ann("GET", If_None_Match=first.headers["etag"])
        assert (first.status_code, again.status_code) == (200, 304)
        for answer in (first, again):
            assert answer.headers["cache-control"] == "private, no-cache"
            assert answer.headers["vary"] == "Authorization"

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
