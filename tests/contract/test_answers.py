"""Response schemas of the management API: the members of each kind, and secrets in none of them."""

from datetime import UTC, datetime
from typing import Any

from runtime.contract.answers import answer, part_answer
from runtime.domain import kinds
from runtime.domain.kinds.organization import ServiceAccountCredential
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import (
    FederationCredential,
    Group,
    RoleAssignment,
    User,
    UserPasswordCredential,
)
from runtime.domain.kinds.values import PrincipalType

NOW = datetime(2026, 11, 21, 8, 0, 0, 123000, tzinfo=UTC)
ZONED = {"id": "e", "created_at": NOW, "updated_at": NOW, "organization_id": "o", "zone_id": "z"}


def provider(**members: Any) -> Provider:
    """A provider."""
    return Provider(**{**ZONED, "identifier": "https://x", "name": "X", "slug": "x", **members})


def test_absent_members_are_left_out() -> None:
    """Optional members without a value do not appear; times end in Z."""
    assert answer(kinds.PROVIDER, provider()) == {
        "id": "e",
        "created_at": "2026-11-21T08:00:00.123000Z",
        "updated_at": "2026-11-21T08:00:00.123000Z",
        "organization_id": "o",
        "zone_id": "z",
        "identifier": "https://x",
        "name": "X",
        "slug": "x",
        "owner_type": "customer",
        "type": "external",
        "client_secret_set": False,
    }


def test_sealed_members_only_tell_that_they_are_set() -> None:
    """Not even the sealed bytes leave the service."""
    shown = answer(kinds.PROVIDER, provider(client_secret=b"sealed"))
    assert shown["client_secret_set"] is True
    assert "client_secret" not in shown


def test_required_members_without_a_value_are_null() -> None:
    """A member that is always there says null."""
    assignment = RoleAssignment(
        **ZONED,
        principal_id="p",
        principal_type=PrincipalType.USER,
        role_id="r",
        role_identifier="x",
        role_owner_type="customer",
        scope_id=None,
        scope_type=None,
    )
    shown = answer(kinds.ROLE_ASSIGNMENT, assignment)
    assert shown["scope_id"] is None
    assert "organization_id" not in shown
    assert "revision" not in shown


def test_expanded_members_need_the_expand() -> None:
    """What was worked out for somebody else does not slip out."""
    group = Group(**ZONED, identifier="g", name="G", member_count=0, roles=[])
    assert "member_count" not in answer(kinds.GROUP, group)
    shown = answer(kinds.GROUP, group, {"member_count", "total_count"})
    assert shown["member_count"] == 0
    assert "roles" not in shown


def test_expand_of_an_inner_member_brings_the_outer() -> None:
    """`credentials.provider` is credentials, with their provider by the same rules."""
    credential = FederationCredential(
        created_at=NOW,
        updated_at=NOW,
        type="federation",
        issuer="https://corp.example",
        subject="ada",
        provider_id="p",
        provider=provider(),
    )
    user = User(**ZONED, identifier="u", email="u@example.org", credentials=[credential])
    assert "credentials" not in answer(kinds.USER, user)
    assert "provider" not in answer(kinds.USER, user, {"credentials"})["credentials"][0]
    shown = answer(kinds.USER, user, {"credentials.provider"})["credentials"][0]
    assert shown["provider"]["client_secret_set"] is False


def test_secrets_are_shown_by_the_answer_that_made_them() -> None:
    """A hash is never shown; the clear text stands only beside the answer of the create."""
    credential = ServiceAccountCredential(
        id="c",
        created_at=NOW,
        updated_at=NOW,
        organization_id="o",
        service_account_id="s",
        client_id="k",
        name="K",
        secret_hash=b"hash",
    )
    shown = answer(kinds.SERVICE_ACCOUNT_CREDENTIAL, credential, (), {"client_secret": "once"})
    assert shown == {
        "id": "c",
        "created_at": "2026-11-21T08:00:00.123000Z",
        "client_id": "k",
        "name": "K",
        "client_secret": "once",
    }


def test_parts_follow_the_same_rules() -> None:
    """Objects that are no entities are shown alike."""
    credential = UserPasswordCredential(created_at=NOW, updated_at=NOW, type="password")
    assert set(part_answer(credential)) == {"created_at", "updated_at", "type"}
