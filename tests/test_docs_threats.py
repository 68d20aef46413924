"""docs/threats.md and the tests that prove its rows."""

import re

from tests.support.proofs import THREATS, between, marked, proven_threats

# What the service could already face when it first ran; these rows never lose their tests.
ALWAYS = frozenset({1, 2, *range(10, 18), 26, 27})


def rows() -> list[int]:
    """The numbers of the table's rows, in order."""
    return [int(number) for number in re.findall(r"^\| (\d+) \|", THREATS.read_text("utf-8"), re.MULTILINE)]


def test_rows_are_numbered_from_one_without_a_gap():
    """A number is a name: rows are only ever added at the end."""
    assert rows() == list(range(1, len(rows()) + 1))
    assert len(rows()) >= 36


def test_every_mark_names_a_row():
    """`@pytest.mark.threat(n)` means row n of the table."""
    assert marked("threat").keys() <= set(rows())


def test_rows_the_service_already_faces_have_tests():
    """The attacks on what exists today are proven to fail."""
    assert not ALWAYS - marked("threat").keys()


def test_the_document_lists_what_is_proven():
    """Readers see which rows have tests, and the list is true."""
    assert between(THREATS.read_text("utf-8"), "proven") == proven_threats()
