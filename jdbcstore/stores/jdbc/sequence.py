"""The sequence of a store: one counter for all destinations, reserved in blocks.

Sequences commit in order, however many processes write: the mark of a durable subscription and the cursor of
a page cover everything below them. Only the block that was reserved last may be used. Each transaction that
adds messages checks under a shared lock that its block is still that one; reserving another waits for those
transactions. A writer whose block is no longer the last abandons the rest of it.

ActiveMQ restarts at the highest ID present, so that after a drained table new messages get old IDs, and a
late acknowledgement removes the wrong one. Here the highest sequence ever reserved is stored in a row of
JDBCSTORE_STATE, and no sequence is given twice, even after a kill.
"""

from __future__ import annotations

from jdbcstore.database.adapters.sql import UNGUARDED, Guards, Row, RowGuard
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import BEGUN_ROW, CLAIMS_ROW, JOURNAL_ROWS, SEQUENCE_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.database.statements.store import Statements
from jdbcstore.errors import JournalPending, NotMaster, SchemaError, StoreUnavailable
from jdbcstore.lockers.inspection import claimed_by, number_in
from jdbcstore.stores.shared.checks import MAX_SEQUENCE, sequences_used_up

BLOCK = 10_000


def last_stored(session: DatabaseSession, given: int) -> int:
    """Return the last sequence in use; ``given`` is the last that this store assigned, 0 if none yet."""
    sql = session.statements
    highest = [given]
    if not given and session.has_own_tables:
        # Drained tables do not show which sequence was assigned last.
        highest += [number for (number,) in session.fetch(sql.find_number, name_=SEQUENCE_ROW)]
    for query in (sql.find_last_sequence_id_in_msgs, sql.find_last_sequence_id_in_acks):
        highest.append(session.fetch(query)[0][0] or 0)
    return max(highest)


def retire_blocks(connection: Connection, sql: Statements) -> None:
    """Invalidate all blocks reserved so far, in the transaction that gives the reason for it."""
    reserved = fetch_reserved(connection, sql)
    if reserved:
        connection.execute(sql.update_number, name_=SEQUENCE_ROW, new=reserved + 1)


def fetch_reserved(connection: Connection, sql: Statements) -> int:
    """Return the highest sequence reserved, locked until the transaction ends.

    :raises SchemaError: there is no such row
    """
    rows = _fetch_locked(connection, sql)
    if not rows:
        raise SchemaError("the row 'sequence' of JDBCSTORE_STATE is missing; run jdbcstore init")
    return int(rows[0][0])


def _fetch_locked(connection: Connection, sql: Statements) -> list[Row]:
    if sql.lock_number is not None:
        connection.execute(sql.lock_number, name_=SEQUENCE_ROW)
    return connection.fetch(sql.find_number_for_update, name_=SEQUENCE_ROW)


def refuse_claims(session: DatabaseSession, connection: Connection) -> None:
    """Check that no process is claiming messages.

    :raises NotMaster: one is
    """
    holder = claimed_by(session, connection)
    if holder is not None:
        raise NotMaster(
            f"messages are being claimed by {holder}, and no other store may write to these tables: close the"
            " claims first, or open the store with read_only",
            holder=holder,
        )


class ClaimsBegun(StoreUnavailable):
    """A process has begun to claim messages since the store has looked; this was not written."""

    def __init__(self) -> None:
        super().__init__("processes have begun to claim messages in these tables meanwhile; try again")


def guard_unclaimed(session: DatabaseSession, connection: Connection) -> Guards:
    """Return the guard that no process begins to claim messages, for a store without a locker.

    :raises NotMaster: one is claiming them
    """
    if not (session.adapter.shares_queues and session.has_own_tables):
        return UNGUARDED
    # Before the query: a process that begins adds its session first, and then changes the number.
    begun = number_in(BEGUN_ROW, session, connection)
    refuse_claims(session, connection)
    return Guards((session.of(LockStatements).unchanged(BEGUN_ROW, begun, ClaimsBegun),))


class SequencesTaken(StoreUnavailable):
    """Another writer has reserved sequences after ours; this was not written, and needs later ones."""

    def __init__(self) -> None:
        super().__init__("another process took the next sequences at each attempt; try again")


