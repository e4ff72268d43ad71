"""The errors of this library, all derived from :class:`StoreError`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


class StoreError(Exception):
    """Base class of all errors of this library. The driver's error, if any, is the ``__cause__``."""


class ConfigurationError(StoreError, ValueError):
    """An invalid option, URL or name; raised before anything is written.

    ``option`` is the name of the option, if the error is about an option; ``place`` is the place where the
    option was set: a line of a file, or an environment variable.
    """

    def __init__(self, message: str, *, option: str | None = None, place: str | None = None) -> None:
        self.option = option
        self.place = place
        super().__init__(message)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.place}: {text}" if self.place else text


_LISTED = 6
"""The number of databases that the error lists: databases that are still in use."""


class UnknownDatabase(ConfigurationError):
    """No adapter supports the URL's ``scheme``; ``known`` are the supported schemes."""

    def __init__(self, scheme: str, known: tuple[str, ...]) -> None:
        from difflib import get_close_matches

        self.scheme = scheme
        self.known = known
        near = get_close_matches(scheme.removeprefix("jdbc:").lower(), known, 1)
        super().__init__(
            f"no adapter for database {scheme!r}; {f'did you mean {near[0]}? ' if near else ''}"
            f"use one of {', '.join(known[:_LISTED])} or another that jdbcstore doctor lists, in a SQLAlchemy"
            " URL (postgresql://user@host/db) or a JDBC URL (jdbc:postgresql://host/db); for a database"
            " without an adapter, set the option adapter to default, blob, bytes or image",
            option="url",
        )


def installation(extra: str) -> str:
    """Return the command that installs the missing distributions of an extra of this package, by name.

    It does not name this package, because that is not on every index.
    """
    from importlib.metadata import PackageNotFoundError, distribution, requires

    try:
        requirements = requires("jdbcstore") or []
    except PackageNotFoundError:  # not installed itself, only on the path
        return f"pip install '.[{extra}]' in a clone of jdbcstore"
    wanted = [
        needed
        for needed, _, condition in (requirement.partition("; ") for requirement in requirements)
        if re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", condition)
    ]

    def is_missing(needed: str) -> bool:
        try:
            distribution(re.split(r"[^\w.-]", needed)[0])
        except PackageNotFoundError:
            return True
        return "[" in needed  # with an extra, whose packages are unknown

    return " ".join(
        ["pip install", *(f"'{requirement}'" for requirement in [*filter(is_missing, wanted)] or wanted)]
    )


@contextmanager
def needing(what: str, extra: str, option: str | None = None) -> Iterator[None]:
    """Import packages of an extra, in the block.

    :param what: the reason for the import, which the error gives before the command to install the extra
    :raises ConfigurationError: an import fails
    """
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(f"{what}; run: {installation(extra)}", option=option) from error


class MissingDriver(ConfigurationError):
    """The Python module ``driver`` is not installed; jdbcstore's extra ``extra`` installs it."""

    def __init__(self, driver: str, extra: str) -> None:
        self.driver = driver
        self.extra = extra
        super().__init__(f"the driver {driver!r} is not installed; run: {installation(extra)}", option="url")


class SchemaError(StoreError):
    """The tables are missing, or this store cannot use them: they are ``found`` instead of ``expected``."""

    def __init__(self, message: str, *, found: str | None = None, expected: str | None = None) -> None:
        self.found = found
        self.expected = expected
        super().__init__(message)


class StoreUnavailable(StoreError):
    """The database does not answer. Nothing was written; retry the operation later."""


class AuthenticationFailed(StoreUnavailable):
    """The database rejected the user name or password, or the servers of a journal's stream rejected the
    login.

    The servers of a stream also raise it if the user lacks a permission.
    """


class DatabaseLocked(StoreUnavailable):
    """Waiting for the lock of a whole SQLite database timed out. Nothing was written.

    This thread itself may hold the lock, in a transaction of the application.
    """


class StorageFull(StoreUnavailable):
    """The database has no space left. Nothing was written; retry the operation once there is room."""


class OutcomeUnknown(StoreUnavailable):
    """The outcome of a commit is unknown: the connection was lost, or the database's error is ambiguous.

    The write took effect completely or not at all. Adding the same message again may store it twice;
    acknowledging again is harmless.
    """

    def __init__(
        self,
        message: str = "the connection was lost during a commit, and the database could not be asked for the "
        "outcome: either everything or nothing was written; check before adding it again",
    ) -> None:
        super().__init__(message)


class ClaimLost(StoreError):
    """Claims that this process no longer holds; the operation had no effect.

    ``sequences`` are the IDs of the messages. Their lease had expired, or they were acknowledged or returned
    before, perhaps by another thread. Another process, or this one, may have claimed them again since and may
    be working on them.
    """

    def __init__(self, sequences: tuple[int, ...]) -> None:
        self.sequences = sequences
        listed = ", ".join(map(str, sequences[:5])) + (", ..." if len(sequences) > 5 else "")
        super().__init__(
            f"{len(sequences)} claims are lost, of the messages {listed}: the lease has expired, or "
            "they were settled before. Nothing was changed. Undo the work for these messages, or "
            "repeat the call without them"
        )


