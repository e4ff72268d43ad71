"""The data files of an AMQ store's journal, ``data-1`` and so on, and what is damaged of them.

::

    record   its size with these 32 bytes (4), 1 (1), zeros (21), "SOR", a command of OpenWire, "EOR"
    mark     the same with -1 in place of 1: how far the broker had written its index

There is no checksum: if a command is changed and still is one, that is not noticed.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_HEAD = struct.Struct(">ib21s3s")
_FOOT = b"EOR"
_BEGIN = bytes(21) + b"SOR"
_COMMAND, _MARK = 1, -1
_LEAST = _HEAD.size + len(_FOOT)
_NAME = re.compile(r"data-([0-9]{1,9})")
_CHUNK = 1 << 20
_LOCATION = struct.Struct(">?iiib")
_CONTROL_SIZE = 1028
"""Bytes between the two copies of a version, which are the same where the state between them is whole."""


class DataFile(NamedTuple):
    """One file of the journal."""

    number: int
    path: Path


class DataRecord(NamedTuple):
    """A record: the offset of its command, and its bytes."""

    at: int
    command: bytes
    is_mark: bool


OnDamage = Callable[[int, int, str], None]
"""(offset, bytes, reason)"""


def data_files(folder: Path) -> list[DataFile]:
    """Return the files of the journal in a folder, in their order."""
    found = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted(DataFile(int(name[1]), path) for name, path in found if name and path.is_file())


class DataFileReader:
    """Reads one file of a journal."""

    def __init__(self, path: Path, damaged: OnDamage) -> None:
        self._path = path
        self._damaged = damaged
        self.end = 0
        """The offset behind the last record that is intact."""
        self.checksum = 0
        """The checksum of all commands."""

    def entries(self) -> Iterator[DataRecord]:
        """Yield the records that are intact, and report what is between them."""
        with self._path.open("rb", buffering=_CHUNK) as file:
            size = file.seek(0, 2)
            at = 0
            while at < size:
                entry = self._entry(file, at, size)
                if entry is not None:
                    if not entry.is_mark:
                        self.checksum = zlib.crc32(entry.command, self.checksum)
                        yield entry
                    at = self.end = entry.at + len(entry.command) + len(_FOOT)
                    continue
                if self._is_zero(file, at):
                    return
                following = self._next(file, at + 1, size)
                self._damaged(at, following - at, "no record that is intact begins here")
                at = following

    @staticmethod
    def _entry(file: BinaryIO, at: int, size: int) -> DataRecord | None:
        file.seek(at)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or not head.endswith(_BEGIN):
            return None
        length, kind, _, _ = _HEAD.unpack(head)
        if kind not in (_COMMAND, _MARK) or not _LEAST <= length <= size - at:
            return None
        content = file.read(length - _HEAD.size)
        if not content.endswith(_FOOT):
            return None
        return DataRecord(at + _HEAD.size, content[: -len(_FOOT)], kind == _MARK)

    def _next(self, file: BinaryIO, at: int, size: int) -> int:
        """Return where the next record begins, or else the size of the file."""
        while at < size:
            file.seek(at)
            chunk = file.read(_CHUNK)
            found = -1
            while (found := chunk.find(_BEGIN, found + 1)) >= 0:
                begin = at + found - 5
                if begin >= 0 and self._entry(file, begin, size) is not None:
                    return begin
            if len(chunk) < _CHUNK:
                break
            at += len(chunk) - len(_BEGIN)
        return size

    @staticmethod
    def _is_zero(file: BinaryIO, at: int) -> bool:
        file.seek(at)
        while chunk := file.read(_CHUNK):
            if chunk.strip(b"\0"):
                return False
        return True


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
