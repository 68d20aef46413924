"""Credentials bound to an owner and to zones: no team applies as another, or takes what another has."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update as sql_update
from tests.runtime.management.conftest import Api, Zone, caller
from tests.support.applying import app, create, on, update

from runtime.domain.identifiers import new_id
from runtime.services.container import Services
from runtime.storage.sql.tables import TABLES


@dataclass
class Team:
    """A caller and the configuration that it applies."""

    api: Api
    owner: str

    def post(
        self,
        *operations: dict[str, Any],
        dry_run: bool = False,
        base: int | None = None,
        digest: str | None = None,
    ) -> httpx.Response:
        body = {
            "base_revision": self.api.revision() if base is None else base,
            "owner": self.owner,
            "plan_digest": digest or new_id(),
            "operations": operations,
        }
        place = f"/organizations/{self.api.organization_id}/changesets?dry_run={str(dry_run).lower()}"
        return self.api("POST", place, body)

    def apply(self, *operations: dict[str, Any]) -> list[str]:
        """Apply; the ids of what it is about."""
        answer = self.post(*operations)
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["operations"]]

    def refused(self, status: int, *operations: dict[str, Any]) -> str:
        """What a refusal says, which is the same for a dry run."""
        answers = [self.post(*operations, dry_run=dry_run) for dry_run in (True, False)]
        assert {answer.status_code for answer in answers} == {status}
        (message,) = {answer.json()["message"] for answer in answers}
        return str(message)

    def lines(self, *zones: str) -> list[dict[str, Any]]:
        asked = "&".join(f"zone={zone}" for zone in zones)
        answer = self.api("GET", f"/organizations/{self.api.organization_id}/snapshot?{asked}")
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]


def bound(api: Api, owner: str | None = None, *zones: Zone, role: str = "org_member") -> Team:
    """A new key that is bound to an owner, to zones, or to both."""
    limits: dict[str, Any] = {"owner": owner} if owner else {}
    if zones:
        limits["zones"] = [zone.id for zone in zones]
    return Team(api.key(role, **limits)[1], owner or api.named("team"))


def account(api: Api, **members: Any) -> tuple[str, Api]:
    """The address of a new credential of a service account, and who calls with a token for it."""
    base = f"/organizations/{api.organization_id}/service-accounts"
    made = api.ok("POST", base, {"name": api.named("ci")})
    place = f"{base}/{made['id']}/credentials"
    credential = api.ok("POST", place, {"name": "key", **members}, status=201)
    form = {name: credential[name] for name in ("client_id", "client_secret")}
    form |= {"grant_type": "client_credentials"}
    issued = httpx.post(f"{api.server.url}/service-account-token", data=form, timeout=30, trust_env=False)
    assert issued.status_code == 200, issued.text
    its = caller(api.server, issued.json()["access_token"], api.organization_id)
    return f"{place}/{credential['id']}", its


PERMIT = "permit (principal, action, resource);"


def policy_set(name: str, zone_id: str, *, active: bool, policies: Sequence[str] = ()) -> dict[str, Any]:
    """A new policy set of these policies."""
    return create("PolicySet", name, zone_id, name=name, policies=list(policies), active=active)


@dataclass
class Owners:
    """Two owners of one zone with an application each, and an application that nobody manages."""

    mine: Team
    theirs: Team
    own: str
    other: str
    free: str


@pytest.fixture(scope="module")
def owners(api: Api, zone: Zone) -> Owners:
    """The first of them calls with a key that is bound to it; nothing of theirs is taken away."""
    mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
    (own,) = mine.apply(app(api.named(), zone.id))
    (other,) = theirs.apply(app(api.named(), zone.id))
    return Owners(mine, theirs, own, other, zone.make("applications")["id"])


class TestOwner:
    @pytest.mark.threat("49a")
    def test_applies_for_its_owner_alone(self, api: Api, zone: Zone) -> None:
        """The same operations go through for the owner that the key is for, and for no other."""
        team = bound(api, api.named("payments"), zone)
        team.apply(app(api.named(), zone.id))

        told = Team(team.api, "platform").refused(403, app(api.named(), zone.id))
        assert told == f"this credential is bound to the owner `{team.owner}`, not to `platform`"

    def test_unbound_keys_apply_for_whichever(self, api: Api, zone: Zone) -> None:
        """A key that says nothing of owners applies for one owner as for the next."""
        for owner in (api.named("a"), api.named("b")):
            Team(api, owner).apply(app(api.named(), zone.id))

    @pytest.mark.threat("49b")
    @pytest.mark.parametrize("whose", ["own", "free"])
    def test_single_calls_change_what_no_other_owner_manages(
        self, zone: Zone, owners: Owners, whose: str
    ) -> None:
        """Its own, and what nobody manages, it changes call by call."""
        application, resource = getattr(owners, whose), zone.make("resources")["id"]
        place = zone.path(f"/applications/{application}")
        owners.mine.api.ok("PATCH", place, {"description": "x"})
        owners.mine.api.ok("PUT", f"{place}/dependencies/{resource}")
        owners.mine.api.ok("DELETE", f"{place}/dependencies/{resource}")
        body = {"type": "password", "application_id": application}
        owners.mine.api.ok("POST", zone.path("/application-credentials"), body)

    def test_what_another_owner_manages_is_read(self, zone: Zone, owners: Owners) -> None:
        """A bound key sees all of its zone."""
        place = zone.path(f"/applications/{owners.other}")
        assert owners.mine.api.ok("GET", place)["id"] == owners.other

    @pytest.mark.threat("49b")
    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            pytest.param("PATCH", "/applications/{other}", {"description": "x"}, id="changed"),
            pytest.param("DELETE", "/applications/{other}", None, id="deleted"),
            pytest.param(
                "PUT", "/applications/{other}/dependencies/{resource}", None, id="given-a-dependency"
            ),
            pytest.param(
                "POST",
                "/application-credentials",
                {"type": "password", "application_id": "{other}"},
                id="given-a-credential",
            ),
        ],
    )
    def test_single_calls_leave_what_others_manage(
        self, zone: Zone, owners: Owners, method: str, path: str, body: dict[str, str] | None
    ) -> None:
        """What another owner has it only reads: 403, which says whose it is."""
        known = {"other": owners.other, "resource": zone.make("resources")["id"]}
        sent = body and {name: value.format(**known) for name, value in body.items()}
        told = owners.mine.api.refused(403, method, zone.path(path.format(**known)), sent)
        assert f"belongs to the configuration `{owners.theirs.owner}`" in told["message"]

    @pytest.mark.threat("49c")
    def test_takes_no_part_of_what_others_manage(self, api: Api, zone: Zone) -> None:
        """No changeset makes a credential for another's application: one could act as it by that."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
        (own,) = mine.apply(app(api.named(), zone.id))
        (other,) = theirs.apply(app(api.named(), zone.id))

        def credential(of: str) -> dict[str, Any]:
            spec = {"type": "password", "application_id": of}
            return create("ApplicationCredential", api.named(), zone.id, **spec)

        mine.apply(credential(own))
        assert f"belongs to the configuration `{theirs.owner}`" in mine.refused(403, credential(other))

    @pytest.mark.threat("49b")
    def test_members_and_assignments_of_others_stay(self, api: Api, zone: Zone) -> None:
        """A group's members and a role that somebody was given are their owner's, too."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
        (own,) = mine.apply(create("Group", api.named(), zone.id, name=api.named()))
        (other,) = theirs.apply(create("Group", api.named(), zone.id, name=api.named()))
        user = zone.user().id
        mine.api.ok("POST", zone.path(f"/groups/{own}/members"), {"user_id": user})
        told = mine.api.refused(403, "POST", zone.path(f"/groups/{other}/members"), {"user_id": user})
        assert f"`{theirs.owner}`" in told["message"]

    @pytest.mark.threat("49b")
    def test_zone_with_something_of_others_stays(self, api: Api) -> None:
        """With a zone would go what another owner keeps there; without that it can be deleted."""
        _, its = account(api, owner="mine")
        mine, theirs = Team(its, "mine"), Team(api, "theirs")
        name = api.named("zone")
        (zone_id,) = mine.apply(create("Zone", name, name=name))
        (other,) = theirs.apply(app(api.named(), zone_id))

        told = mine.refused(403, on("delete", "Zone", zone_id))
        assert "of the configuration `theirs` would be deleted" in told
        its.refused(403, "DELETE", f"/zones/{zone_id}")
        theirs.apply(on("delete", "Application", other))
        mine.apply(on("delete", "Zone", zone_id))

    def test_history_is_that_of_its_owner(self, api: Api, zone: Zone) -> None:
        """Receipts of others say where they come from and what they did: neither listed nor found."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
        mine.apply(app(api.named(), zone.id))
        theirs.apply(app(api.named(), zone.id))
        path = f"/organizations/{api.organization_id}/changesets"
        receipts = {each["owner"]: each["id"] for each in api.ok("GET", f"{path}?limit=2")["items"]}
        assert receipts.keys() == {mine.owner, theirs.owner}

        seen = mine.api.ok("GET", f"{path}?limit=100&expand[]=total_count")
        assert {each["owner"] for each in seen["items"]} == {mine.owner}
        mine.api.ok("GET", f"{path}/{receipts[mine.owner]}")
        mine.api.refused(404, "GET", f"{path}/{receipts[theirs.owner]}")

    @pytest.mark.threat("49b")
    def test_what_others_have_of_it_stays(self, api: Api, zone: Zone) -> None:
        """With an own role would go the assignments that others manage; without those it can be deleted."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
        (role,) = mine.apply(create("Role", api.named(), zone.id, identifier=api.named()))
        (agent,) = theirs.apply(app(api.named(), zone.id))
        spec = {"role_id": role, "principal": {"application_id": agent}}
        (given,) = theirs.apply(create("RoleAssignment", api.named(), zone.id, **spec))

        told = mine.refused(403, on("delete", "Role", role))
        assert f"of the configuration `{theirs.owner}` would be deleted" in told
        mine.api.refused(403, "DELETE", zone.path(f"/roles/{role}"))
        theirs.apply(on("delete", "RoleAssignment", given))
        mine.apply(on("delete", "Role", role))


class TestPartsOfOthers:
    """What would give a team what others have: each goes through where it is its own."""

    @pytest.mark.threat("49e")
    def test_roles_of_others_are_not_given(self, api: Api, zone: Zone) -> None:
        """Whoever could give a role could make themselves what it lets one do; nor is one taken."""
        mine, theirs = bound(api, api.named("mine"), zone), Team(api, api.named("theirs"))
        (agent,) = mine.apply(app(api.named(), zone.id))
        (own,) = mine.apply(create("Role", api.named(), zone.id, identifier=api.named()))
        (other,) = theirs.apply(create("Role", api.named(), zone.id, identifier=api.named()))
        path = zone.path(f"/applications/{agent}/roles")

        def assignment(role: str) -> dict[str, Any]:
            spec = {"role_id": role, "principal": {"application_id": agent}}
            return create("RoleAssignment", api.named(), zone.id, **spec)

        mine.apply(assignment(own))
        assert f"Role `{other}` belongs to" in mine.refused(403, assignment(other))
        mine.api.ok("DELETE", f"{path}/{own}")
        mine.api.ok("POST", path, {"role_id": own})
        mine.api.refused(403, "POST", path, {"role_id": other})
        api.ok("POST", path, {"role_id": other})
        mine.api.refused(403, "DELETE", f"{path}/{other}")

    @pytest.mark.threat("49c")
    @pytest.mark.parametrize(("whose", "status"), [("own", 200), ("other", 403)])
    def test_credentials_of_others_are_not_taken_up(
        self, api: Api, zone: Zone, owners: Owners, whose: str, status: int
    ) -> None:
        """Not one that nobody manages, of an application that somebody does: nor changed, nor deleted."""
        held = zone.password(getattr(owners, whose))["id"]
        adopt = {**update("ApplicationCredential", held, api.named(), zone.id), "op": "adopt"}
        assert owners.mine.post(adopt).status_code == status
        place = zone.path(f"/application-credentials/{held}")
        assert owners.mine.api("PATCH", place, {}).status_code == status
        assert owners.mine.api("DELETE", place).status_code == (204 if status == 200 else status)

    @pytest.mark.threat("49d")
    @pytest.mark.parametrize(("whose", "allowed"), [("own", True), ("other", False)])
    @pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
    def test_secrets_of_others_stay_closed(
        self, zone: Zone, owners: Owners, method: str, whose: str, *, allowed: bool
    ) -> None:
        """Neither shown, nor overwritten, nor added to, nor taken away."""
        application = getattr(owners, whose)
        path = zone.path("/secrets" if method == "POST" else f"/secrets/{zone.secret(application)['id']}")
        body = {
            "POST": {"name": "n", "entity_id": application, "data": {"type": "token", "token": "x"}},
            "PATCH": {"name": "m"},
        }.get(method)
        if allowed:
            owners.mine.api.ok(method, path, body)
        else:
            owners.mine.api.refused(403, method, path, body)

    @pytest.mark.threat("49f")
    def test_what_decides_is_for_the_zones_owner(self, api: Api) -> None:
        """No policies are put in force where another configuration manages the zone, or what decides now."""
        platform, name = Team(api, api.named("platform")), api.named("zone")
        (zone_id,) = platform.apply(create("Zone", name, name=name))
        zone, free = Zone(api, api.ok("GET", f"/zones/{zone_id}")), api.zone()
        theirs = Team(api, api.named("theirs"))
        (deciding,) = theirs.apply(policy_set(api.named(), free.id, active=True))
        owner = api.named("mine")
        mine = bound(api, owner, zone, free)

        mine.apply(policy_set(api.named(), zone.id, active=False))
        told = mine.refused(403, policy_set(api.named(), zone.id, active=True))
        assert f"Zone `{zone_id}` belongs to the configuration `{platform.owner}`" in told
        assert f"PolicySet `{deciding}` belongs to" in mine.refused(
            403, policy_set(api.named(), free.id, active=True)
        )
        own = zone.make("policy-sets")["id"]
        version = zone.set_version(own, zone.version(zone.make("policies")["id"]))
        path = zone.path(f"/policy-sets/{own}/versions/{version['id']}")
        mine.api.refused(403, "PATCH", path, {"active": True})
        api.ok("PATCH", path, {"active": True})

        theirs.apply(on("release", "PolicySet", deciding))
        mine.apply(policy_set(api.named(), free.id, active=True))

    @pytest.mark.threat("49f")
    def test_a_text_that_decides_is_for_the_zones_owner(self, api: Api) -> None:
        """What the zone's owner has taken into its set its team changes no more; any other text it does."""
        platform, name = Team(api, api.named("platform")), api.named("zone")
        (zone_id,) = platform.apply(create("Zone", name, name=name))
        mine = bound(api, api.named("mine"), Zone(api, api.ok("GET", f"/zones/{zone_id}")))
        made = [create("Policy", api.named(), zone_id, cedar=PERMIT) for _ in range(2)]
        taken, free = mine.apply(*made)
        platform.apply(policy_set(api.named(), zone_id, active=True, policies=[taken]))

        forbid = PERMIT.replace("permit", "forbid")
        mine.apply(update("Policy", free, made[1]["name"], zone_id, cedar=forbid))
        told = mine.refused(403, update("Policy", taken, made[0]["name"], zone_id, cedar=forbid))
        assert f"belongs to the configuration `{platform.owner}`" in told

    @pytest.mark.threat("49f")
    def test_schema_of_anothers_zone_stays(self, api: Api) -> None:
        """What texts are written against is the zone's owner's to say; in a zone of nobody's, anybody's."""
        platform, name = Team(api, api.named("platform")), api.named("zone")
        (zone_id,) = platform.apply(create("Zone", name, name=name))
        zone, free = Zone(api, api.ok("GET", f"/zones/{zone_id}")), api.zone()
        mine = bound(api, api.named("mine"), zone, free)
        schema = api.ok("GET", zone.path("/policy-schemas"))["items"][0]["version"]
        path = f"/policy-schemas/{schema}"
        mine.api.ok("PATCH", free.path(path), {"default": True}, status=200)
        mine.api.refused(403, "PATCH", zone.path(path), {"default": True})

    @pytest.mark.threat("49h")
    @pytest.mark.parametrize("bound_to", ["an owner and a zone", "a zone"])
    def test_makes_nobody_a_member(self, api: Api, zone: Zone, bound_to: str) -> None:
        """A manager of the zone is bound to no configuration, so no bound credential makes one."""
        person = {"organization_user_id": api.person().id, "role": "zone_manager"}
        team = bound(api, None if bound_to == "a zone" else api.named("mine"), zone)
        told = team.api.refused(403, "POST", zone.path("/members"), person)
        assert "is bound to an owner or to zones cannot add, change or remove members" in told["message"]
        api.ok("POST", zone.path("/members"), person)

    @pytest.mark.threat("49h")
    def test_lets_no_member_go(self, api: Api, zone: Zone) -> None:
        """Who manages the zone stays; an unbound key removes them."""
        person = {"organization_user_id": api.person().id, "role": "zone_manager"}
        api.ok("POST", zone.path("/members"), person)
        place = zone.path(f"/members/{person['organization_user_id']}")
        bound(api, None, zone).api.refused(403, "DELETE", place)
        api.ok("DELETE", place)

    @pytest.mark.threat("49i")
    @pytest.mark.parametrize(("method", "body"), [("PATCH", {"status": "disabled"}), ("DELETE", None)])
    def test_people_are_no_configurations(
        self, api: Api, zone: Zone, owners: Owners, method: str, body: dict[str, str] | None
    ) -> None:
        """Somebody's address decides which groups they are in: no credential of an owner's changes that."""
        place = zone.path(f"/users/{zone.user().id}")
        owners.mine.api.ok("GET", place)
        told = owners.mine.api.refused(403, method, place, body)
        assert "no configuration can manage a User" in told["message"]
        bound(api, None, zone).api.ok("DELETE", place)


