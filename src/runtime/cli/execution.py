"""Runs the work of a command against the service's components, and reports errors in one line."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from sqlalchemy.exc import ArgumentError, DBAPIError

from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.keys.wrapping import KeyRefused, KeyUnreachable
from runtime.app import close_services, make_services
from runtime.cli.errors import OF_REFUSED_KEYS, OF_UNREACHABLE_KEYS, advice, reason_of, remedy_of
from runtime.cli.private_files import close_private_files
from runtime.domain.errors import ServiceError, Unavailable
from runtime.domain.operator_errors import OperatorError
from runtime.services.container import Services
from runtime.settings import Settings
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.database import UnsupportedDatabase

_T = TypeVar("_T")
# Drivers that are loaded when they are needed -> the extra that installs them.
_EXTRAS = {"asyncpg": "postgres", "redis": "redis"}


class CommandError(click.ClickException):
    """Something the operator can mend: one line, exit code 1.

    Attributes:
        detail: what is wrong.
        remedy: what to do about it; empty where that is in the detail.
    """

    def __init__(self, detail: str, remedy: str = "") -> None:
        super().__init__(f"{detail}; {remedy}" if remedy else detail)
        self.detail = detail
        self.remedy = remedy


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Tell what an operator can mend in one line, instead of a traceback."""
    try:
        yield
    except Unavailable as refusal:
        raise CommandError(reason_of(refusal), remedy_of(refusal)) from None
    except ServiceError as refusal:
        raise CommandError(refusal.detail) from None
    except OperatorError as refusal:
        raise CommandError(refusal.detail, refusal.remedy) from None
    except (KeyRefused, KeyUnreachable) as refusal:
        remedy = OF_REFUSED_KEYS if isinstance(refusal, KeyRefused) else OF_UNREACHABLE_KEYS
        raise CommandError(f"the key-encryption key cannot be used: {refusal}", remedy) from None
    except SealBroken:
        raise CommandError(
            "the key-encryption key is not the one that this database was set up with",
            "restore that key, or name the database that belongs to this one",
        ) from None
    except (UnsupportedDatabase, ArgumentError) as refusal:
        raise CommandError(
            f"ZONED_DATABASE_URL: {refusal}",
            "correct it, as in `postgresql+asyncpg://user:password@host/name`",
        ) from None
    except DBAPIError as refusal:
        raise CommandError(
            f"the database cannot be used: {refusal.orig}",
            advice(refusal) or "repair the database, or restore a back-up",
        ) from None
    except OSError as failure:
        if failure.filename is None:
            raise
        raise CommandError(
            f"`{failure.filename}`: {failure.strerror}", "let this account use it, or correct the setting"
        ) from None
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRAS:
            raise
        raise CommandError(
            f"`{missing.name}` is not installed", f"install `zonewright[{_EXTRAS[missing.name]}]`"
        ) from None


def with_services(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, _T]], *, mending: bool = True
) -> _T:
    """Run one piece of work against the connected parts, and tell refusals in one line.

    Args:
        mending: close the service's files to other accounts of the machine first.
    """
    if settings.database_url is None and not settings.database_file.exists():
        raise CommandError(
            f"there is no database in `{settings.data_dir}`",
            "run `zoned init`, or say with ZONED_DATA_DIR or ZONED_DATABASE_URL where it is",
        )

    async def run() -> _T:
        await migrations.require_usable(settings.resolved_database_url)
        services = await make_services(settings)
        try:
            return await work(services)
        finally:
            await close_services(services)

    with errors_in_one_line():
        if mending:
            close_private_files(settings)
        return asyncio.run(run())