class StoreClosed(StoreError):
    """The store is closed. ``unwritten`` counts the operations that a close with a timeout cancelled."""

    def __init__(self, message: str = "the store is closed; open it again", *, unwritten: int = 0) -> None:
        self.unwritten = unwritten
        super().__init__(message)


class NotMaster(StoreError):
    """Another broker or store holds the lock. ``holder`` is its name, if the lock stores one."""

    def __init__(self, message: str, *, holder: str | None = None) -> None:
        self.holder = holder
        super().__init__(message)


class LockLost(StoreError):
    """This store is no longer the master, or its journal was opened elsewhere; nothing of this operation was
    written.

    Open the store again to wait for the lock. If ``in_doubt`` is true, check whether the operation was
    written before the lock was lost; otherwise it was not.
    """

    def __init__(self, message: str, *, in_doubt: bool = False, refused: bool = False) -> None:
        self.in_doubt = in_doubt
        self.refused = refused
        """Whether the database rejected the write. It then accepts no further write from this store."""
        doubt = "; it was lost during this write: check whether it was written" if in_doubt else ""
        super().__init__(message + doubt)


class ReplySuppressed(StoreError):
    """The broker or its connectors are stopping because of the error that is the ``__cause__``.

    The client gets no reply, not even an error. Its connection is closed, so that it reconnects to the next
    master. Its request may have been executed if the cause says so.
    """


class InvalidMessage(StoreError, ValueError):
    """This message cannot be stored as it is; other messages are not affected."""


class MessageTooLarge(InvalidMessage):
    """The message exceeds the database's limit: ``size`` and ``limit`` are bytes.

    ``limit`` is None if it is unknown.
    """

    def __init__(self, size: int, limit: int | None, advice: str) -> None:
        self.size = size
        self.limit = limit
        at_most = "" if limit is None else f", and the database accepts at most {limit}"
        super().__init__(f"the message takes {size} bytes{at_most}; {advice}")


class InvalidDestination(StoreError, ValueError):
    """A destination that cannot be used here: of the wrong kind, or the tables cannot hold its name."""


class DestinationNotFound(InvalidDestination, LookupError):
    """The broker does not know a queue or topic of this name."""


class InvalidSelector(StoreError, ValueError):
    """``selector`` is not a valid JMS selector, because of ``reason``.

    ``position`` is the offset of the error, from 0; None if it is not at a position.
    """

    def __init__(self, selector: str, reason: str, *, position: int | None = None) -> None:
        self.selector = selector
        self.reason = reason
        self.position = position
        at = "" if position is None else f" at character {position + 1}"
        shown = selector if len(selector) <= 250 else f"{selector[:250]}..."
        super().__init__(f"the selector {shown!r} is wrong{at}: {reason}")


class ProtocolError(StoreError):
    """A client of the broker violated its protocol or exceeded a limit.

    If ``fatal``, the rest of the connection's input cannot be parsed or trusted, and the connection is
    closed.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        self.fatal = fatal
        super().__init__(message)


class NotAuthorized(StoreError):
    """The login is wrong, or the user does not have the permission."""


class ClientIdInUse(NotAuthorized):
    """Another connection has the client id."""


class DestinationFull(StoreError):
    """A destination or the broker has no room for a message, and is configured not to wait."""


class SpillFailed(StoreError):
    """A temporary file of pending messages in ``folder`` cannot be written or read."""

    def __init__(self, folder: str, what: str) -> None:
        self.folder = folder
        super().__init__(
            f"a temporary file of pending messages in {folder} {what}; free space there, or set"
            " tmp_data_directory to another folder"
        )


class JournalFailed(StoreUnavailable):
    """The journal's files can no longer be written. All confirmed writes are in them or in the database.

    After a failed sync the content of the disk is unknown, so nothing is retried: open the store again.
    """


class CorruptJournal(StoreError):
    """A file of the journal with confirmed records is damaged or missing. Nothing was changed.

    ``segment`` is the number of the file and ``offset`` the position in it. In a stream, ``segment`` is the
    sequence of a message.
    """

    def __init__(self, reason: str, *, segment: int, offset: int = 0, in_stream: bool = False) -> None:
        self.segment = segment
        self.offset = offset
        if in_stream:
            message = (
                f"the journal is damaged at message {segment} of its stream: {reason}; inspect it with "
                "jdbcstore journal check, and restore the stream, or run jdbcstore journal adopt to "
                "continue with the database alone"
            )
        else:
            message = (
                f"the journal is damaged in segment {segment} at {offset}: {reason}; inspect it with "
                "jdbcstore journal check, and recover the readable records with jdbcstore journal repair"
            )
        super().__init__(message)


class JournalPending(StoreError):
    """A journal has messages that are not in the database yet: the store must be opened with that journal.

    ``journal`` is its number, as stored in its files.
    """

    def __init__(
        self, journal: int, place: str, *, directory: str | None = None, in_stream: bool = False
    ) -> None:
        self.journal = journal
        self.directory = directory
        """The configured directory or stream, which has another journal or none; None without a configured
        one."""
        advice = (
            "use the configuration that names the journal's directory, with use_journal=false"
            " to stop using the journal, or run jdbcstore journal replay with it"
        )
        if directory is not None and in_stream:
            advice = (
                f"it is not in {directory}: restore it, or correct stream_name; if it is lost, run "
                "jdbcstore journal adopt to continue with the database alone"
            )
        elif directory is not None:
            advice = (
                f"its files are not in {directory}: move them there, or configure the right directory;"
                " if they are lost, ignore_missing_journalfiles=true opens the store without their messages"
            )
        super().__init__(
            f"the journal number {journal} has messages that are not in {place} yet, so only that "
            f"journal may write there; {advice}"
        )


IN_JOURNAL = "a journal may have messages that are not in this database yet; they are not shown"
"""The warning for a reader, where a writer gets :class:`JournalPending`."""


class JournalInUse(StoreUnavailable):
    """Another process has locked the journal's directory, ``directory``."""

    def __init__(self, directory: str, holder: str | None = None) -> None:
        self.directory = directory
        who = holder or "another process"
        super().__init__(
            f"{who} has the journal in {directory} open; stop it, or configure another directory"
        )


