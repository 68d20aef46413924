"""Contents that a policy bundle is refused for, however well it is formed."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import httpx
import pytest
from tests.runtime.management.bundles.holding import PERMIT, Holder, archive_of, opened
from tests.support.waiting import working_at_most

from runtime.contract.bundles import MEDIA_TYPE
from runtime.domain.policy.bundle_archive import MAX_ARCHIVE_BYTES, Archive, write
from runtime.services import rate_limits
from runtime.services.bundles import parsing


def listing(elements: int, depth: int = 1) -> str:
    """A policy with a list of so many elements, inside as many lists as *depth* says."""
    whole = "[" * depth + ",".join(["1"] * elements) + "]" * depth
    part = "[" * (depth - 1) + "1" + "]" * (depth - 1)
    return f"permit (principal, action, resource) when {{ {whole}.contains({part}) }};"


class TestContents:
    """What a well-formed archive must not say."""

    @pytest.mark.threat("28l", "28p", "29g")
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

    @pytest.mark.threat("28p")
    @pytest.mark.parametrize(
        "manifest",
        [b"", b"{", b"[]", b"\xff", b'{"policies": [], "policies": []}', b"[" * 60_000, b'"text"', b"null"],
    )
    def test_a_manifest_is_read_strictly(self, ann: Holder, manifest: bytes) -> None:
        """JSON in UTF-8, an object, no member twice, and not nested without end."""
        refused = ann.put(write(Archive(manifest)))
        assert (refused.status_code, refused.json()["code"]) == (400, "bundle_invalid")

    @pytest.mark.threat("29f")
    @pytest.mark.parametrize("count", [101, 10_000])
    def test_more_than_a_hundred_policies_are_refused(self, ann: Holder, count: int) -> None:
        """More than a hundred are refused; so many that they are a lot to read, before they are."""
        hundred = [{"new_policy": f"p{n}"} for n in range(100)]
        assert ann.put(archive_of(*hundred)).status_code == 200
        refused = ann.put(archive_of(*({"new_policy": f"p{n}"} for n in range(count)), files={}))
        assert (refused.status_code, refused.json()["code"]) == (400, "bundle_invalid")

    @pytest.mark.threat("28k")
    def test_a_member_that_no_entry_names_is_dropped(self, ann: Holder) -> None:
        """Its text may be anything: it is not read."""
        sent = archive_of({"new_policy": "named"}, files={"named": PERMIT, "other": "no policy at all"})
        archive = opened(ann.put(sent))[1]
        assert [*archive.policies.values()] == [PERMIT.encode()]
        assert ann.bundle()[1].policies == archive.policies

    @pytest.mark.threat("28p")
    def test_texts_are_bounded_together(self, ann: Holder) -> None:
        """Policies that are small one by one may still be too much."""
        text = f"{PERMIT}// {'x' * 60_000}"
        few, many = ([{"new_policy": f"p{n}"} for n in range(count)] for count in (2, 3))
        assert 3 * len(text) > parsing.MAX_TEXT_BYTES
        assert ann.put(archive_of(*few, files={f"p{n}": text for n in range(2)})).status_code == 200
        refused = ann.put(archive_of(*many, files={f"p{n}": text for n in range(3)}))
        assert (refused.status_code, refused.json()["code"]) == (400, "bundle_invalid")

    @pytest.mark.threat("29h")
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (listing(30_000), "commas"),
            (listing(4_000, depth=20), "the formatted text exceeds a limit"),
        ],
        ids=["long", "deep"],
    )
    def test_a_text_that_grows_is_measured_as_it_is_kept(self, ann: Holder, text: str, told: str) -> None:
        """A list of thousands is laid out one element a line: what is sent small would be kept large."""
        sizes = count(3_000)  # elements: ten times fewer, for ten times the work

        def put_what_is_kept() -> None:
            kept = archive_of({"new_policy": "p"}, files={"p": listing(next(sizes))})
            assert ann.put(kept).status_code == 200

        too_large = archive_of({"new_policy": "p"}, files={"p": text})
        refused = working_at_most(10, lambda: ann.put(too_large), as_much_as=put_what_is_kept)
        assert (refused.status_code, refused.json()["code"]) == (400, "bundle_invalid")
        assert told in refused.json()["message"]

    @pytest.mark.threat("29h")
    def test_texts_that_grow_are_measured_together(self, ann: Holder) -> None:
        """Each is small enough, and all of them are as they are sent."""
        several, text = [{"new_policy": f"p{n}"} for n in range(6)], listing(4_000)
        assert 6 * len(text) < parsing.MAX_TEXT_BYTES
        assert ann.put(archive_of(several[0], files={"p0": text})).status_code == 200
        refused = ann.put(archive_of(*several, files={f"p{n}": text for n in range(6)}))
        assert "together" in refused.json()["message"]

    @pytest.mark.threat("31s")
    @pytest.mark.usefixtures("one_window")
    def test_writes_are_counted(self, ann: Holder, make: Callable[..., Holder]) -> None:
        """Whoever writes without end waits; others do not, and reading goes on."""
        one = archive_of({"new_policy": "p"})
        assert ann.put(one).status_code == 200
        for _ in range(rate_limits.BUNDLE_WRITES.amount):
            if (last := ann("DELETE")).status_code == 429:
                break
        assert (last.status_code, last.json()["code"]) == (429, "rate_limit_exceeded")
        assert ann.put(one).status_code == 429
        assert ann("GET").status_code == 200
        assert make().put(one).status_code == 200

    @pytest.mark.threat("28s")
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

    @pytest.mark.threat("28m")
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
    def test_another_media_type_is_refused_unread(self, ann: Holder, media: str, status: int) -> None:
        """Other media types are not looked into."""
        assert ann.put(archive_of(), Content_Type=media).status_code == status

    @pytest.mark.threat("28p")
    @pytest.mark.parametrize("size", [MAX_ARCHIVE_BYTES + 1, 10 * MAX_ARCHIVE_BYTES])
    @pytest.mark.parametrize("chunked", [False, True])
    def test_a_body_that_is_too_large_is_refused_before_its_end(
        self, ann: Holder, size: int, chunked: bool
    ) -> None:
        """A body that is too large is not read to its end, whether it tells its size or not."""
        assert ann.put(archive_of()).status_code == 200
        body = bytes(size)
        parts = (body[start : start + 65536] for start in range(0, size, 65536))
        sent: Any = parts if chunked else body
        with suppress(httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):  # hung up
            assert ann.put(sent).status_code == 413
        assert ann.put(archive_of()).status_code == 200
