"""The files of Artemis's journal: records with a size at both ends, and the damage between them.

::

    file     version (4), the user's version (4), number of the file (8), records, older content
    record   type (1), number of the file (4), times compacted (1, from version 2), ...
             ADD, UPDATE, EVENT       id (8), size (4), type of the content (1), content
             ADD, UPDATE in one       transaction (8), id (8), size (4), type of the content (1), content
             DELETE                   id (8)
             DELETE in one            transaction (8), id (8), size (4), content
             PREPARE                  transaction (8), its records in this file (4), size (4), its XID
             COMMIT                   transaction (8), its records in this file (4)
             ROLLBACK                 transaction (8)
             then the size of the whole record (4)

A file is used again without being cleared: records with the number of an earlier use are older
content. There are no checksums: damage that leaves the sizes as they are can only be noticed in the content.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from jdbcstore.errors import StoreError
from jdbcstore.tools.importing.numbered import LogFile

EVENT, ADD, UPDATE, ADD_TX, UPDATE_TX, DELETE_TX, DELETE, PREPARE, COMMIT, ROLLBACK = range(10, 20)
FILL = b"J"
"""The content of a new file."""
_HEADER = Struct(">iiq")
_SIZE = Struct(">i")
_BLOCK, _MOST_PADDING = 512, 4096
_VERSIONS = (1, 2)
_HEADS = {
    **dict.fromkeys((EVENT, ADD, UPDATE), Struct(">xqib")),
    **dict.fromkeys((ADD_TX, UPDATE_TX), Struct(">xqqib")),
    DELETE_TX: Struct(">xqqi"),
    DELETE: Struct(">xq"),
    PREPARE: Struct(">xqii"),
    COMMIT: Struct(">xqi"),
    ROLLBACK: Struct(">xq"),
}
"""The fields that follow the number of the file."""
_OLD_HEADS = {kind: Struct(">" + head.format[2:]) for kind, head in _HEADS.items()}
"""The same in version 1."""
_STALE = re.compile(rb"[\x0a-\x13]", re.DOTALL)

OnDamage = Callable[[int, int, str], None]
"""(offset, bytes, reason)"""


class JournalUnfinished(StoreError):
    """A broker was stopped while it compacted its journal, and has to finish that itself."""


class JournalRecord(NamedTuple):
    """A record of a journal, of a file or a table."""

    kind: int
    offset: int
    """Of the record in its file; the number of the row."""
    size: int
    """Of the record."""
    id: int
    transaction: int
    content: int
    """The type of the content."""
    body: tuple[int, int]
    """The offset of the content, and its size."""
    members: int
    """Of an outcome: the records of the transaction in the same file; -1 if that is not known."""


Content = Callable[[int, int], bytes]
"""(offset, size) -> bytes of a record's file or row."""
Records = Iterator[tuple[JournalRecord, int, Content]]
"""Each record, the number of its file, and its content."""


def journal_files(folder: Path, extension: str, on_damage: Callable[[Path, str], None]) -> list[LogFile]:
    """Return the files of a journal in a folder, in the order in which they were written.

    :raises JournalUnfinished: the broker has to finish a compaction first
    """
    if (folder / "journal-rename-control.ctr").exists():
        raise JournalUnfinished(
            f"the broker was stopped while it compacted the journal in {folder}: start it once, stop it when"
            " it serves, and import again; nothing was changed"
        )
    files = []
    for path in sorted(folder.glob(f"*.{extension}")):
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            on_damage(path, "it ends within its header")
            continue
        version, _, number = _HEADER.unpack(head)
        if version not in _VERSIONS:
            on_damage(path, f"its header has the version {version}, which is not one of 1 and 2")
            continue
        files.append(LogFile(number, path))
    return sorted(files)


class JournalReader:
    """Reads one file of a journal."""

    def __init__(self, path: Path, on_damage: OnDamage) -> None:
        self._path = path
        self._damaged = on_damage

    def records(self) -> Iterator[tuple[JournalRecord, mmap.mmap]]:
        """Yield the records, each with the bytes of the file, and report damage between them."""
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from ((record, data) for record in self._records(data))

    def _records(self, data: mmap.mmap) -> Iterator[JournalRecord]:
        version, _, number = _HEADER.unpack_from(data, 0)
        heads = _HEADS if version > 1 else _OLD_HEADS
        mark = _SIZE.pack(number & 0x7FFFFFFF)
        at = good = _HEADER.size
        while True:
            record = _read(data, at, mark, heads)
            if record is None:
                at = data.find(mark, at + 2) - 1
                if at < 0:
                    break
                continue
            if at > good:
                self._note_gap(data, good, at)
            yield record
            at = good = at + record.size
        self._note_end(data, good, mark, heads)

    def _note_gap(self, data: mmap.mmap, start: int, end: int) -> None:
        is_padding = end - start < _MOST_PADDING and end % _BLOCK == 0
        if not is_padding or data[start:end].strip(b"\0"):
            self._damaged(start, end - start, "no record begins here")

    def _note_end(self, data: mmap.mmap, start: int, mark: bytes, heads: dict[int, Struct]) -> None:
        """Report an incomplete last record, or an end that is neither empty nor of an earlier use."""
        if data[start + 1 : start + 5] == mark and data[start] in heads:
            self._damaged(start, len(data) - start, "the last record is not complete, or its size is wrong")
            return
        size, at = len(data), start
        while at < size:
            chunk = data[at : at + (1 << 20)]
            if not (rest := chunk.lstrip(b"\0").lstrip(FILL)):
                at += len(chunk)
                continue
            at += len(chunk) - len(rest)
            if not _is_stale(data, at, heads):
                self._damaged(
                    start, size - start, "what follows the last record is neither empty nor a record"
                )
            return


def _is_stale(data: mmap.mmap, at: int, heads: dict[int, Struct]) -> bool:
    """Return whether there is a record of an earlier use of the file."""
    for match in _STALE.finditer(data, at):
        if _read(data, match.start(), data[match.start() + 1 : match.start() + 5], heads) is not None:
            return True
    return False


def _read(data: mmap.mmap, at: int, mark: bytes, heads: dict[int, Struct]) -> JournalRecord | None:
    """Return the record at an offset; None if there is none."""
    if at + 5 > len(data):
        return None
    kind = data[at]
    head = heads.get(kind)
    begin = at + 5
    if head is None or data[at + 1 : begin] != mark or begin + head.size + 4 > len(data):
        return None
    fields = head.unpack_from(data, begin)
    begin += head.size
    transaction = id_ = content = 0
    size, count = 0, -1
    match kind:
        case 10 | 11 | 12:
            id_, size, content = fields
        case 13 | 14:
            transaction, id_, size, content = fields
        case 15:
            transaction, id_, size = fields
        case 16:
            (id_,) = fields
        case 17:
            transaction, count, size = fields
        case 18:
            transaction, count = fields
        case _:
            (transaction,) = fields
    end = begin + size
    if size < 0 or end + 4 > len(data) or _SIZE.unpack_from(data, end)[0] != end + 4 - at:
        return None
    return JournalRecord(kind, at, end + 4 - at, id_, transaction, content, (begin, size), count)
