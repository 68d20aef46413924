"""Request bodies of the management API: their members, and the refusal of an invalid one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.contract.bodies import (
    apply_patch,
    create_body,
    patch_body,
    read,
    read_body,
    settable,
)
from runtime.contract.bodies.written import AssignmentBody
from runtime.domain import kinds
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import Kind, Verb
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.zone import Zone, addresses

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def zone(**changes: Any) -> Zone:
    """A zone with default settings."""
    decided = {"id": "z", "created_at": NOW, "updated_at": NOW, "organization_id": "o", "slug": "acme"}
    protocols = addresses("https://host/z/1", "https://host", "/z/1")
    return Zone(**{**decided, "name": "Acme", "protocols": protocols, **changes})


def in_zone(**members: Any) -> dict[str, Any]:
    """The members that every entity of a zone has, and these."""
    return {
        "id": "e",
        "created_at": NOW,
        "updated_at": NOW,
        "organization_id": "o",
        "zone_id": "z",
        "slug": "e",
        "identifier": "https://e",
        "name": "E",
        **members,
    }


def problems(kind: Kind, raw: Any, verb: Verb = Verb.CREATE, type_: str | None = None) -> dict[str, str]:
    """What is wrong with a body: field -> message."""
    with pytest.raises(ValidationFailed) as refused:
        read_body(kind, raw, verb, type_)
    return {problem.field or "": problem.message for problem in refused.value.problems}


CREATE_MEMBERS = {
    "Organization": "name",
    "ServiceAccount": "name description",
    "ServiceAccountCredential": "name description role owner zones expires_in_seconds",
    "Zone": "default_mcp_gateway_application organization_id name protocols description encryption_key"
    " requires_invitation",
    "Provider": "identifier name client_id client_secret description metadata protocols",
    "Application": "identifier name consent description metadata protocols traits accountable_user_id"
    " accountable_group_id dependencies",
    "Resource": "identifier name application_id application_type credential_lifetime_seconds"
    " credential_provider_id description metadata prefix scopes",
    "Role": "identifier description",
    "Group": "identifier name",
    "Policy": "name description absent_names",
    "PolicyVersion": "schema_version cedar_raw cedar_json",
    "PolicySet": "scope_type name target_type",
    "PolicySetVersion": "schema_version manifest",
    "Secret": "data entity_id name description metadata zone_id",
}

PATCH_MEMBERS = {
    "Organization": "name",
    "ServiceAccount": "name description",
    "ServiceAccountCredential": "name description",
    "Zone": "name protocols description default_mcp_gateway_application_id default_resource_id"
    " encryption_key external_sync_enabled requires_invitation user_identity_provider_id",
    "Provider": "identifier name client_id client_secret description metadata protocols",
    "Application": "identifier name consent description metadata protocols traits accountable_user_id"
    " accountable_group_id",
    "Resource": "identifier name application_id application_type credential_lifetime_seconds"
    " credential_provider_id description metadata prefix scopes",
    "User": "identifier email status",
    "Role": "description",
    "Group": "identifier name",
    "Policy": "name description absent_names",
    "PolicySet": "name",
    "PolicySetVersion": "active",
    "Secret": "data name description metadata",
}


@pytest.mark.parametrize(("name", "members"), CREATE_MEMBERS.items())
def test_members_of_a_create(name: str, members: str) -> None:
    """The body of a create has what the caller decides, and nothing that is set later."""
    assert set(create_body(kinds.BY_NAME[name]).model_fields) == set(members.split())


@pytest.mark.parametrize(("name", "members"), PATCH_MEMBERS.items())
def test_members_of_an_update(name: str, members: str) -> None:
    """The body of an update has what can change, and nothing that is fixed at creation."""
    assert set(patch_body(kinds.BY_NAME[name]).model_fields) == set(members.split())


@pytest.mark.parametrize(
    ("data", "field", "message"),
    [
        ({}, "data.type", "is required"),
        ({"type": "key"}, "data.type", "must be one of `token`, `password`"),
        ({"type": "token"}, "data.token", "is required"),
        ({"type": "token", "token": ""}, "data.token", "must not be empty"),
        (
            {"type": "password", "username": "u", "password": "p", "token": "t"},
            "data.token",
            "unknown member `token`",
        ),
        (None, "data", "must be an object"),
    ],
)
def test_a_choice_of_objects_is_told_in_the_words_of_the_body(data: Any, field: str, message: str) -> None:
    """Which of several objects was meant stands in the body once, and once in the place that is told."""
    assert problems(kinds.SECRET, {"entity_id": "e", "name": "n", "data": data}) == {field: message}


def test_parts_lose_what_the_service_decides() -> None:
    """The settings of a zone are the caller's; the addresses beside them are not."""
    assert problems(kinds.ZONE, {"name": "x", "protocols": {"oauth2": {"issuer": "https://x"}}}) == {
        "protocols.oauth2.issuer": "is read-only"
    }


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.UPDATE])
@pytest.mark.parametrize("kind", [kind for kind in kinds.ALL if kind.verbs], ids=lambda kind: kind.name)
def test_settable_never_has_members_of_the_service(kind: Kind, verb: Verb) -> None:
    """No kind lets a caller write ids, times, slugs or owners."""
    taken = {member for entity in kind.classes for member in settable(entity, verb)}
    assert not taken & {"id", "created_at", "updated_at", "slug", "owner_type", "zone_id", "revision"}


