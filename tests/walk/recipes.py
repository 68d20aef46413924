"""Recipes: the few values of a walk that have to fit what exists, which the contract does not tell.

A new kind is walked without a word here as long as the example of its body can be sent as it is, references
aside. Where it cannot, say what differs: `{Kind}` stands for the id of what was made of that kind, and
`{Kind.member}` for one of its members.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.runtime.management.conftest import Zone, caller
from tests.runtime.management.members.inviting import token_of
from tests.runtime.management.signing_in import someone
from tests.support.zone_tokens import zone_token

if TYPE_CHECKING:
    from tests.walk.walking import Walk

DROP = object()  # the member is left out

# Body class -> members that differ from the document's example.
BODIES: dict[str, dict[str, Any]] = {
    "ApiKeyCreate": {"zones": DROP},  # no zone is there yet
    "ServiceAccountCredentialCreate": {"zones": DROP},
    # Nothing to depend on, and no user, is there yet.
    "ApplicationCreate": {"dependencies": DROP, "accountable_user_id": DROP},
    "AssignmentBody": {"role_identifier": DROP, "owner_type": DROP, "role_id": "{Role}"},
    "PolicySetVersionCreate": {
        "manifest": {"entries": [{"policy_id": "{Policy}", "policy_version_id": "{PolicyVersion}"}]}
    },
    "ZoneMemberBody": {"organization_user_id": "{OrganizationUser}"},
    "SecretCreate": {"entity_id": "{Application}"},
    "TokenForm": {
        "client_id": "{ServiceAccountCredential.client_id}",
        "client_secret": "{ServiceAccountCredential.client_secret}",
    },
    "ZoneCreate": {"encryption_key": DROP},  # the walk has no key-management service
    "ZoneUpdate": {"encryption_key": DROP},
    "ChangesetInput": {"base_revision": "{revision}"},
}

# Path parameters that are not the id of the kind whose items the path has -> what stands there.
PLACES: dict[str, "str | Callable[[Walk], str]"] = {
    "dependencyId": "{Resource}",
    "organizationUserId": "{OrganizationUser}",
    "userId": "{User}",
    "roleId": "{Role}",
    "version": "{PolicyVersion.schema_version}",
    "changeset_id": "{Changeset}",
    "token": lambda walk: token_of(walk.api, walk.second["Invitation"]["email"]),
}

# Query parameters that no member of the listed items tells a value for, of one operation or of all -> values.
QUERIES: dict[str, tuple[str, ...]] = {
    "group_members.list filter[id]": ("{User}",),
    "filter[groups]": ("{Group}",),
    "filter[role]": ("{Role.identifier}",),
    "filter[scope_type]": ("zone",),
    "filter[traits]": ("gateway", "gateway,mcp-server"),
    "query[]": ("a",),
    "query": ("a",),
    "query[subject]": ("nobody",),
    "filter[subject]": ("nobody",),
    "filter[issuer]": ("https://nobody.example",),
    "since": ("2026-01-01T00:00:00Z",),
    "until": ("2999-01-01T00:00:00Z",),
    "when_accessing": ("{Resource}",),
    "snapshot.retrieve owner": ("acme/identity", "nobody/nothing"),
    "zone": ("{Zone}", "{Zone.slug}"),
    "filter[changeset_id]": ("{Changeset}",),
    "decisions.list filter[user_id]": ("{User}",),
    "decisions.list filter[application_id]": ("{Application}",),
    "decisions.list filter[resource_id]": ("{Resource}",),
    "decisions.list filter[user]": ("{User}",),
    "decisions.list filter[application]": ("{Application}",),
    "decisions.list filter[resource]": ("{Resource}",),
    "filter[request_id]": ("nothing",),
    "filter[event]": ("token_exchange",),
    "filter[outcome]": ("refused",),
}
# Parameters that mean something only beside others.
BESIDE: dict[str, dict[str, str]] = {
    "owner_type": {"type": "token"},
    "entity_id": {"entity_id": "{Application}"},
}

# Nulls that are refused although the member takes null, because of what else the entity says: what is sent
# beside the null so that it is not.
BESIDE_NULL: dict[str, dict[str, Any]] = {
    "TokenCredentialUpdate.subject": {"any_subject": True},
    "TokenCredentialUpdate.any_subject": {"subject": "ada"},
}


def _user(walk: "Walk") -> str:
    return _zone(walk).user().id


def _zone(walk: "Walk") -> Zone:
    return Zone(walk.api, walk.made["Zone"])


# Kinds that the management API does not create -> makes one the way it comes to be, and gives its id.
MADE: dict[str, Callable[["Walk"], str]] = {
    "User": _user,
    "OrganizationUser": lambda walk: walk.api.person().id,
    "UserAgent": lambda walk: _zone(walk).user_agent()["id"],
    "Session": lambda walk: _zone(walk).session(walk.ids["User"]),
    "DelegatedGrant": lambda walk: _zone(walk).grant(walk.ids["User"], walk.ids["Resource"]),
}


def _default_policies_again(walk: "Walk") -> None:
    """What is bound cannot be archived: the zone goes back to the policies it was born with."""
    zone = walk.ids["Zone"]
    born = walk.api.ok("GET", f"/zones/{zone}/policy-sets?filter[owner_type]=platform")["items"][0]
    path = {"zoneId": zone, "policy_set_id": born["id"], "version_id": born["latest_version_id"]}
    walk.client.send("policy_set_versions.update", path, body={"active": True})


# What has to happen before anything can be taken away.
BEFORE_THE_END: tuple[Callable[["Walk"], None], ...] = (_default_policies_again,)


def _another_organization(walk: "Walk") -> None:
    """Only people make organizations, act in another one by a token of it, and see the end of it."""
    ada = someone(walk.api, "org_admin")
    at_home = ada.calling()
    client = walk.client.calling(at_home.client)
    made = client.send("organizations.create", {}, body={"name": "Walked"})
    path = {"organization_id": made["id"]}
    token = client.send("organizations.exchange_token", path)["access_token"]
    there = walk.client.calling(ada.with_token(token).client)
    assert there.send("organizations.retrieve", path)["name"] == "Walked"
    there.send("organizations.delete", path)
    client.send("organizations.retrieve", path, status=404)


def _bundle(walk: "Walk") -> None:
    """A user's own policies, with the user's token for the zone: fetched, put back as they are, and reset."""
    api = walk.api
    token = zone_token(api.server)
    client = walk.client.calling(caller(api.server, token, api.organization_id).client)
    bundle = client.send("policy_bundle.retrieve", {})
    assert client.send("policy_bundle.update", {}, body=bundle)
    client.send("policy_bundle.update", {}, body=b"no archive", status=400)
    client.send("policy_bundle.update", {}, body=bundle, headers={"If-Match": '"0"'}, status=412)
    client.send("policy_bundle.reset", {})


def _walked(walk: "Walk") -> None:
    """Nothing: it is part of the recipe of another operation."""


# Operations that are not sent as the document shows them -> how they are walked.
SPECIAL: dict[str, Callable[["Walk"], None]] = {
    "organizations.create": _another_organization,
    "organizations.exchange_token": _walked,
    "organizations.delete": _walked,
    "policy_bundle.retrieve": _bundle,
    "policy_bundle.update": _walked,
    "policy_bundle.reset": _walked,
}
