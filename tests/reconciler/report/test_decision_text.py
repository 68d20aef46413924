"""Decision records as text: who decided, and whether it was the policies."""

from typing import Any

import pytest

from reconciler.report.decisions import decision_lines

POLICY = {"policy_version_id": "v", "policy": "permit-all", "rule": "everything", "source": None}


def text(**members: Any) -> str:
    """A record with a rule that decided, as text."""
    record: dict[str, Any] = {
        "at": "2026-11-23T06:00:00Z",
        "event": "token_exchange",
        "outcome": "refused",
        "error": "access_denied",
        "reason": "policy_denied",
        "step": None,
        "step_name": None,
        "actors": [],
        "policies": [POLICY],
        "requests": 1,
        "request_id": None,
        "user_agent_id": None,
        **dict.fromkeys(("user", "user_id", "application", "application_id", "resource", "resource_id")),
        **members,
    }
    lines = decision_lines([record], limit=10)
    return "\n".join(
        line if isinstance(line, str) else "".join(str(getattr(part, "text", part)) for part in line)
        for line in lines
    )


def test_a_refusal_by_policy_names_what_forbids() -> None:
    assert "    forbidden by: policy `permit-all`, rule `everything`" in text()


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("0", "rule 1"),
        ("41", "rule 42"),
        ("9" * 5000, f"rule `{'9' * 5000}`"),
        ("٣", "rule `٣`"),
        ("no-writing", "rule `no-writing`"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_rule_without_an_id_is_told_by_its_place(rule: str, told: str) -> None:
    """Which has a few ASCII digits; every other name is an `@id`."""
    assert (
        f"    forbidden by: policy `permit-all`, {told}\n" in f"{text(policies=[{**POLICY, 'rule': rule}])}\n"
    )


@pytest.mark.parametrize("reason", ["an upstream token has expired and cannot be refreshed now", None])
def test_a_refusal_after_the_policies_does_not_blame_them(reason: str | None) -> None:
    """They permitted the exchange; the provider does not answer."""
    shown = text(error="temporarily_unavailable", reason=reason)

    assert "    permitted by: policy `permit-all`, rule `everything`" in shown
    assert "forbidden" not in shown


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"user": "okta-7", "user_email": "ada@acme.example"}, "ada@acme.example (okta-7, u-1)"),
        ({"user": "u-1", "user_email": "ada@acme.example"}, "ada@acme.example (u-1)"),
        ({"user": "okta-7", "user_email": None}, "okta-7 (u-1)"),
        ({"user": "okta-7"}, "okta-7 (u-1)"),
        ({"user": "u-1", "user_email": None}, "u-1"),
        ({"user": None, "user_email": None}, "u-1 (deleted)"),
    ],
    ids=["all", "address", "no address", "a server without addresses", "id alone", "deleted"],
)
def test_a_user_is_shown_by_address_and_id(members: dict[str, Any], told: str) -> None:
    """The address first, as far as it may be read; the id always."""
    assert f"\n    user: {told}" in text(user_id="u-1", **members)