def test_every_problem_is_told() -> None:
    """One answer tells everything that is wrong, each with its place."""
    raw = {
        "name": "<b>",
        "slug": "mine",
        "client_secrt": "x",
        "client_secret_set": True,
        "metadata": {"icon_url": "nowhere"},
        "protocols": {"oauth2": {"isuer": "https://x", "scopes_supported": ["a", 3]}},
    }
    assert problems(kinds.PROVIDER, raw) == {
        "identifier": "is required",
        "name": "must not have HTML tags or control characters",
        "slug": "is read-only",
        "client_secrt": "unknown member `client_secrt`; did you mean `client_secret`?",
        "client_secret_set": "is read-only",
        "metadata.icon_url": "must be an absolute URI",
        "protocols.oauth2.isuer": "unknown member `isuer`; did you mean `issuer`?",
        "protocols.oauth2.scopes_supported[1]": "must be a string",
    }


@pytest.mark.parametrize("text", ["a < b", "a <= b > c", "1 <2", "<", "<<", "<3"])
def test_a_comparison_is_no_html_tag(text: str) -> None:
    """A tag begins with `<` and a letter, `/`, `!` or `?`."""
    assert read_body(kinds.ROLE, {"description": text}, Verb.UPDATE) == {"description": text}


@pytest.mark.deviation("plain-text")
@pytest.mark.parametrize("text", ["a<b", "</b", "<!-- x", "<?php", "<<script", "a\nb", "<\n", "a\n"])
def test_html_tags_and_control_characters_are_refused(text: str) -> None:
    """Such a text could not be shown without surprises."""
    told = problems(kinds.ROLE, {"description": text}, Verb.UPDATE)
    assert told == {"description": "must not have HTML tags or control characters"}


@pytest.mark.parametrize(
    ("kind", "raw", "field", "message"),
    [
        (kinds.RESOURCE, {"prefix": "true"}, "prefix", "must be true or false"),
        (kinds.RESOURCE, {"prefix": None}, "prefix", "must be true or false"),
        (kinds.RESOURCE, {"name": None}, "name", "must be a string"),
        (kinds.RESOURCE, {"name": ""}, "name", "must not be empty"),
        (kinds.RESOURCE, {"name": "x" * 256}, "name", "must have at most 255 characters"),
        (
            kinds.RESOURCE,
            {"credential_lifetime_seconds": 0},
            "credential_lifetime_seconds",
            "must be at least 1",
        ),
        (
            kinds.RESOURCE,
            {"credential_lifetime_seconds": 1.5},
            "credential_lifetime_seconds",
            "must be an integer",
        ),
        (kinds.RESOURCE, {"application_type": "x"}, "application_type", "must be one of `native` or `web`"),
        (kinds.RESOURCE, {"scopes": ["a", ""]}, "scopes[1]", "must not be empty"),
        (
            kinds.RESOURCE,
            {"scopes": ["a", "b c"]},
            "scopes[1]",
            "must be a scope of visible ASCII characters, without spaces, double quotes, backslashes or `<>`",
        ),
        (kinds.RESOURCE, {"scopes": ["a", "b", "a"]}, "scopes", "must not have `a` twice"),
        (kinds.RESOURCE, {"when_accessing": []}, "when_accessing", "is read-only"),
        (kinds.SERVICE_ACCOUNT, {"description": None}, "description", "must be a string"),
        (kinds.POLICY, {"description": None}, "description", "must be a string"),
        (kinds.ROLE, {"identifier": "x"}, "identifier", "is read-only"),
        (kinds.USER, {"email": "nobody"}, "email", "must be an e-mail address"),
        (kinds.ROLE, {"description": "<b>"}, "description", "must not have HTML tags or control characters"),
        (kinds.POLICY_SET_VERSION, {"active": False}, "active", "must be True"),
    ],
)
def test_an_update_with_a_wrong_value_is_refused(
    kind: Kind, raw: dict[str, Any], field: str, message: str
) -> None:
    """Nothing is converted, and null clears only what can be absent."""
    assert problems(kind, raw, Verb.UPDATE) == {field: message}


