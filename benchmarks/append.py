"""What a journal can do at most: a loop that only writes records behind each other, and syncs."""

from __future__ import annotations

import os
import time
from pathlib import Path

_FILE = 20 << 20


class RawAppends:
    """A file that has its full size before it is written, and is written from its start again when full."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "raw", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        for _ in range(_FILE >> 20):
            os.write(self._file, bytes(1 << 20))
        os.fsync(self._file)

    def rate(self, size: int, together: int, seconds: float) -> float:
        """Records a second of so many bytes each, with so many in one write and one sync."""
        records = os.urandom(size * together)
        offset = syncs = 0
        start = time.perf_counter()
        while time.perf_counter() < start + seconds:
            if offset + len(records) > _FILE:
                offset = 0
            offset += os.pwrite(self._file, records, offset)
            os.fdatasync(self._file)
            syncs += 1
        return syncs * together / (time.perf_counter() - start)

    def close(self) -> None:
        os.close(self._file)
