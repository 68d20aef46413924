"""A changeset whose sender hangs up while it is worked on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest
from tests.runtime.management.access.test_waiting import let_in
from tests.runtime.management.changesets.test_changesets_http import changeset
from tests.runtime.management.conftest import Api
from tests.support.applying import app

from runtime.contract.changes import Changeset
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION
from runtime.services.container import Services
from runtime.services.management.changesets import pipeline
from runtime.services.management.changesets.changeset import packed
from runtime.storage.sql import entities


@pytest.mark.parametrize("dry_run", [False, True], ids=["apply", "dry run"])
def test_it_ends_as_what_it_is(api: Api, *, dry_run: bool) -> None:
    """It is taken for no failure, which would be logged; nothing is written, and the next one goes ahead."""
    zone, acting = api.zone(), let_in(api)

    def running(name: str, progress: Callable[[], object]) -> None:
        steps = [app(f"{name}{number}", {"id": zone.id}) for number in range(200)]
        sent = packed(Changeset.model_validate(changeset(api, *steps)))
        organization, request = api.organization_id, new_id()

        async def told(_done: int, _total: int) -> None:
            progress()

        async def run(services: Services) -> None:
            await asyncio.create_task(
                pipeline.apply_changeset(
                    services, acting, organization, sent, request_id=request, dry_run=dry_run, progress=told
                )
            )

        api.server.call(run)

    def written() -> int:
        async def count(services: Services) -> int:
            async with services.database.querying() as conn:
                return await entities.count(conn, APPLICATION, within={"zone_id": zone.id})

        return api.server.call(count)

    def hang_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    before = written()
    running("a", lambda: None)
    whole = written()
    assert whole == before + (0 if dry_run else 200)
    with pytest.raises(CancelledError):
        running("b", hang_up)
    assert written() == whole
    running("b", lambda: None)
