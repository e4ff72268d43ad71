"""Keyset pages in delivery order, over one lane or one lane per priority."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from jdbcstore.abc import Cursor, Page, Progress
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.message import Message
from jdbcstore.stores.shared.rows import StoredRow

log = logging.getLogger(__name__)

PRIORITIES = 10
REMOVE_BATCH = 1_000
"""Rows that one transaction of a purge, sweep or cleanup removes."""
MOST = (1 << 31) - 1
"""The highest limit that all databases accept."""

FetchLane = Callable[[int | None, int, int], Sequence[StoredRow]]
"""(priority or None for all, after, limit) -> rows of ID and MSG, by ID."""

Complete = Callable[[int, bytes], bytes]
"""(ID, reference) -> the value of MSG; raises :class:`CorruptMessage` or :class:`RowChanged`."""


class RowChanged(Exception):
    """The row has the message itself by now, or is gone: read it again."""


def read_page(
    fetch: FetchLane,
    container: str,
    limit: int,
    after: Cursor | None,
    marks: Sequence[int],
    complete: Complete | None = None,
) -> Page:
    """Return the next messages after ``after`` and after each lane's mark."""
    while True:
        rows, cursor = read_lanes(fetch, limit, after, marks)
        with contextlib.suppress(RowChanged):
            messages, corrupt = decode_rows(rows, container, complete)
            return Page(messages, cursor, len(rows) < limit, corrupt)


def read_lanes(
    fetch: FetchLane, limit: int, after: Cursor | None, marks: Sequence[int]
) -> tuple[list[StoredRow], Cursor]:
    """Return the next rows after ``after`` and after each lane's mark, and the cursor of the next page.

    Lane 9 comes first of ten.

    :raises ValueError: the limit is not positive
    """
    if limit < 1:
        raise ValueError(f"a page has at least one message, not {limit}")
    limit = min(limit, MOST)
    positions = list(marks)
    if after is not None and len(after.positions) == len(positions):
        positions = [max(pair) for pair in zip(positions, after.positions, strict=True)]
    elif after is not None:
        # The destination was read by sequence before, and is by priority now, or the reverse.
        positions = [max(mark, min(after.positions)) for mark in positions]
    rows: list[StoredRow] = []
    for lane in reversed(range(len(positions))):
        priority = lane if len(positions) > 1 else None
        rows_of_lane = fetch(priority, positions[lane], limit - len(rows))
        if rows_of_lane:
            positions[lane] = rows_of_lane[-1][0]
            rows.extend(rows_of_lane)
        if len(rows) == limit:
            break
    return rows, Cursor(tuple(positions))


def decode_rows(
    rows: Sequence[StoredRow], container: str, complete: Complete | None = None
) -> tuple[list[Message], list[CorruptMessage]]:
    """Return the messages of rows of ID and MSG, and the errors of rows that do not decode."""
    messages: list[Message] = []
    corrupt: list[CorruptMessage] = []
    decode = openwire.decode
    for id_, blob in rows:
        try:
            if complete is not None and openwire.is_reference(blob):
                blob = complete(id_, blob)
            messages.append(decode(blob, sequence=id_, container=container))
        except CorruptMessage as error:
            log.warning("%s", error)
            corrupt.append(error)
    return messages, corrupt


def counted(counts: Iterable[int], progress: Progress | None) -> int:
    """Return the sum of counts, of which each is reported as it comes."""
    total = 0
    for count in counts:
        total += count
        if progress is not None and count:
            progress(count)
    return total


def id_pages(fetch: Callable[..., Sequence[StoredRow]], up_to: int) -> Iterator[list[int]]:
    """Yield batches of IDs to remove, up to this ID, from ``fetch(after=, limit=)``.

    They are found outside the transaction that removes them: finding the first may take a scan over a million
    messages of other destinations.
    """
    after, more = -1, True
    while more:
        rows = fetch(after=after, limit=REMOVE_BATCH)
        ids = [id_ for (id_,) in rows if id_ <= up_to]
        more = len(ids) == REMOVE_BATCH
        if ids:
            yield ids
            after = ids[-1]
