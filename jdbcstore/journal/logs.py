"""The log of a journal that a configuration describes, in files or in a stream: claimed, or only read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError
from jdbcstore.journal.abc import Aside, Contents, Log
from jdbcstore.journal.directory import AsideFolder
from jdbcstore.journal.recovery import Recovered, recover
from jdbcstore.journal.storage import Segments
from jdbcstore.util.clock import Clock
from jdbcstore.util.files import Files
from jdbcstore.util.stream_health import StreamHealth

if TYPE_CHECKING:
    from jdbcstore.journal.stream.log import StreamContents


def claim(config: JournalConfig, files: Files, clock: Clock) -> Log:
    """Return the log, to be recovered, opened and written.

    :raises ConfigurationError: the stream contradicts the configuration
    :raises JournalInUse: another process has it
    :raises StoreUnavailable: it cannot be used now
    """
    if config.stream is None:
        return Segments(config, files, clock)
    from jdbcstore.journal.stream.log import StreamLog

    return StreamLog(config, clock)


@contextmanager
def beside(config: JournalConfig, folder: str) -> Iterator[Aside]:
    """Yield the files beside the log in a folder for reading, even while another process writes the log.

    :raises ConfigurationError: the stream contradicts the configuration
    :raises StoreUnavailable: the servers do not answer
    """
    if config.stream is None:
        yield AsideFolder(Path(config.directory) / folder)
        return
    from jdbcstore.journal.stream.aside import StreamAside
    from jdbcstore.journal.stream.server import StreamServer

    with closing(StreamServer(config, create=False)) as server:
        yield StreamAside(server, folder)


@contextmanager
def contents(config: JournalConfig) -> Iterator[Contents]:
    """Yield the current contents of the log, even while another process writes it. Nothing is changed.

    :raises ConfigurationError: the stream contradicts the configuration
    :raises CorruptJournal: an acknowledged record is damaged or missing
    :raises StoreUnavailable: it cannot be read now
    """
    if config.stream is None:
        directory = Path(config.directory)
        yield recover(directory) if directory.is_dir() else Recovered()
        return
    with stream_contents(config) as journal:
        yield journal


@contextmanager
def stream_contents(config: JournalConfig, *, ignore_missing: bool = False) -> Iterator[StreamContents]:
    """Yield the contents of the log in a stream, as :func:`contents` does, or the rest of a log that has lost
    its beginning.

    :raises ConfigurationError: the stream contradicts the configuration
    :raises CorruptJournal: an acknowledged record is damaged or missing
    :raises StoreUnavailable: it cannot be read now
    """
    from jdbcstore.journal.stream.log import contents_of
    from jdbcstore.journal.stream.server import StreamServer

    with closing(StreamServer(config, create=False)) as server:
        yield contents_of(server, ignore_missing=ignore_missing)


def not_serving(config: JournalConfig) -> list[str]:
    """Return the servers of the log's stream that do not serve, each with the reason, after some seconds."""
    if config.stream is None:
        return []
    from jdbcstore.journal.stream.health import not_serving as servers_not_serving

    return servers_not_serving(config)


def health(config: JournalConfig) -> StreamHealth | None:
    """Return the current health of the log's stream, within seconds; None if the log is in files.

    :raises ConfigurationError: the configuration is wrong, so that no server can be asked
    """
    if config.stream is None:
        return None
    from jdbcstore.journal.stream.health import looked_at

    state = looked_at(config)
    if not config.replicated or state.problem is not None:
        return state
    from jdbcstore.journal.stream.members import group

    with suppress(StoreError):
        state = replace(state, members=group(config).described)
    return state
