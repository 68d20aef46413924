"""The manifest schemas, which editors check with and the reconciler reads."""

from typing import Any

import jsonschema_rs
import pytest

from runtime.contract.manifests import manifest_schemas
from runtime.domain import kinds
from runtime.domain.kinds import ALL, Kind

SCHEMAS = manifest_schemas()


def manifest(kind: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    """A manifest document of that kind."""
    place = {} if kind in ("Zone", "ServiceAccount") else {"zone": "acme"}
    return {
        "apiVersion": "zonewright/v1",
        "kind": kind,
        "metadata": {"name": "thing", **place, **metadata},
        "spec": spec,
    }


GOOD = [
    (
        "Zone",
        {
            "name": "Acme",
            "user_identity_provider": "corp",
            "protocols": {"oauth2": {"cimd": {"enabled": True}}},
        },
    ),
    ("ServiceAccount", {"description": "x"}),
    ("Provider", {"name": "Corp", "client_secret": {"from_env": "S", "version": "3"}}),
    ("Provider", {"name": "Corp", "client_secret": {"keep": True}}),
    (
        "Provider",
        {"name": "P", "protocols": {"oauth2": {"issuer": {"of_zone": "other", "member": "issuer"}}}},
    ),
    ("Application", {"name": "A", "dependencies": ["api", {"external": "https://api"}]}),
    ("Application", {"name": "A", "protocols": {"oauth2": {"redirect_uris": ["https://x/cb"]}}}),
    (
        "Application",
        {
            "name": "A",
            "protocols": {"oauth2": {"redirect_uris": [{"of_zone": "z", "member": "redirect_uri"}]}},
        },
    ),
    ("Resource", {"name": "R", "application": "a", "credential_provider": {"external": "sts"}}),
    ("ApplicationCredential", {"application": "a", "type": "password"}),
    ("ApplicationCredential", {"application": "a", "type": "token", "provider": "ci", "subject": "repo:a"}),
    (
        "ApplicationCredential",
        {"application": "a", "type": "token", "provider": {"external": "https://ci"}, "any_subject": True},
    ),
    ("ApplicationCredential", {"application": "a", "type": "public-key", "jwks_uri": "https://a/keys"}),
    ("ApplicationCredential", {"application": "a", "type": "url", "identifier": "https://a/client"}),
    ("Role", {}),
    ("Group", {"name": "G", "members": ["a@example.org"]}),
    ("RoleAssignment", {"role": "admin", "principal": {"user": "a@example.org"}}),
    (
        "RoleAssignment",
        {"role": {"external": "zone_viewer", "owner_type": "platform"}, "principal": {"group": "g"}},
    ),
    ("Policy", {"cedar": "permit(principal, action, resource);"}),
    ("Policy", {"cedar_file": "a.cedar", "name": "A"}),
    ("PolicySet", {"policies": ["a", "b"]}),
]

BAD = [
    ("Zone", {"name": "Acme", "slug": "acme"}),
    ("Zone", {"name": "Acme", "protocols": {"oauth2": {"issuer": "https://x"}}}),
    ("Provider", {"name": "Corp", "client_secret": "literal"}),
    ("Provider", {"name": "Corp", "type": "service-sts"}),
    ("Application", {"name": "A", "protocols": {"oauth2": {"redirect_uris": ["nowhere"]}}}),
    ("Application", {"name": "A", "consent": "maybe"}),
    ("Resource", {"name": "R", "application_id": "a"}),
    ("ApplicationCredential", {"application": "a", "type": "password", "password": "x"}),
    ("ApplicationCredential", {"application": "a", "type": "token", "subject": "repo:a"}),
    ("ApplicationCredential", {"application": "a", "type": "token", "provider_id": "p"}),
    ("ApplicationCredential", {"application": "a", "type": "public-key"}),
    ("ApplicationCredential", {"application": "a", "type": "url"}),
    ("RoleAssignment", {"role": "admin", "principal": {"user": "a@example.org", "group": "g"}}),
    ("RoleAssignment", {"role": "admin", "principal": {}}),
    ("RoleAssignment", {"role": "admin"}),
    ("Policy", {"cedar": "permit", "cedar_file": "a.cedar"}),
    ("Policy", {"name": "A"}),
    ("PolicySet", {"policies": ["a"], "target_type": "user"}),
    ("Group", {"name": "G", "members": ["nobody"]}),
]


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_schema_is_valid(kind: str) -> None:
    """Every manifest schema is JSON Schema 2020-12."""
    jsonschema_rs.meta.validate(SCHEMAS[kind])


@pytest.mark.parametrize(("kind", "spec"), GOOD, ids=str)
def test_a_manifest_of_the_guides_is_accepted(kind: str, spec: Any) -> None:
    """A manifest as the guides write it."""
    jsonschema_rs.validator_for(SCHEMAS[kind]).validate(manifest(kind, spec))


@pytest.mark.parametrize(("kind", "spec"), BAD, ids=str)
def test_a_typo_a_secret_or_a_member_of_the_service_is_refused(kind: str, spec: Any) -> None:
    """A typo, a literal secret or a member of the service does not pass."""
    assert not jsonschema_rs.validator_for(SCHEMAS[kind]).is_valid(manifest(kind, spec))


def test_envelope_is_closed() -> None:
    """Unknown keys beside `spec` are refused, and so is a zone where there is none."""
    check = jsonschema_rs.validator_for(SCHEMAS["Zone"])
    good = manifest("Zone", {"name": "Acme"})
    assert check.is_valid({**good, "lifecycle": {"protect": True, "previous_names": ["old"]}})
    assert not check.is_valid({**good, "status": {}})
    assert not check.is_valid(manifest("Zone", {"name": "Acme"}, zone="acme"))
    assert not check.is_valid({**good, "lifecycle": {"forever": True}})


def test_parents_come_first() -> None:
    """Whatever a kind requires has a smaller order."""
    about = {name: schema["x-zonewright"] for name, schema in SCHEMAS.items()}
    assert not [
        name
        for name, found in about.items()
        if not all(about[needed]["order"] < found["order"] for needed in found["requires"])
    ]
    assert len({found["order"] for found in about.values()}) == len(about)


def test_every_manifest_kind_has_a_schema() -> None:
    """The list of kinds decides."""
    assert set(SCHEMAS) == {kind.name for kind in ALL if kind.manifest}


@pytest.mark.parametrize(
    ("kind", "member", "keywords"),
    [
        (
            "Resource",
            "application",
            {"x-ref": {"kind": "Application", "field": "application_id", "late": False}},
        ),
        (
            "Zone",
            "default_resource",
            {"x-ref": {"kind": "Resource", "field": "default_resource_id", "late": True}},
        ),
        (
            "PolicySet",
            "policies",
            {"x-ref": {"kind": "Policy", "field": "policies", "late": False, "many": True}},
        ),
        ("Application", "dependencies", {"x-set": True}),
        ("Group", "members", {"x-set": True}),
        ("PolicySet", "active", {"x-sole": True}),
        ("Role", "identifier", {"x-fixed": True}),
        ("RoleAssignment", "role", {"x-fixed": True}),
        ("RoleAssignment", "principal", {"x-fixed": True}),
        ("ApplicationCredential", "type", {"x-fixed": True}),
        ("Provider", "client_secret", {"x-secret": True}),
        ("Application", "consent", {"default": "required"}),
        ("Resource", "prefix", {"default": False}),
        ("PolicySet", "active", {"default": True}),
    ],
)
def test_marks_become_keywords_of_the_schema(kind: str, member: str, keywords: dict[str, Any]) -> None:
    """The marks reach the reconciler."""
    found = SCHEMAS[kind]["properties"]["spec"]["properties"][member]
    assert {name: found.get(name) for name in keywords} == keywords


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (kinds.APPLICATION_CREDENTIAL, {"type": "password"}),
        (kinds.API_KEY, {}),
        (kinds.SERVICE_ACCOUNT_CREDENTIAL, {}),
        (kinds.PROVIDER, None),
    ],
)
def test_a_kind_knows_which_creates_return_a_one_time_secret(
    kind: Kind, members: dict[str, str] | None
) -> None:
    """Members that such a body has: none where every create returns a secret, None where no create does."""
    assert kind.one_time_secret == members


def test_the_schema_says_which_creates_return_a_one_time_secret() -> None:
    """The reconciler reads `shown_once` from the manifest schema; kinds without such a secret have none."""
    told = {name: schema["x-zonewright"].get("shown_once") for name, schema in manifest_schemas().items()}

    assert {name: members for name, members in told.items() if members is not None} == {
        "ApplicationCredential": {"type": "password"}
    }


def test_a_policy_has_its_text_or_the_file_of_its_text() -> None:
    """A manifest of a policy has exactly one of `cedar` and `cedar_file`, and requires nothing else."""
    spec = manifest_schemas()["Policy"]["properties"]["spec"]

    assert spec["oneOf"] == [{"required": ["cedar"]}, {"required": ["cedar_file"]}]
    assert "required" not in spec


def test_only_names_that_are_not_in_git_stay_in_the_manifest() -> None:
    """`x-local` marks the members that the reconciler reads and never sends."""
    spec = manifest_schemas()["Policy"]["properties"]["spec"]

    assert [name for name, member in spec["properties"].items() if member.get("x-local")] == [
        "external_names"
    ]
