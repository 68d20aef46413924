"""A configuration of a new company; tests that need another one bring their own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.applying import Git, create
from tests.support.factories import found_company, opened_parts


@pytest.fixture
async def git(database_url: str, tmp_path: Path) -> AsyncIterator[Git]:
    """A configuration for a new company."""
    async with opened_parts(
        tmp_path / "data", database_url=database_url, public_url="https://zones.test"
    ) as parts:
        yield Git(await found_company(parts, "Example"))


@pytest.fixture
async def zone(git: Git) -> str:
    """The id of a zone that the configuration owns."""
    await git.apply(create("Zone", "acme", name="Acme"))
    return git.id("Zone", "acme")
