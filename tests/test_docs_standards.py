"""docs/standards.md and the tests that prove its lines."""

from tests.support.proofs import STANDARDS_PAGE, between, marked, standards_table
from tests.support.standards import STANDARDS


def test_every_mark_names_a_standard():
    """`@pytest.mark.standard(name)` means a line of the table."""
    assert marked("standard").keys() <= {standard.name for standard in STANDARDS}


def test_the_table_follows_from_the_marks():
    """Readers see which tests prove a standard, and the table is true."""
    assert between(STANDARDS_PAGE.read_text("utf-8"), "standards") == standards_table()
