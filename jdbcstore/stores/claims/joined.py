"""The application's own transaction: messages are consumed and sent in the commit that stores the results.

Nothing here is known in advance: whether the transaction commits is for the database to say. So a claim that
was settled in one is held by this process until its row is seen to be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.callers import JoinedConnection
from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.database.statements.flow import FlowStatements
from jdbcstore.errors import ClaimLost, ConfigurationError, NotMaster
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.claims.adding import milliseconds
from jdbcstore.stores.claims.database import ClaimDatabase
from jdbcstore.stores.claims.keys import filed_rows
from jdbcstore.stores.claims.of_ids import execute, fetch
from jdbcstore.stores.claims.queue import Claim, ClaimQueue
from jdbcstore.stores.claims.settling import ids_of
from jdbcstore.stores.shared.rows import EncodedMessage


class JoinedTransaction:
    """Acknowledges, returns and adds messages in the transaction that is open on a connection.

    All of it takes effect if and only if that transaction commits. No more thread-safe than the connection.
    Errors of the driver are not translated: they belong to the application's transaction.
    """

    def __init__(
        self,
        database: ClaimDatabase,
        connection: JoinedConnection,
        find: Callable[[str | Destination], ClaimQueue],
    ) -> None:
        """``find`` returns the queue of a name."""
        self._database = database
        self._find = find
        self._connection = connection
        self._sql = database.session.of(ClaimStatements)
        self._is_checked = False
        self._added: dict[ClaimQueue, None] = {}
        self._returned: dict[ClaimQueue, float] = {}
        """The shortest delay for each queue."""

    def add(self, queue: str | Destination, *messages: Message, delay: float = 0.0) -> list[int]:
        """Add messages to a queue; their IDs. They become claimable after ``delay`` seconds.

        Others see them within a second after the commit, or two if it is late; :meth:`wake` is quicker.

        :raises TypeError: the first argument is not the name of a queue
        :raises InvalidMessage: one does not fit the columns
        :raises ConfigurationError: the connection is in autocommit mode, or to another database
        :raises TransactionError: the transaction has failed before
        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        """
        place = self._queue(queue)
        encoded = [self._database.encode(place.destination, message) for message in messages]
        if not encoded:
            return []
        self._connection.check()
        keyed = {encoded[0].container} if place.flow.files() else ()
        ids = self._add(encoded, milliseconds(delay), keyed)
        if not self._is_checked:
            self._check_place()
            self._is_checked = True
        self._added[place] = None
        return ids

    def _add(self, encoded: Sequence[EncodedMessage], delay_ms: int, keyed: Collection[str]) -> list[int]:
        """Add messages as :meth:`MessageAdder.add_rows` does.

        :raises NotMaster: a broker or store serves the tables now
        """
        database, connection, lease = self._database, self._connection, self._database.lease
        lease.check(renews=not database.session.adapter.in_files)
        # SQLite's driver begins a transaction at its first write: a guard before that would be one alone.
        ids = self._numbers(len(encoded))
        epoch = lease.epoch
        if not self._is_guarded():
            raise NotMaster("another process has become the master in this transaction: roll it back")
        if epoch != lease.epoch:
            ids = self._numbers(len(encoded))
        connection.insert_rows(
            database.session.statements.add_message,
            [message.row(id_) for message, id_ in zip(encoded, ids, strict=True)],
        )
        connection.insert_rows(database.session.of(FlowStatements).add_keyed, filed_rows(encoded, ids, keyed))
        if delay_ms > 0:
            for id_ in ids:
                connection.execute(self._sql.delay_message, id_=id_, delay_ms=delay_ms)
        return ids

    def _numbers(self, count: int) -> list[int]:
        database = self._database
        if not database.session.adapter.takes_numbers_apart:
            return database.adder.numbers(self._connection.fetch, count)

        def take(own: Connection) -> list[int]:
            with own.transaction():
                return database.adder.numbers(own.fetch, count)

        return database.run_again(take)

    def _is_guarded(self) -> bool:
        """Return whether no master can begin before the transaction ends.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        """
        if self._holds_epoch():
            return True
        # No lease can be renewed behind the lock of a whole database that this transaction has.
        self._database.lease.rejoin(renews=not self._database.session.adapter.in_files)
        return self._holds_epoch()

    def _holds_epoch(self) -> bool:
        return all(self._connection.lock(guard) for guard in self._database.lease.guard.joined.first)

    def _queue(self, name: str | Destination) -> ClaimQueue:
        if not isinstance(name, str | Destination):
            kind = type(name).__name__
            raise TypeError(
                f'the first argument is the queue, as in acknowledge("ORDERS", claim); this is a {kind}'
            )
        return self._find(name)

    def _check_place(self) -> None:
        """Make sure that the connection is to the same database."""
        session, number, find = self._database.session, self._database.lease.number, self._sql.find_place
        wanted: list[Row] = [(number,)]
        if session.adapter.whereabouts:
            wanted = [tuple(row) for row in self._database.run(lambda own: own.fetch(find))]
        if self._connection.fetch(find, session=number) != wanted:
            raise ConfigurationError(
                f"the transaction is of another database than {session.place}, or it began before these"
                " claims were opened: give a connection to the same database and schema, and begin the"
                " transaction afterwards; roll this one back"
            )

    def acknowledge(self, queue: str | Destination, *claims: Claim) -> None:
        """Remove messages of this queue that are processed; all or none.

        From then on other processes cannot claim them, even if the lease expires before the commit. After a
        rollback they are claimed as before: acknowledge, release or reject them then.

        :raises TypeError: the first argument is not the name of a queue
        :raises ClaimLost: some are no longer this process's; nothing was removed, so roll back
        :raises ConfigurationError: the connection is in autocommit mode, or does not see the claims
        :raises TransactionError: the transaction has failed before
        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        """
        self._settle(queue, claims, None)

    def release(self, queue: str | Destination, *claims: Claim, delay: float = 0.0) -> None:
        """Return messages of this queue to their places, as if they had not been claimed; all or none.

        They become claimable after ``delay`` seconds.

        :raises TypeError: the first argument is not the name of a queue
        :raises ClaimLost: some are no longer this process's; nothing was changed
        :raises ConfigurationError: the connection is in autocommit mode, or does not see the claims
        :raises TransactionError: the transaction has failed before
        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        """
        self._settle(queue, claims, delay)

    def _settle(self, queue: str | Destination, claims: Sequence[Claim], delay: float | None) -> None:
        place = self._queue(queue)
        if not claims:
            return
        self._connection.check()
        place.held.begin(claims)
        try:
            self._settle_here(place, claims, delay)
        finally:
            # Until the transaction commits they are held as before.
            place.held.end(claims)

    def _settle_here(self, place: ClaimQueue, claims: Sequence[Claim], delay: float | None) -> None:
        ids, number = ids_of(claims, self._database.lease)
        try:
            self._hold(ids, number)
        except ClaimLost as error:
            place.settling.lose(error, claims)
            raise
        self._is_checked = True
        if delay is None:
            place.remove(self._connection, ids)
        else:
            values = {"session": number, "delay_ms": milliseconds(delay), "failures": 0}
            execute(self._connection, self._sql.return_claims, ids, **values)
        place.held.join(ids)
        if delay is not None:
            self._returned[place] = min(delay, self._returned.get(place, delay))
        elif place.flow.applies:
            self._added[place] = None  # there is room again

    def _hold(self, ids: list[int], number: int) -> None:
        """Lock these claims until the transaction ends.

        Whether the lease runs is not asked there: in an old snapshot it looks as if it had expired. If its
        number is that of the claims, it has run without a break, until it is guarded that no master begins.

        :raises ClaimLost: another process claimed at least one of them
        """
        lease, adapter = self._database.lease, self._database.session.adapter
        if lease.check(renews=not adapter.in_files) != number:
            raise ClaimLost(tuple(ids))
        if adapter.locks_rows:
            mine = fetch(self._connection, self._sql.lock_claims, ids, session=number)
        else:
            execute(self._connection, self._sql.lock_claims, ids, session=number)
            mine = fetch(self._connection, self._sql.find_those, ids, session=number)
        if lost := sorted({*ids} - {row[0] for row in mine}):
            self._check_sees_none(lost, number)
            raise ClaimLost(tuple(lost))
        if not self._is_guarded() or lease.number != number:
            raise ClaimLost(tuple(ids))

    def _check_sees_none(self, lost: list[int], number: int) -> None:
        """Make sure that claims that this transaction does not find are nowhere else."""
        find = partial(fetch, of_ids=self._sql.find_those, ids=lost, session=number)
        if self._database.run(find):
            raise ConfigurationError(
                "the transaction does not see claims that this process has: it is of another database, or it"
                " began before the claim, with REPEATABLE READ: roll it back, and begin one after the claim"
            )

    def wake(self) -> None:
        """Wake processes that wait for what this transaction has changed; to be called after its commit.

        Without, they notice within two seconds.
        """
        for queue in self._added:
            queue.wake()
        for queue, delay in self._returned.items():
            queue.returned(delay)
