"""Reading a LevelDB, as a folder of its files: the newest value of each key, and damages.

Nothing is opened for writing and no file is made, which every library of LevelDB does::

    CURRENT      the name of the manifest
    MANIFEST-n   a log of changes to the set of tables
    n.log        writes that are in no table yet
    n.sst, .ldb  tables: blocks of sorted keys, each with a checksum
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from jdbcstore.tools.importing.leveldb.snappy import decompress
from jdbcstore.tools.importing.protobuf import MalformedLog, read_varint

OnDamage = Callable[[Path, int, int, str], None]
"""(file, offset, bytes, reason)"""

_BLOCK = 32 * 1024
_HEAD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_FOOTER, _MAGIC = 48, 0xDB4775248B80FB57
_TRAILER = struct.Struct("<BI")
_PLAIN, _SNAPPY = 0, 1
_BATCH = struct.Struct("<QI")
_DELETED, _SET = 0, 1
_NAME = re.compile(r"([0-9]+)\.(log|sst|ldb)")


class Written(NamedTuple):
    """A value that was written for a key, or None where the key was deleted."""

    key: bytes
    sequence: int
    """The order of writes."""
    value: bytes | None


class TableSet:
    """The files of a LevelDB that its manifest refers to."""

    def __init__(self, folder: Path, damaged: OnDamage) -> None:
        self._folder = folder
        self._damaged = damaged

    def read(self) -> Iterator[Written]:
        """Yield all written values, possibly several for a key; report damage."""
        manifest = self._manifest()
        if manifest is None:
            return
        tables, first_log = self._live(manifest)
        there = {(int(name[1]), name[2]): path for path, name in self._files()}
        for number in sorted(tables):
            file = there.get((number, "sst")) or there.get((number, "ldb"))
            if file is None:
                self._damaged(self._folder / f"{number:06}.sst", 0, 0, "a table of the index is missing")
            else:
                yield from self._table(file)
        if (first_log, "log") not in there:
            self._damaged(self._folder / f"{first_log:06}.log", 0, 0, "a log of the index is missing")
        for (number, suffix), path in sorted(there.items()):
            if suffix == "log" and number >= first_log:
                yield from self._batches(path)

    def _files(self) -> Iterator[tuple[Path, re.Match[str]]]:
        for path in self._folder.iterdir():
            name = _NAME.fullmatch(path.name)
            if name:
                yield path, name

    def _manifest(self) -> Path | None:
        current = self._folder / "CURRENT"
        try:
            name = current.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            name = ""
        if re.fullmatch(r"MANIFEST-[0-9]+", name) and (self._folder / name).is_file():
            return self._folder / name
        self._damaged(current, 0, 0, "it does not name a manifest of the index that is there")
        return None

    def _live(self, manifest: Path) -> tuple[set[int], int]:
        """Return the numbers of the tables, and of the first log that is in none of them."""
        tables, log = set[int](), 0
        for at, record in self._records(manifest):
            try:
                added, removed, number = _edit(record)
            except (MalformedLog, IndexError) as error:
                self._damaged(manifest, at, len(record), f"a change to the set of tables: {error}")
                continue
            tables = (tables - removed) | added
            log = max(log, number)
        return tables, log

    # Logs

    def _records(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield the records of a log, each with its offset."""
        content = path.read_bytes()
        at, begin, parts = 0, 0, list[bytes]()
        while at + _HEAD.size <= len(content):
            left = _BLOCK - at % _BLOCK
            checksum, length, kind = _HEAD.unpack_from(content, at)
            if left < _HEAD.size or (kind == 0 and length == 0):
                if kind == 0 and not content[at:].strip(b"\0"):
                    break
                at += left
                continue
            data = content[at + _HEAD.size : at + _HEAD.size + length]
            if (
                length > left - _HEAD.size
                or len(data) < length
                or _mask(content[at + 6 : at + 7] + data) != checksum
            ):
                self._damaged(path, at, left, "a record of the index is damaged")
                parts = []
                at += left
                continue
            if kind in (_FULL, _FIRST):
                begin, parts = at, []
            parts.append(data)
            if kind in (_FULL, _LAST):
                yield begin, b"".join(parts)
                parts = []
            at += _HEAD.size + length

    def _batches(self, path: Path) -> Iterator[Written]:
        for at, record in self._records(path):
            try:
                yield from _batch(record)
            except (MalformedLog, IndexError, struct.error) as error:
                self._damaged(path, at, len(record), f"writes of the index: {error}")

    # Tables

    def _table(self, path: Path) -> Iterator[Written]:
        content = path.read_bytes()
        footer = content[-_FOOTER:]
        if len(footer) < _FOOTER or int.from_bytes(footer[-8:], "little") != _MAGIC:
            self._damaged(path, max(len(content) - _FOOTER, 0), 0, "the table of the index has no end")
            return
        try:
            at = _handle(footer, 0)[2]
            start, size, _ = _handle(footer, at)
            index = _entries(_block(content, start, size))
            handles = [_handle(value, 0) for _, value in index]
        except (MalformedLog, IndexError, struct.error) as error:
            self._damaged(path, 0, len(content), f"the table of the index: {error}")
            return
        for start, size, _ in handles:
            try:
                entries = _entries(_block(content, start, size))
            except (MalformedLog, IndexError, struct.error) as error:
                self._damaged(path, start, size, f"a block of the index: {error}")
                continue
            for key, value in entries:
                if len(key) >= 8:
                    tag = int.from_bytes(key[-8:], "little")
                    yield Written(key[:-8], tag >> 8, value if tag & 0xFF == _SET else None)


