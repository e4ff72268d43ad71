"""Writing down a history: in memory for the threads of one process, or as lines of JSON for several."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.support.histories.events import Event, read, to_json


class Recorder:
    """A history in the making. Thread-safe.

    With ``file``, each event is also a line of it, handed to the operating system at once, so that what a
    killed process knew is there. :func:`collect` reads the files of all processes.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._lock = threading.Lock()
        self.events: list[Event] = []
        """Those of this process."""
        self._file: IO[str] | None = None if file is None else file.open("a", buffering=1)

    def add(self, event: Event) -> None:
        """Append an event."""
        with self._lock:
            self.events.append(event)
            if self._file is not None:
                self._file.write(f"{to_json(event)}\n")

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def collect(folder: Path) -> Iterator[Event]:
    """Read the events of all ``*.history`` files of a folder."""
    for file in sorted(folder.glob("*.history")):
        with file.open() as lines:
            yield from read(lines)
