"""Statements of hot paths: their text and conversions are made once, and the driver executes them by itself.

The engine compiles a statement once, too, but looks for what it has compiled, and makes a context, a cursor
and a result each time. For a row that is found by its key that takes ten times as long as the database does.
"""

from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.base import Executable
from sqlalchemy.util import greenlet_spawn

from runtime.domain.errors import Unavailable
from runtime.metrics import DATABASE_FAILURES
from runtime.storage.sql.sqlite import BEGIN

_Convert = Callable[[Any], Any]


class PreparedStatement:
    """A statement with named parameters, none of them a list to expand, and rows as answers.

    The driver executes it where that is the same as what the engine does: on SQLite on a connection that is
    at hand and has begun what it has to begin, and on PostgreSQL on one without a transaction, or for reading
    alone. Anywhere else the engine does.
    """

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    async def rows(self, conn: AsyncConnection, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows, each with its values in the order of the statement's columns.

        Args:
            values: of all parameters, by their names.
        Raises: what `AsyncConnection.execute` raises.
        """
        connection: Any = conn.sync_connection
        adapter = connection.connection.dbapi_connection
        dialect = conn.dialect
        if not _is_ready(connection, adapter):
            return (await conn.execute(self._statement, values)).all()
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = _Compiled(self._statement, dialect)
        given = compiled.parameters(values)
        for listener in connection.dispatch.before_cursor_execute:  # who counts statements counts this one
            listener(connection, None, compiled.text, given, None, False)
        try:
            if dialect.name == "sqlite":
                found = adapter.driver_connection._conn.execute(compiled.text, given).fetchall()
            else:
                if not adapter.autocommit and adapter._transaction is None:
                    await adapter._start_transaction()
                found = await adapter.driver_connection.fetch(compiled.text, *given)
        except TimeoutError as failure:
            _give_up(connection, adapter)
            DATABASE_FAILURES.inc()
            raise Unavailable("the database does not answer", internal="no answer in time") from failure
        except CancelledError:
            if dialect.name == "postgresql" and not adapter.autocommit:  # it may have begun, and nobody knows
                _give_up(connection, adapter)
            raise
        except Exception as failure:  # noqa: BLE001 - the engine tells what is wrong
            if dialect.name == "postgresql" and not adapter.autocommit:  # nothing more is done in it
                await greenlet_spawn(_tell, connection, adapter, compiled.text, failure)
            return (await conn.execute(self._statement, values)).all()  # it has changed nothing
        return compiled.converted(found)


class _Compiled:
    """A statement for one sort of database.

    Attributes:
        text: as the driver takes it.
    """

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        self.text: str = compiled.string
        written: Mapping[str, _Convert] = compiled._bind_processors
        self._parameters = [(name, written.get(name)) for name in compiled.positiontup]
        self._constants = {  # such as the OFFSET that SQLite has with each LIMIT
            name: compiled.params[name] for bound, name in compiled.bind_names.items() if not bound.required
        }
        self._read: list[tuple[int, _Convert]] = [
            (place, read)
            for place, column in enumerate(compiled._result_columns)
            if (read := column.type._cached_result_processor(dialect, None)) is not None
        ]

    def parameters(self, values: Mapping[str, Any]) -> list[Any]:
        """The parameters in their places, as the driver takes them."""
        all_of = {**self._constants, **values}
        return [all_of[name] if write is None else write(all_of[name]) for name, write in self._parameters]

    def converted(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """The rows with values as the engine gives them."""
        if not self._read:
            return rows
        converted = [list(row) for row in rows]
        for row in converted:
            for place, read in self._read:
                row[place] = read(row[place])
        return converted


def _is_ready(connection: Any, adapter: Any) -> bool:
    """Tell whether the driver may execute a statement here."""
    options = connection.get_execution_options()
    if connection.dialect.name == "sqlite":
        return bool(adapter.at_hand and (adapter.in_transaction or not options.get(BEGIN, BEGIN)))
    return bool(adapter.autocommit or options.get("postgresql_readonly"))


def _give_up(connection: Any, adapter: Any) -> None:
    """End a connection, and have the pool forget it: it would try to roll back, and log that it cannot."""
    adapter.driver_connection.terminate()
    connection.invalidate()


def _tell(connection: Any, adapter: Any, text: str, failure: Exception) -> None:
    """Raise what the engine raises where the driver fails."""
    try:
        adapter._handle_exception(failure)
    except Exception as told:  # noqa: BLE001 - each is the engine's
        connection._handle_dbapi_exception(told, text, None, None, None)
