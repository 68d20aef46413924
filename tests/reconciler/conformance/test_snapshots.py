"""Snapshots: the fake server of the reconciler's tests answers as `zoned` does."""

import httpx
import pytest
from tests.reconciler.conformance.configuration import NDJSON, Configuration, Refused
from tests.support.applying import app, create, on, update

ENTITY = {"type", "kind", "id", "zone_id", "zone", "handle", "owner_type", "spec", "ownership", "revision"}
RECORD = {"owner", "name", "fields", "applied", "secret_versions", "source", "protect", "undelivered"}
TOMBSTONE = {
    *("type", "kind", "id", "zone_id", "zone", "owner", "name", "revision"),
    *("deleted_at", "actor", "changeset_id"),
}
ERROR = {"message", "code", "status", "path", "request_id", "timestamp"}


class TestLines:
    def test_a_snapshot_is_sent_as_ndjson(self, git: Configuration) -> None:
        """One JSON object a line."""
        assert git.snapshot().headers["Content-Type"] == NDJSON

    def test_the_first_line_names_the_organization_and_its_revision(self, git: Configuration) -> None:
        """And says what the caller is not shown."""
        head = git.lines()[0]

        assert head.keys() == {
            *("type", "organization_id", "label", "revision", "names_writers", "sees_all"),
        }
        assert (head["type"], head["organization_id"]) == ("snapshot", git.organization)
        assert head["revision"] == git.revision

    def test_the_last_line_counts_the_lines_between(self, git: Configuration) -> None:
        """A snapshot without it was cut off."""
        lines = git.lines()

        assert (lines[-1]["type"], lines[-1]["count"]) == ("end", len(lines) - 2)

    def test_parents_come_before_what_is_in_them(self, git: Configuration) -> None:
        """A zone before its application."""
        kinds = [line["kind"] for line in git.lines() if line["type"] == "entity"]

        assert kinds.index("Zone") < kinds.index("Application")

    def test_a_managed_entity_has_its_ownership_record(self, git: Configuration, zone_id: str) -> None:
        """What was applied, by whom and from where."""
        line = git.entity("Application", "agent")

        assert (line.keys(), line["ownership"].keys()) == (ENTITY, RECORD)
        assert (line["zone_id"], line["zone"], line["handle"]) == (zone_id, git.zone, "agent")
        assert line["ownership"] == {
            "owner": git.owner,
            "name": "agent",
            "fields": ["name", "identifier"],
            "applied": {"name": "Agent", "identifier": "agent"},
            "secret_versions": {},
            "source": {"repository": "https://git.example/acme"},
            "protect": False,
            "undelivered": False,
        }

    @pytest.mark.parametrize("op", ["update", "rename"])
    def test_a_record_says_where_the_manifest_is(self, git: Configuration, zone_id: str, op: str) -> None:
        """Beside what the changeset says of itself; an operation that does not say it leaves none."""
        agent, place = git.id("Application", "agent"), {"file": "apps/agent.yaml", "line": 3}
        change = update("Application", agent, "agent", zone_id, name="B") if op == "update" else None
        change = change or on("rename", "Application", agent, name="agent", zone={"id": zone_id})
        origin = {"repository": "https://git.example/acme"}

        git.apply({**change, "source": place})
        assert git.entity("Application", "agent")["ownership"]["source"] == {**origin, **place}
        git.apply(change)
        assert git.entity("Application", "agent")["ownership"]["source"] == origin

    def test_an_entity_made_by_hand_has_no_owner(self, git: Configuration, zone_id: str) -> None:
        """Nobody manages it from git."""
        git.hand.create("Application", zone_id, name="Hand", identifier="hand")

        assert git.entity("Application", "hand")["ownership"] is None

    @pytest.mark.parametrize(
        ("kind", "handles"),
        [
            ("Provider", {"service-sts", "service-vault"}),
            ("Role", {"zone_manager", "zone_viewer"}),
            ("PolicySet", {"default-zone-policies"}),
        ],
    )
    def test_a_new_zone_has_objects_of_the_platform(
        self, git: Configuration, zone_id: str, kind: str, handles: set[str]
    ) -> None:
        """They are there from the beginning, and no configuration can adopt them."""
        of_platform = {
            line["handle"]
            for line in git.lines()
            if line.get("owner_type") == "platform" and (line["kind"], line["zone_id"]) == (kind, zone_id)
        }

        assert of_platform == handles

    def test_a_secret_is_named_and_not_shown(self, git: Configuration, zone_id: str) -> None:
        """`secrets_set` has the member; its value is nowhere."""
        git.apply(_provider(git, zone_id))

        assert git.entity("Provider", "idp")["secrets_set"] == ["client_secret"]
        assert b"hush!hush" not in git.snapshot().content


