"""From the archive into a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.message.destination import Destination
from jdbcstore.tools.archive.layout import Archive
from jdbcstore.tools.archive.reading import ArchivedMessage, messages
from jdbcstore.tools.transfer import MessageRow, Target


@dataclass(slots=True)
class Restored:
    """What became of restoring."""

    messages: int = 0
    present: int = 0
    """Were in the store already."""
    conflicts: int = 0
    """Left out, because another message has the ID."""


def restore(
    folder: str | Path,
    store: Configuration,
    *,
    destinations: Iterable[Destination] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Put messages back as they were: under their IDs, byte for byte, into any database.

    One that is there is not stored again, so that this can be killed and called again. A topic's
    subscriptions have acknowledged what is behind their marks, and do not get it again.

    :param destinations: these alone; none are all
    :param since_ms: messages whose time is this or later
    :param until_ms: messages whose time is before this
    :param progress: told of messages of the archive
    :raises NotMaster: another may write to the store
    :raises StoresDiffer: a file of the archive is gone or damaged
    """
    archive, result = Archive(folder), Restored()
    names = frozenset(destination.qualified_name for destination in destinations)

    def meant(row: ArchivedMessage) -> bool:
        if names and row.container not in names:
            return False
        if since_ms is None and until_ms is None:
            return True
        time_ms = row.time_ms
        return (
            time_ms is not None
            and (since_ms is None or time_ms >= since_ms)
            and (until_ms is None or time_ms < until_ms)
        )

    with Target(store) as target:
        last = 0
        for page in _pages(archive):
            rows = [_stored(row) for row in page if meant(row)]
            _restore(target, rows, result)
            last = max([last, *(row.id for row in rows)])
            if progress is not None:
                progress(len(page))
        with target.transaction() as connection:
            target.reserve(connection, last)
    return result


def _pages(archive: Archive) -> Iterator[list[ArchivedMessage]]:
    for manifest in archive.manifests():
        for file in manifest.files:
            yield from messages(archive.check(manifest, file))


def _stored(row: ArchivedMessage) -> MessageRow:
    return MessageRow(*row[:7], xid=None)


def _restore(target: Target, rows: list[MessageRow], result: Restored) -> None:
    if not rows:
        return
    wanted = {row.id: row for row in rows}
    there: dict[int, bool] = {}
    for name in target.all_names(rows[0].id - 1, rows[-1].id):
        if name[0] in wanted:
            there[name[0]] = wanted[name[0]].name == tuple(name)
    target.add([row for row in rows if row.id not in there])
    result.messages += len(rows) - len(there)
    result.present += sum(there.values())
    result.conflicts += len(there) - sum(there.values())