@dataclass
class Confined:
    """A team that is bound to the shared zone, and what its owner has in another one."""

    team: Team
    elsewhere: Zone
    other: str


@pytest.fixture(scope="module")
def confined(api: Api, zone: Zone) -> Confined:
    team, elsewhere = bound(api, api.named("payments"), zone), api.zone()
    (other,) = Team(api, team.owner).apply(app(api.named(), elsewhere.id))
    return Confined(team, elsewhere, other)


class TestZones:
    def test_applies_in_its_zones(self, api: Api, zone: Zone, confined: Confined) -> None:
        """What it makes in its zone it changes there as well."""
        (agent,) = confined.team.apply(app(api.named(), zone.id))
        confined.team.apply(update("Application", agent, api.named(), zone.id, description="x"))

    @pytest.mark.threat("49g")
    @pytest.mark.parametrize("place", ["elsewhere", "not-there"])
    def test_another_zone_is_refused_as_one_that_is_not_there(
        self, api: Api, confined: Confined, place: str
    ) -> None:
        """The answer for a zone it is not bound to says nothing of whether there is one."""
        zone_id = confined.elsewhere.id if place == "elsewhere" else place
        told = confined.team.refused(403, app(api.named(), zone_id))
        assert told == f"this credential is not bound to zone `{zone_id}`"

    @pytest.mark.threat("49g")
    def test_makes_no_zone(self, api: Api, confined: Confined) -> None:
        """A new zone is none of those it is bound to."""
        told = confined.team.refused(403, create("Zone", api.named(), name="x"))
        assert "it cannot create a zone" in told

    @pytest.mark.threat("49g")
    def test_makes_nothing_of_the_organizations(self, api: Api, confined: Confined) -> None:
        """A service account is in no zone, so it is in none of its own."""
        told = confined.team.refused(403, create("ServiceAccount", api.named(), name="x"))
        assert "belongs to the organization" in told

    @pytest.mark.threat("49g")
    def test_deletes_no_other_zone(self, confined: Confined) -> None:
        """403, which says that it is not bound to it."""
        assert "not bound to zone" in confined.team.refused(403, on("delete", "Zone", confined.elsewhere.id))

    @pytest.mark.threat("49g")
    @pytest.mark.parametrize("place", ["elsewhere", "not-there"])
    def test_what_is_in_another_zone_is_not_there_by_its_id(self, confined: Confined, place: str) -> None:
        """An operation that names an entity alone: 404 for one of another zone, as for none."""
        application = confined.other if place == "elsewhere" else place
        told = confined.team.refused(404, on("delete", "Application", application))
        assert f"there is no Application `{application}`" in told

    @pytest.mark.threat("49g")
    def test_sees_its_zones_alone(self, api: Api, zone: Zone, confined: Confined) -> None:
        """Snapshot, lists and single reads have its zones, and no others; the organization is shown."""
        team = bound(api, None, zone)
        lines = team.lines()[1:-1]
        assert {line["zone_id"] or line["id"] for line in lines} == {zone.id}
        assert lines, "and something of that"
        assert {each["id"] for each in team.api.ok("GET", "/zones")["items"]} == {zone.id}
        team.api.ok("GET", zone.path("/applications"))
        team.api.ok("GET", f"/organizations/{api.organization_id}")

    @pytest.mark.threat("49g")
    def test_another_zone_answers_as_one_that_is_not_there(self, confined: Confined) -> None:
        """The two refusals differ in the id that was asked for, and in nothing else."""
        unknown = confined.team.api.refused(404, "GET", "/zones/not-there")["message"]
        told = confined.team.api.refused(404, "GET", confined.elsewhere.path())["message"]
        assert told == unknown.replace("not-there", confined.elsewhere.id)

    @pytest.mark.threat("49g")
    @pytest.mark.parametrize(
        "path",
        [
            "{zone}/applications",
            "{zone}/applications/{application}",
            "{organization}/snapshot?zone={zone_id}",
            "{organization}/users",
            "{organization}/invitations",
            "{organization}/api-keys",
            "{organization}/service-accounts",
            "{organization}/audit-events",
            "{organization}/sso-connection",
        ],
    )
    def test_reads_nothing_of_other_zones_or_of_the_organizations_people(
        self, api: Api, zone: Zone, confined: Confined, path: str
    ) -> None:
        """404, while an unbound key reads what there is of it."""
        asked = path.format(
            zone=confined.elsewhere.path(),
            zone_id=confined.elsewhere.id,
            application=confined.other,
            organization=f"/organizations/{api.organization_id}",
        )
        if "sso-connection" not in path:  # there is none
            api("GET", asked).raise_for_status()
        bound(api, None, zone).api.refused(404, "GET", asked)

    @pytest.mark.threat("49g")
    def test_hears_of_what_is_gone_in_its_zones_alone(self, api: Api, zone: Zone) -> None:
        """Nor of a whole zone that is gone, or of what was in it; and not who it was."""
        elsewhere, whole = api.zone(), Team(api, api.named("all"))
        names = [api.named() for _ in range(3)]
        mine, theirs = whole.apply(app(names[0], zone.id), app(names[1], elsewhere.id))
        (gone_zone,) = whole.apply(create("Zone", names[2], name="Gone"))
        (inside,) = whole.apply(app(api.named(), gone_zone))
        for operation in (
            zone.path(f"/applications/{mine}"),
            elsewhere.path(f"/applications/{theirs}"),
            f"/zones/{gone_zone}",
        ):
            api.ok("DELETE", operation)

        def gone(team: Team) -> dict[str, dict[str, Any]]:
            return {line["id"]: line for line in team.lines() if line["type"] == "tombstone"}

        everything = gone(whole)
        assert {mine, theirs, gone_zone, inside} <= everything.keys()
        assert everything[mine]["actor"]["type"] == "api_key"
        heard = gone(bound(api, None, zone))
        assert heard.keys() & {mine, theirs, gone_zone, inside} == {mine}
        assert "actor" not in heard[mine]

    @pytest.mark.parametrize("role", ["org_member", "org_viewer"])
    def test_changes_nothing_elsewhere(self, api: Api, zone: Zone, role: str) -> None:
        """A zone that it is not bound to is none for it, whatever it may do in its own."""
        team, elsewhere = bound(api, None, zone, role=role), api.zone()
        body = {"name": "x", "identifier": api.named()}
        made = team.api("POST", zone.path("/applications"), body)
        assert made.status_code == (200 if role == "org_member" else 403)
        team.api.refused(404, "POST", elsewhere.path("/applications"), body)
        team.api.refused(404, "PATCH", elsewhere.path(), {"name": "x"})
        team.api.refused(404, "DELETE", elsewhere.path())
        assert team.api("POST", "/zones", {"name": "x"}).status_code == 403

    @pytest.mark.threat("49g")
    def test_zone_that_is_gone_is_still_the_only_one(self, api: Api) -> None:
        """A key whose zones are deleted reaches nothing: it is not as if it had none."""
        zone = api.zone()
        team = bound(api, None, zone)
        assert len(team.api.ok("GET", "/zones")["items"]) == 1
        api.ok("DELETE", zone.path())
        assert team.api.ok("GET", "/zones")["items"] == []


