"""Policies, policy sets, their versions, and the schema they are written against."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.domain.identifiers import new_id

ALL = "permit (principal, action, resource);"
NONE = "forbid (principal, action, resource);"


class TestPolicies:
    def test_etag_and_if_match(self, api: Api, zone: Zone) -> None:
        """A change based on another state than the present one is 412 and changes nothing."""
        made = api("POST", zone.path("/policies"), {"name": api.named(), "description": "d"})
        assert made.status_code == 201
        path, seen = zone.path(f"/policies/{made.json()['id']}"), made.headers["ETag"]
        assert api("GET", path).headers["ETag"] == seen
        changed = api("PATCH", path, {"description": "e"}, headers={"If-Match": seen})
        assert changed.status_code == 200
        assert changed.headers["ETag"] != seen
        told = api.refused(412, "PATCH", path, {"description": "f"}, headers={"If-Match": seen})
        assert told["code"] == "precondition_failed"
        assert api.ok("GET", path)["description"] == "e"
        assert api("PATCH", path, {"description": "g"}, headers={"If-Match": "*"}).status_code == 200

    def test_names_are_free_again_after_archiving(self, api: Api, zone: Zone) -> None:
        """The name is unique among living policies; an archived one takes no change and no version."""
        made = zone.make("policies")
        path = zone.path(f"/policies/{made['id']}")
        api.refused(409, "POST", zone.path("/policies"), {"name": made["name"]})
        archived = api.ok("DELETE", path, status=200)
        assert archived["archived_at"]
        assert api.ok("DELETE", path, status=200) == archived
        assert zone.make("policies", name=made["name"])["id"] != made["id"]
        api.refused(409, "PATCH", path, {"name": "x"})
        schema = api.ok("GET", zone.path("/policy-schemas"))["items"][0]["version"]
        api.refused(409, "POST", f"{path}/versions", {"schema_version": schema, "cedar_raw": ALL})

    def test_versions_are_numbered_and_canonical(self, api: Api, zone: Zone) -> None:
        """The text is stored in Cedar's own layout, with its digest; the policy tells of the latest."""
        policy = zone.make("policies")
        first = zone.version(policy["id"], "permit(principal,action,resource);")
        second = zone.version(policy["id"], NONE)
        assert (first["version"], second["version"]) == (1, 2)
        assert first["cedar_raw"].split() == ALL.split()
        assert first["sha"] == sha256(first["cedar_raw"].encode()).hexdigest()
        assert first["cedar_json"]["staticPolicies"]
        found = api.ok("GET", zone.path(f"/policies/{policy['id']}"))
        assert found["latest_version"] == 2
        assert found["latest_version_id"] == second["id"]
        assert found["latest_schema_version"] == second["schema_version"]
        listed = api.ok("GET", zone.path(f"/policies/{policy['id']}/versions"))["items"]
        assert [one["version"] for one in listed] == [2, 1]

    def test_versions_in_either_notation(self, api: Api, zone: Zone) -> None:
        """A text can be given and asked for as Cedar or as JSON."""
        policy = zone.make("policies")
        raw = zone.version(policy["id"], ALL)
        path = zone.path(f"/policies/{policy['id']}/versions")
        body = {"schema_version": raw["schema_version"], "cedar_json": raw["cedar_json"]}
        assert api.ok("POST", path, body)["sha"] == raw["sha"]
        assert "cedar_json" not in api.ok("GET", f"{path}/{raw['id']}?format=cedar")
        assert "cedar_raw" not in api.ok("GET", f"{path}/{raw['id']}?format=json")
        assert all("cedar_raw" not in one for one in api.ok("GET", f"{path}?format=json")["items"])
        api.refused(400, "GET", f"{path}?format=xml")

    def test_versions_in_the_json_form_of_one_policy(self, api: Api, zone: Zone) -> None:
        """Cedar has a JSON form for a policy and one for a set; both are taken, and answers have the set."""
        policy = zone.make("policies")
        raw = zone.version(policy["id"], NONE)
        path = zone.path(f"/policies/{policy['id']}/versions")
        (one,) = raw["cedar_json"]["staticPolicies"].values()
        made = api.ok("POST", path, {"schema_version": raw["schema_version"], "cedar_json": one}, status=201)
        assert made["sha"] == raw["sha"]
        assert made["cedar_json"] == raw["cedar_json"]

    @pytest.mark.parametrize(
        "body",
        [
            {"cedar_raw": ALL, "cedar_json": {}},
            {},
            {"cedar_raw": "permit ("},
            {"cedar_raw": "permit (principal, action, resource) when { principal.shoe_size > 3 };"},
            {"cedar_raw": ""},
            {"cedar_json": {"staticPolicies": 3}},
            {"cedar_json": {"effect": "permit"}},
            {"cedar_json": {"effect": "permit", "staticPolicies": {}}},
            {"cedar_raw": ALL, "schema_version": "1999-01-01"},
            {"cedar_raw": ALL, "version": 7},
        ],
    )
    def test_bad_texts_are_refused(self, api: Api, zone: Zone, body: dict[str, object]) -> None:
        """What does not parse, or speaks of what the schema does not have, is 400 and makes no version."""
        policy = zone.make("policies")
        path = zone.path(f"/policies/{policy['id']}/versions")
        schema = api.ok("GET", zone.path("/policy-schemas"))["items"][0]["version"]
        api.refused(400, "POST", path, {"schema_version": schema, **body})
        assert api.ok("GET", path)["items"] == []

    def test_problems_have_a_place(self, api: Api, zone: Zone) -> None:
        """The refusal of a text names line and column."""
        policy = zone.make("policies")
        schema = api.ok("GET", zone.path("/policy-schemas"))["items"][0]["version"]
        told = api.refused(
            400,
            "POST",
            zone.path(f"/policies/{policy['id']}/versions"),
            {
                "schema_version": schema,
                "cedar_raw": "permit (principal, action, resource)\nwhen { nonsense };",
            },
        )
        assert told["details"][0]["field"] == "cedar_raw"
        assert "line 2" in told["details"][0]["message"]

    def test_platform_policies_are_the_services(self, api: Api, zone: Zone) -> None:
        """The default policies take no change, no version and no archiving."""
        found = api.ok("GET", zone.path("/policies?filter[owner_type]=platform"))["items"]
        assert len(found) == 3
        path = zone.path(f"/policies/{found[0]['id']}")
        api.refused(403, "PATCH", path, {"name": "x"})
        api.refused(403, "DELETE", path)
        schema = found[0]["latest_schema_version"]
        api.refused(403, "POST", f"{path}/versions", {"schema_version": schema, "cedar_raw": ALL})

    @pytest.mark.parametrize("query", ["query={}", "query[]={}", "query[description]={}"])
    @pytest.mark.parametrize("written", [str.lower, str.upper], ids=["small", "capitals"])
    def test_a_search_finds_words_of_the_description(
        self, api: Api, zone: Zone, query: str, written: Callable[[str], str]
    ) -> None:
        """In any case, and with each spelling of the search."""
        word = api.named("Calendars")
        made = zone.make("policies", description=f"Forbids {word}")
        found = api.ok("GET", zone.path(f"/policies?{query.format(written(word))}"))["items"]
        assert [one["id"] for one in found] == [made["id"]]

    def test_a_search_by_name_leaves_descriptions_out(self, api: Api, zone: Zone) -> None:
        """`query[name]` finds nothing by a word that stands in a description alone."""
        word = api.named("calendars")
        zone.make("policies", description=f"Forbids {word}")
        assert api.ok("GET", zone.path(f"/policies?query[name]={word}"))["items"] == []


