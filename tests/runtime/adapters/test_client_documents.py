"""Documents of clients: what their headers are worth, and for how long a failure counts."""

import asyncio
from datetime import UTC, datetime

import pytest

from runtime.adapters.client_documents import ClientDocuments, lifetime_of
from runtime.adapters.outbound import Fetched, OutboundFailed

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 300),
        ({"cache-control": "max-age=600"}, 600),
        ({"cache-control": "public, Max-Age=600", "age": "100"}, 500),
        ({"cache-control": 'max-age="600"'}, 600),
        ({"cache-control": "max-age=1"}, 30),
        ({"cache-control": "max-age=99999999999999999999"}, 30),
        ({"cache-control": "max-age=31536000"}, 86_400),
        ({"cache-control": "no-store"}, 30),
        ({"cache-control": "max-age=600, no-cache"}, 30),
        ({"cache-control": "max-age=soon"}, 30),
        ({"expires": "Thu, 01 Jan 2026 00:10:00 GMT"}, 600),
        ({"expires": "0"}, 30),
        ({"expires": "Thu, 01 Jan 2026 00:10:00 GMT", "cache-control": "max-age=60"}, 60),
    ],
)
def test_headers_count_within_bounds(headers, seconds):
    """From half a minute to a day, whatever a site says."""
    assert lifetime_of(headers, NOW) == seconds


class Site:
    """Stands in for the guarded client: answers in turn, and counts."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    async def get_json(self, url, *, max_bytes, partition):
        self.asked += 1
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Fetched(answer, {"cache-control": "max-age=60"})


@pytest.mark.threat("7aa")
async def test_what_failed_is_tried_again():
    """At once by who wants it new; who takes what is remembered is told of the failure for seconds."""
    now = [0.0]
    site = Site(OutboundFailed("no", temporary=True), ["no object"], {"a": 1})
    documents = ClientDocuments(site, clock=lambda: now[0])
    address = "https://a.example/c"

    for remembered, asked in ((False, 1), (False, 2), (True, 2)):
        with pytest.raises(OutboundFailed):
            await documents.get(address, partition="z", remembered=remembered)
        assert site.asked == asked
    now[0] = 31
    assert (await documents.get(address, partition="z")).document == {"a": 1}
    assert site.asked == 3


async def test_who_asks_together_shares_one_answer():
    """Many at once are one fetch; later ones use it while it lasts, unless they want it new."""
    now = [0.0]
    site = Site({"a": 1})
    documents = ClientDocuments(site, clock=lambda: now[0])
    address = "https://a.example/c"

    await asyncio.gather(*(documents.get(address, partition="z", remembered=False) for _ in range(10)))
    assert site.asked == 1
    now[0] = 59
    await documents.get(address, partition="z")
    assert site.asked == 1
    await documents.get(address, partition="z", remembered=False)
    assert site.asked == 2
    now[0] = 120
    await documents.get(address, partition="z")
    assert site.asked == 3