class TestMaking:
    def test_tells_what_it_is_bound_to(self, api: Api, zone: Zone) -> None:
        """The list shows owner, zones, role, end and last use."""
        limits = {"owner": "payments", "zones": [zone.id, zone.id], "expires_in_seconds": 600}
        key_id, _ = api.key("org_member", **limits)
        path = f"/organizations/{api.organization_id}/api-keys?limit=100"
        (shown,) = [each for each in api.ok("GET", path)["items"] if each["id"] == key_id]
        assert (shown["owner"], shown["zones"], shown["role"]) == ("payments", [zone.id], "org_member")
        assert "expires_at" in shown

    @pytest.mark.parametrize(
        ("members", "field"),
        [
            ({"role": "org_admin", "owner": "payments"}, "role"),
            ({"zones": ["not-there"]}, "zones[0]"),
            ({"zones": []}, "zones"),
            ({"owner": "-"}, "owner"),
        ],
    )
    def test_refuses_what_binds_nothing(
        self, api: Api, zone: Zone, members: dict[str, Any], field: str
    ) -> None:
        """An administrator's key could make itself another one; no zone at all is a mistake."""
        api.key(role="org_member", owner="payments", zones=[zone.id])
        path = f"/organizations/{api.organization_id}/api-keys"
        told = api.refused(400, "POST", path, {"name": "k", "role": "org_member", **members})
        assert told["details"][0]["field"] == field

    def test_zones_of_others_are_unknown(self, api: Api, other: Api) -> None:
        """A zone of another organization is told as one that is not there."""
        path = f"/organizations/{api.organization_id}/api-keys"
        body = {"name": "k", "role": "org_member", "zones": [other.zone().id]}
        assert "exists in the organization" in api.refused(400, "POST", path, body)["message"]

    def test_an_owner_alone_leaves_the_organizations_zones(self, api: Api) -> None:
        """A key that is bound to an owner and to no zones makes one."""
        assert bound(api, "payments").api.zone().id

    @pytest.mark.threat("49h")
    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/api-keys", {"name": "k", "role": "org_member"}),
            ("/invitations", {"email": "eve@example.com", "role": "org_admin"}),
            ("/service-accounts", {"name": "bound"}),
        ],
        ids=["API key", "invitation", "service account"],
    )
    def test_hands_nothing_out(self, api: Api, path: str, body: dict[str, str]) -> None:
        """Whatever is bound makes no key, no credential and no invitation."""
        answer = bound(api, "payments").api("POST", f"/organizations/{api.organization_id}{path}", body)
        assert answer.status_code in (403, 404)


