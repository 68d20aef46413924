"""Answers: what is left to the encoder is written as a part of an answer has it."""

from datetime import UTC, datetime

import orjson
import pytest
from tests.support import entities as make

from runtime.contract.answers import answer, encoded, part_answer
from runtime.domain.kinds import APPLICATION
from runtime.domain.kinds.values import rfc3339

_ZONE = make.zone(make.organization())


@pytest.mark.parametrize(
    "instant",
    [
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
def test_an_instant_is_written_as_rfc_3339(instant):
    """With a `Z`, and a fraction of six digits where there is one."""
    assert encoded(instant) == orjson.dumps(rfc3339(instant))


@pytest.mark.parametrize("expands", [(), ("permissions",)], ids=str)
def test_an_entity_is_written_as_any_other_part(expands):
    """Times, enumerations, lists of them, objects, and members without a value."""
    application = make.application(
        _ZONE,
        traits=["gateway", "ai-agent"],
        protocols={"oauth2": {"redirect_uris": ["https://a.example/callback"]}},
    )

    assert encoded(answer(APPLICATION, application, expands)) == orjson.dumps(
        part_answer(application, expands)
    )
