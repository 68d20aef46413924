"""Explanations as text: which scopes policies leave out, and why."""

from typing import Any

import pytest

from reconciler.report.explanations import explanation_lines

RULE = {"policy_version_id": "v", "policy": "office", "rule": "no-writing", "source": None}
FORBIDDEN = "  left out: `write`, forbidden by "
NOT_PERMITTED = "  left out: `erase`, which no policy permits"


def left_out(**members: Any) -> list[str]:
    """What the text of an explanation says of scopes that are left out."""
    hop = {
        "application": "agent",
        "resource": "https://api.test",
        "allowed": True,
        "steps": [],
        "scopes": ["read"],
        "policies": [],
        "remedies": [],
        "left_out": [],
        "left_out_by": [],
        **members,
    }
    lines = explanation_lines({"hops": [hop], "allowed": True, "user": "ada@acme.example"})
    found = ["".join(str(getattr(part, "text", part)) for part in line) for line in lines]
    return [each for each in found if "left out" in each]


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({}, []),
        ({"left_out": ["write"], "left_out_by": [RULE], "unpermitted": []}, [FORBIDDEN]),
        ({"left_out": ["erase"], "unpermitted": ["erase"]}, [NOT_PERMITTED]),
        (
            {"left_out": ["erase", "write"], "left_out_by": [RULE], "unpermitted": ["erase"]},
            [FORBIDDEN, NOT_PERMITTED],
        ),
        ({"left_out": ["erase"]}, [NOT_PERMITTED]),
    ],
    ids=["none", "forbidden", "not permitted", "both", "a server that does not tell them apart"],
)
def test_forbidden_scopes_are_told_from_those_that_no_policy_permits(
    members: dict[str, Any], told: list[str]
) -> None:
    """A rule is named for those that it forbids, and for no others."""
    found = left_out(**members)

    assert [each[: len(start)] for each, start in zip(found, told, strict=True)] == told
    assert sum("no-writing" in each for each in found) == (FORBIDDEN in told)