class TestOwners:
    def test_what_is_in_another_owners_zone_is_left_out(self, git: Configuration, zone_id: str) -> None:
        """A snapshot for an owner has the contents of the zones that it has something in."""
        assert zone_id not in _zones_shown(git, owner="acme/other")

    @pytest.mark.parametrize("by", ["name", "id"])
    def test_what_is_in_a_named_zone_is_shown(self, git: Configuration, zone_id: str, by: str) -> None:
        """Named by what its owner calls it, or by its id."""
        named = git.zone if by == "name" else zone_id

        assert zone_id in _zones_shown(git, owner="acme/other", zone=named)


class TestEntityTags:
    def test_an_unchanged_snapshot_is_not_sent_again(self, git: Configuration) -> None:
        """304, with the same entity tag and without a body."""
        etag = git.snapshot().headers["ETag"]
        answer = git.snapshot(etag=etag)

        assert (answer.status_code, answer.headers["ETag"], answer.content) == (304, etag, b"")

    @pytest.mark.parametrize("form", ['"x", {}', "W/{}"])
    def test_if_none_match_may_be_weak_or_a_list(self, git: Configuration, form: str) -> None:
        """Spec: RFC 9110 section 13.1.2."""
        etag = git.snapshot().headers["ETag"]

        assert git.snapshot(etag=form.format(etag)).status_code == 304

    def test_a_changeset_changes_the_entity_tag(self, git: Configuration, zone_id: str) -> None:
        """The snapshot is sent again."""
        etag = git.snapshot().headers["ETag"]
        git.apply(app("two", zone_id))

        assert git.snapshot(etag=etag).status_code == 200

    def test_a_dry_run_leaves_the_entity_tag(self, git: Configuration, zone_id: str) -> None:
        """Nothing was written."""
        etag = git.snapshot().headers["ETag"]
        git.dry_run(app("two", zone_id))

        assert git.snapshot(etag=etag).status_code == 304


class TestTombstones:
    def test_what_others_delete_leaves_a_tombstone(self, git: Configuration, zone_id: str) -> None:
        """With who managed it, and who deleted it."""
        gone = git.id("Application", "agent")
        git.hand.delete("Application", zone_id, gone)
        (tombstone,) = git.tombstones

        assert tombstone.keys() == TOMBSTONE
        assert (tombstone["id"], tombstone["name"], tombstone["owner"]) == (gone, "agent", git.owner)

    def test_the_owners_next_changeset_ends_its_tombstones(self, git: Configuration, zone_id: str) -> None:
        """It has seen them."""
        git.hand.delete("Application", zone_id, git.id("Application", "agent"))
        git.apply(app("two", zone_id))

        assert git.tombstones == []

    def test_what_the_owner_deletes_leaves_none(self, git: Configuration, zone_id: str) -> None:
        """It knows."""
        git.apply(on("delete", "Application", git.id("Application", "agent"), zone={"id": zone_id}))

        assert git.tombstones == []


class TestProblems:
    @pytest.mark.parametrize(
        ("path", "credential", "refused"),
        [
            ("/organizations", "Bearer nobody", Refused(401, "unauthorized")),
            ("/organizations/{organization}/snapshot", "Bearer nobody", Refused(401, "unauthorized")),
            ("/organizations/oooooooooooooooooooooooooo/snapshot", None, Refused(404, "not_found")),
            ("/organizations/{organization}/nothing", None, Refused(404, "not_found")),
        ],
    )
    def test_what_is_not_for_the_caller_or_not_there_is_refused(
        self, empty: Configuration, path: str, credential: str | None, refused: Refused
    ) -> None:
        """With an error body that names the path and the request."""
        headers = {"Authorization": credential} if credential else {}
        answer = empty.client.get(path.format(organization=empty.organization), headers=headers)

        assert Refused.read(answer) == refused
        assert answer.json().keys() == ERROR

    def test_an_unknown_path_is_told_from_an_unknown_object(self, empty: Configuration) -> None:
        """By its message, which zonectl goes by."""
        assert empty.client.get("/nowhere").json()["message"] == "there is nothing at this address"


class TestOrganizations:
    def test_the_list_is_a_page(self, empty: Configuration) -> None:
        """With the caller's one organization, and cursors."""
        page = _organizations(empty).json()

        assert page.keys() == {"items", "page_info"}
        assert page["page_info"].keys() == {"has_next_page", "has_prev_page", "start_cursor", "end_cursor"}
        assert [each["id"] for each in page["items"]] == [empty.organization]

    def test_a_label_leads_to_the_organization_as_its_id_does(self, git: Configuration) -> None:
        """In any path."""
        label = _organizations(git).json()["items"][0]["label"]

        assert git.client.get(f"/organizations/{label}/snapshot").status_code == 200


def _organizations(git: Configuration) -> httpx.Response:
    return git.client.get("/organizations")


def _zones_shown(git: Configuration, **query: str) -> set[str]:
    """The zones of which a snapshot has more than the zone itself."""
    return {line["zone_id"] for line in git.lines(**query) if line.get("zone_id") is not None}


def _provider(git: Configuration, zone_id: str) -> dict[str, object]:
    identifier = f"https://{git.zone}.example"
    secret = {"client_id": "c", "client_secret": "hush!hush"}
    return create("Provider", "idp", zone_id, name="IdP", identifier=identifier, **secret)