@dataclass(frozen=True)
class Composed:
    """A policy set of a zone of its own, with one version that consists of one version of one policy."""

    zone: Zone
    policy_set: dict[str, Any]
    policy: dict[str, Any]
    policy_version: dict[str, Any]
    version: dict[str, Any]

    @property
    def set_path(self) -> str:
        return self.zone.path(f"/policy-sets/{self.policy_set['id']}")

    @property
    def version_path(self) -> str:
        return f"{self.set_path}/versions/{self.version['id']}"

    @property
    def policy_path(self) -> str:
        return self.zone.path(f"/policies/{self.policy['id']}")

    def activate(self) -> dict[str, Any]:
        """The answer to the version's activation."""
        activated: dict[str, Any] = self.zone.api.ok("PATCH", self.version_path, {"active": True}, status=200)
        return activated


def compose(zone: Zone) -> Composed:
    policy_set, policy = zone.make("policy-sets"), zone.make("policies")
    version = zone.version(policy["id"])
    return Composed(zone, policy_set, policy, version, zone.set_version(policy_set["id"], version))


@pytest.fixture(scope="module")
def composed(api: Api) -> Composed:
    return compose(api.zone())


class TestComposing:
    """Nothing is activated here, so a zone for all of them does."""

    def test_a_manifest_names_each_policy_version_with_its_digest(self, composed: Composed) -> None:
        """The version that was given, the policy it is of, and the digest of its text."""
        version = composed.policy_version
        assert composed.version["manifest"]["entries"] == [
            {"policy_id": composed.policy["id"], "policy_version_id": version["id"], "sha": version["sha"]}
        ]

    def test_a_new_version_is_attested(self, composed: Composed) -> None:
        """The attestation is of the digest of the manifest and of the number of the version."""
        attestation = composed.version["attestation"]
        assert attestation["manifest_sha"] == composed.version["manifest_sha"]
        assert attestation["policy_set_version"] == 1
        assert attestation["type"] == "policy_set_attestation"

    def test_a_new_version_decides_nothing(self, api: Api, composed: Composed) -> None:
        """Neither the version nor its set is active before it is activated."""
        assert composed.version["active"] is False
        assert api.ok("GET", composed.set_path)["active"] is False


