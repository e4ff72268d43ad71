"""Rows of JDBCSTORE_STATE that keep which queues are paused, by whom and since when."""

from __future__ import annotations

import string
from collections.abc import Callable
from urllib.parse import quote, unquote

from jdbcstore.abc import PausedQueue
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import PAUSED_ROW, LockStatements
from jdbcstore.errors import InvalidDestination, SchemaError
from jdbcstore.message.destination import Destination

LONGEST_NAME = 250
"""Characters of a name in JDBCSTORE_STATE."""
_LONGEST_USER = 40
_PLAIN = "".join(sorted({*string.punctuation} - {"%", ":"}))
"""Characters that are not encoded, besides letters and digits: only ASCII is the same in every database."""


def add_pause(
    session: DatabaseSession,
    write: Callable[[Callable[[Connection], None]], None],
    queue: Destination,
    user: str,
    now_ms: int,
) -> None:
    """Store that a queue is paused, in place of an earlier record.

    :raises InvalidDestination: its name is too long for that
    :raises SchemaError: the table is missing
    """
    if not session.has_own_tables:
        raise SchemaError("a pause cannot be kept without JDBCSTORE_STATE; run jdbcstore init")
    # Two names may differ in no more than the case of letters, which is the same name for some databases.
    since = max([now_ms, *(paused_queue(name, then).since_ms + 1 for name, then in _rows(session))])
    _replace(session, write, queue, _name_of(queue, user, since), since)


def check_pause(queue: Destination, user: str, now_ms: int) -> None:
    """Check that a pause can be kept.

    :raises InvalidDestination: the name of the queue is too long for that
    """
    _name_of(queue, user, now_ms)


def _name_of(queue: Destination, user: str, since: int) -> str:
    name = _row(queue, user[:_LONGEST_USER], since)
    name = name if len(name) <= LONGEST_NAME else _row(queue, "", since)
    if len(name) > LONGEST_NAME:
        raise InvalidDestination(f"{queue} is paused until this broker ends: the name is too long to be kept")
    return name


def remove_pause(
    session: DatabaseSession, write: Callable[[Callable[[Connection], None]], None], queue: Destination
) -> None:
    """Undo :func:`add_pause`; do nothing if the queue is not paused."""
    if session.has_own_tables:
        _replace(session, write, queue, None, 0)


def find_pauses(session: DatabaseSession) -> list[PausedQueue]:
    """Return the paused queues, the oldest pause first."""
    if not session.has_own_tables:
        return []
    return sorted((paused_queue(*row) for row in _rows(session)), key=lambda pause: pause.since_ms)


def _replace(
    session: DatabaseSession,
    write: Callable[[Callable[[Connection], None]], None],
    queue: Destination,
    new: str | None,
    since: int,
) -> None:
    sql = session.of(LockStatements)
    old = [name for name, then in _rows(session) if paused_queue(name, then).queue == queue]

    def replace(connection: Connection) -> None:
        for name in old:
            connection.execute(sql.remove_name, name_=name)
        if new is not None:
            connection.execute(sql.add_named, name_=new, since=since)

    if old or new is not None:
        write(replace)


def _rows(session: DatabaseSession) -> list[tuple[str, int]]:
    rows = session.fetch(session.of(LockStatements).find_named, pattern=f"{PAUSED_ROW}%")
    return [(str(name), int(since)) for name, since in rows]


def _row(queue: Destination, user: str, since: int) -> str:
    user, name = (quote(text, safe=_PLAIN, errors="surrogatepass") for text in (user, queue.name))
    return f"{PAUSED_ROW}{since}:{user}:{name}"


def paused_queue(name: str, since: int) -> PausedQueue:
    """Return the pause that a row stores."""
    user, queue = (unquote(text, errors="surrogatepass") for text in name.split(":", 3)[2:])
    return PausedQueue(Destination.queue(queue), user, since)
