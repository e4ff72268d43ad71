"""Files that are ready to become segments: made ahead of their use, or used before."""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.journal import directory as names
from jdbcstore.util.files import Files

log = logging.getLogger(__name__)

_ZEROS = bytes(1 << 20)


class Spares:
    """The files of one directory. For any number of threads."""

    def __init__(self, directory: Path, config: JournalConfig, files: Files) -> None:
        self._directory = directory
        self._size = config.journal_log_file_size
        self._count = config.journal_log_files - 1
        if config.use_quick_journal:
            # The others are full of what the database refers to.
            self._count = min(self._count, 1)
        self._ahead = config.preallocation_scope == "entire_journal"
        self._sparse = config.preallocation_strategy == "sparse_file"
        self._files = files
        self._lock = threading.Lock()
        self._ready: list[Path] = []
        self._last = 0
        self._closed = False
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Take what an earlier process left, and begin to make what is missing."""
        for path in names.unfinished(self._directory):
            self._files.remove(path)
        for number, path in names.spares(self._directory).items():
            self._last = max(self._last, number)
            if path.stat().st_size == self._size and len(self._ready) < max(self._count, 1):
                self._ready.append(path)
            else:
                self._files.remove(path)
        if self._ahead and self._count:
            self._thread = threading.Thread(target=self._run, name="jdbcstore-journal-files", daemon=True)
            self._wanted.set()
            self._thread.start()

    def take(self, size: int) -> Path:
        """A file of at least this size, durable but for its name; made now if there is none.

        :raises OSError: there is no room for one
        """
        if size <= self._size:
            with self._lock:
                ready = self._ready.pop() if self._ready else None
            self._wanted.set()
            if ready is not None:
                return ready
        return self._make(max(size, self._size))

    def give(self, path: Path, size: int) -> None:
        """Take a file that is needed no more, to be used again or removed; durably so when this returns.

        :raises OSError:
        """
        with self._lock:
            used = size == self._size and len(self._ready) < max(self._count, 1)
            target = self._next()
        if used:
            self._files.rename(path, names.spare_path(self._directory, target))
        else:
            self._files.remove(path)
        # Before it can be written: it would else be a segment again after a crash, with another's content.
        self._files.sync_directory(self._directory)
        if used:
            with self._lock:
                self._ready.insert(0, names.spare_path(self._directory, target))

    def close(self) -> None:
        self._closed = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def fill(self, file: int, start: int, size: int) -> None:
        """Give a file its size, and what is behind ``start`` its room, as the configuration says. Synced.

        :raises OSError:
        """
        if self._ahead and self._sparse:
            self._files.truncate(file, size)
        elif self._ahead:
            while start < size and not self._closed:
                start += self._files.write(file, memoryview(_ZEROS)[: size - start], start)
        self._files.sync(file)

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _make(self, size: int) -> Path:
        with self._lock:
            number = self._next()
        making = names.unfinished_path(self._directory, number)
        path = names.spare_path(self._directory, number)
        file = self._files.create(making)
        try:
            try:
                self.fill(file, 0, size)
            finally:
                self._files.close(file)
            self._files.rename(making, path)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.remove(making)
            raise
        return path

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            while not self._closed and len(self._ready) < self._count:
                try:
                    path = self._make(self._size)
                except OSError as error:
                    log.warning("no file could be made ahead for the journal: %s", error)
                    break
                with self._lock:
                    self._ready.append(path)
            if self._closed:
                return
