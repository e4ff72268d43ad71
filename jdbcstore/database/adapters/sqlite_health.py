"""SQLite's state: the size of the WAL, readers that keep it from being copied, and a long writer.

Who holds a lock is read from Linux's list of locks: to open the file of locks here would release those of
this process.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from jdbcstore.database.adapters.durability import of_sqlite
from jdbcstore.database.adapters.health import Health
from jdbcstore.util.checkup import BAD, WARNING, Diagnosis, Durability, in_seconds

_LOCKS = Path("/proc/locks")
_WRITER = 120
"""The byte of the file of locks that a writer has."""
_READERS = range(124, 128)
"""The bytes of readers that see the WAL."""


class SqliteHealth(Health):
    """Of SQLite in WAL mode."""

    def diagnose(self) -> Iterator[Diagnosis]:
        [(_, _, file), *_] = self._rows("PRAGMA database_list")
        [(page,)] = self._rows("PRAGMA page_size")
        # As each commit does once the WAL is long: no process waits for it, and nothing is lost.
        [(_, pages, copied)] = self._rows("PRAGMA wal_checkpoint(PASSIVE)")
        left = max(0, pages - copied)
        size = _size(f"{file}-wal")
        [(unused,)] = self._rows("PRAGMA freelist_count")
        self.figures |= {
            "wal_bytes": size,
            "wal_pages_left": left,
            "table_bytes": _size(file),
            "reusable_bytes": unused * page,
        }
        yield from self._of_wal(file, size, left * page)
        yield from self._of_writer(file)

    def durability(self) -> Durability:
        [(synchronous,)], [(journal_mode,)] = map(self._rows, ("PRAGMA synchronous", "PRAGMA journal_mode"))
        return of_sqlite(synchronous, journal_mode)

    def _of_wal(self, file: str, size: int, left: int) -> Iterator[Diagnosis]:
        if left >= self._limits.wal_bytes:
            readers = _holders(file, _READERS)
            yield Diagnosis(
                name="long reader",
                severity=BAD,
                text=f"{left >> 10:,} KiB of the WAL cannot be copied into the database: it only grows",
                cause=f"a transaction that reads, of {_processes(readers)}",
                cure="end that transaction, or the process; then PRAGMA wal_checkpoint(TRUNCATE)",
                figures={"left_bytes": left, "wal_bytes": size},
            )
        elif size >= self._limits.wal_bytes:
            yield Diagnosis(
                name="large WAL",
                severity=WARNING,
                text=f"The WAL takes {size >> 10:,} KiB, most of which are copied",
                cause="a reader, or a large transaction, that has ended",
                cure="PRAGMA wal_checkpoint(TRUNCATE)",
                figures={"wal_bytes": size},
            )

    def _of_writer(self, file: str) -> Iterator[Diagnosis]:
        self.figures["lock_waits"] = 0
        self._rows(f"PRAGMA busy_timeout = {round(self._limits.patience * 1000)}")
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            self._cursor.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            primary = error.sqlite_errorcode & 0xFF
            if primary == sqlite3.SQLITE_READONLY:  # read-only: there are no writers
                return
            if primary != sqlite3.SQLITE_BUSY:
                raise
            self.figures["lock_waits"] = 1
            writers = _processes(_holders(file, range(_WRITER, _WRITER + 1)))
            yield Diagnosis(
                name="lock waits",
                severity=BAD,
                text=f"No other process could write for {in_seconds(self._limits.patience)}",
                cause=f"transactions that write, of {writers}",
                cure="end that transaction, or the process",
                figures={"seconds": self._limits.patience},
            )


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except FileNotFoundError:
        return 0


def _holders(file: str, bytes_: range) -> list[int]:
    """Return the processes that hold locks on these bytes of the file of locks; none where that is hidden."""
    try:
        status = os.stat(f"{file}-shm")
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    pids = set()
    for line in lines:
        parts = line.split()
        # Not the device: layered file systems have another one there.
        if len(parts) == 8 and parts[5].endswith(f":{status.st_ino}") and parts[7] != "EOF":
            first, last = int(parts[6]), int(parts[7])
            if first < bytes_.stop and last >= bytes_.start:
                pids.add(int(parts[4]))
    return sorted(pids)


def _processes(pids: list[int]) -> str:
    return " and ".join(map(_process, pids)) or "a process that this one cannot see"


def _process(pid: int) -> str:
    if pid == os.getpid():
        return f"this process, {pid}"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid}"
    # No arguments: they may have passwords.
    return f"process {pid} ({Path(os.fsdecode(words[0])).name})"
