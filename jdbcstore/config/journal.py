"""The journal in front of the database."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.config.fields import check, option

SYNCS = ("always", "periodic", "never")
SCOPES = ("entire_journal", "none")
STRATEGIES = ("zeros", "sparse_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """Messages go into files first, and into the database at a checkpoint."""

    directory: str = "activemq-data"
    """Where the files are: on this machine, unless it is shared."""
    journal_shared: bool = False
    """The directory is on storage that the next master has, too."""
    use_journal: bool = True
    """False writes none; what one holds is taken into the database first."""

    use_quick_journal: bool = False
    """The database gets references, and the messages when the files that they are in are to be used again."""

    checkpoint_interval: float = option(300.0, at_least=0, milliseconds=True)
    """0 has checkpoints made by size, by memory, on demand and at the end."""
    max_checkpoint_message_add_size: int = option(1024 * 1024, at_least=1, size=True)
    """A checkpoint commits each time that it has written so many bytes."""
    checkpoint_size: int = option(64 << 20, at_least=1, size=True)
    """A checkpoint begins when the journal holds so many bytes that are not in the database."""
    memory_limit: int = option(128 << 20, at_least=1, size=True)
    """Bytes of messages in memory that are not in the database: a checkpoint begins at 70 % of it, and
    writers wait at all of it."""

    journal_log_files: int = option(2, at_least=1)
    """Files that are kept ready to be written; with ``use_quick_journal``, those that messages stay in."""
    journal_log_file_size: int = option(20 * 1024 * 1024, at_least=4096, size=True)
    journal_archive_directory: str | None = None
    """Where full files are kept; None uses them again."""
    preallocation_strategy: str = option("zeros", choices=STRATEGIES)
    preallocation_scope: str = option("entire_journal", choices=SCOPES)
    """Whether files get their full size before they are written."""

    journal_disk_sync_strategy: str = option("always", choices=SYNCS)
    """``periodic`` and ``never`` lose what was acknowledged last when the machine goes down."""
    journal_disk_sync_interval: float = option(1.0, at_least=0, milliseconds=True)
    journal_buffer_timeout: float = option(0.0, at_least=0)
    """How long the journal waits for more to write at once. 0 takes what is there: writes join while one is
    under way."""
    journal_max_write_batch_size: int = option(4 << 20, at_least=1, size=True)

    ignore_missing_journalfiles: bool = False
    """Open also when files are gone that the database has not all of: what was in them is lost."""

    journal_retention: float = option(0.0, at_least=0)
    """How long files are kept that are needed no more, to replay messages from."""
    journal_retention_size: int = option(0, at_least=0, size=True)
    """The most bytes of such files; 0 is no limit while ``journal_retention`` is given."""

    def __post_init__(self) -> None:
        check(self)
