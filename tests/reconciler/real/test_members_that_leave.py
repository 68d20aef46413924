"""Members that leave git beside others that stay: whichever they are, an apply clears them and no others."""

from typing import Any

import pytest
from tests.reconciler.factories import AnyWorld, manifest, plan_for, settle, zone
from tests.reconciler.real_server import RealWorld, told

from reconciler.kinds import Kinds, Manifest
from reconciler.plan.changeset import nest
from reconciler.plan.member_values import leaves

pytestmark = pytest.mark.long

OAUTH2 = {
    "issuer": "https://issuer.example",
    "authorization_endpoint": "https://idp.example/authorize",
    "authorization_parameters": {"prompt": "login"},
    "authorization_resource_enabled": True,
    "authorization_resource_parameter": "audience",
    "code_challenge_methods_supported": ["S256"],
    "jwks_uri": "https://idp.example/jwks",
    "prompt_values_supported": ["login", "none"],
    "registration_endpoint": "https://idp.example/register",
    "scope_parameter": "scope",
    "scope_separator": ",",
    "scopes_supported": ["openid", "email"],
    "token_endpoint": "https://idp.example/token",
    "token_response_access_token_pointer": "/access_token",
}
OPENID = {
    "external_id_claim": "oid",
    "scopes": ["openid"],
    "single_logout_enabled": True,
    "user_identifier_claim": "upn",
    "userinfo_endpoint": "https://idp.example/userinfo",
}
# Kind -> everything that a manifest of it can say and that can leave again.
WHOLE: dict[str, dict[str, Any]] = {
    "ServiceAccount": {"name": "Deploys", "description": "For the pipeline"},
    "Zone": {
        "name": "Workforce",
        "description": "Employees",
        "requires_invitation": False,
        "external_sync_enabled": True,
        "user_identity_provider": "corp",
        "default_resource": "payroll",
        "default_mcp_gateway_application": "agent",
        "protocols": {
            "oauth2": {
                "cimd": {"enabled": True, "allowed_client_ids": ["https://client.example/app"]},
                "dcr_enabled": False,
                "pkce_required": False,
                "strict_assertion_audience": False,
            }
        },
    },
    "Provider": {
        "name": "Another",
        "identifier": "https://idp.example",
        "client_id": "zonewright",
        "client_secret": {"from_env": "CORP", "version": "1"},
        "description": "Signs people in",
        "metadata": {"icon_url": "https://idp.example/icon.png"},
        "protocols": {"oauth2": OAUTH2, "openid": OPENID},
    },
    "Application": {
        "name": "Another",
        "identifier": "another",
        "consent": "implicit",
        "description": "Books",
        "metadata": {
            "docs_url": "https://books.example/docs",
            "icon_url": "https://books.example/icon.png",
        },
        "protocols": {
            "oauth2": {
                "backchannel_logout_session_required": True,
                "backchannel_logout_uri": "https://books.example/logout",
                "post_logout_redirect_uris": ["https://books.example/bye"],
                "redirect_uris": ["https://books.example/cb", "https://books.example/cb2"],
            }
        },
        "traits": ["gateway"],
        "dependencies": ["payroll"],
    },
    "Resource": {
        "name": "Another",
        "identifier": "https://books.example",
        "application": "agent",
        "application_type": "native",
        "credential_lifetime_seconds": 600,
        "credential_provider": "corp",
        "description": "Books",
        "metadata": {
            "docs_url": "https://books.example/docs",
            "icon_url": "https://books.example/icon.png",
        },
        "prefix": True,
        "scopes": ["read", "write"],
    },
    "Role": {"description": "Reads all"},
    "Group": {"name": "Another", "identifier": "others", "members": ["a@x.example", "b@x.example"]},
    "Policy": {"name": "base", "cedar": "permit (principal, action, resource);", "description": "All"},
    "PolicySet": {"name": "main", "policies": ["all"], "active": False},
    "RoleAssignment": {"role": "auditor", "principal": {"group": "staff"}},
    "ApplicationCredential": {
        "application": "agent",
        "type": "token",
        "provider": "corp",
        "subject": "deploys",
    },
    "ApplicationCredential, public": {"application": "agent", "type": "public", "identifier": "agent-web"},
    "ApplicationCredential, of a key": {
        "application": "agent",
        "type": "public-key",
        "identifier": "agent-signs",
        "jwks_uri": "https://agent.example/jwks",
    },
}
# An identifier that is left out is the manifest's name, which is no address.
ADDRESSED = {"name", "identifier"}
NEEDED = {
    "Provider": ADDRESSED,
    "Resource": ADDRESSED,
    "Policy": {"cedar"},
    "PolicySet": {"policies"},
    "RoleAssignment": {"role", "principal.group"},
    "ApplicationCredential": {"application", "type", "provider", "subject"},
    "ApplicationCredential, public": {"application", "type"},
    "ApplicationCredential, of a key": {"application", "type", "jwks_uri"},
}


