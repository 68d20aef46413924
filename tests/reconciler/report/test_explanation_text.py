"""Explanations as text: the first line, and which scopes policies leave out, and why."""

from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.report.explanations import explanation_lines
from reconciler.terminal import plain

RULE = {"policy_version_id": "v", "policy": "office", "rule": "no-writing", "source": None}
FORBIDDEN = "  left out: `write`, forbidden by "
NOT_PERMITTED = "  left out: `erase`, which no policy permits"


def hop_of(application: str, **members: Any) -> dict[str, Any]:
    """An exchange that is allowed, but for these members."""
    return {
        "application": application,
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


def lines_of(
    *hops: dict[str, Any], via: Sequence[str] = (), user: str | None = "ada@acme.example"
) -> list[str]:
    """The text of an explanation of what `mail` gets, or what comes first in its chain."""
    asked = {"application": "mail", "resource": "https://mail.test", "via": list(via)}
    allowed = len(hops) > len(via) and all(each["allowed"] for each in hops)
    return [
        plain(line) for line in explanation_lines({"hops": hops, "allowed": allowed, "user": user}, asked)
    ]


def left_out(**members: Any) -> list[str]:
    """What the text of an explanation says of scopes that are left out."""
    return [each for each in lines_of(hop_of("mail", **members)) if "left out" in each]


CHAIN = "`https://mail.test` for `ada@acme.example` through `web` and `desk`"
REFUSED: dict[str, Any] = {
    "allowed": False,
    "error": "access_denied",
    "reason": "policy_denied",
    "scopes": [],
}


@pytest.mark.parametrize(
    ("hops", "told"),
    [
        (
            [hop_of("web"), hop_of("desk"), hop_of("mail", resource="https://mail.test")],
            f"allowed: `mail` gets {CHAIN} with `read`",
        ),
        (
            [hop_of("web"), hop_of("desk"), hop_of("mail", resource="https://mail.test", **REFUSED)],
            f"refused: `mail` does not get {CHAIN}: access_denied",
        ),
        (
            [hop_of("web"), hop_of("desk", **REFUSED)],
            f"refused: `mail` does not get {CHAIN}: access_denied, in the exchange of `desk`",
        ),
        (
            [hop_of("web", **{**REFUSED, "error": "unknown", "reason": "`desk` provides no resource"})],
            f"refused: `mail` does not get {CHAIN}: `desk` provides no resource, in the exchange of `web`",
        ),
    ],
    ids=["allowed", "refused at last", "refused between", "no error of an exchange"],
)
def test_the_first_line_names_the_whole_chain(hops: list[dict[str, Any]], told: str) -> None:
    """Who asks last, for what, and through whom; and whose exchange is refused, where that is another's."""
    assert lines_of(*hops, via=["web", "desk"])[0] == told


def test_without_a_chain_the_first_line_names_none() -> None:
    """For a user, and for the application itself."""
    hop = hop_of("mail", resource="https://mail.test")

    whom = "`mail` gets `https://mail.test` for"
    assert lines_of(hop)[0] == f"allowed: {whom} `ada@acme.example` with `read`"
    assert lines_of(hop, user=None)[0] == f"allowed: {whom} itself with `read`"


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