def _mask(data: bytes) -> int:
    """Return the checksum as LevelDB keeps it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the offset and the size of a block, and where that ends."""
    start, at = read_varint(data, at, len(data))
    size, at = read_varint(data, at, len(data))
    return start, size, at


def _block(content: bytes, start: int, size: int) -> bytes:
    data = content[start : start + size]
    kind, checksum = _TRAILER.unpack_from(content, start + size)
    if _mask(content[start : start + size + 1]) != checksum:
        raise MalformedLog("its checksum is wrong", start)
    if kind == _SNAPPY:
        return decompress(data)
    if kind != _PLAIN:
        raise MalformedLog(f"there is no compression {kind}", start)
    return data


def _entries(block: bytes) -> list[tuple[bytes, bytes]]:
    restarts = int.from_bytes(block[-4:], "little")
    at, end = 0, len(block) - 4 - 4 * restarts
    if end < 0:
        raise MalformedLog("it has too few bytes", 0)
    entries, key = [], b""
    while at < end:
        shared, at = read_varint(block, at, end)
        unshared, at = read_varint(block, at, end)
        size, at = read_varint(block, at, end)
        if shared > len(key) or at + unshared + size > end:
            raise MalformedLog("a key does not fit", at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        entries.append((key, block[at : at + size]))
        at += size
    return entries


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_varint(data, at, len(data))
    if at + size > len(data):
        raise MalformedLog("it ends too early", at)
    return data[at : at + size], at + size


def _batch(record: bytes) -> Iterator[Written]:
    sequence, count = _BATCH.unpack_from(record)
    at = _BATCH.size
    for number in range(count):
        kind = record[at]
        key, at = _text(record, at + 1)
        value = None
        if kind == _SET:
            value, at = _text(record, at)
        elif kind != _DELETED:
            raise MalformedLog(f"there is no write of type {kind}", at)
        yield Written(key, sequence + number, value)
    if at != len(record):
        raise MalformedLog("more bytes follow than there should be", at)


def _edit(record: bytes) -> tuple[set[int], set[int], int]:
    """Return the tables that a change adds and removes, and the first log that is still needed."""
    added, removed, log = set[int](), set[int](), 0
    at, end = 0, len(record)
    while at < end:
        tag, at = read_varint(record, at, end)
        if tag == 1:  # the order of keys
            _, at = _text(record, at)
        elif tag in (2, 3, 4, 9):
            value, at = read_varint(record, at, end)
            if tag == 2:
                log = value
        elif tag == 5:  # how far a level is compacted
            _, at = read_varint(record, at, end)
            _, at = _text(record, at)
        elif tag == 6:
            _, at = read_varint(record, at, end)
            number, at = read_varint(record, at, end)
            removed.add(number)
        elif tag == 7:
            _, at = read_varint(record, at, end)
            number, at = read_varint(record, at, end)
            _, at = read_varint(record, at, end)
            _, at = _text(record, at)
            _, at = _text(record, at)
            added.add(number)
        else:
            raise MalformedLog(f"there is no change of type {tag}", at)
    return added, removed, log
