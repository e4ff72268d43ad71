"""The choice of a cursor by the pending message policy of a destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jdbcstore.broker.cursors.backlog import MemoryCursor
from jdbcstore.broker.cursors.file import FileCursor
from jdbcstore.broker.cursors.store import InFlight, LoadedCursor, StoreCursor, StoredRows
from jdbcstore.broker.entry import Entry, EntrySource
from jdbcstore.broker.memory import Account, MemoryUsage, Resources
from jdbcstore.errors import SpillFailed
from jdbcstore.message.message import Message


def memory_or_file(
    kind: str,
    name: str,
    source_of: Callable[[Message], EntrySource],
    resources: Resources,
    memory: MemoryUsage,
    lanes: int = 1,
    **options: Any,
) -> MemoryCursor | FileCursor:
    """Return a cursor in memory for ActiveMQ's ``vm...Cursor``, else one in memory up to the limit, then in
    files.

    :param options: further fields of :class:`FileCursor`
    """
    if kind.startswith("vm"):
        return MemoryCursor(memory, lanes)
    folder, files = resources.folder, resources.files
    return FileCursor(name, source_of, memory, lanes=lanes, folder=folder, files=files, **options)


def cursor_of_stored(
    account: Account,
    rows: StoredRows,
    *,
    source: EntrySource,
    in_flight: InFlight,
    make_entry: Callable[[Message], Entry],
    on_ready: Callable[[], None],
    on_lost: Callable[[SpillFailed], None],
) -> StoreCursor:
    """Return a window on the store for ActiveMQ's ``store...Cursor``, else a cursor for all, in memory or in
    files."""
    values = (account, rows, in_flight, make_entry, on_ready)
    if rows.cursor_policy.startswith("store"):
        return StoreCursor(*values)
    cursor = memory_or_file(
        *(rows.cursor_policy, rows.name, lambda _: source, account.resources, account.memory, account.lanes),
        on_lost=on_lost,
    )
    return LoadedCursor(*values, cursor)