def test_null_puts_back_what_the_service_makes_up() -> None:
    """A provider's issuer follows its identifier again."""
    patch = {"protocols": {"oauth2": {"issuer": None}}}
    assert read_body(kinds.PROVIDER, patch, Verb.UPDATE, "external") == patch


@pytest.mark.parametrize("raw", [None, [], "x", 1])
def test_body_must_be_an_object(raw: Any) -> None:
    """A body of another JSON type has no members to name."""
    with pytest.raises(ValidationFailed, match="must be a JSON object"):
        read_body(kinds.GROUP, raw)


def test_text_that_is_not_unicode_is_refused() -> None:
    """A lone surrogate can be written in JSON but stored nowhere."""
    with pytest.raises(ValidationFailed, match="not valid Unicode"):
        read_body(kinds.GROUP, {"name": "\ud800"})


def test_late_members_are_set_by_an_update() -> None:
    """A zone cannot name its own children before they exist."""
    assert problems(kinds.ZONE, {"name": "x", "default_resource_id": "r", "external_sync_enabled": True}) == {
        "default_resource_id": "cannot be set at creation; set it by an update",
        "external_sync_enabled": "cannot be set at creation; set it by an update",
    }


def test_secret_is_clear_text_in_the_result_and_nowhere_else() -> None:
    """A secret is read once; the body that held it does not show it, and neither does a refusal."""
    raw = {"identifier": "https://x", "name": "x", "client_secret": "do-not-print"}
    assert read_body(kinds.PROVIDER, raw)["client_secret"] == "do-not-print"
    assert "do-not-print" not in repr(create_body(kinds.PROVIDER).model_validate(raw))
    with pytest.raises(ValidationFailed) as refused:
        read_body(kinds.PROVIDER, {**raw, "client_secret": ["do-not-print"]})
    assert "do-not-print" not in f"{refused.value!r} {refused.value.detail} {refused.value.problems}"


def test_create_leaves_out_null() -> None:
    """At creation null says the same as nothing."""
    raw = {"identifier": "x", "name": "x", "description": None, "metadata": {}}
    assert read_body(kinds.RESOURCE, raw) == {"identifier": "x", "name": "x"}


def test_members_that_the_service_makes_are_optional() -> None:
    """Groups, credentials and issuers come without an identifier."""
    assert read_body(kinds.GROUP, {"name": "x"}) == {"name": "x"}
    made = {"application_id": "a", "type": "public"}
    assert read_body(kinds.APPLICATION_CREDENTIAL, made) == made


@pytest.mark.parametrize(
    ("raw", "field", "message"),
    [
        ({"application_id": "a"}, "type", "is required"),
        (
            {"application_id": "a", "type": "other"},
            "type",
            "must be one of `password`, `public`, `token`, `public-key`, `url`",
        ),
        ({"application_id": "a", "type": "url"}, "identifier", "is required"),
        ({"application_id": "a", "type": "token"}, "provider_id", "is required"),
        (
            {"application_id": "a", "type": "token", "provider_id": "p", "identifier": "x"},
            "identifier",
            "is read-only",
        ),
        ({"application_id": "a", "type": "public-key"}, "jwks_uri", "is required"),
        ({"type": "public"}, "application_id", "is required"),
    ],
)
def test_members_of_another_type_of_credential_are_refused(
    raw: dict[str, Any], field: str, message: str
) -> None:
    """The type decides which members there are."""
    assert problems(kinds.APPLICATION_CREDENTIAL, raw) == {field: message}


