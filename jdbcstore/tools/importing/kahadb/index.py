"""The first page of KahaDB's index, ``db.data``: up to where its broker had written."""

from __future__ import annotations

import struct
from pathlib import Path

INDEX = "db.data"
INDEXES = (INDEX, "scheduleDB.data")
"""The index of messages, and that of the job scheduler."""
_PAGE = 4096
_HEADER = 21
"""Bytes of a page before its content."""
_END_PAGE = 2
_STATE = struct.Struct(">iq")
_LOCATION = struct.Struct(">ii")
_MOST = 10**9


def noted(folder: Path) -> list[tuple[int, int]]:
    """Return the records that the index of a folder refers to, by log and offset, if it is understood.

    It may be older than the logs, if its broker was killed, and never newer.
    """
    try:
        with (folder / INDEX).open("rb") as file:
            file.seek(_PAGE)
            page = file.read(_PAGE)
    except OSError:
        return []
    try:
        return _locations(page)
    except (struct.error, IndexError):
        return []


def _locations(page: bytes) -> list[tuple[int, int]]:
    """Return the places of the last update, of the oldest transaction, and of the audit."""
    if page[0] != _END_PAGE:
        return []
    state, _ = _STATE.unpack_from(page, _HEADER)
    if state not in (1, 2):
        return []
    at, found = _HEADER + _STATE.size, list[tuple[int, int]]()
    for _ in range(3):
        if page[at] not in (0, 1):
            return []
        at += 1
        if page[at - 1]:
            log, offset = _LOCATION.unpack_from(page, at)
            at += _LOCATION.size
            if not (0 < log < _MOST and offset >= 0):
                return []
            found.append((log, offset))
    return found
