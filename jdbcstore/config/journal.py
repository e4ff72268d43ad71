"""The journal in front of the database. Nothing runs it yet."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.config.fields import check, option


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """Messages go into files first, and into the database at a checkpoint."""

    directory: str = "activemq-data"
    """Where the files are: on this machine, unless it is shared."""
    checkpoint_interval: float = option(300.0, at_least=0, milliseconds=True)
    journal_log_files: int = option(2, at_least=1)
    journal_log_file_size: int = option(20 * 1024 * 1024, at_least=1, size=True)
    journal_archive_directory: str | None = None
    """Where full files are kept; None deletes them."""
    max_checkpoint_workers: int = option(10, at_least=1)
    max_checkpoint_message_add_size: int = option(1024 * 1024, at_least=1, size=True)
    """A checkpoint commits each time that it has written so many bytes."""

    def __post_init__(self) -> None:
        check(self)
