"""The data logs of a KahaDB: files ``db-N.log`` of batches, each with a checksum, and their damages.

::

    batch    28 (4), 2 (1), "WRITE BATCH" (11), bytes that follow (4), their Adler-32 or 0 (8), records
    record   its size with these five bytes (4), 1 (1), a command
    end      2D 71 4D 61 34, or zeros in old versions; a file may have been allocated beyond it

The records of one batch were written together. One whose checksum is wrong is left out whole, because nothing
tells which of its records are right.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jdbcstore.tools.importing.numbered import CommandRecord, FileReader, OnDamage, chunks, is_zero
from jdbcstore.tools.importing.protobuf import MalformedLog

BEGIN = struct.pack(">ib", 28, 2) + b"WRITE BATCH"
END = b"-qMa4"
_HEAD = struct.Struct(">16siq")
_RECORD = struct.Struct(">ib")
_USER, _CONTROL = 1, 2


class LogBatch(NamedTuple):
    """Records that were written together, and the offset of the first in its file."""

    offset: int
    records: bytes


class LogReader(FileReader):
    """Reads one data log.

    :param marked: whether a log before it ended with the mark of newer versions, so that this one has to
    """

    def __init__(self, path: Path, damaged: OnDamage, *, marked: bool = False) -> None:
        super().__init__(path, damaged)
        self.marked = marked
        self.unchecked = 0
        """Batches without a checksum."""

    def _records(self, file: BinaryIO) -> Iterator[CommandRecord]:
        for offset, records in self._batches(file):
            self.end = offset + len(records)
            self.checksum = zlib.crc32(records, self.checksum)
            try:
                for start, end in split(records):
                    yield CommandRecord(offset + start, records[start:end])
            except MalformedLog as error:
                self._damaged(offset + error.at, len(records) - error.at, str(error))

    def _batches(self, file: BinaryIO) -> Iterator[LogBatch]:
        at, size, is_intact = 0, self._size, True
        while at < size:
            head = file.read(_HEAD.size)
            if head.startswith(END):
                self.marked = True
                return
            is_intact = False
            if len(head) == _HEAD.size and head.startswith(BEGIN):
                _, length, checksum = _HEAD.unpack(head)
                if 0 < length <= size - at - _HEAD.size:
                    records = file.read(length)
                    if checksum <= 0 or zlib.adler32(records) == checksum:
                        self.unchecked += checksum <= 0
                        yield LogBatch(at + _HEAD.size, records)
                        at += _HEAD.size + length
                        is_intact = True
                        continue
                batch = self._mended(file, at, length, checksum)
                if isinstance(batch, LogBatch):
                    yield batch
                    at = batch.offset + len(batch.records)
                else:
                    at = batch
            elif not head[:5].strip(b"\0"):
                at = self._after_zeros(file, at)
            else:
                following = self._next(file, at + 1)
                self._damaged(at, following - at, "no batch begins here")
                at = following
            file.seek(at)
        if size and is_intact and self.marked:
            self._damaged(size, 0, "it ends without the mark of its end: what followed is missing")

    def _mended(self, file: BinaryIO, at: int, length: int, checksum: int) -> LogBatch | int:
        """Return the batch if only its length is wrong, and otherwise where to continue."""
        end = at + _HEAD.size + length
        if length > 0 and end <= self._size and self._ends(file, end):
            self._damaged(at, end - at, "the checksum of the batch is wrong")
            return end
        following = self._next(file, at + 1)
        length = following - at - _HEAD.size
        if checksum > 0 and length > 0:
            file.seek(at + _HEAD.size)
            if length <= 2**31 and zlib.adler32(records := file.read(length)) == checksum:
                self._damaged(at, _HEAD.size, "the length of the batch is wrong; its records are intact")
                return LogBatch(at + _HEAD.size, records)
        self._damaged(at, following - at, "the batch is incomplete, or its length is wrong")
        return following

    def _after_zeros(self, file: BinaryIO, at: int) -> int:
        """Return where to continue: the size of the file if only allocated space follows."""
        if is_zero(file, at):
            if self.marked:
                self._damaged(at, self._size - at, "there are zeros in place of the mark of its end")
            return self._size
        following = self._next(file, at + 1)
        self._damaged(at, following - at, "there are zeros in place of a batch")
        return following

    def _ends(self, file: BinaryIO, at: int) -> bool:
        """Return whether a batch may end here: another begins, or the written part ends."""
        file.seek(at)
        head = file.read(len(BEGIN))
        return head == BEGIN or head.startswith(END) or (not head.strip(b"\0") and is_zero(file, at))

    def _next(self, file: BinaryIO, at: int) -> int:
        """Return where the next batch begins, or else the size of the file.

        One that is followed by neither another nor the end may be part of a message that contains a log.
        """
        while (place := self._find(file, at)) < self._size:
            file.seek(place)
            head = file.read(_HEAD.size)
            if len(head) == _HEAD.size:
                length = _HEAD.unpack(head)[1]
                if length > 0 and self._ends(file, place + _HEAD.size + length):
                    return place
            at = place + 1
        return place

    def _find(self, file: BinaryIO, at: int) -> int:
        """Return where the bytes are next with which a batch begins, or else the size of the file."""
        file.seek(at)
        before = b""
        for chunk in chunks(file):
            window = before + chunk
            index = window.find(BEGIN)
            if index >= 0:
                return at - len(before) + index
            before = window[-len(BEGIN) + 1 :]
            at += len(chunk)
        return self._size


def split(records: bytes) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each command in a batch.

    :raises MalformedLog: its records do not fit together
    """
    at, end = 0, len(records)
    while at < end:
        if end - at < _RECORD.size:
            raise MalformedLog(f"{end - at} bytes are left over", at)
        size, kind = _RECORD.unpack_from(records, at)
        if size < _RECORD.size or size > end - at or kind not in (_USER, _CONTROL):
            raise MalformedLog(f"a record of type {kind} says that it has {size} bytes", at)
        if kind == _USER:
            yield at + _RECORD.size, at + size
        at += size
