"""Callers of the policy bundle: a user's token for the zone, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.runtime.management.bundles.holding import Holder, archive_of
from tests.runtime.management.conftest import Zone as Zone_
from tests.support.factories import POLICY_SCOPES, Company

from runtime.contract.routes import ROUTES
from runtime.storage.sql.client_refs import ClientRef


class TestWhoMayAsk:
    def both(self, holder: Holder, token: str) -> set[int]:
        """What reading, writing and resetting with another token answer."""
        other = Holder(**{**vars(holder), "token": token})
        return {other("GET").status_code, other.put(archive_of()).status_code, other("DELETE").status_code}

    @pytest.mark.threat("13f", "13g", "13i", "13j", "13l")
    @pytest.mark.deviation("bundle-token")
    def test_a_token_for_something_else_is_refused(self, ann: Holder) -> None:
        """A resource's, an application's own, an ID token, a service account's, an API key."""
        assert ann("GET").status_code == 200

        async def others(company: Company) -> dict[str, str]:
            resource = await company.resource(ann.zone, "https://api.test")
            zone = await company.services.zones.get(ann.zone.id)
            now = company.services.clock()
            claims = {"iss": zone.issuer, "aud": zone.issuer, "sub": ann.person.user.identifier}
            claims |= {"iat": int(now.timestamp()), "exp": int(now.timestamp()) + 60, "jti": "j"}
            claims |= {"client_id": ann.app.client_id, "sid": ann.person.session_id}
            claims |= {"scope": " ".join(POLICY_SCOPES)}
            key = zone.signing(zone.access_token_algorithm)
            return {
                "right": key.sign(claims, typ="at+jwt"),
                "resource": await company.token(ann.zone, ann.app, ann.person, audience=resource.identifier),
                "own": key.sign({name: claims[name] for name in claims if name != "sid"}, typ="at+jwt"),
                **{
                    typ: key.sign(claims, typ=typ)
                    for typ in ("JWT", "logout+jwt", "m2m+jwt", "reg+jwt", "secevent+jwt")
                },
            }

        tokens = ann.run(others)
        assert Holder(**{**vars(ann), "token": tokens.pop("right")})("GET").status_code == 200
        tokens |= {"key": ann.api.server.api_key, "text": "x", "dots": "a.b.c"}
        assert not [name for name, token in tokens.items() if self.both(ann, token) != {401}]

    @pytest.mark.threat("13k")
    def test_a_token_for_the_zone_opens_nothing_else(self, ann: Holder) -> None:
        """The management API refuses it on every route."""
        assert ann("GET").status_code == 200
        headers = {"Authorization": f"Bearer {ann.token}"}
        statuses = {}
        for route in ROUTES:
            if route.open or route.zone_token or route.body:
                continue
            path = route.path.replace("{zoneId}", ann.zone.id).replace("{", "").replace("}", "")
            answer = ann.api.client.request(route.method, path, headers=headers)
            statuses[route.operation_id] = answer.status_code

        assert statuses == dict.fromkeys(statuses, 401)

    @pytest.mark.threat("12b", "28o")
    def test_a_bundle_is_its_users_alone(self, make: Callable[..., Holder]) -> None:
        """Two users of a zone, and the same application in another zone, never see each other's."""
        ann, bob = make(), make()
        eve = make(ann.run(lambda company: company.zone(ann.api.named("zone"))))
        assert len({each.bundle()[0]["target_id"] for each in (ann, bob, eve)}) == 3
        before = bob.bundle()
        assert ann.put(archive_of()).status_code == 200
        assert bob.bundle() == before

        async def forge(company: Company) -> str:
            mine, other = [await company.services.zones.get(each.zone.id) for each in (ann, eve)]
            now = int(company.services.clock().timestamp())
            claims = {"iss": mine.issuer, "aud": mine.issuer, "sub": ann.person.user.identifier, "iat": now}
            claims |= {
                "client_id": ann.app.client_id,
                "sid": ann.person.session_id,
                "jti": "j",
                "exp": now + 60,
                "scope": " ".join(POLICY_SCOPES),
            }
            return other.signing(other.access_token_algorithm).sign(claims, typ="at+jwt")

        assert self.both(ann, ann.run(forge)) == {401}

    @pytest.mark.threat("24h")
    def test_who_registered_themselves_has_no_say(self, ann: Holder) -> None:
        """A client that nobody here manages gets no further than its token: 403, and nothing changes."""
        before = ann.bundle()
        agent = Zone_(ann.api, ann.api.ok("GET", f"/zones/{ann.zone.id}")).user_agent()
        other = replace(ann.app, client_id=agent["identifier"])
        client_ref, scopes = ClientRef(user_agent_id=agent["id"]), POLICY_SCOPES
        ann.run(lambda company: company.agree(ann.zone, client_ref, ann.person.user, *scopes))
        token = ann.run(lambda company: company.token(ann.zone, other, ann.person, scopes=scopes))
        assert self.both(ann, token) == {403}
        assert ann.bundle() == before

    def test_what_has_ended_is_refused(self, make: Callable[..., Holder]) -> None:
        """A token that is over, a session that was revoked, a user who is disabled, an application gone."""
        ann = make()
        before = ann.api.server.services.clock() - timedelta(hours=2)
        expired = ann.run(
            lambda company: company.token(ann.zone, ann.app, ann.person, now=before, scopes=POLICY_SCOPES)
        )
        assert self.both(ann, expired) == {401}
        endings: dict[str, Callable[[Holder], tuple[Any, ...]]] = {
            "session": lambda one: ("DELETE", f"/sessions/{one.person.session_id}"),
            "user": lambda one: ("PATCH", f"/users/{one.person.user.id}", {"status": "disabled"}),
            "application": lambda one: ("DELETE", f"/applications/{one.app.id}"),
        }
        answers = {}
        for name, end in endings.items():
            holder = make()
            before_it = holder("GET").status_code
            method, path, *body = end(holder)
            ann.api.ok(method, f"/zones/{ann.zone.id}{path}", *body)
            answers[name] = (before_it, self.both(holder, holder.token))
        assert answers == {name: (200, {401}) for name in endings}
