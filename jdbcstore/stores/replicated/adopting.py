"""Adoption of a new stream: a journal whose stream is lost continues from a database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

from jdbcstore.config import Configuration
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal
from jdbcstore.journal.inspection import BackingState
from jdbcstore.journal.stream.log import StreamContents, begin_after, contents_of
from jdbcstore.journal.stream.members import Member, Members
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.journaled.recovery import known_of
from jdbcstore.stores.replicated.nodes import node_of


@dataclass(frozen=True, slots=True)
class Adopted:
    """A stream that continues from a database."""

    place: str
    """The stream."""
    applied: int
    """The last record that the database has; the next one follows it."""
    replayed: int
    """The records that the database got from the rest of the stream."""
    others: tuple[Member, ...]
    """The other brokers that were heard of in the last day."""


def adopt(configuration: Configuration, *, force: bool = False) -> Adopted:
    """Let a stream that is lost, or has lost records, go on behind the last record that a database has.

    The rest of the stream is first applied to the database, and then removed from the stream. The
    database keeps its content; the databases of other brokers follow the stream again, or get copies.

    :param force: also if another broker has more records, which are lost then
    :raises ConfigurationError: nothing is lost, another broker has more records, or the stream is another
        store's
    :raises NotMaster: a broker is running
    :raises StoreError: the database or the servers cannot be used
    """
    journal = configuration.journal
    if journal is None or journal.stream is None:
        raise ConfigurationError("there is no journal in a stream to adopt", option="journal.stream")
    configuration = configuration.replace(cleanup_period=0.0, enable_audit=False)
    lenient = replace(journal, replicated=False, ignore_missing_journalfiles=True)
    with closing(StreamServer(journal)) as server:
        with _opened(configuration) as database:
            known, contents = _known(database, 0), contents_of(server, ignore_missing=True)
            _check_needed(journal, server, database, known)
            if contents.journal and contents.journal != known.journal:
                raise ConfigurationError(
                    f"{journal.place} has the journal of another store, number {contents.journal}, and"
                    f" {database.place} has followed number {known.journal}: name another stream_name",
                    option="journal.stream_name",
                )
            before, last = known.applied, max(known.applied, contents.last_number)
            others = _others(configuration, server)
            _check_last(database, last, others, force=force)
        if last > before:
            JournaledStore(_opened(configuration), lenient).close()
        with _opened(configuration) as database:
            known = _known(database, known.journal)
            begin_after(server, (known.journal, known.store), known.applied, database.last_sequence())
        return Adopted(journal.place, known.applied, known.applied - before, others)


def _opened(configuration: Configuration) -> JdbcStore:
    return JdbcStore.configured(configuration, journaled=True, lock_timeout=0.0)


def _known(database: JdbcStore, journal: int) -> BackingState:
    known = known_of(database, journal)
    if known is None or not known.store:
        raise ConfigurationError(
            f"{database.place} has no journal: it was never used with one, or all of it is in the database;"
            " start the broker"
        )
    return known


def _check_needed(
    journal: JournalConfig, server: StreamServer, database: JdbcStore, known: BackingState
) -> None:
    """Check that a broker could not go on with this stream.

    :raises ConfigurationError: it could
    """
    try:
        contents: StreamContents = contents_of(server, settled=True)
        is_whole = contents.journal == known.journal and contents.last_number >= known.applied
        if is_whole and contents.first_number <= known.applied + 1:
            for _ in contents.records(known.applied):
                pass
            raise ConfigurationError(
                f"{journal.place} has every record that {database.place} lacks, up to {contents.last_number}:"
                " nothing is lost; start the broker"
            )
    except CorruptJournal:
        return


def _others(configuration: Configuration, server: StreamServer) -> tuple[Member, ...]:
    if configuration.journal is None or not configuration.journal.replicated:
        return ()
    mine = node_of(configuration)
    every = Members(server).every()
    for member in every:
        if member.node == mine and member.is_alive and member.life:
            raise ConfigurationError(
                f"the broker {mine} was running {member.silent:.0f} s ago: stop it, and try again"
            )
    return tuple(member for member in every if member.node != mine)


def _check_last(database: JdbcStore, last: int, others: tuple[Member, ...], *, force: bool) -> None:
    ahead = max(others, key=lambda member: member.applied, default=None)
    if ahead is not None and ahead.applied > last and not force:
        raise ConfigurationError(
            f"the broker {ahead.node} has records up to {ahead.applied}, and {database.place} up to {last}:"
            " run this there. If that database is lost, --force continues without its records"
        )
