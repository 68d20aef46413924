"""docs/standards.md and the tests that prove its lines."""

import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from tests.support.drafts import HALF_A_YEAR, outdated, warning
from tests.support.proofs import STANDARDS_PAGE, between, marked, standards_table
from tests.support.standards import STANDARDS, Draft, Standard


def test_every_mark_names_a_standard():
    """`@pytest.mark.standard(name)` means a line of the table."""
    assert marked("standard").keys() <= {standard.name for standard in STANDARDS}


def test_the_table_follows_from_the_marks():
    """Readers see which tests prove a standard, and the table is true."""
    assert between(STANDARDS_PAGE.read_text("utf-8"), "standards") == standards_table()


def test_every_draft_that_the_page_names_has_a_revision_and_a_date():
    """So that none grows old unseen."""
    named = set(
        re.findall(r"datatracker\.ietf\.org/doc/(draft-[a-z0-9-]+)", STANDARDS_PAGE.read_text("utf-8"))
    )
    dated = {each.draft.name for each in STANDARDS if each.draft is not None}

    assert named == dated != set()


PUBLISHED = date(2026, 1, 31)
DRAFT = Draft("draft-example", "03", PUBLISHED)


@pytest.mark.parametrize(
    ("days", "expected"),
    [(0, []), (HALF_A_YEAR.days, []), (HALF_A_YEAR.days + 1, [DRAFT]), (4000, [DRAFT])],
    ids=["new", "half a year", "a day more", "years"],
)
def test_a_draft_is_old_after_half_a_year(days: int, expected: list[Draft]):
    """By the date that is kept here; what is no draft does not grow old."""
    standards = [Standard("RFC 1", "", ""), Standard("Example", "", "", draft=DRAFT)]

    assert list(outdated(standards, PUBLISHED + timedelta(days=days))) == expected


def test_a_draft_without_a_newer_one_is_old_half_a_year_after_somebody_looked():
    """It grows old again from that day."""
    looked = PUBLISHED + HALF_A_YEAR
    standards = [Standard("Example", "", "", draft=replace(DRAFT, looked=looked))]

    assert not list(outdated(standards, looked + HALF_A_YEAR))
    assert list(outdated(standards, looked + HALF_A_YEAR + timedelta(days=1)))


def test_the_warning_says_what_is_old_and_what_to_do():
    """The revision, its date, where the newest is, and the file to change."""
    told = warning(DRAFT)

    assert not [
        said
        for said in (
            "draft-example-03",
            "2026-01-31",
            "datatracker.ietf.org/doc/draft-example/",
            "standards.py",
        )
        if said not in told
    ]
