"""What becomes of segments that the journal needs no more: used again, or kept for what was in them."""

from __future__ import annotations

import errno
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.journal.directory import kept_path, kept_segments
from jdbcstore.journal.recovery import Segment
from jdbcstore.journal.spares import Spares
from jdbcstore.util.clock import Clock
from jdbcstore.util.files import UNFINISHED, Files, copy_file, make_directory


class Keeping:
    """For one caller at a time."""

    def __init__(
        self, directory: Path, config: JournalConfig, files: Files, clock: Clock, spares: Spares
    ) -> None:
        archive = config.journal_archive_directory
        self._directory = directory
        self._place = Path(archive) if archive else directory
        self._seconds = config.journal_retention
        self._bytes = config.journal_retention_size
        self._keeps = bool(archive or self._seconds or self._bytes)
        self._files = files
        self._clock = clock
        self._spares = spares

    def start(self) -> None:
        """
        :raises OSError:
        """
        make_directory(self._place, files=self._files)
        for path in self._place.glob(f"kept-*{UNFINISHED}"):
            self._files.remove(path)
        self.prune()

    def let_go(self, segment: Segment, last_time: int) -> None:
        """Durable when it returns.

        :raises OSError:
        """
        if not self._keeps:
            self._spares.give(segment.path, segment.path.stat().st_size)
            return
        target = kept_path(self._place, segment.header, last_number=segment.last_number, last_time=last_time)
        try:
            self._files.rename(segment.path, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._move(segment.path, target)
        self._files.sync_directory(self._place)
        if self._place != self._directory:
            self._files.sync_directory(self._directory)

    def _move(self, source: Path, target: Path) -> None:
        """To another file system."""
        copy_file(source, target, files=self._files)
        self._files.remove(source)

    def prune(self) -> None:
        """Let go of what was kept long enough, or is too much: the oldest first.

        :raises OSError:
        """
        if not (self._seconds or self._bytes):
            return
        kept = [(one, one.size) for one in kept_segments(self._place)]
        size = sum(each for _, each in kept)
        oldest = self._clock.now_ms() - self._seconds * 1000
        for one, each in kept:
            if (self._seconds and one.last_time < oldest) or (self._bytes and size > self._bytes):
                size -= each
                if self._place == self._directory:
                    self._spares.give(one.path, each)
                else:
                    self._files.remove(one.path)
