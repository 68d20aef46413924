"""A real server, on both databases, and a configuration that `zonectl` brings to it."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.real.company import COMPANY, Company
from tests.support.server import Server, another_organization

_numbers = count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def served(request: pytest.FixtureRequest) -> Server:
    """A new organization on a server, over each kind of database in turn."""
    return another_organization(request.getfixturevalue(f"zoned_on_{request.param}"), "Acme")


@pytest.fixture
def new_company(
    served: Server, tmp_path: Path, zonectl: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Company]]:
    """Makes configurations of every kind that hands may meddle with, each with a zone of its own, applied."""
    monkeypatch.setenv("ZONECTL_SERVER", served.url)
    monkeypatch.setenv("ZONECTL_API_KEY", served.api_key)
    monkeypatch.setenv("CORP_SECRET", "hush!hush")
    with httpx.Client(base_url=served.url, headers=served.headers, timeout=60) as client:

        def make() -> Company:
            zone = f"zone-{next(_numbers)}"
            folder = Folder(tmp_path / zone)
            folder.write("zonectl.yaml", f"owner: acme/{zone}\n")
            for name, text in COMPANY.items():
                folder.write(name, text.replace("{zone}", zone))
            made = Company(served, client, folder, zone, zonectl)
            made.apply()
            return made

        yield make


@pytest.fixture
def company(new_company: Callable[[], Company]) -> Company:
    """One such configuration."""
    return new_company()