class InvalidSubscription(StoreError, ValueError):
    """A client id, subscription name or selector that the tables cannot hold, or a rejected subscription."""


class CorruptMessage(StoreError, ValueError):
    """A MSG column that cannot be decoded, and the ``reason``. The row is unchanged; ``blob`` has its bytes.

    ``sequence`` (the ID column) and ``container`` identify the row, if they are known.
    """

    def __init__(
        self,
        reason: str,
        *,
        blob: bytes = b"",
        sequence: int | None = None,
        container: str | None = None,
    ) -> None:
        self.reason = reason
        self.blob = blob
        self.sequence = sequence
        self.container = container
        row = "" if sequence is None else f" (ID {sequence} of {container or 'an unknown container'})"
        super().__init__(f"cannot decode a message{row}: {reason}; {self._advice}")

    _advice = "the row is kept, and acknowledging its ID removes it"


class BodyInJournal(CorruptMessage):
    """The row refers to a message in the files of a journal (``use_quick_journal``).

    ``journal`` is its number, as stored in its files. Nothing is lost while these exist.
    """

    def __init__(
        self,
        reason: str,
        *,
        journal: int,
        blob: bytes = b"",
        sequence: int | None = None,
        container: str | None = None,
    ) -> None:
        self.journal = journal
        super().__init__(reason, blob=blob, sequence=sequence, container=container)

    _advice = (
        "open the store with the configuration that names the journal's directory, and close it; the"
        " database then has the message"
    )


class BodyInPieces(CorruptMessage):
    """The body of ``size`` bytes is not in the row, but in pieces in JDBCSTORE_PIECES; it is not damaged.

    Headers and properties are read as always.
    """

    def __init__(self, size: int, *, sequence: int | None = None, container: str | None = None) -> None:
        self.size = size
        super().__init__(
            f"its body of {size} bytes is kept in pieces", sequence=sequence, container=container
        )

    _advice = "consume it as a client of the broker, or read its pieces with store.large_bodies"


class LargeBodyMissing(StoreError):
    """The pieces of a large body are not, or no longer, in this store."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"the pieces of the large body {number:x} are not in this store; send the message again, or"
            " consume it from the store that it is in"
        )


class MessageNotFound(StoreError, LookupError):
    """No such message in this destination; another consumer may have acknowledged it."""


class SubscriptionNotFound(StoreError, LookupError):
    """No such durable subscription."""


class SubscriptionExists(StoreError):
    """The durable subscription exists with another selector or destination; unsubscribe first."""


class SubscriptionInUse(StoreError):
    """The durable subscription has an active consumer, so it cannot get another or be deleted."""


class TransactionError(StoreError):
    """The transaction has ended or failed, or does not support the operation."""


class TransactionNotFound(TransactionError, LookupError):
    """No such XA transaction is prepared: it was completed before, or never existed (XAER_NOTA)."""


class StoresDiffer(StoreError):
    """The target of a copy or restore already has other content, which was not overwritten."""


class QueryFailed(StoreError):
    """Spark or DuckDB rejected or failed a query; the engine's own error is the ``__cause__``."""
