"""docs/deviations.md and the tests that prove its rows."""

import pytest
from tests.support.deviations import DEVIATIONS, Deviation
from tests.support.proofs import DEVIATIONS_PAGE, between, deviations_table, marked


def test_every_mark_names_a_deviation():
    """`@pytest.mark.deviation(name)` means a row of the table."""
    assert marked("deviation").keys() <= {deviation.name for deviation in DEVIATIONS}


def test_every_deviation_has_a_name_of_its_own():
    """A mark means one row."""
    names = [deviation.name for deviation in DEVIATIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda deviation: deviation.name)
def test_every_deviation_has_a_test_of_its_own(deviation: Deviation):
    """It is on purpose only where somebody has written down in a test what happens instead."""
    proofs = marked("deviation")
    others = {proof for name, found in proofs.items() if name != deviation.name for proof in found}
    assert set(proofs.get(deviation.name, [])) - others


def test_the_table_follows_from_the_marks():
    """Readers see which tests prove a deviation, and the table is true."""
    assert between(DEVIATIONS_PAGE.read_text("utf-8"), "deviations") == deviations_table()
