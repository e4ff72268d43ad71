"""The first page of an index, of messages or of the job scheduler: up to where its broker had written."""

from __future__ import annotations

import struct
from pathlib import Path
from uuid import UUID

MESSAGES, JOBS = "db.data", "scheduleDB.data"
_PAGE = 4096
_HEADER = 21
"""Bytes of a page before its content."""
_END_PAGE = 2
_STATE = struct.Struct(">iq")
_LOCATION = struct.Struct(">ii")
_MOST = 10**9
_TOKEN = UUID("57ed642b-1ee3-47b3-be6d-b7297d500409").bytes
"""The mark of a job scheduler of ActiveMQ 5.11 and later; a version follows."""


def noted(folder: Path) -> list[tuple[int, int]]:
    """Return the records that the index of a folder refers to, by log and offset, if it is understood.

    It may be older than the logs, if its broker was killed, and never newer.
    """
    messages, jobs = _first_page(folder / MESSAGES), _first_page(folder / JOBS)
    if messages and _STATE.unpack_from(messages)[0] in (1, 2):
        return _locations(messages, _STATE.size, 3)  # of the last update, the oldest transaction, the audit
    if jobs.startswith(_TOKEN):
        return _locations(jobs, len(_TOKEN) + 4, 1)
    return []


def has_old_jobs(folder: Path) -> bool:
    """Return whether a folder is that of a job scheduler whose logs cannot be read without its index."""
    jobs = _first_page(folder / JOBS)
    return bool(jobs.strip(b"\0")) and not jobs.startswith(_TOKEN)


def _first_page(path: Path) -> bytes:
    """Return its content; nothing if it cannot be read, or continues elsewhere."""
    try:
        with path.open("rb") as file:
            file.seek(_PAGE)
            page = file.read(_PAGE)
    except OSError:
        return b""
    return page[_HEADER:] if len(page) == _PAGE and page[0] == _END_PAGE else b""


def _locations(page: bytes, at: int, most: int) -> list[tuple[int, int]]:
    locations: list[tuple[int, int]] = []
    for _ in range(most):
        is_there = page[at]
        at += 1
        if is_there:
            log, offset = _LOCATION.unpack_from(page, at)
            at += _LOCATION.size
            if is_there != 1 or not (0 < log < _MOST and offset >= 0):
                return []
            locations.append((log, offset))
    return locations
