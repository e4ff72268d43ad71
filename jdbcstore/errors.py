"""Every error this library raises.

::

    StoreError
    ├── ConfigurationError          a URL, option or name that cannot work
    │   ├── UnknownDatabase         no adapter for the URL's scheme
    │   └── MissingDriver           the adapter's driver is not installed
    ├── SchemaError                 tables absent, or not ActiveMQ's
    ├── StoreUnavailable            the database does not answer: try again
    │   ├── AuthenticationFailed    it answered, and refused the login
    │   ├── OutcomeUnknown          the connection died in a commit and could not be asked again
    │   ├── JournalFailed           the journal cannot be written: open the store anew
    │   └── JournalInUse            another process has the journal's directory
    ├── JournalPending              a journal holds what the database has not: open them together
    ├── CorruptJournal              the journal is damaged before its end
    ├── StoreClosed                 the store was closed before, or while, this was asked
    ├── NotMaster                   another holds the lock, and is waited for no longer
    ├── LockLost                    the lock went to another, and this store writes no more
    ├── ReplySuppressed             close the client's connection, and answer nothing
    ├── InvalidMessage              this message cannot be stored as it is
    │   └── MessageTooLarge         beyond what the database takes in one row
    ├── InvalidDestination          not a destination name
    ├── InvalidSelector             not a JMS selector
    ├── InvalidSubscription         a client id, name or selector that the tables cannot hold
    ├── CorruptMessage              a MSG column that does not decode
    │   └── BodyInJournal           the message itself is in the files of a journal
    ├── TransactionError            a transaction that has ended, or cannot be done in this way
    │   └── TransactionNotFound     no such XA transaction is prepared
    ├── ProtocolError               what a client of the broker sent is not of its protocol
    ├── NotAuthorized               this user may not do this, or the login is wrong
    ├── DestinationFull             there is no room for a message, and it is not waited for
    ├── SpillFailed                 a temporary file for messages that wait in a broker
    ├── MessageNotFound
    ├── SubscriptionNotFound
    ├── SubscriptionExists          same name, other selector or destination
    ├── SubscriptionInUse           somebody consumes the durable subscription
    ├── StoresDiffer                what was to be copied or restored does not fit to what is there
    └── QueryFailed                 Spark refused a query, or could not answer it
"""

from __future__ import annotations

from difflib import get_close_matches


class StoreError(Exception):
    """Base of all errors of this library; a driver's own error is its ``__cause__``."""


class ConfigurationError(StoreError, ValueError):
    """An option, URL or name that cannot work, found before anything is written.

    ``option`` names the option where one is to blame, ``place`` is where it was given: a line of a
    file, an environment variable.
    """

    def __init__(self, message: str, *, option: str | None = None, place: str | None = None) -> None:
        self.option = option
        self.place = place
        super().__init__(message)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.place}: {text}" if self.place else text


_LISTED = 6
"""Databases that an error lists: those that have servers and drivers today."""


class UnknownDatabase(ConfigurationError):
    """No adapter serves this URL scheme."""

    def __init__(self, scheme: str, known: tuple[str, ...]) -> None:
        self.scheme = scheme
        self.known = known
        near = get_close_matches(scheme.removeprefix("jdbc:").lower(), known, 1)
        super().__init__(
            f"no adapter for database {scheme!r}; {f'did you mean {near[0]}? ' if near else ''}"
            f"use one of {', '.join(known[:_LISTED])} or another that jdbcstore doctor lists, in a SQLAlchemy"
            " URL (postgresql://user@host/db) or a JDBC URL (jdbc:postgresql://host/db); for a database that"
            " has no adapter, set the option adapter to default, blob, bytes or image",
            option="url",
        )


class MissingDriver(ConfigurationError):
    """The Python driver of this database is not installed."""

    def __init__(self, driver: str, extra: str) -> None:
        self.driver = driver
        self.extra = extra
        super().__init__(
            f"the driver {driver!r} is not installed; run: pip install 'jdbcstore[{extra}]'", option="url"
        )


