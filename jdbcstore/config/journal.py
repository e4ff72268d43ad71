"""The options of the journal in front of the database."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jdbcstore.config.fields import Options, check, option
from jdbcstore.errors import ConfigurationError

_SERVER = re.compile(r"(?:(nats|tls)://)?([^\s/@:]+|\[[0-9a-fA-F:]+\])(:\d{1,5})?")
_MONITOR = re.compile(r"https?://([^\s/@:?#]+|\[[0-9a-fA-F:]+\])(:\d{1,5})?(/[^\s@?#]*)?")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_STREAM = re.compile(r"[A-Za-z0-9_-]{1,200}")


def stream_name(prefix: str, folder: str) -> str:
    """Return the name of the stream of one of several stores, by that of its folder."""
    return f"{prefix}-{_NOT_IN_A_NAME.sub('_', folder)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig(Options):
    """A journal: messages go to files or a stream first, and to the database later.

    Durations are seconds, sizes bytes. Unless said otherwise, an option is the attribute of the same name
    in camelCase of ActiveMQ's ``journalPersistenceAdapterFactory`` or ``kahaDB``. Those of a stream are not
    in ActiveMQ, but ``replicas`` and ``sync`` are ``replicatedLevelDB``'s.

    :raises ConfigurationError: an option of the stream is wrong, or is for files only
    """

    directory: str = "activemq-data"
    """The directory of the files, for this journal only; on a local disk unless ``journal_shared`` is
    set. ActiveMQ's ``dataDirectory``."""
    journal_shared: bool = False
    """Whether the directory is on storage that the next master can also use. Not in ActiveMQ."""
    use_journal: bool = True
    """Whether to write a journal. If false, the contents of an existing journal are written to the
    database at startup."""
    use_quick_journal: bool = False
    """Whether checkpoints write references to the database. A message is then written in full only if
    it outlasts its file."""

    checkpoint_interval: float = option(300.0, at_least=0, milliseconds=True)
    """Seconds between checkpoints; 0 starts them only by size, by memory, on demand and on close."""
    max_checkpoint_message_add_size: int = option(1024 * 1024, at_least=1, size=True)
    """Bytes in one transaction of a checkpoint."""
    checkpoint_size: int = option(64 << 20, at_least=1, size=True)
    """Bytes missing from the database that start a checkpoint. Not in ActiveMQ."""
    memory_limit: int = option(128 << 20, at_least=1, size=True)
    """Bytes of messages in memory that the database does not have yet. A checkpoint starts at 70 %;
    writers wait at 100 %. Not in ActiveMQ."""

    journal_log_files: int = option(2, at_least=1)
    """Prepared files; with ``use_quick_journal``, the number of files in which messages stay."""
    journal_log_file_size: int = option(20 * 1024 * 1024, at_least=4096, size=True)
    """Bytes of a file; a larger record gets a larger file. With a stream, the bytes that are released
    together. KahaDB's ``journalMaxFileLength``."""
    journal_archive_directory: str | None = None
    """The directory to which full files move when they are no longer needed; None reuses them."""
    preallocation_strategy: str = option("zeros", choices=("zeros", "sparse_file"))
    """Way to give a file its full size: by writing zeros, or by setting its length."""
    preallocation_scope: str = option("entire_journal", choices=("entire_journal", "none"))
    """Whether files get their full size before they are written; with ``none`` they grow."""

    journal_disk_sync_strategy: str = option("always", choices=("always", "periodic", "never"))
    """When records are synced to disk. With ``periodic`` and ``never``, a crash of the machine loses
    the most recent acknowledged writes."""
    journal_disk_sync_interval: float = option(1.0, at_least=0, milliseconds=True)
    """Seconds between syncs with ``periodic``."""
    journal_buffer_timeout: float = option(0.0, at_least=0)
    """Seconds that a write waits for others to join; 0 combines only writes that are already waiting.
    Artemis's ``journal-buffer-timeout``."""
    journal_max_write_batch_size: int = option(4 << 20, at_least=1, size=True)
    """Bytes in one write."""
    ignore_missing_journalfiles: bool = False
    """Whether to open although files are missing whose messages the database does not have. These
    messages are lost."""

    journal_retention: float = option(0.0, at_least=0)
    """Seconds for which files are kept after they are no longer needed, for replay; 0 keeps none.
    Artemis's ``journal-retention-directory period``."""
    journal_retention_size: int = option(0, at_least=0, size=True)
    """Maximum bytes of kept files; 0 means unlimited. Artemis's ``storage-limit``."""

    stream: str | None = None
    """Servers of NATS JetStream that keep the log in a stream, in place of files: ``nats://host:4222``,
    several separated by commas; ``tls://`` encrypts."""
    stream_name: str = "jdbcstore"
    """The name of the stream, which is created if it is missing. Each store needs its own."""
    replicated: bool = False
    """Whether each broker has its own SQLite database, which follows the stream; otherwise all brokers
    share one database."""
    node: str | None = None
    """This broker's name among the followers of the stream; None combines its host and the path of its
    database."""
    weight: int = 1
    """The preference for becoming master: among brokers with all records, a higher weight wins."""
    kept_for_followers: int = option(1 << 30, at_least=1, size=True)
    """Bytes that the stream keeps for brokers that are behind; a broker that needs more gets a copy."""
    replicas: int = option(3, at_least=1)
    """Minimum number of servers with the stream; 3 survive the loss of one."""
    sync: str = option("quorum_mem", choices=("quorum_mem", "quorum_disk"))
    """When a write is acknowledged: a quorum of servers has it in memory, or on disk."""
    stream_user: str | None = None
    """The user at the servers; None logs in without one."""
    stream_password_env: str | None = None
    """The environment variable with the password of ``stream_user``."""
    stream_credentials: str | None = None
    """A NATS credentials file, in place of user and password."""
    stream_authorities: str | None = None
    """For TLS: a PEM file with the authorities of the servers' certificates; None uses the system's."""
    stream_certificate: str | None = None
    """For TLS: a PEM file with this client's certificate, if the servers require one."""
    stream_private_key: str | None = None
    """For TLS: a PEM file with its private key; None reads it from ``stream_certificate``."""
    stream_monitors: str | None = None
    """Monitoring addresses of the servers, such as ``http://host:8222``, separated by commas. The store
    asks them whether ``quorum_disk`` is in effect; None trusts the servers' configuration."""

    def __post_init__(self) -> None:
        check(self)
        if self.replicated:
            self._check_replicated()
        if self.stream is None:
            return
        if not all(_SERVER.fullmatch(part.strip()) for part in self.stream.split(",")):
            # It may contain a password, and is not repeated.
            raise ConfigurationError(
                "stream is not a list of servers: give nats://host:4222, or several with commas; a login"
                " goes to stream_user and stream_password_env, or to stream_credentials",
                option="stream",
            )
        if not _STREAM.fullmatch(self.stream_name):
            raise ConfigurationError(
                f"{self.stream_name!r} is not the name of a stream: use letters, digits, - and _",
                option="stream_name",
            )
        if not all(_MONITOR.fullmatch(monitor) for monitor in self.monitors):
            # It may contain a password, too.
            raise ConfigurationError(
                "stream_monitors is not a list of addresses: give http://host:8222, or several with commas,"
                " without a login",
                option="stream_monitors",
            )
        for name, is_set in (
            ("journal_shared", self.journal_shared),
            ("journal_archive_directory", self.journal_archive_directory is not None),
            ("journal_disk_sync_strategy", self.journal_disk_sync_strategy != "always"),
            ("journal_retention", self.journal_retention > 0),
            ("journal_retention_size", self.journal_retention_size > 0),
        ):
            if is_set:
                raise ConfigurationError(f"{name} is for a journal in files; leave it out", option=name)

    def _check_replicated(self) -> None:
        for name, why in (
            ("use_quick_journal", "a database would refer to what the stream releases"),
            ("ignore_missing_journalfiles", "a database that lacks something gets a copy of the master's"),
        ):
            if getattr(self, name):
                raise ConfigurationError(f"{name} is not for a replicated journal: {why}", option=name)
        if not self.use_journal:
            raise ConfigurationError("nothing is replicated without the journal", option="use_journal")
        if self.node is not None and not _STREAM.fullmatch(self.node):
            raise ConfigurationError(
                f"{self.node!r} is not the name of a node: use letters, digits, - and _", option="node"
            )

    @property
    def servers(self) -> tuple[str, ...]:
        """The URLs of the stream's servers."""
        servers = [part.strip() for part in (self.stream or "").split(",")]
        scheme = "tls" if servers[0].startswith("tls:") else "nats"
        return tuple(server if "://" in server else f"{scheme}://{server}" for server in servers if server)

    @property
    def monitors(self) -> tuple[str, ...]:
        """The monitoring addresses of the stream's servers."""
        return tuple(
            part.strip().rstrip("/") for part in (self.stream_monitors or "").split(",") if part.strip()
        )

    @property
    def place(self) -> str:
        """The place of the log, for messages to people: the directory, or the stream."""
        return self.directory if self.stream is None else f"the stream {self.stream_name} at {self.stream}"
