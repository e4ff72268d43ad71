"""A file system whose calls fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from jdbcstore.util.files import Files


class FaultyFiles(Files):
    """Calls ``before[operation]`` first, which may raise, or say how many bytes are written."""

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], int | None]] = {}
        self.syncs = 0

    def create(self, path: Path) -> int:
        self._do("create")
        return super().create(path)

    def write(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        size = self._do("write")
        return super().write(file, data if size is None else memoryview(data)[:size], offset)

    def sync(self, file: int) -> None:  # noqa: ARG002
        self.syncs += 1
        self._do("sync")

    def truncate(self, file: int, size: int) -> None:
        self._do("truncate")
        super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        self._do("rename")
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:  # noqa: ARG002
        self._do("sync_directory")

    def _do(self, operation: str) -> int | None:
        return self.before[operation]() if operation in self.before else None


def raises(*numbers: int) -> Callable[[], None]:
    """These errors, one after the other, and then no more; the last for ever if it is negative."""
    left = list(numbers)

    def fail() -> None:
        if left:
            number = left[0] if left[0] < 0 else left.pop(0)
            if number:
                raise OSError(abs(number), os.strerror(abs(number)))

    return fail
