"""File permissions: removes other accounts' access to the service's own files, or reports it."""

from collections.abc import Iterator
from pathlib import Path

from runtime import files
from runtime.files import NOT_FOR_A_KEY, ExposedPath
from runtime.settings import Settings
from runtime.storage.sql.sqlite import files_of


def private_files(settings: Settings) -> Iterator[Path]:
    """What nobody else has any business with: it may be there or not."""
    if settings.data_dir.is_dir() and _is_in_use(settings):
        yield settings.data_dir
    yield settings.key_file
    yield from files_of(settings.resolved_database_url)
    if settings.mail_folder.is_dir():
        yield from (settings.mail_folder, *sorted(settings.mail_folder.iterdir()))


def close_private_files(settings: Settings) -> list[ExposedPath]:
    """Close what is open to others and belongs to this account; what is left, to be told.

    A key that others could read stays as it is, for whoever reads it to refuse.
    """
    left = []
    for found in files.open_to_others(private_files(settings)):
        is_exposed_key = found.path == settings.key_file and bool(found.mode & NOT_FOR_A_KEY)
        if is_exposed_key or not files.close_to_others(found):
            left.append(found)
    return left


def exposed_settings(settings: Settings) -> Iterator[ExposedPath]:
    """The settings file, when it has a password and others than its owner and a group can read it.

    It is the operator's, who may have let a group read it: it is told of, and never changed.
    """
    named = [] if settings.secret_file is None else [settings.secret_file]
    yield from (found for found in files.open_to_others(named) if found.mode & NOT_FOR_A_KEY)


def _is_in_use(settings: Settings) -> bool:
    """Tell whether the data directory is one: it has a key or a database, and is not just any directory."""
    return settings.key_file.exists() or settings.database_file.exists()
