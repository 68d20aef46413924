"""docs/threats.md and the tests that prove its attacks, letter by letter."""

from tests.support.proofs import (
    THREATS,
    attacks,
    between,
    in_order,
    marked,
    not_proven,
    proven_threats,
    split,
    threats,
)

# The last letter that each row had when it was last added to: a name is for ever, so none goes away.
LAST = """
0e 1d 2e 3d 4g 5p 6l 7ae 8n 9e 10l 11j 12f 13o 14d 15d 16f 17g 18o 19f 20f 21e 22g 23g 24h 25i 26k 27p 28s 29j
30j 31z 32j 33g 34f 35i 36h 37e 38m 39h 40l 41l 42f 43k 44c 45f 46m 47k 48l 49t 50c
"""
# Letters of each row that had no test when that was last looked at. The document lists no more, and when it
# lists less this follows: a row or a letter that is new comes with its test.
NOT_PROVEN_AT_MOST = """
20abcde 35d 38d 43hik 44abc 46h 48gh
"""
REASONS = ("unproven", "waits for delegated access", "waits for a later change of `zonectl`")


def test_rows_and_letters_have_no_gap():
    """A name is for ever: rows and letters are only added at the end."""
    assert list(threats()) == list(range(len(threats())))
    last = dict(map(split, LAST.split()))
    assert threats() == {
        row: [_letter(number) for number in range(len(letters))] for row, letters in threats().items()
    }
    assert not [
        f"row {row} has lost a letter"
        for row, letters in threats().items()
        if in_order(letters[-1]) < in_order(last[row])
    ]


def _letter(number: int) -> str:
    """0 is `a`, 25 is `z`, 26 is `aa`."""
    first, last = divmod(number, 26)
    return (chr(ord("a") + first - 1) if first else "") + chr(ord("a") + last)


def test_every_mark_names_an_attack():
    """`@pytest.mark.threat("7ab")` is letter (ab) of row 7, and stands on one test."""
    unknown = {str(name) for name in marked("threat")} - set(attacks())
    assert not unknown, f"marked, but not in docs/threats.md: {', '.join(sorted(unknown))}"
    assert not [
        f"{proof.file} marks more than one test with {name}"
        for name, proofs in marked("threat").items()
        for proof in proofs
        if not proof.test.startswith("test_")
    ]


def test_every_attack_is_proven_or_listed():
    """Each letter has a test, or the document says that it has none; it never says so of one that has."""
    proven, listed = marked("threat").keys(), not_proven().keys()
    silent = [name for name in attacks() if name not in proven and name not in listed]
    assert not silent, f"neither a test nor a line under `Not proven yet`: {', '.join(silent)}"
    both = [name for name in attacks() if name in proven and name in listed]
    assert not both, f"proven now, so take these out of `Not proven yet`: {', '.join(both)}"
    assert listed <= set(attacks())


def test_what_is_not_proven_gets_less():
    """No letter comes to the list that was not there before; each has its reason."""
    allowed = dict(map(split, NOT_PROVEN_AT_MOST.split()))
    reasons = not_proven()
    split_names = [split(name) for name in reasons]
    assert not [
        f"{row}{letter} needs a test" for row, letter in split_names if letter not in allowed.get(row, "")
    ]
    assert not [f"{name}: {reason}" for name, reason in reasons.items() if not reason.startswith(REASONS)]


def test_the_document_lists_what_is_proven():
    """Readers see which tests prove which attack, and the list is true."""
    assert between(THREATS.read_text("utf-8"), "proven") == proven_threats()