class TestServiceAccounts:
    @pytest.mark.threat("49a", "49g")
    def test_is_bound_as_keys_are(self, api: Api, zone: Zone) -> None:
        """Owner and zones count for a token of the credential, and are shown with it."""
        place, its = account(api, owner="payments", zones=[zone.id])
        shown = api.ok("GET", place)
        assert (shown["owner"], shown["zones"]) == ("payments", [zone.id])
        team, elsewhere = Team(its, "payments"), api.zone()
        team.apply(app(api.named(), zone.id))
        assert "not to `platform`" in Team(its, "platform").refused(403, app(api.named(), zone.id))
        assert "not bound to zone" in team.refused(403, app(api.named(), elsewhere.id))

    def test_may_be_for_reading(self, api: Api, zone: Zone) -> None:
        """A credential with the role of a viewer reads and tries out, and changes nothing."""
        _, its = account(api, role="org_viewer")
        team = Team(its, "payments")
        assert team.post(app(api.named(), zone.id), dry_run=True).status_code == 200
        assert team.post(app(api.named(), zone.id)).status_code == 403
        its.refused(403, "POST", "/zones", {"name": "x"})

    def test_a_token_ends_with_its_credential(self, api: Api) -> None:
        """A token lives no longer than its credential, and neither is worth anything afterwards."""
        place, its = account(api, expires_in_seconds=600)
        its.ok("GET", "/zones")
        credential_id = place.rpartition("/")[2]

        async def let_end(services: Services) -> None:
            async with services.database.transaction() as conn:
                rows = TABLES["ServiceAccountCredential"]
                ended_at = services.clock() - timedelta(seconds=1)
                await conn.execute(
                    sql_update(rows).where(rows.c.id == credential_id).values(expires_at=ended_at)
                )

        api.server.call(let_end)
        its.refused(401, "GET", "/zones")

    def test_its_token_ends_with_it(self, api: Api) -> None:
        """`expires_in` is what is left of the credential, where that is less than an hour."""
        base = f"/organizations/{api.organization_id}/service-accounts"
        made = api.ok("POST", base, {"name": api.named("ci")})
        body = {"name": "key", "expires_in_seconds": 600}
        credential = api.ok("POST", f"{base}/{made['id']}/credentials", body)
        form = {name: credential[name] for name in ("client_id", "client_secret")}
        form |= {"grant_type": "client_credentials"}
        issued = httpx.post(f"{api.server.url}/service-account-token", data=form, timeout=30, trust_env=False)
        assert 0 < issued.json()["expires_in"] <= 600