class TestActivating:
    @pytest.fixture
    def composed(self, api: Api) -> Composed:
        return compose(api.zone())

    def test_the_set_is_bound_to_its_zone(self, api: Api, composed: Composed) -> None:
        """The version is active, and the set says which of its versions decides, and where."""
        assert composed.activate()["active"] is True
        bound = api.ok("GET", composed.set_path)
        assert bound["active_version_id"] == composed.version["id"]
        assert bound["mode"] == "active"
        assert bound["target_id"] == composed.zone.id

    def test_the_tag_of_the_set_changes(self, api: Api, composed: Composed) -> None:
        """A change that was based on the set as it was before is refused by its ETag."""
        before = api("GET", composed.set_path).headers["ETag"]
        composed.activate()
        assert api("GET", composed.set_path).headers["ETag"] != before

    def test_one_set_of_a_zone_is_active_at_a_time(self, api: Api, composed: Composed) -> None:
        """The new one takes the place of the default set, in lists by `active` too."""
        composed.activate()
        active = api.ok("GET", composed.zone.path("/policy-sets?filter[active]=true"))["items"]
        assert [one["id"] for one in active] == [composed.policy_set["id"]]
        inactive = api.ok("GET", composed.zone.path("/policy-sets?active=false"))["items"]
        assert inactive[0]["active"] is False


@pytest.fixture(scope="module")
def bound(api: Api) -> Composed:
    composed = compose(api.zone())
    composed.activate()
    return composed


class TestWhatIsBound:
    """What an active version consists of: refused requests leave it as it is, so one zone is enough."""

    def test_the_set_cannot_be_archived(self, api: Api, bound: Composed) -> None:
        """409 `conflict` for the policy set whose version decides."""
        assert api.refused(409, "DELETE", bound.set_path)["code"] == "conflict"

    def test_the_version_cannot_be_archived(self, api: Api, bound: Composed) -> None:
        """409 `conflict` for the version that decides."""
        assert api.refused(409, "DELETE", bound.version_path)["code"] == "conflict"

    def test_a_policy_in_it_cannot_be_archived(self, api: Api, bound: Composed) -> None:
        """409 `conflict` for a policy of which a version is in the one that decides."""
        assert api.refused(409, "DELETE", bound.policy_path)["code"] == "conflict"

    def test_a_policy_version_in_it_cannot_be_archived(self, api: Api, bound: Composed) -> None:
        """409 `conflict` for a policy version in the one that decides."""
        path = f"{bound.policy_path}/versions/{bound.policy_version['id']}"
        assert api.refused(409, "DELETE", path)["code"] == "conflict"