def needed(kind: str) -> set[str]:
    """The members that a manifest of a kind cannot do without."""
    return NEEDED.get(kind, {"name"} if kind not in ("ServiceAccount", "Role") else set())


def name_of(kind: str) -> str:
    """The kind's name, without which sort of it is meant."""
    return kind.partition(",")[0]


def around(kind: str, spec: dict[str, Any]) -> list[Manifest]:
    """That manifest among what manifests refer to."""
    company = [
        manifest("Provider", "corp", name="Corp"),
        manifest("Application", "agent", name="Agent"),
        manifest("Resource", "payroll", name="Payroll"),
        manifest("Policy", "all", cedar="permit (principal, action, resource);"),
        manifest("Role", "auditor"),
        manifest("Group", "staff", name="Staff"),
    ]
    if kind == "Zone":
        return [manifest("Zone", "workforce", **spec), *company]
    return [zone(), *company, manifest(name_of(kind), "it", **spec)]


def flat(kinds: Kinds, kind: str) -> dict[str, Any]:
    """What the whole manifest says, leaf by leaf."""
    return {path: value for path, _, value in leaves(kinds.by_name[name_of(kind)].spec, WHOLE[kind])}


def ends_as_if_new(real: RealWorld, kinds: Kinds, kind: str, said: dict[str, Any]) -> None:
    """Let git say only this: nothing is left to do, and it is as on a server that never heard more."""
    manifests = around(kind, nest(said))
    settle(real, manifests)
    assert plan_for(real, manifests).empty, said
    new = real.another(tries=False)
    settle(new, manifests)
    assert told(real.snapshot(), kinds) == told(new.snapshot(), kinds), said


@pytest.mark.parametrize("kind", WHOLE)
def test_any_member_leaves_beside_any_other(real_on_sqlite: RealWorld, kinds: Kinds, kind: str) -> None:
    """One leaves and the others stay; all leave and one stays; and it comes back."""
    real, whole = real_on_sqlite.another(tries=False), flat(kinds, kind)
    for path in whole:
        settle(real, around(kind, nest(whole)))
        if path not in needed(kind):
            ends_as_if_new(real, kinds, kind, {each: value for each, value in whole.items() if each != path})
        settle(real, around(kind, nest(whole)))
        alone = {each: value for each, value in whole.items() if each == path or each in needed(kind)}
        ends_as_if_new(real, kinds, kind, alone)


@pytest.mark.parametrize("kind", ["Group", "Application", "Resource", "Provider"])
def test_an_element_leaves_beside_another(any_world: AnyWorld, kinds: Kinds, kind: str) -> None:
    """Of lists of two, each element in turn."""
    whole = flat(kinds, kind)
    for path, value in whole.items():
        if not isinstance(value, list) or len(value) < 2:
            continue
        for element in value:
            settle(any_world, around(kind, nest(whole)))
            without = around(kind, nest({**whole, path: [each for each in value if each != element]}))
            (action,) = settle(any_world, without).actions
            assert [change.path for change in action.changes] == [path]
            assert plan_for(any_world, without).empty


@pytest.mark.parametrize(("before", "after"), [({"subject": "s"}, {"any_subject": True})])
def test_one_alternative_makes_way_for_another(
    any_world: AnyWorld, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """What only one of can be said, there and back."""
    spec = {"application": "agent", "type": "token", "provider": "corp"}
    for said in (before, after, before):
        manifests = around("ApplicationCredential", {**spec, **said})
        settle(any_world, manifests)
        assert plan_for(any_world, manifests).empty
