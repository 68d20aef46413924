"""What a token says of everybody in its chain: name, issuer, client id, and what each of them is.

Also docs/tokens.md, whose token is one that these tests got.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.factories import App, Person
from tests.support.scene import Scene, claims_of
from tests.support.tables import WRITE, write_part

from runtime.domain.kinds import APPLICATION
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.claims import AccessTokenFacts, ChainActor
from runtime.domain.oauth.entity_profiles import EntityProfile
from runtime.services.issuing.access_tokens import issue_access_token, new_token_id

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tokens.md"
PART = "token of three exchanges"


@dataclass(frozen=True)
class Hops:
    """A user, an agent that she signed in to, and two servers behind it, each asking the next."""

    scene: Scene
    ada: Person
    agent: App
    tools: App
    calendar: App
    targets: tuple[Resource, Resource, Resource]

    @property
    def issuer(self) -> str:
        return str(self.scene.zone.protocols.oauth2.issuer)

    @property
    def apps(self) -> tuple[App, App, App]:
        return self.agent, self.tools, self.calendar

    async def sign_in(self) -> str:
        return await self.scene.company.token(self.scene.zone, self.agent, self.ada)

    async def tokens(self, token: str | None = None) -> list[str]:
        """The tokens of three exchanges, each made from the one before."""
        issued, current = [], token or await self.sign_in()
        for app, target in zip(self.apps, self.targets, strict=True):
            current = (await self.scene.exchange(app, current, target))["access_token"]
            issued.append(current)
        return issued


@pytest.fixture(scope="module")
async def hops(scene: Scene) -> Hops:
    company, zone = scene.company, scene.zone
    rooms = await company.resource(
        zone, "https://rooms.acme.example/api", scopes=["rooms.book"], credential_lifetime_seconds=600
    )
    calendar = await company.app(zone, "calendar-api", dependencies=[rooms])
    events = await company.resource(
        zone, "https://calendar.acme.example/api", scopes=["events.write"], application_id=calendar.id
    )
    tools = await company.app(zone, "calendar-tools", traits=["mcp-server"], dependencies=[events])
    tool = await company.resource(
        zone, "https://tools.acme.example/mcp", scopes=["calendar.use"], application_id=tools.id
    )
    agent = await company.app(zone, "calendar-agent", traits=["ai-agent"], dependencies=[tool])
    ada = await company.person(zone, "ada@acme.example")
    return Hops(scene, ada, agent, tools, calendar, (tool, events, rooms))


@pytest.mark.standard("OAuth actor profile")
async def test_each_actor_is_named_with_issuer_client_and_profile(hops: Hops) -> None:
    """Three exchanges: the caller outermost, the agent that the user signed in to innermost."""
    claims = claims_of((await hops.tokens())[-1])

    assert claims["act"] == {
        "sub": "calendar-api",
        "iss": hops.issuer,
        "client_id": hops.calendar.client_id,
        "sub_profile": "service",
        "act": {
            "sub": "calendar-tools",
            "iss": hops.issuer,
            "client_id": hops.tools.client_id,
            "sub_profile": "service",
            "act": {
                "sub": "calendar-agent",
                "iss": hops.issuer,
                "client_id": hops.agent.client_id,
                "sub_profile": "ai_agent",
            },
        },
    }


@pytest.mark.standard("OAuth actor profile")
async def test_the_subject_of_a_users_token_is_a_user(hops: Hops) -> None:
    """`sub_profile` classifies `sub`, which stays the user along the chain."""
    told = [claims_of(token) for token in (await hops.sign_in(), *await hops.tokens())]

    assert {(claims["sub"], claims["sub_profile"]) for claims in told} == {("ada@acme.example", "user")}


@pytest.mark.parametrize(("traits", "profile"), [(["ai-agent"], "ai_agent"), (["gateway"], "service")])
async def test_an_applications_own_token_says_what_it_is(
    own_scene: Scene, traits: list[str], profile: str
) -> None:
    """Without a user `sub` is the application that the chain starts with, there and in what is exchanged."""
    scene, zone = own_scene, own_scene.zone
    api = await scene.company.resource(zone, "https://api.test", scopes=["read"])
    server = await scene.company.app(zone, "server", dependencies=[api])
    tools = await scene.company.resource(zone, "https://tools.test", application_id=server.id)
    robot = await scene.company.app(zone, "robot", traits=traits, dependencies=[tools])
    form = [("grant_type", "client_credentials"), ("resource", tools.identifier), *robot.form.items()]
    own = (await scene.post(form))["access_token"]

    further = (await scene.exchange(server, own, api))["access_token"]

    assert {(claims["sub"], claims["sub_profile"]) for claims in (claims_of(own), claims_of(further))} == {
        ("robot", profile)
    }
    assert claims_of(further)["act"]["act"]["sub_profile"] == profile


async def test_a_trait_counts_from_the_next_exchange_on(own_scene: Scene) -> None:
    """A cached token is not handed out once the application is another thing than it says."""
    scene, zone = own_scene, own_scene.zone
    api = await scene.company.resource(zone, "https://api.test", scopes=["read"])
    app = await scene.company.app(zone, "app", dependencies=[api])
    subject = await scene.company.token(zone, app, await scene.company.person(zone, "ann@acme.test"))
    before = claims_of((await scene.exchange(app, subject, api))["access_token"])

    await scene.company.update(APPLICATION, zone.id, app.id, traits=["ai-agent"])

    after = claims_of((await scene.exchange(app, subject, api))["access_token"])
    assert (before["act"]["sub_profile"], after["act"]["sub_profile"]) == ("service", "ai_agent")


async def _as_before(hops: Hops, *actors: ChainActor, **changes: Any) -> str:
    """A token for the tools as releases before `iss`, `client_id` and `sub_profile` issued it."""
    scene = hops.scene
    zone, now = await scene.services.zones.get(scene.zone.id), scene.services.clock()
    issued = claims_of(await scene.company.token(scene.zone, hops.agent, hops.ada))
    facts = AccessTokenFacts(
        issuer=zone.issuer,
        subject=issued["sub"],
        subject_profile=EntityProfile.USER,
        audience=hops.targets[0].identifier,
        client_id=hops.agent.client_id,
        scopes=frozenset({"calendar.use"}),
        issued_at=now,
        expires_at=now.replace(year=now.year + 1),
        token_id=new_token_id(),
        session_id=issued["sid"],
        authenticated_at=None,
        acr=None,
        actors=actors,
    )
    return issue_access_token(zone, facts)


async def test_a_token_of_an_earlier_release_is_exchanged(hops: Hops) -> None:
    """A level without the newer members is passed on as it is; the new one has them."""
    old = await _as_before(hops, ChainActor("calendar-agent"))

    issued = await hops.scene.exchange(hops.tools, old, hops.targets[1])

    act = claims_of(issued["access_token"])["act"]
    assert (act["iss"], act["act"]) == (hops.issuer, {"sub": "calendar-agent"})


async def test_tokens_of_both_releases_do_not_share_a_cached_one(hops: Hops) -> None:
    """What is said of an actor is part of what a token depends on."""
    old, new = await _as_before(hops, ChainActor("calendar-agent")), (await hops.tokens())[0]

    issued = [await hops.scene.exchange(hops.tools, token, hops.targets[1]) for token in (old, new)]

    inner = [claims_of(each["access_token"])["act"]["act"] for each in issued]
    assert [set(level) for level in inner] == [{"sub"}, {"sub", "iss", "client_id", "sub_profile"}]


def _documented(claims: Mapping[str, Any], hops: Hops) -> str:
    """The claims as docs/tokens.md has them: settled values where each token has its own."""
    began = claims["iat"]
    settled = {**claims, "jti": "V1StGXR8_Z5jdHi6B-myTg", "sid": "3k9f0c2ax7m1qe5tz8ubw4nhdy"}
    settled |= {name: 1795428000 + claims[name] - began for name in ("iat", "exp")} | {
        "auth_time": 1795424400
    }
    text = json.dumps(settled, indent=2).replace(hops.issuer, "https://auth.acme.example/z/product")
    for app in hops.apps:
        text = text.replace(app.client_id, app.application.identifier)
    return text


async def test_the_documented_token_is_what_three_exchanges_lead_to(hops: Hops) -> None:
    """docs/tokens.md shows it member for member; WRITE_TABLES=1 writes it there."""
    text = f"```json\n{_documented(claims_of((await hops.tokens())[-1]), hops)}\n```\n"
    if os.environ.get(WRITE):
        write_part(PAGE, PART, text)

    assert f"<!-- {PART} -->\n{text}<!-- /{PART} -->" in PAGE.read_text("utf-8")


async def test_every_member_of_the_documented_token_is_explained(hops: Hops) -> None:
    """The table below the token has a row for each claim, and for each member of `act`."""
    claims = claims_of((await hops.tokens())[-1])
    after = PAGE.read_text("utf-8").split(f"<!-- /{PART} -->")[1].split("\n## ")[0]

    rows = set(re.findall(r"^\| `([\w.]+)`", after, re.MULTILINE))

    assert rows == claims.keys() | {f"act.{name}" for name in claims["act"]}
