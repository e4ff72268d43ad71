"""The record logs of a LevelDB store: one sequence of records, of which each file has a part.

::

    record   "*" (1), its kind (1), the CRC-32 of its content (4), bytes of the content (4), content
    unit     records that were written together, then one of the kind 255 with the position of the first (8)

A file's name is the position of its first record, in hexadecimal digits; where it ends the next one begins.
The last may have been allocated beyond its written part.
"""

from __future__ import annotations

import re
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jdbcstore.errors import CorruptMessage
from jdbcstore.tools.importing.numbered import is_zero
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.source import BodyFiles

ADD_COLLECTION, REMOVE_COLLECTION, ADD_ENTRY, REMOVE_ENTRY, DATA, TRACE, UPDATE_ENTRY = range(1, 8)
END = 255
_KINDS = {*range(1, 8), END}
_HEAD = struct.Struct(">cBII")
_START = struct.Struct(">q")
_MARK = b"*"
_CHUNK = 1 << 20
_NAME = re.compile(r"([0-9a-f]{16})\.log")


class LevelDbLog(NamedTuple):
    """One file."""

    position: int
    path: Path
    number: int
    """Among the files with bodies."""
    size: int


class LogRecord(NamedTuple):
    """A record that is intact."""

    position: int
    kind: int
    content: bytes


OnDamage = Callable[[Path, int, int, str], None]
"""(file, offset, bytes, reason)"""


def log_paths(folder: Path) -> list[tuple[int, Path]]:
    """Return the logs in a folder by their positions."""
    names = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(name[1], 16), path) for name, path in names if name and path.is_file())


