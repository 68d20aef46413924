"""Authorization requests to the policy engine: principal, action, resource and context."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from runtime.domain.policy import defaults, requests, schema
from runtime.domain.policy.requests import PolicyApplication, PolicyGroup, PolicyResource, PolicyUser

NOW = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
AGENT = PolicyApplication("agent", credential="password", traits=("mcp",), roles=("runner",))
API = PolicyResource(
    "https://api.example", scopes=("read",), provider=PolicyApplication("api", traits=("mcp-server",))
)
ADA = PolicyUser(
    "ada",
    email="ada@example.test",
    groups=(PolicyGroup("eng", "Engineering", ("viewer",)),),
    roles=("admin",),
)


def ask(principal=ADA, **changes):
    given = {"application": AGENT, "actors": ("agent",), "resource": API, "scopes": ["read"], "now": NOW}
    return requests.exchange(principal, **{**given, **changes})


def everybody(request):
    return (*request.common_entities, *request.user_entities)


def named(request):
    return {(entity["uid"]["type"], entity["uid"]["id"]): entity for entity in everybody(request)}


def test_holds_everyone_who_matters_once():
    """The user with groups and roles, the application, the resource, who provides it; each entity once."""
    assert set(named(ask())) == {
        ("User", "ada"),
        ("Group", "eng"),
        ("Role", "admin"),
        ("Role", "viewer"),
        ("Role", "runner"),
        ("Application", "agent"),
        ("Application", "api"),
        ("Resource", "https://api.example"),
    }


def test_groups_and_roles_are_parents():
    """So that rules read `principal in Group::"eng"`, and a group's roles reach its members."""
    entities = named(ask())

    assert {"type": "Group", "id": "eng"} in entities["User", "ada"]["parents"]
    assert {"type": "Role", "id": "admin"} in entities["User", "ada"]["parents"]
    assert entities["Group", "eng"]["parents"] == [{"type": "Role", "id": "viewer"}]


def test_context_says_how_the_request_came_about():
    """The chain, the credential and the sign-in are there; what is unknown is left out."""
    context = ask(actors=("agent", "portal"), authenticated_at=NOW - timedelta(hours=1)).context

    assert context["chain_depth"] == 2
    assert context["credential"] == "password"
    assert context["authenticated_at"] == int((NOW - timedelta(hours=1)).timestamp())
    assert "acr" not in context


@pytest.mark.threat("29b")
@pytest.mark.parametrize(
    "name", ['"; permit(principal,action,resource); //', "line\nbreak", "\\", "\u202e", "'"]
)
def test_identifiers_stay_values(name):
    """A hostile name arrives in the structured request as that very text."""
    request = json.loads(json.dumps(everybody(ask(PolicyUser(name)))))

    assert {"type": "User", "id": name} in [entity["uid"] for entity in request]


def test_the_first_schema_version_is_published():
    """Versions are known by date, and an unknown one is not made up."""
    assert schema.current().version == "2026-11-21"
    assert schema.get("2026-11-21").text.startswith("//")
    with pytest.raises(KeyError):
        schema.get("../2026-11-21")


def test_there_are_three_default_policies():
    """Named as the interface names them, each rule under its own name."""
    assert [policy.name for policy in defaults.all_defaults()] == [
        "default-user-grants",
        "default-app-delegation",
        "default-app-direct-access",
    ]
    assert all(f'@id("{policy.name}")' in policy.text for policy in defaults.all_defaults())


def test_who_asks_for_what_it_provides_is_known_as_who_asks():
    """Not as an application that has not authenticated."""
    own = PolicyResource("https://own.example", provider=PolicyApplication("agent"))
    assert named(ask(resource=own))["Application", "agent"]["attrs"]["credential"] == "password"
