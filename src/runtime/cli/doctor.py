"""`zoned doctor`: checks settings, files, keys and storage, and says how to mend what is wrong."""

import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime import files
from runtime.cli import diagnosis
from runtime.cli.addresses import port_mismatch
from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.diagnosis import Check, Finding, Verdict, problem, warning
from runtime.cli.errors import OF_REFUSED_KEYS, OF_UNREACHABLE_KEYS, reason_of, remedy_of
from runtime.cli.execution import CommandError, with_services
from runtime.cli.private_files import exposed_settings, private_files
from runtime.domain.errors import ServiceError, Unavailable
from runtime.services.clock import system_time
from runtime.services.container import Services
from runtime.services.encryption_key_checks import unavailable_keys
from runtime.services.management.zones import moving
from runtime.settings import Settings
from runtime.storage.sql import availability, file_copies, names, resources, token_event_partitions
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.availability import TAKES_NO_WRITES
from runtime.storage.sql.epochs import database_time
from runtime.storage.sql.sqlite import files_of

_SHOWN = 5
_OF_ODD_ROWS = "restore a back-up if rows were changed by hand; report it as a defect if not"


@click.command(cls=ReadOnlyCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--accept-copy", is_flag=True, help="Use an incomplete copy of a database as it is.")
@click.pass_obj
def doctor(settings: Settings, as_json: bool, accept_copy: bool) -> None:
    """Check settings, files, keys and storage, without changing anything, unless `--accept-copy` is given.

    Says of each finding how to mend it. Exits with 1 when there is a problem, not for a warning. The database
    is tried with a write that changes nothing.
    """
    if accept_copy:
        _accept_copy(settings)
    findings = list(_diagnosed(settings))
    is_well = all(each.verdict is not Verdict.PROBLEM for each in findings)
    if as_json:
        status = "ok" if is_well else "problem"
        click.echo(json.dumps({"status": status, "findings": [each.document for each in findings]}))
    else:
        for each in findings:
            click.echo(each.line)
    if not is_well:
        raise SystemExit(1)


def _diagnosed(settings: Settings) -> Iterator[Finding]:
    exposed = {
        Check.SETTINGS: exposed_settings(settings),
        Check.FILES: files.open_to_others(private_files(settings)),
    }
    for check, paths in exposed.items():
        found = [problem(check, each.problem, each.remedy) for each in paths]
        if check is Check.FILES:
            found += diagnosis.copies(_incomplete_copies(settings))
        yield from found or [Finding(check)]
    if (mismatch := port_mismatch(settings)) is not None:
        yield mismatch
    if settings.data_dir.is_dir():
        yield from diagnosis.disk(settings.data_dir, *files.room_of(settings.data_dir))
    try:
        of_storage = with_services(settings, _of_storage, mending=False)
    except CommandError as refusal:
        yield problem(Check.KEYS, refusal.detail, refusal.remedy or _OF_ODD_ROWS)
    else:
        yield from (Finding(Check.KEYS), *of_storage)


def _incomplete_copies(settings: Settings) -> Iterator[Path]:
    """The file of the database, where it is a copy without its `-wal`. Nobody has opened it yet."""
    with suppress(sqlite3.Error, OSError):  # whoever opens it says what is wrong with it
        for file in files_of(settings.resolved_database_url)[:1]:
            if file_copies.note_incomplete(file):
                yield file


def _accept_copy(settings: Settings) -> None:
    for file in files_of(settings.resolved_database_url)[:1]:
        try:
            file_copies.accept(file)
        except (sqlite3.Error, OSError) as failure:
            raise CommandError(f"`{file}` cannot be accepted: {failure}") from None


async def _of_storage(services: Services) -> list[Finding]:
    """What is found of the database and of the short-lived state."""
    checks: dict[Check, Callable[[Services], Awaitable[list[Finding]]]] = {
        Check.DATABASE: _of_the_database,
        Check.STATE: _of_the_state,
        Check.SCHEMA: _on_a_connection(_of_the_schema),
        Check.PARTITIONS: _on_a_connection(_of_partitions),
        Check.NAMES: _on_a_connection(_of_names),
        Check.RESOURCES: _on_a_connection(_of_resources),
        Check.ISSUERS: _of_issuers,
        Check.ENCRYPTION_KEYS: _of_encryption_keys,
    }
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found += await check(services) or [Finding(name)]
        except Unavailable as failure:
            found.append(problem(name, reason_of(failure), _remedy(services.settings, failure)))
        except ServiceError as failure:
            found.append(problem(name, failure.detail, _OF_ODD_ROWS))
    return found


def _on_a_connection(
    check: Callable[[AsyncConnection], Awaitable[list[Finding]]],
) -> Callable[[Services], Awaitable[list[Finding]]]:
    async def on(services: Services) -> list[Finding]:
        async with services.database.querying() as conn:
            return await check(conn)

    return on


async def _of_the_database(services: Services) -> list[Finding]:
    await services.database.ping()
    await services.database.try_write()
    if services.database.dialect != "postgresql":
        return []
    await services.database.try_room()
    async with services.database.querying() as conn:
        ahead = await database_time(conn) - system_time().timestamp()
        allowed = await availability.connections_allowed(conn)
    return [
        *diagnosis.clocks(ahead, "PostgreSQL"),
        *diagnosis.connections(allowed, services.settings.workers),
    ]


async def _of_the_state(services: Services) -> list[Finding]:
    facts = await services.state.facts()
    found = list(diagnosis.redis(facts, now=services.clock().timestamp())) if facts else []
    if all(each.verdict is not Verdict.PROBLEM for each in found):
        await services.state.ping()
    return found


async def _of_the_schema(conn: AsyncConnection) -> list[Finding]:
    """Whether the tables are those that the migrations make, and this program is not behind them."""
    found = []
    if (newer := await migrations.newer_version(conn)) is not None:
        told = f"a newer zoned has migrated the database, to version {newer}; this one works with it"
        found = [warning(Check.SCHEMA, told, "install the newer zoned here, too")]
    if not (changed := await migrations.differences(conn)):
        return found
    more = f", and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return [
        *found,
        problem(
            Check.SCHEMA,
            f"the tables are not as the migrations make them: {', '.join(changed[:_SHOWN])}{more}",
            "undo what was changed by hand, or restore a back-up",
        ),
    ]


