"""Rows of PostgreSQL as Arrow record batches, which ADBC's driver makes in C; used where it is installed."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

log = logging.getLogger(__name__)

_DRIVER = "adbc_driver_postgresql"
_BATCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"


@contextmanager
def record_batches(
    connection: Any, first: Sequence[str], query: str, values: Any, size: int
) -> Iterator[Iterable[Any] | None]:
    """Yield the rows of a query in batches of ``size`` bytes; errors are psycopg's.

    They are read by a connection of its own, which logs in as ``connection`` did and begins with ``first``.
    None if ADBC is not installed or cannot log in, or if the server does not check its strings, which Arrow
    requires.
    """
    with ExitStack() as opened:
        other = None
        if connection.info.parameter_status("server_encoding") != "SQL_ASCII":
            other = _connected(connection)
        if other is None:
            yield None
            return
        opened.callback(other.close)
        from psycopg import ClientCursor

        # The server takes no parameters in COPY.
        text = ClientCursor(connection).mogrify(query, values)
        with _translated():
            cursor = other.cursor(adbc_stmt_kwargs={_BATCH_BYTES: str(size)})
            opened.callback(cursor.close)
            for statement in first:
                cursor.executescript(statement)
            cursor.execute(text)
            reader = cursor.fetch_record_batch()
        opened.callback(reader.close)
        yield _each(reader)


def _connected(connection: Any) -> Any:
    if importlib.util.find_spec(_DRIVER) is None:
        return None
    from adbc_driver_postgresql import dbapi
    from psycopg.conninfo import make_conninfo

    info = connection.info
    # To the server that psycopg reached, of several hosts or of a service: ADBC's libpq has another default
    # socket than psycopg's, and may find another server there.
    reached = {"host": info.host, "hostaddr": info.hostaddr, "port": info.port, "client_encoding": "UTF8"}
    if info.host.startswith(("/", "@")):
        reached["hostaddr"] = ""
    given = {name: value for name, value in info.get_parameters().items() if not name.startswith("service")}
    given |= reached
    if info.password:
        given["password"] = info.password
    try:
        return dbapi.connect(make_conninfo("", **given), autocommit=True)
    except dbapi.Error as error:
        # Its libpq is not psycopg's, and may not know the same ways to log in.
        log.debug("ADBC cannot connect, so psycopg reads: %s", error)
        return None


def _each(reader: Any) -> Iterator[Any]:
    with _translated():
        yield from reader


@contextmanager
def _translated() -> Iterator[None]:
    import psycopg
    from adbc_driver_postgresql import dbapi

    try:
        yield
    except (dbapi.Error, OSError) as error:
        state = getattr(error, "sqlstate", None)
        try:
            kind = psycopg.errors.lookup(state) if state else psycopg.OperationalError
        except KeyError:
            kind = psycopg.OperationalError
        raise kind(str(error)) from error