@dataclass(frozen=True)
class Entries:
    """Entries of a manifest by what is the matter with them, and the set that could have them."""

    path: str
    schema_version: str
    good: dict[str, str]
    bad: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def entries(api: Api) -> Entries:
    zone = api.zone()
    policy_set, policy, archived = (
        zone.make("policy-sets"),
        zone.make("policies"),
        zone.make("policies"),
    )
    version, gone = zone.version(policy["id"]), zone.version(archived["id"])
    api.ok("DELETE", zone.path(f"/policies/{archived['id']}/versions/{gone['id']}"), status=200)
    elsewhere = api.zone()
    foreign = elsewhere.version(elsewhere.make("policies")["id"])
    good = {"policy_id": policy["id"], "policy_version_id": version["id"]}
    bad = {
        "unknown": {"policy_id": policy["id"], "policy_version_id": new_id()},
        "another zone's": {"policy_id": foreign["policy_id"], "policy_version_id": foreign["id"]},
        "another policy's": {"policy_id": archived["id"], "policy_version_id": version["id"]},
        "archived": {"policy_id": archived["id"], "policy_version_id": gone["id"]},
        "repeated": good,
    }
    path = zone.path(f"/policy-sets/{policy_set['id']}/versions")
    return Entries(path, version["schema_version"], good, bad)


class TestManifests:
    """Refused requests change nothing, so one set for all of them does."""

    @pytest.mark.parametrize(
        "wrong", ["unknown", "another zone's", "another policy's", "archived", "repeated"]
    )
    def test_name_living_versions_of_the_zone_once(self, api: Api, entries: Entries, wrong: str) -> None:
        """Any other entry is 400, and the refusal says which of the entries it is."""
        manifest = {"entries": [entries.good, entries.bad[wrong]]}
        body = {"schema_version": entries.schema_version, "manifest": manifest}
        told = api.refused(400, "POST", entries.path, body)
        assert told["details"][0]["field"].startswith("manifest.entries[1]")

    def test_are_written_against_a_schema_that_there_is(self, api: Api, entries: Entries) -> None:
        """An unknown version of the policy schema is 400."""
        body = {"schema_version": "1999-01-01", "manifest": {"entries": []}}
        api.refused(400, "POST", entries.path, body)


