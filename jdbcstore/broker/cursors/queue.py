"""The cursors of a queue, as its policy has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jdbcstore.broker.cursors import MemoryCursor, MessageCursor
from jdbcstore.broker.cursors.file import FileCursor
from jdbcstore.broker.cursors.loaded import LoadedCursor
from jdbcstore.broker.cursors.store import ReadPage, StoreCursor
from jdbcstore.broker.entry import Entry, Source
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import SpillFailed
from jdbcstore.message.message import Message


def cursor_of_transient(
    queue: Source,
    policy: PolicyEntry,
    memory: MemoryUsage,
    lanes: int,
    parts: Parts,
    *,
    may_read: Callable[[], bool],
) -> MessageCursor:
    """For what is not stored; beside the store's cursor it may go on in files, as in ActiveMQ."""
    if policy.pending_queue_policy == "vmQueueCursor":
        return MemoryCursor(memory, lanes)
    name = f"messages of {queue.destination} that are not stored"
    return FileCursor(
        name, lambda _: queue, memory, lanes=lanes, folder=parts.folder, files=parts.files, may_read=may_read
    )


def cursor_of_stored(
    queue: Source,
    policy: PolicyEntry,
    memory: MemoryUsage,
    lanes: int,
    parts: Parts,
    *,
    read: ReadPage,
    make_entry: Callable[[Message], Entry | None],
    on_ready: Callable[[], None],
    on_lost: Callable[[SpillFailed], None],
    is_empty: bool,
) -> StoreCursor:
    kind: Callable[..., StoreCursor] = StoreCursor
    if policy.pending_queue_policy == "vmQueueCursor":
        kind = partial(LoadedCursor, MemoryCursor(memory, lanes))
    elif policy.pending_queue_policy == "fileQueueCursor":
        name = f"stored messages of {queue.destination}"
        kind = partial(
            LoadedCursor,
            FileCursor(
                name,
                lambda _: queue,
                memory,
                lanes=lanes,
                folder=parts.folder,
                files=parts.files,
                on_lost=on_lost,
            ),
        )
    return kind(
        read,
        make_entry,
        on_ready,
        memory=memory,
        page_size=policy.max_page_size,
        lanes=lanes,
        is_empty=is_empty,
    )