class SchemaError(StoreError):
    """The tables are absent, or are not the ones this store can use."""

    def __init__(self, message: str, *, found: str | None = None, expected: str | None = None) -> None:
        self.found = found
        self.expected = expected
        super().__init__(message)


class StoreUnavailable(StoreError):
    """The database does not answer; nothing of this operation was written. Try again later."""


class AuthenticationFailed(StoreUnavailable):
    """The database refused the user name or password."""


class OutcomeUnknown(StoreUnavailable):
    """The connection died during a commit and the database could not be asked afterwards.

    The write either happened completely or not at all. Adding the same message again may
    store it twice; acknowledging again is harmless.
    """

    def __init__(
        self,
        message: str = "the connection died during a commit, and the database could not be asked since;"
        " it was written completely or not at all: look before adding it again",
    ) -> None:
        super().__init__(message)


class StoreClosed(StoreError):
    """The store is closed. ``unwritten`` counts the operations that a close gave up on."""

    def __init__(self, message: str = "the store is closed; open it again", *, unwritten: int = 0) -> None:
        self.unwritten = unwritten
        super().__init__(message)


class NotMaster(StoreError):
    """Another broker or store holds the lock. ``holder`` is who, where the lock says so."""

    def __init__(self, message: str, *, holder: str | None = None) -> None:
        self.holder = holder
        super().__init__(message)


class LockLost(StoreError):
    """This store is not the master any more, and nothing of this operation was written.

    Open the store again: that waits until it may be the master. Only when ``in_doubt`` may this
    operation have been written before: look for it.
    """

    def __init__(self, message: str, *, in_doubt: bool = False, refused: bool = False) -> None:
        self.in_doubt = in_doubt
        self.refused = refused
        """Whether the database said so, which then takes nothing more of this store."""
        doubt = "; it went while this was being written: look for it" if in_doubt else ""
        super().__init__(message + doubt)


class ReplySuppressed(StoreError):
    """The broker, or its connectors, are being stopped because of the error that is the ``__cause__``.

    Whoever asked gets no answer, not even that it failed: its connection is closed, and it comes back to
    the broker that then is the master. What it asked for may have been done if that error says so.
    """


class InvalidMessage(StoreError, ValueError):
    """This message cannot be stored as it is; other messages are not affected."""


class MessageTooLarge(InvalidMessage):
    """The encoded message is beyond what the database accepts."""

    def __init__(self, size: int, limit: int | None, advice: str) -> None:
        self.size = size
        self.limit = limit
        at_most = "" if limit is None else f", and the database takes at most {limit}"
        super().__init__(f"the message takes {size} bytes{at_most}; {advice}")


class InvalidDestination(StoreError, ValueError):
    """Not a destination name that ActiveMQ's tables can hold."""


class InvalidSelector(StoreError, ValueError):
    """Not a JMS selector. ``position`` is where it stops making sense, counted from 0; None if all of it."""

    def __init__(self, selector: str, reason: str, *, position: int | None = None) -> None:
        self.selector = selector
        self.reason = reason
        self.position = position
        at = "" if position is None else f" at character {position + 1}"
        shown = selector if len(selector) <= 250 else f"{selector[:250]}..."
        super().__init__(f"the selector {shown!r} is wrong{at}: {reason}")