class TestPolicySets:
    def test_default_set_can_come_back(self, api: Api) -> None:
        """The service's own set can be activated again, though not changed."""
        zone = api.zone()
        (default,) = api.ok("GET", zone.path("/policy-sets"))["items"]
        mine, policy = zone.make("policy-sets"), zone.make("policies")
        composed = zone.set_version(mine["id"], zone.version(policy["id"]))
        api.ok("PATCH", zone.path(f"/policy-sets/{mine['id']}/versions/{composed['id']}"), {"active": True})
        path = zone.path(f"/policy-sets/{default['id']}")
        api.ok("PATCH", f"{path}/versions/{default['latest_version_id']}", {"active": True})
        assert api.ok("GET", path)["active"] is True
        api.refused(403, "PATCH", path, {"name": "x"})
        api.refused(403, "DELETE", path)
        api.refused(403, "DELETE", f"{path}/versions/{default['latest_version_id']}")
        assert api("DELETE", zone.path(f"/policy-sets/{mine['id']}")).status_code == 200

    @pytest.mark.parametrize("body", [{"active": False}, {"active": "true"}, {}, {"active": True, "x": 1}])
    def test_there_is_no_deactivating(self, api: Api, zone: Zone, body: dict[str, object]) -> None:
        """The body of an activation is `{"active": true}` and nothing else."""
        policy_set = zone.make("policy-sets")
        composed = zone.set_version(policy_set["id"])
        api.refused(
            400, "PATCH", zone.path(f"/policy-sets/{policy_set['id']}/versions/{composed['id']}"), body
        )

    def test_policies_of_a_version(self, api: Api, zone: Zone) -> None:
        """The list below a set version has the policy versions it consists of."""
        policy_set, policy = zone.make("policy-sets"), zone.make("policies")
        version = zone.version(policy["id"])
        zone.version(policy["id"], NONE)
        composed = zone.set_version(policy_set["id"], version)
        path = zone.path(f"/policy-sets/{policy_set['id']}/versions/{composed['id']}/policies")
        listed = api.ok("GET", f"{path}?format=cedar&expand=total_count")
        assert [one["id"] for one in listed["items"]] == [version["id"]]
        assert "cedar_json" not in listed["items"][0]
        assert listed["pagination"]["total_count"] == 1

    def test_stale_changes_are_refused(self, api: Api, zone: Zone) -> None:
        """Update and archive honour If-Match."""
        made = api("POST", zone.path("/policy-sets"), {"name": api.named()})
        path, seen = zone.path(f"/policy-sets/{made.json()['id']}"), made.headers["ETag"]
        api.ok("PATCH", path, {"name": api.named()}, headers={"If-Match": seen})
        api.refused(412, "PATCH", path, {"name": "x"}, headers={"If-Match": seen})
        api.refused(412, "DELETE", path, headers={"If-Match": seen})
        assert api("DELETE", path).json()["archived_at"]

    def test_the_older_name_must_not_disagree(self, api: Api, zone: Zone) -> None:
        """`scope_type` is the older name of `target_type`; the two must not disagree."""
        made = zone.make("policy-sets", scope_type="zone")
        assert made["target_type"] == made["scope_type"] == "zone"
        body = {"name": api.named(), "target_type": "user", "scope_type": "zone"}
        api.refused(400, "POST", zone.path("/policy-sets"), body)
        api.refused(400, "GET", zone.path("/policy-sets?filter[active]=true&active=false"))

    def test_sets_for_users_are_listed_when_asked(self, api: Api, zone: Zone) -> None:
        """Lists show what is for zones unless asked otherwise; sets for users bind to users only."""
        made = zone.make("policy-sets", target_type="user")
        shown = api.ok("GET", zone.path("/policy-sets?limit=100"))["items"]
        assert made["id"] not in {one["id"] for one in shown}
        asked = api.ok("GET", zone.path("/policy-sets?filter[target_type]=user"))["items"]
        assert [one["id"] for one in asked] == [made["id"]]
        composed = zone.set_version(made["id"])
        path = zone.path(f"/policy-sets/{made['id']}/versions/{composed['id']}")
        api.refused(400, "PATCH", path, {"active": True})

    def test_newest_is_first_by_default(self, api: Api) -> None:
        """Newest first by default; `status` is forward only."""
        zone = api.zone()
        made = [zone.make("policy-sets")["id"] for _ in range(3)]
        newest = [one["id"] for one in api.ok("GET", zone.path("/policy-sets"))["items"]]
        assert newest[:3] == made[::-1]
        oldest = [one["id"] for one in api.ok("GET", zone.path("/policy-sets?order=asc"))["items"]]
        assert oldest == newest[::-1]
        assert api.ok("GET", zone.path("/policy-sets?sort=status"))["items"]
        api.refused(400, "GET", zone.path("/policy-sets?sort=status&order=asc"))
        api.refused(400, "GET", zone.path("/policy-sets?sort=name"))
        api.refused(400, "GET", zone.path("/policy-sets?filter[owner_type]=customer,platform"))


@pytest.fixture(scope="module")
def own_zone(api: Api) -> Zone:
    """A zone for `TestLimits` alone: its policies are large."""
    return api.zone()


@pytest.fixture(scope="module")
def schema(api: Api, own_zone: Zone) -> str:
    """The version of the policy schema that there is."""
    return str(api.ok("GET", own_zone.path("/policy-schemas"))["items"][0]["version"])