class RecordLogs:
    """The logs of one store."""

    def __init__(self, folder: Path, files: BodyFiles, damaged: OnDamage) -> None:
        self._files = files
        self._damaged = damaged
        self.logs = [
            LevelDbLog(position, path, files.number(path), path.stat().st_size)
            for position, path in log_paths(folder)
        ]
        self._starts = [log.position for log in self.logs]
        self._misplaced: dict[int, bool] = {}
        self.records = 0

    def find(self, position: int) -> LevelDbLog | None:
        """Return the log that may have a position, if there is one."""
        number = bisect_right(self._starts, position) - 1
        log = self.logs[number] if number >= 0 else None
        return log if log is not None and position < log.position + max(log.size, 1) else None

    def place_of(self, position: int) -> tuple[Path, int]:
        """Return the file that has a position, or else is the last before it, and the offset in it."""
        log = self.logs[max(bisect_right(self._starts, position) - 1, 0)]
        return log.path, min(max(position - log.position, 0), log.size)

    def is_complete(self) -> bool:
        """Return whether no log has been removed from the beginning on."""
        ends = [0, *(log.position + log.size for log in self.logs)]
        return all(log.position <= end for log, end in zip(self.logs, ends, strict=False))

    # Bodies

    def locate(self, position: int) -> tuple[BodyPlace, bytes]:
        """Return the place of the message in the record at a position, and its bytes.

        :raises CorruptMessage: it is not there
        :raises OSError: it cannot be read
        """
        log = self.find(position)
        if log is None:
            raise CorruptMessage("its log is missing, or is cut off here")
        at = position - log.position
        head = self._files.read(log.number, at, _HEAD.size)
        if len(head) < _HEAD.size:
            raise CorruptMessage(f"{log.path} ends before it")
        mark, kind, checksum, size = _HEAD.unpack(head)
        place = BodyPlace(log.number, at + _HEAD.size, size)
        if mark != _MARK or kind != DATA or size > log.size:
            raise CorruptMessage(f"{log.path} has no message at {at}")
        content = self._files.read(*place)
        if zlib.crc32(content) != checksum:
            raise CorruptMessage(f"{log.path} at {at}: the checksum is wrong")
        if self._is_misplaced(log):
            raise CorruptMessage(f"{log.path} has the content of another log")
        return place, content

    def read(self, place: BodyPlace) -> bytes:
        """Return the bytes at a place that was located before.

        :raises CorruptMessage: they are not there any more
        :raises OSError: they cannot be read
        """
        head = self._files.read(place.file, place.at - _HEAD.size, _HEAD.size + place.size)
        if len(head) < _HEAD.size or zlib.crc32(head[_HEAD.size :]) != _HEAD.unpack_from(head)[2]:
            raise CorruptMessage("the checksum is wrong")
        return head[_HEAD.size :]

    def _is_misplaced(self, log: LevelDbLog) -> bool:
        """Return whether a file has the records of other positions than its name says."""
        misplaced = self._misplaced.get(log.number)
        if misplaced is None:
            begun = self._first_unit(log)
            misplaced = begun is not None and not log.position <= begun < log.position + log.size
            self._misplaced[log.number] = misplaced
            if misplaced:
                self._damaged(
                    log.path, 0, log.size, f"it has the content of a log with the position {begun:016x}"
                )
        return misplaced

    def _first_unit(self, log: LevelDbLog) -> int | None:
        """Return the position at which a unit began, as the end of the first says that is intact."""
        with log.path.open("rb", buffering=_CHUNK) as file:
            at = 0
            while (at := self._candidate(file, log, at)) < log.size:
                record = self._record(file, log, at)
                if record is not None and record.kind == END and len(record.content) == _START.size:
                    return int(_START.unpack(record.content)[0])
                at += _HEAD.size + len(record.content) if record is not None else 1
        return None

    # Records

    def units(self, start: int, progress: Callable[[int], None]) -> Iterator[list[LogRecord]]:
        """Yield the records that were written together, from a position on; report damage.

        An incomplete last unit was never confirmed, and is omitted.
        """
        logs = [log for log in self.logs if log.position + log.size > start]
        end, before = 0, None
        for log in logs:
            if before is not None and log.position != end:
                self._damaged(
                    before.path, end - before.position, abs(log.position - end),
                    f"it is cut off, or a log between it and {log.path.name} is missing",
                )  # fmt: skip
            before = log
            with log.path.open("rb", buffering=_CHUNK) as file:
                at = max(start - log.position, 0)
                end = yield from self._units(file, log, at, is_last=log is logs[-1])
            progress(log.size)

    def end(self) -> int:
        """Return the position behind the last file."""
        return self.logs[-1].position + self.logs[-1].size if self.logs else 0

    def _units(
        self, file: BinaryIO, log: LevelDbLog, at: int, *, is_last: bool
    ) -> Generator[list[LogRecord], None, int]:
        """Yield the units of a file; returns the position behind the last."""
        begun, pending, is_sound = at, list[LogRecord](), True
        while at < log.size:
            record = self._record(file, log, at)
            if record is None:
                if is_zero(file, at):
                    break
                following = self._next(file, log, at, begun)
                self._damaged(log.path, at, following - at, "no record that is intact begins here")
                at, is_sound = following, False
                continue
            at += _HEAD.size + len(record.content)
            self.records += 1
            if record.kind != END:
                pending.append(record)
                continue
            start = _START.unpack(record.content)[0] if len(record.content) == _START.size else -1
            if not log.position <= start < log.position + log.size:
                self._misplaced[log.number] = True
                self._damaged(
                    log.path, 0, log.size, f"it has the content of a log with the position {start:016x}"
                )
                return log.position + log.size
            if is_sound and start != log.position + begun:
                self._damaged(log.path, begun, at - begun, f"the unit began at {start - log.position}")
            yield pending
            begun, pending, is_sound = at, [], True
        if pending and is_last:
            self._damaged(
                log.path,
                begun,
                at - begun,
                "the last writes are incomplete and were never confirmed: omitted",
            )
        elif pending:
            yield pending
        return log.position + at

    def _record(self, file: BinaryIO, log: LevelDbLog, at: int) -> LogRecord | None:
        file.seek(at)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or head[:1] != _MARK:
            return None
        _, kind, checksum, size = _HEAD.unpack(head)
        if kind not in _KINDS or not 0 < size <= log.size - at - _HEAD.size:
            return None
        content = file.read(size)
        return LogRecord(log.position + at, kind, content) if zlib.crc32(content) == checksum else None

    def _next(self, file: BinaryIO, log: LevelDbLog, at: int, begun: int) -> int:
        """Return where the next record begins, or else the size of the file.

        One whose unit does not end, or began elsewhere, may be part of a message that contains a log.
        """
        place = at
        while (place := self._candidate(file, log, place + 1)) < log.size:
            follower: int | None = place
            while follower is not None:
                record = self._record(file, log, follower)
                if record is None:
                    follower = None
                elif record.kind == END and len(record.content) == _START.size:
                    start = _START.unpack(record.content)[0] - log.position
                    if begun <= start <= place or not 0 <= start < log.size:
                        return place
                    follower = None
                else:
                    follower += _HEAD.size + len(record.content)
        return log.size

    def _candidate(self, file: BinaryIO, log: LevelDbLog, at: int) -> int:
        """Return where a record may begin next, or else the size of the file."""
        while at < log.size:
            file.seek(at)
            chunk = file.read(_CHUNK)
            index = -1
            while (index := chunk.find(_MARK, index + 1)) >= 0:
                if index + 1 < len(chunk) and chunk[index + 1] not in _KINDS:
                    continue
                if self._record(file, log, at + index) is not None:
                    return at + index
            at += len(chunk)
        return log.size