async def _of_partitions(conn: AsyncConnection) -> list[Finding]:
    """Whether token events on PostgreSQL go to partitions of their time."""
    if conn.dialect.name != "postgresql" or await token_event_partitions.latest(conn) is None:
        return []
    return [
        warning(
            Check.PARTITIONS,
            "token events are in the default partition: the job `token_event_partitions` has not made others",
            "let a process with `ZONED_JOBS` run, with an account that owns the tables",
        )
    ]


async def _of_names(conn: AsyncConnection) -> list[Finding]:
    """Applications without a name of their own."""
    found = await names.without_subject(conn)
    told = ", ".join(f"`{identifier}` in zone {zone_id}" for zone_id, _, identifier in found)
    why = "applications with the identifier of a user cannot get tokens"
    return [problem(Check.NAMES, f"{why}: {told}", "give them other identifiers")] if told else []


async def _of_issuers(services: Services) -> list[Finding]:
    """Zones that stand elsewhere than the settings say, and moves whose end nobody has recorded."""
    unmoved = await moving.elsewhere(services)
    found = list(diagnosis.public_url(services.settings.public_url, unmoved)) if unmoved else []
    return [*found, *diagnosis.ended_moves(await moving.unrecorded_ends(services))]


async def _of_resources(conn: AsyncConnection) -> list[Finding]:
    """Resources of a zone that share an address."""
    told = "; ".join(
        f"{' and '.join(f'`{each.identifier}`' for each in alike)} in zone {zone_id}"
        for zone_id, alike in await resources.alike(conn)
    )
    remedy = "delete all but one, or change their identifiers"
    return [problem(Check.RESOURCES, f"resources with equivalent URLs: {told}", remedy)] if told else []


async def _of_encryption_keys(services: Services) -> list[Finding]:
    """Key-encryption keys that cannot be used, and the zones that this stops."""
    found = []
    for each in await unavailable_keys(services):
        more = f", and {len(each.zone_ids) - _SHOWN} more" if len(each.zone_ids) > _SHOWN else ""
        zones = f"; zones that it stops: {', '.join(each.zone_ids[:_SHOWN])}{more}" if each.zone_ids else ""
        remedy = OF_REFUSED_KEYS if each.is_refused else OF_UNREACHABLE_KEYS
        found.append(problem(Check.ENCRYPTION_KEYS, f"`{each.key}`: {each.reason}{zones}", remedy))
    return found


def _remedy(settings: Settings, failure: Unavailable) -> str:
    if failure.detail != TAKES_NO_WRITES:
        return remedy_of(failure)
    if settings.database_url is not None and not settings.database_url.startswith("sqlite"):
        return (
            "free the disk of PostgreSQL, point ZONED_DATABASE_URL to the primary, or set"
            " `default_transaction_read_only` to `off`"
        )
    return f"free the disk of `{settings.database_file.parent}`, and let this account write to the file"