class TestTwoTeams:
    def test_have_names_of_their_own(self, api: Api, zone: Zone) -> None:
        """Both call something `agent` in one zone; what clients call them differs."""
        first, second = (bound(api, api.named(each), zone) for each in ("a", "b"))
        made = {}
        for team in (first, second):
            operation = {**app("agent", zone.id), "spec": {"name": "Agent", "identifier": api.named("agent")}}
            (made[team.owner],) = team.apply(operation)
        for team in (first, second):
            team.apply(update("Application", made[team.owner], "agent", zone.id, description=team.owner))
        found = {
            line["ownership"]["owner"]: (line["id"], line["spec"]["description"])
            for line in first.lines()
            if line["type"] == "entity"
            and line["kind"] == "Application"
            and (line["ownership"] or {}).get("name") == "agent"
        }
        assert found == {owner: (entity_id, owner) for owner, entity_id in made.items()}
        repeated = {**app("agent", zone.id), "spec": {"name": "Agent", "identifier": api.named("agent")}}
        told = first.refused(409, repeated)
        assert f"in the manifests of `{first.owner}`" in told

    @pytest.mark.threat("49j")
    def test_neither_uses_up_the_others_plan(self, api: Api, zone: Zone) -> None:
        """A digest may stand where all can read it: sent first for another owner, it spoils nothing."""
        first, second = (bound(api, api.named(each), zone) for each in ("a", "b"))
        digest = api.named("sha256")
        before = second.post(app(api.named(), zone.id), digest=digest)
        assert before.status_code == 200, before.text
        after = first.post(app(api.named(), zone.id), digest=digest)
        assert after.status_code == 200, after.text
        assert first.post(app(api.named(), zone.id), digest=digest).status_code == 409

    @pytest.mark.threat("49k")
    def test_hand_over_in_two_steps(self, api: Api, zone: Zone) -> None:
        """Neither takes the other's alone: one lets go, then the other takes it up."""
        first, second = (bound(api, api.named(each), zone) for each in ("a", "b"))
        (agent,) = first.apply(app("agent", zone.id, identifier=api.named("agent")))
        adopt = {**update("Application", agent, "agent", zone.id, description="b"), "op": "adopt"}
        assert f"belongs to `{first.owner}`" in second.refused(409, adopt)
        assert f"belongs to `{first.owner}`" in second.refused(409, on("release", "Application", agent))
        first.apply(on("release", "Application", agent))
        second.apply(adopt)
        assert f"belongs to `{second.owner}`" in first.refused(409, adopt)

    @pytest.mark.parametrize("same_owner", [True, False])
    def test_of_two_first_applies_one_hears_of_the_other(self, api: Api, *, same_owner: bool) -> None:
        """Both planned on the same base: the second is told so, and nothing is made twice."""
        base, name = api.revision(), api.named("zone")
        first = Team(api, api.named("a"))
        second = first if same_owner else Team(api, api.named("b"))
        operations = (create("Zone", name, name=name),)
        assert first.post(*operations, base=base).status_code == 200

        answer = second.post(*operations, base=base)
        assert answer.status_code == 412, answer.text
        assert "changed since revision" in answer.json()["message"]
        entities = [each for each in second.lines() if each["type"] == "entity"]
        assert [each["spec"]["name"] for each in entities if each["kind"] == "Zone"].count(name) == 1

    def test_two_teams_that_do_not_meet_need_not_wait(self, api: Api, zone: Zone) -> None:
        """What another owner made meanwhile elsewhere in the zone makes no plan stale."""
        first, second = (bound(api, api.named(each), zone) for each in ("a", "b"))
        base = api.revision()
        before = first.post(app(api.named("agent"), zone.id), base=base)
        assert before.status_code == 200, before.text
        meanwhile = second.post(app(api.named("agent"), zone.id), base=base)
        assert meanwhile.status_code == 200, meanwhile.text
        again = first.post(app(api.named(), zone.id), base=base)
        assert again.status_code == 412
        assert f"`{first.owner}` was applied meanwhile" in again.json()["message"]

    def test_what_was_made_by_hand_meanwhile_is_told(self, api: Api, zone: Zone) -> None:
        """An identifier that somebody has taken since the plan is a change, not a failure of the plan."""
        team, name = bound(api, api.named("a"), zone), api.named("agent")
        base = api.revision()
        zone.make("applications", identifier=name)
        answer = team.post(app(name, zone.id), base=base)
        assert answer.status_code == 412
        assert answer.json()["details"][0]["field"] == "operations[0]"