class TestLimits:
    """What each decision goes through is bounded: texts, rules and policies, each and together."""

    @pytest.mark.threat("29e")
    @pytest.mark.parametrize(
        ("text", "status"),
        [
            pytest.param(ALL, 201, id="one rule"),
            pytest.param(f"{ALL}//{'x' * 70_000}", 400, id="70 kB"),
            pytest.param(f"{ALL}//{'x' * 10**6}", 400, id="1 MB"),
            pytest.param("x" * 2**20, 413, id="more than a body may have"),
        ],
    )
    def test_a_text_has_an_end(self, api: Api, own_zone: Zone, schema: str, text: str, status: int) -> None:
        """The text of a policy is measured before it is kept, and the body before it is read."""
        versions = own_zone.path(f"/policies/{own_zone.make('policies')['id']}/versions")
        body = {"schema_version": schema, "cedar_raw": text}
        assert api("POST", versions, body).status_code == status

    @pytest.mark.threat("29e")
    @pytest.mark.parametrize(
        ("text", "count", "told"),
        [
            pytest.param(f"{ALL}//{'x' * 60_000}", 5, "bytes together", id="bytes"),
            pytest.param(ALL * 900, 3, "rules together", id="rules"),
        ],
    )
    def test_a_set_has_so_much_together(
        self, api: Api, own_zone: Zone, schema: str, text: str, count: int, told: str
    ) -> None:
        """One policy too many is 400, with what there is too much of; without it, the set is kept."""
        path = own_zone.path(f"/policy-sets/{own_zone.make('policy-sets')['id']}/versions")
        versions = [own_zone.version(own_zone.make("policies")["id"], text) for _ in range(count)]
        entries = [{"policy_id": one["policy_id"], "policy_version_id": one["id"]} for one in versions]
        body = {"schema_version": schema, "manifest": {"entries": entries}}
        refused = api.refused(400, "POST", path, body)
        assert refused["details"][0]["field"] == "manifest.entries"
        assert told in refused["message"]
        assert api.ok("POST", path, {**body, "manifest": {"entries": entries[:-1]}}, status=201)

    @pytest.mark.threat("29f")
    def test_a_set_has_so_many_policies(self, api: Api, own_zone: Zone, schema: str) -> None:
        """10,000 entries are refused for their number, before any of them is looked up."""
        path = own_zone.path(f"/policy-sets/{own_zone.make('policy-sets')['id']}/versions")
        version = own_zone.version(own_zone.make("policies")["id"], ALL)
        entries = [{"policy_id": version["policy_id"], "policy_version_id": version["id"]}] * 10_000
        body = {"schema_version": schema, "manifest": {"entries": entries}}
        refused = api.refused(400, "POST", path, body)
        assert refused["details"][0]["field"] == "manifest.entries"
        assert "500 policies" in refused["message"]


@pytest.fixture(scope="module")
def shown(api: Api, zone: Zone) -> dict[str, Any]:
    """The one schema that there is, as the list has it."""
    (shown,) = api.ok("GET", zone.path("/policy-schemas"))["items"]
    return dict(shown)


class TestPolicySchemas:
    def test_the_one_there_is_is_the_default(self, shown: dict[str, Any]) -> None:
        """It is active, and policies are written against it unless they name another."""
        assert shown["is_default"] is True
        assert shown["status"] == "active"

    def test_shown_as_json_unless_cedar_is_asked(self, api: Api, zone: Zone, shown: dict[str, Any]) -> None:
        """In the list and by itself alike."""
        assert "cedar_schema" not in shown
        assert api.ok("GET", zone.path(f"/policy-schemas/{shown['version']}")) == shown

    def test_both_notations_have_the_same_kinds_of_entities(
        self, api: Api, zone: Zone, shown: dict[str, Any]
    ) -> None:
        """Each entity type of the JSON is declared in the Cedar text: all that the answer has are tried."""
        path = zone.path(f"/policy-schemas/{shown['version']}")
        text = api.ok("GET", f"{path}?format=cedar")["cedar_schema"]
        assert not [
            kind for kind in shown["cedar_schema_json"][""]["entityTypes"] if f"entity {kind} " not in text
        ]

    def test_an_unknown_version_is_not_found(self, api: Api, zone: Zone) -> None:
        """404 for a version of the schema that there never was."""
        api.refused(404, "GET", zone.path("/policy-schemas/1999-01-01"))

    def test_an_empty_patch_makes_a_version_the_default(self, api: Api, zone: Zone) -> None:
        """A version becomes the default by a PATCH whose body says nothing."""
        (shown,) = api.ok("GET", zone.path("/policy-schemas?filter[default]=true"))["items"]
        path = zone.path(f"/policy-schemas/{shown['version']}")
        assert api.ok("PATCH", path, {"anything": 1})["is_default"] is True
        assert api.ok("PATCH", path)["is_default"] is True
        assert api.ok("GET", zone.path("/policy-schemas?is_default=false"))["items"] == []
        api.refused(404, "PATCH", zone.path("/policy-schemas/1999-01-01"), {})
