"""Policies, policy sets, their versions, and the schema they are written against."""

from hashlib import sha256

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

    @pytest.mark.parametrize(
        "body",
        [
            {"cedar_raw": ALL, "cedar_json": {}},
            {},
            {"cedar_raw": "permit ("},
            {"cedar_raw": "permit (principal, action, resource) when { principal.shoe_size > 3 };"},
            {"cedar_raw": ""},
            {"cedar_json": {"staticPolicies": 3}},
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

    def test_search(self, api: Api, zone: Zone) -> None:
        """By name or description, in any case, with either spelling of the search."""
        made = zone.make("policies", description="Forbids Calendars")
        for query in ("query=calendars", "query[]=CALENDARS", "query[description]=forbids"):
            found = api.ok("GET", zone.path(f"/policies?{query}"))["items"]
            assert [one["id"] for one in found] == [made["id"]], query
        assert api.ok("GET", zone.path("/policies?query[name]=calendars"))["items"] == []


class TestPolicySets:
    def test_composed_and_activated(self, api: Api) -> None:
        """Activating swaps what decides: exactly one set of the zone is active at a time."""
        zone = api.zone()
        policy_set, policy = zone.make("policy-sets"), zone.make("policies")
        version = zone.version(policy["id"])
        composed = zone.set_version(policy_set["id"], version)
        assert composed["manifest"]["entries"] == [
            {"policy_id": policy["id"], "policy_version_id": version["id"], "sha": version["sha"]}
        ]
        assert composed["active"] is False
        attestation = composed["attestation"]
        assert attestation["manifest_sha"] == composed["manifest_sha"]
        assert attestation["policy_set_version"] == 1
        assert attestation["type"] == "policy_set_attestation"
        path = zone.path(f"/policy-sets/{policy_set['id']}")
        assert api.ok("GET", path)["active"] is False
        before = api("GET", path).headers["ETag"]

        activated = api.ok("PATCH", f"{path}/versions/{composed['id']}", {"active": True}, status=200)
        assert activated["active"] is True
        bound = api("GET", path)
        assert bound.headers["ETag"] != before
        assert bound.json()["active_version_id"] == composed["id"]
        assert bound.json()["mode"] == "active"
        assert bound.json()["target_id"] == zone.id
        active = api.ok("GET", zone.path("/policy-sets?filter[active]=true"))["items"]
        assert [one["id"] for one in active] == [policy_set["id"]]
        assert api.ok("GET", zone.path("/policy-sets?active=false"))["items"][0]["active"] is False

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

    def test_what_is_bound_cannot_be_archived(self, api: Api) -> None:
        """Neither the set, nor its version, nor a policy or policy version in it."""
        zone = api.zone()
        policy_set, policy = zone.make("policy-sets"), zone.make("policies")
        version = zone.version(policy["id"])
        composed = zone.set_version(policy_set["id"], version)
        set_path, policy_path = (
            zone.path(f"/policy-sets/{policy_set['id']}"),
            zone.path(f"/policies/{policy['id']}"),
        )
        api.ok("PATCH", f"{set_path}/versions/{composed['id']}", {"active": True})
        for path in (
            set_path,
            f"{set_path}/versions/{composed['id']}",
            policy_path,
            f"{policy_path}/versions/{version['id']}",
        ):
            assert api.refused(409, "DELETE", path)["code"] == "conflict"

    def test_manifests_name_living_versions_once(self, api: Api, zone: Zone) -> None:
        """Unknown, foreign, repeated and archived versions are 400, with their place."""
        policy_set, policy, archived = (
            zone.make("policy-sets"),
            zone.make("policies"),
            zone.make("policies"),
        )
        version, gone = zone.version(policy["id"]), zone.version(archived["id"])
        api.ok("DELETE", zone.path(f"/policies/{archived['id']}/versions/{gone['id']}"), status=200)
        elsewhere = api.zone()
        foreign = elsewhere.version(elsewhere.make("policies")["id"])
        path = zone.path(f"/policy-sets/{policy_set['id']}/versions")
        good = {"policy_id": policy["id"], "policy_version_id": version["id"]}
        for bad in (
            {"policy_id": policy["id"], "policy_version_id": new_id()},
            {"policy_id": foreign["policy_id"], "policy_version_id": foreign["id"]},
            {"policy_id": archived["id"], "policy_version_id": version["id"]},
            {"policy_id": archived["id"], "policy_version_id": gone["id"]},
            good,
        ):
            body = {"schema_version": version["schema_version"], "manifest": {"entries": [good, bad]}}
            told = api.refused(400, "POST", path, body)
            assert told["details"][0]["field"].startswith("manifest.entries[1]")
        body = {"schema_version": "1999-01-01", "manifest": {"entries": []}}
        api.refused(400, "POST", path, body)

    @pytest.mark.threat("29e", "29f")
    def test_a_set_is_no_more_than_each_decision_can_go_through(self, api: Api) -> None:
        """Texts, rules and policies are counted, by themselves and together; what decides stays as it was."""
        zone, schema = (
            api.zone(),
            api.ok("GET", f"/zones/{api.zone().id}/policy-schemas")["items"][0]["version"],
        )
        policy, made = zone.make("policies"), zone.make("policy-sets")
        versions = zone.path(f"/policies/{policy['id']}/versions")
        rule = "permit (principal, action, resource);"
        for text, status in ((rule, 201), (f"{rule}//{'x' * 70_000}", 400), (f"{rule}//{'x' * 10**6}", 400)):
            body = {"schema_version": schema, "cedar_raw": text}
            assert api("POST", versions, body).status_code == status
        assert api("POST", versions, {"schema_version": schema, "cedar_raw": "x" * 2**20}).status_code == 413

        path = zone.path(f"/policy-sets/{made['id']}/versions")
        large = [zone.version(zone.make("policies")["id"], f"{rule}//{'x' * 60_000}") for _ in range(5)]
        many = [zone.version(zone.make("policies")["id"], rule * 900) for _ in range(3)]
        endless = [{"policy_id": large[0]["policy_id"], "id": large[0]["id"]}] * 10_000
        for some, told in ((large, "bytes together"), (many, "rules together"), (endless, "500 policies")):
            entries = [{"policy_id": one["policy_id"], "policy_version_id": one["id"]} for one in some]
            body = {"schema_version": schema, "manifest": {"entries": entries}}
            refused = api.refused(400, "POST", path, body)
            assert refused["details"][0]["field"] == "manifest.entries"
            assert told in refused["message"]
            if some is not endless:
                body["manifest"]["entries"].pop()
                assert api.ok("POST", path, body, status=201)

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

    def test_deprecated_twins(self, api: Api, zone: Zone) -> None:
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

    def test_order(self, api: Api) -> None:
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


class TestPolicySchemas:
    def test_shown_in_either_notation(self, api: Api, zone: Zone) -> None:
        """JSON unless Cedar is asked; both have the same kinds of entities."""
        (shown,) = api.ok("GET", zone.path("/policy-schemas"))["items"]
        assert shown["is_default"] is True
        assert shown["status"] == "active"
        assert "cedar_schema" not in shown
        path = zone.path(f"/policy-schemas/{shown['version']}")
        assert api.ok("GET", path) == shown
        text = api.ok("GET", f"{path}?format=cedar")["cedar_schema"]
        for kind in shown["cedar_schema_json"][""]["entityTypes"]:
            assert f"entity {kind} " in text
        api.refused(404, "GET", zone.path("/policy-schemas/1999-01-01"))

    def test_default(self, api: Api, zone: Zone) -> None:
        """A version becomes the default by a PATCH whose body says nothing."""
        (shown,) = api.ok("GET", zone.path("/policy-schemas?filter[default]=true"))["items"]
        path = zone.path(f"/policy-schemas/{shown['version']}")
        assert api.ok("PATCH", path, {"anything": 1})["is_default"] is True
        assert api.ok("PATCH", path)["is_default"] is True
        assert api.ok("GET", zone.path("/policy-schemas?is_default=false"))["items"] == []
        api.refused(404, "PATCH", zone.path("/policy-schemas/1999-01-01"), {})
