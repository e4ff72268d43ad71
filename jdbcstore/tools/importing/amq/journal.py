"""The data files of an AMQ store's journal, ``data-1`` and so on, and their damages.

::

    record   its size with these 32 bytes (4), 1 (1), zeros (21), "SOR", a command of OpenWire, "EOR"
    mark     the same with -1 in place of 1: how far the broker had written its index

There is no checksum: if a command is changed and still is one, that is not noticed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from jdbcstore.tools.importing.numbered import CommandRecord, FileReader, is_zero

_HEAD = struct.Struct(">ib21s3s")
_FOOT = b"EOR"
_BEGIN = bytes(21) + b"SOR"
_COMMAND, _MARK = 1, -1
_LEAST = _HEAD.size + len(_FOOT)
_CHUNK = 1 << 20
_LOCATION = struct.Struct(">?iiib")
_CONTROL_SIZE = 1028
"""Bytes between the two copies of a version, which are the same where the state between them is whole."""


class DataFileReader(FileReader):
    """Reads one file of a journal."""

    def _records(self, file: BinaryIO) -> Iterator[CommandRecord]:
        at, size = 0, self._size
        while at < size:
            framed = self._record(file, at)
            if framed is not None:
                kind, record = framed
                if kind == _COMMAND:
                    self.checksum = zlib.crc32(record.content, self.checksum)
                    yield record
                at = self.end = record.at + len(record.content) + len(_FOOT)
                continue
            if is_zero(file, at):
                return
            following = self._next(file, at + 1)
            self._damaged(at, following - at, "no record that is intact begins here")
            at = following

    def _record(self, file: BinaryIO, at: int) -> tuple[int, CommandRecord] | None:
        """Return the kind and the content of the record at an offset; None if there is none."""
        file.seek(at)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or not head.endswith(_BEGIN):
            return None
        length, kind, _, _ = _HEAD.unpack(head)
        if kind not in (_COMMAND, _MARK) or not _LEAST <= length <= self._size - at:
            return None
        content = file.read(length - _HEAD.size)
        if not content.endswith(_FOOT):
            return None
        return kind, CommandRecord(at + _HEAD.size, content[: -len(_FOOT)])

    def _next(self, file: BinaryIO, at: int) -> int:
        """Return where the next record begins, or else the size of the file."""
        while at < self._size:
            file.seek(at)
            chunk = file.read(_CHUNK)
            offset = -1
            while (offset := chunk.find(_BEGIN, offset + 1)) >= 0:
                begin = at + offset - 5
                if begin >= 0 and self._record(file, begin) is not None:
                    return begin
            if len(chunk) < _CHUNK:
                break
            at += len(chunk) - len(_BEGIN)
        return self._size


def last_written(control: Path) -> tuple[int, int] | None:
    """Return the file and the offset of a last record, which may be an older one; None if it is not known."""
    try:
        content = control.read_bytes()
    except OSError:
        return None
    for start in (8, 8 + _CONTROL_SIZE + 16):
        end = start + _CONTROL_SIZE
        if len(content) < end + 8 or content[start - 8 : start] != content[end : end + 8]:
            continue
        at = start + 4
        at += _LOCATION.size if content[at] == 1 else 1
        if content[at] == 1:
            _, number, offset, _, _ = _LOCATION.unpack_from(content, at)
            return number, offset
    return None