def test_update_of_a_credential_may_repeat_its_type() -> None:
    """The type cannot change; saying it again is not a change."""
    credential = kinds.APPLICATION_CREDENTIAL
    raw = {"identifier": "x", "type": "public"}
    assert read_body(credential, raw, Verb.UPDATE, "public") == {"identifier": "x"}
    assert problems(credential, raw, Verb.UPDATE, "password") == {"type": "cannot change: it is `password`"}
    assert problems(credential, {"identifier": "x"}, Verb.UPDATE, "password") == {
        "identifier": "is read-only"
    }


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.UPDATE])
def test_vendor_spelling_of_the_key_type_is_accepted(verb: Verb) -> None:
    """Older clients send `aws`; `cloud` is stored."""
    arn = "arn:aws:kms:eu-west-1:111122223333:key/1"
    raw: dict[str, Any] = {"name": "x", "encryption_key": {"arn": arn, "type": "aws"}}
    assert read_body(kinds.ZONE, raw, verb)["encryption_key"] == {"arn": arn, "type": "cloud"}


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"role_id": "r", "role_identifier": "x", "owner_type": "customer"},
        {"role_identifier": "x"},
        {"role_id": "r", "owner_type": "customer"},
        {"role_id": "r", "scope_id": "s"},
        {"role_id": "r", "scope_type": "zone"},
        {"role_id": "r", "role": "x"},
    ],
)
def test_an_assignment_that_names_its_role_otherwise_than_once_is_refused(raw: dict[str, Any]) -> None:
    """A role is named in exactly one way."""
    with pytest.raises(ValidationFailed):
        read(AssignmentBody, raw)


def test_patch_merges_parts_and_keeps_addresses() -> None:
    """Members that an update does not name stay, inside parts too."""
    changed = apply_patch(kinds.ZONE, zone(), {"protocols": {"oauth2": {"dcr_enabled": False}}})
    assert changed.protocols.oauth2.dcr_enabled is False
    assert changed.protocols.oauth2.issuer == "https://host/z/1"
    assert changed.protocols.oauth2.pkce_required is True


def test_null_puts_defaults_back() -> None:
    """Null inside a part, or for a part the service shares, means the default."""
    strict = apply_patch(
        kinds.ZONE, zone(), {"protocols": {"oauth2": {"dcr_enabled": False, "cimd": {"enabled": True}}}}
    )
    assert apply_patch(kinds.ZONE, strict, {"protocols": {"oauth2": {"dcr_enabled": None}}}) == apply_patch(
        kinds.ZONE, zone(), {"protocols": {"oauth2": {"cimd": {"enabled": True}}}}
    )
    assert apply_patch(kinds.ZONE, strict, {"protocols": None}) == zone()


@pytest.mark.parametrize("patch", [None, {}, {"docs_url": None}])
def test_metadata_without_members_is_dropped(patch: Any) -> None:
    """Null and `{}` drop the whole object."""
    application = Application(**in_zone(metadata={"docs_url": "https://docs"}))
    cleared = {"docs_url": None} if patch else patch
    changed = apply_patch(kinds.APPLICATION, application, {"metadata": cleared})
    assert changed.metadata is None or (patch == {} and changed == application)


def test_maps_merge_by_key() -> None:
    """RFC 7396 holds inside maps: null removes a key."""
    oauth2 = {"issuer": "https://x", "authorization_parameters": {"a": "1", "b": "2"}}
    provider = Provider(**in_zone(protocols={"oauth2": oauth2}))
    patch = {"protocols": {"oauth2": {"authorization_parameters": {"a": None, "c": "3"}}}}
    changed = apply_patch(kinds.PROVIDER, provider, patch)
    assert changed.protocols is not None
    assert changed.protocols.oauth2 is not None
    assert changed.protocols.oauth2.authorization_parameters == {"b": "2", "c": "3"}


@pytest.mark.threat("8j")
def test_whole_entity_is_validated_again() -> None:
    """What single members cannot show is found in the result."""
    patch = {"protocols": {"oauth2": {"cimd": {"allowed_client_ids": ["https://*.*.x"]}}}}
    with pytest.raises(ValidationFailed) as refused:
        apply_patch(kinds.ZONE, zone(), patch)
    assert refused.value.problems[0].field == "protocols.oauth2.cimd.allowed_client_ids"


def test_clear_text_is_never_stored() -> None:
    """Handing over a secret that is not sealed is a bug, and stops."""
    with pytest.raises(TypeError, match="must be sealed"):
        apply_patch(kinds.PROVIDER, Provider(**in_zone()), {"client_secret": "clear"})
