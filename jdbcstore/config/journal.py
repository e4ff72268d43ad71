"""The options of the journal in front of the database."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.config.fields import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig(Options):
    """A journal: messages are written to files first, and to the database at a checkpoint.

    Durations are seconds, sizes bytes. Unless said otherwise, an option is the attribute of the same name
    in camelCase of ActiveMQ's ``journalPersistenceAdapterFactory`` or ``kahaDB``.
    """

    directory: str = "activemq-data"
    """The directory of the files: on this machine, unless ``journal_shared``. ActiveMQ's
    ``dataDirectory``."""
    journal_shared: bool = False
    """Whether the directory is on storage that the next master reaches too. Not in ActiveMQ."""
    use_journal: bool = True
    """False writes no journal; what an existing one holds is moved to the database first."""
    use_quick_journal: bool = False
    """Whether the database gets references, and messages only when their files are to be reused."""

    checkpoint_interval: float = option(300.0, at_least=0, milliseconds=True)
    """Seconds between checkpoints; 0 means only by size, by memory, on demand and on close."""
    max_checkpoint_message_add_size: int = option(1024 * 1024, at_least=1, size=True)
    """Bytes that a checkpoint writes per commit."""
    checkpoint_size: int = option(64 << 20, at_least=1, size=True)
    """Bytes in the journal and not in the database at which a checkpoint begins. Not in ActiveMQ."""
    memory_limit: int = option(128 << 20, at_least=1, size=True)
    """Bytes of messages in memory that are not in the database: a checkpoint begins at 70 % of the limit,
    and writers wait at the limit. Not in ActiveMQ."""

    journal_log_files: int = option(2, at_least=1)
    """Files kept ready to be written; with ``use_quick_journal``, the files that messages stay in."""
    journal_log_file_size: int = option(20 * 1024 * 1024, at_least=4096, size=True)
    """Bytes of a file; KahaDB's ``journalMaxFileLength``."""
    journal_archive_directory: str | None = None
    """The directory that full files are moved to; None reuses them."""
    preallocation_strategy: str = option("zeros", choices=("zeros", "sparse_file"))
    """Way to give a file its full size: by writing zeros, or by setting its length."""
    preallocation_scope: str = option("entire_journal", choices=("entire_journal", "none"))
    """Whether files get their full size before they are written."""

    journal_disk_sync_strategy: str = option("always", choices=("always", "periodic", "never"))
    """Time at which records are synced to disk. ``periodic`` and ``never`` lose the messages acknowledged
    last to their producers when the machine goes down."""
    journal_disk_sync_interval: float = option(1.0, at_least=0, milliseconds=True)
    """Seconds between syncs with ``periodic``."""
    journal_buffer_timeout: float = option(0.0, at_least=0)
    """Seconds that a write waits for others to join it; 0 writes what is pending, and others join while a
    write is under way. Artemis's ``journal-buffer-timeout``."""
    journal_max_write_batch_size: int = option(4 << 20, at_least=1, size=True)
    """Bytes written at once."""
    ignore_missing_journalfiles: bool = False
    """Whether to open although files with messages that are not in the database are missing: those
    messages are lost."""

    journal_retention: float = option(0.0, at_least=0)
    """Seconds that files are kept after they are no longer needed, to replay messages from; 0 keeps none.
    Artemis's ``journal-retention-directory period``."""
    journal_retention_size: int = option(0, at_least=0, size=True)
    """Bytes of such files; 0 means unlimited if ``journal_retention`` is set. Artemis's ``storage-limit``."""
