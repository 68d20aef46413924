"""Log lines: renamed events keep their former names for one release, and repeated warnings are throttled."""

import ast
from pathlib import Path

import pytest
from tests.support.logs import logged_lines

from runtime.logs import RENAMED_EVENTS, ThrottledWarnings, add_former_event

SOURCE = Path(__file__).resolve().parents[2] / "src" / "runtime"


def test_a_renamed_event_carries_its_former_name() -> None:
    """An alert on the former name of an event finds the line for one more release."""
    assert add_former_event(None, "error", {"event": "due jobs not read", "reason": "away"}) == {
        "event": "due jobs not read",
        "reason": "away",
        "renamed_from": "jobs not looked at",
    }


def test_an_event_that_was_not_renamed_has_no_former_name() -> None:
    """Most lines are as they were."""
    assert add_former_event(None, "info", {"event": "ready"}) == {"event": "ready"}


@pytest.mark.parametrize("event", RENAMED_EVENTS)
def test_a_renamed_event_is_still_logged(event: str) -> None:
    """The table names no event that the source has lost."""
    constants = {
        node.value
        for path in SOURCE.rglob("*.py")
        if path.name != "logs.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
    }
    assert event in constants


def test_a_repeated_warning_is_logged_once() -> None:
    """What every request meets is one line, not one a request."""
    warnings = ThrottledWarnings()
    with logged_lines() as lines:
        for _ in range(3):
            warnings.warn("not available", reason="no database")
    assert [line["event"] for line in lines] == ["not available"]


def test_a_warning_for_another_reason_is_logged_too() -> None:
    """The throttle is for one event with one reason."""
    warnings = ThrottledWarnings()
    with logged_lines() as lines:
        for reason in ("no database", "no redis"):
            warnings.warn("not available", reason=reason)
    assert [line["reason"] for line in lines] == ["no database", "no redis"]


def test_a_warning_about_another_provider_is_logged_too() -> None:
    """What one provider does hides nothing that another does."""
    warnings = ThrottledWarnings()
    with logged_lines() as lines:
        for provider in ("one", "other", "one"):
            warnings.warn("no tokens", reason="unavailable", about=provider, provider=provider)
    assert [line["provider"] for line in lines] == ["one", "other"]