class ProtocolError(StoreError):
    """What a client sent to the broker is not of its protocol, or beyond its limits.

    ``fatal``: nothing that follows can be understood, or trusted, and the connection is closed.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        self.fatal = fatal
        super().__init__(message)


class NotAuthorized(StoreError):
    """The login is wrong, or the user may not do what was asked."""


class DestinationFull(StoreError):
    """A destination, or the broker, has no room for a message, and is not to wait until there is."""


class SpillFailed(StoreError):
    """A temporary file for messages that wait for consumers cannot be written, or not be read back."""

    def __init__(self, folder: str, what: str) -> None:
        self.folder = folder
        super().__init__(
            f"a temporary file in {folder} for messages that wait for consumers {what}; make room there, or"
            " name another folder: tmp_data_directory"
        )


class JournalFailed(StoreUnavailable):
    """The journal's files cannot be written any more; what was acknowledged is in them or in the database.

    After a failed sync nobody knows what the disk holds, so nothing is tried again: open the store anew.
    """


class CorruptJournal(StoreError):
    """A file of the journal is damaged or gone, where there are records that were acknowledged.

    ``segment`` is its number and ``offset`` the place in it. Nothing was changed.
    """

    def __init__(self, reason: str, *, segment: int, offset: int = 0) -> None:
        self.segment = segment
        self.offset = offset
        super().__init__(
            f"the journal is damaged in segment {segment} at {offset}: {reason}; look at it with"
            " jdbcstore journal check, and save what can be saved with jdbcstore journal repair"
        )


class JournalPending(StoreError):
    """A journal holds what is not in the database yet: open the store with that journal, or not at all.

    ``journal`` is its number, as it stands in its files.
    """

    def __init__(self, journal: int, place: str, *, directory: str | None = None) -> None:
        self.journal = journal
        self.directory = directory
        """The one that is named, and has another journal or none; None if none is named."""
        advice = (
            "use the configuration that names the journal's directory, with use_journal=false"
            " if there is to be none from then on, or run jdbcstore journal replay with it"
        )
        if directory is not None:
            advice = (
                f"its files are not in {directory}: put them back there, or name the directory that has them;"
                " if they are lost, ignore_missing_journalfiles=true goes on without what was in them"
            )
        super().__init__(
            f"the journal number {journal} has messages that are not in {place} yet, and nothing else may"
            f" write there; {advice}"
        )


IN_JOURNAL = "a journal may have messages that are not in this database yet, and are not shown"
"""What somebody who only reads is told where a :class:`JournalPending` keeps others out."""


class JournalInUse(StoreUnavailable):
    """Another process has the directory of the journal. ``directory`` is which."""

    def __init__(self, directory: str, holder: str | None = None) -> None:
        self.directory = directory
        who = holder or "another process"
        super().__init__(f"{who} has the journal in {directory}; stop it, or name another directory")


class InvalidSubscription(StoreError, ValueError):
    """A client id, subscription name or selector that the tables cannot hold."""


class CorruptMessage(StoreError, ValueError):
    """A MSG column that cannot be decoded. The row is untouched and its bytes are in ``blob``.

    ``sequence`` (the ID column) and ``container`` name the row where they are known.
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
    """The row refers to a message that is in the files of a journal (``use_quick_journal``).

    ``journal`` is its number, as it stands in its files. Nothing is lost while those are there.
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
        "open the store with the configuration that names the journal's directory; when it is closed, the"
        " database has the message"
    )


class MessageNotFound(StoreError, LookupError):
    """No such message in this destination; it may have been acknowledged meanwhile."""


class SubscriptionNotFound(StoreError, LookupError):
    """No such durable subscription."""


class SubscriptionExists(StoreError):
    """The durable subscription exists with another selector or destination; unsubscribe first."""


class SubscriptionInUse(StoreError):
    """A durable subscription has one consumer at a time, and is not deleted while it has one."""


class TransactionError(StoreError):
    """The transaction has ended, or what is asked of it cannot be done in this way."""


class TransactionNotFound(TransactionError, LookupError):
    """No such XA transaction is prepared: it was decided before, or it never was (XAER_NOTA)."""


class StoresDiffer(StoreError):
    """A store, or an archive, has something else than what was to be put there; nothing was written over."""


class QueryFailed(StoreError):
    """Spark refused a query, or could not answer it; Spark's own error is its ``__cause__``."""