class PrecedingFailed(StoreUnavailable):
    """The batch before this one was not written, so this one was not, either."""

    def __init__(self) -> None:
        super().__init__("the write before this one failed, so this one had no effect; try again")


class SequenceAllocator:
    """Assigns sequences to one writer, in order. Two processes get disjoint blocks.

    For a store without a journal it reserves none while the tables have the mark of one.
    """

    def __init__(self, session: DatabaseSession, *, journaled: bool = False) -> None:
        self._session = session
        self._is_journaled = journaled
        self._statements = session.statements
        self.last = 0
        self._reserved = 0
        self._block: tuple[int, RowGuard] | None = None

    def reserve(self, connection: Connection, count: int) -> int:
        """Return the first of ``count`` sequences, reserved if need be; :meth:`use` assigns them."""
        if self.last + count > self._reserved:
            self._reserve_block(connection, count)
        return self.last + 1

    def block(self, last: int) -> RowGuard | None:
        """Return the condition that no other writer has reserved sequences after ours; None if ours do not
        reach ``last``."""
        if last > self._reserved:
            return None
        if self._block is None or self._block[0] != self._reserved:
            sql = self._statements.hold_number
            row = sql.row(name_=SEQUENCE_ROW, number_=self._reserved)
            guard = RowGuard(sql, row, self._session.adapter.writes_to_hold, SequencesTaken)
            self._block = self._reserved, guard
        return self._block[1]

    def use(self, count: int) -> None:
        """Assign reserved sequences."""
        self.last += count

    def pass_over(self, connection: Connection, last: int) -> None:
        """Assign no sequence up to ``last`` from now on, here or in another process."""
        if last > self._reserved:
            with connection.transaction():
                # Beyond it, another process may have a block.
                taken = max(fetch_reserved(connection, self._statements), last)
                reserved = min(taken + BLOCK, MAX_SEQUENCE)
                connection.execute(self._statements.update_number, name_=SEQUENCE_ROW, new=reserved)
            self.last, self._reserved = taken, reserved
        self.last = max(self.last, last)

    def forget(self) -> None:
        """After a conflict with another writer: use a new block, after every row there is."""
        self.last = self._reserved = 0

    def _reserve_block(self, connection: Connection, count: int) -> None:
        sql = self._statements
        with connection.transaction():
            reserved = fetch_reserved(connection, sql)
            self._refuse_beside_journal(connection)
            highest = max(
                reserved,
                self._last_claimed(connection),
                connection.fetch(sql.find_last_sequence_id_in_msgs)[0][0] or 0,
                connection.fetch(sql.find_last_sequence_id_in_acks)[0][0] or 0,
            )
            # Another writer has reserved or written beyond our block, or this is our first one.
            last = self.last if 0 < self._reserved == highest else highest
            reserved = min(last + max(count, BLOCK), MAX_SEQUENCE)
            if reserved - last < count:
                raise sequences_used_up(last)
            connection.execute(sql.update_number, name_=SEQUENCE_ROW, new=reserved)
        self.last, self._reserved = last, reserved

    def _refuse_beside_journal(self, connection: Connection) -> None:
        if self._is_journaled:
            return
        numbers: dict[str, int] = dict(connection.fetch(self._statements.find_journal))
        journal = int(numbers.get(JOURNAL_ROWS[0]) or 0)
        if journal:
            raise JournalPending(journal, self._session.place)

    def _last_claimed(self, connection: Connection) -> int:
        """Return the last sequence that a process gave which claims messages; 0 if none ever has.

        :raises NotMaster: one is doing so now
        """
        session = self._session
        if not connection.fetch(self._statements.find_number, name_=CLAIMS_ROW):
            return 0
        refuse_claims(session, connection)
        if not session.adapter.series:
            return 0  # they have moved the row of all sequences
        return int(connection.fetch(session.of(ClaimStatements).last_id)[0][0])

    def give_back(self, connection: Connection) -> None:
        """On a clean close, return the rest of the block, unless another one was reserved after it."""
        if self._reserved == self.last:
            return
        with connection.transaction():
            rows = _fetch_locked(connection, self._statements)
            if rows and rows[0][0] == self._reserved:
                connection.execute(self._statements.update_number, name_=SEQUENCE_ROW, new=self.last)
        self._reserved = self.last
