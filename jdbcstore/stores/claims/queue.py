"""A queue whose messages are claimed: looking for them, and settling the claims."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection, RemovalReason, Runs
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import BodyInJournal, ClaimLost, CorruptMessage, OutcomeUnknown, StoreError
from jdbcstore.message import openwire
from jdbcstore.message.dead_letters import CAUSE, DEAD_LETTERS
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.inserted import short
from jdbcstore.message.message import Message
from jdbcstore.stores.claims.adding import milliseconds
from jdbcstore.stores.claims.database import ClaimDatabase
from jdbcstore.stores.claims.flow import QueueFlow
from jdbcstore.stores.claims.marks import LOOK_AGAIN, Marks
from jdbcstore.stores.claims.of_ids import execute
from jdbcstore.stores.claims.settling import Settling, ids_in_order, ids_of
from jdbcstore.stores.claims.taking import Taking
from jdbcstore.stores.claims.upkeep import Upkeep
from jdbcstore.stores.shared.paging import MOST
from jdbcstore.stores.shared.rows import EncodedMessage

log = logging.getLogger(__name__)

T = TypeVar("T")

SHORTEST_PAUSE = 0.05
"""Seconds between the first two looks at an empty queue."""
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A message that this process has claimed, until it settles the claim or its lease expires."""

    message: Message
    """As stored, except for its ``redelivery_counter``."""
    sequence: int
    """The ID of its row."""
    redeliveries: int
    """The number of times that the message was rejected, or claimed by a process that died."""
    session: int = field(repr=False)
    """The number of the session that holds it."""
    hold: int = field(repr=False, compare=False)
    """The number of the query that claimed it: a newer claim of the same message has another one."""


class RedeliveryLimits(NamedTuple):
    """The policy for messages that fail again and again."""

    max_redeliveries: int
    """Deliveries after the first; -1 is without limit. There is none in the queue of dead letters itself."""
    dead_letters: Destination | None
    """None: they are removed."""


class _Letters(NamedTuple):
    """Dead letters that are about to be made."""

    dead: Sequence[Claim]
    written: Sequence[EncodedMessage]
    """New messages, with the reason in a property."""
    moved: Sequence[Claim]
    """Messages whose row is moved as it is, because it cannot be read, or has no room for the reason."""
    target: Destination | None


class ClaimQueue:
    """A queue of :class:`~jdbcstore.stores.claims.Claims`. Thread-safe."""

    def __init__(self, database: ClaimDatabase, limits: RedeliveryLimits, destination: Destination) -> None:
        self.destination = destination
        """The queue."""
        self._database = database
        self._limits = limits
        self._sql = database.session.of(ClaimStatements)
        self._container = destination.qualified_name
        self._marks = Marks(database.clock)
        self.held = database.hold()
        """Claims that were not settled yet."""
        self.settling = Settling(database, self.held)
        """Settles them."""
        self.flow = QueueFlow(database, self._container)
        """Pause, limit and rate of the queue, for all processes."""
        self._taking = Taking(database.session, self._container, self.flow)
        self._returned = 0
        self._upkeep = Upkeep(database, self._container, self.remove, self._taking.file_keys)
        self._lock = threading.Lock()
        self._settings_due = float("-inf")

    def add(self, *messages: Message, delay: float = 0.0) -> list[int]:
        """Add messages, all or none; their IDs. They are durable when it returns.

        They become claimable after ``delay`` seconds.

        :raises InvalidMessage: one does not fit the columns
        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        database = self._database
        encoded = [database.encode(self.destination, message) for message in messages]
        delay_ms = milliseconds(delay)
        database.lease.check()
        keyed = {self._container} if encoded and self.flow.files() else ()
        add = partial(database.adder.add_alone, encoded=encoded, delay_ms=delay_ms, keyed=keyed)
        ids = database.run(add) if encoded else []
        if delay_ms > 0:
            with self._lock:
                self._marks.look_again(delay)
        elif ids:
            self.wake()
        return ids

    def wake(self) -> None:
        """Wake processes that wait for messages: after the commit of a joined transaction, for example."""
        self._database.wakeups.wake(self._container)

    def claim(self, limit: int = 1, *, wait: float = 0.0) -> list[Claim]:
        """Claim up to ``limit`` messages that are free: higher priorities first, then in their order.

        Without any, waits for one up to ``wait`` seconds. Expired messages are not claimed. Messages that
        were rejected, or claimed by processes that died, more than ``max_redeliveries`` times become dead
        letters instead. A claim whose answer comes after its lease is lost, and made again.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        deadline, pause = time.monotonic() + wait, SHORTEST_PAUSE
        while True:
            claims, count = self.try_claim(limit)
            left = deadline - time.monotonic()
            if claims or left <= 0:
                return claims
            self._database.wakeups.wait(self._container, count, min(left, self.seconds(pause)))
            pause = self.next_pause(pause, count)

    def try_claim(self, limit: int) -> tuple[list[Claim], int]:
        """Claim messages without waiting; also the number of wake-ups before, beyond which one is new."""
        count, returns = self._database.wakeups.count(self._container)
        return self._claim_now(limit, returns), count

    def seconds(self, pause: float) -> float:
        """Return how long to wait for a wake-up before the next look, by default ``pause`` seconds."""
        with self._lock:
            looks_in = self._marks.looks_in or pause
        return min(self.flow.seconds(pause) if self.flow.applies else pause, looks_in)

    def next_pause(self, pause: float, count: int) -> float:
        """Return the pause after this one: longer, unless there was a wake-up beyond ``count``."""
        woken = self._database.wakeups.count(self._container)[0] != count
        return pause if woken else min(2 * pause, _LONGEST_PAUSE)

    def _claim_now(self, limit: int, returns: int) -> list[Claim]:
        while True:
            session = self._database.lease.check()
            with self._lock:
                if returns != self._returned:
                    self._returned = returns
                    self._marks.look_again()
                begin, from_start = self._marks.begin()
            if from_start or not self.flow.is_known or self._database.clock.monotonic() >= self._settings_due:
                self._look_around(from_start=from_start)
            take = self._taking.take_limited if self.flow.applies else self._taking.take
            begun = self._database.clock.monotonic() if from_start else 0.0
            hold = 0  # of none, unless they are noted below
            with self._database.taking():
                rows = self._database.run(partial(take, session=session, begin=begin, limit=min(limit, MOST)))
                if session == self._database.lease.number:
                    hold = self.held.add([row[1] for row in rows], session)
            rows.sort(key=lambda row: (-row[0], row[1]))
            with self._lock:
                self._marks.found([(lane, id_) for lane, id_, _, _ in rows], from_start=from_start)
                if from_start:
                    self._marks.looked(self._database.clock.monotonic() - begun)
                if from_start and self.flow.applies and self.flow.is_blocked:
                    self._marks.look_again()  # this was none
            try:
                claims, dead = self._sorted_out(rows, session, hold)
                if dead:
                    self._bury_found(dead, "delivered too often", self._limits.dead_letters)
                is_late = self._came_late(claims, session)
            except StoreError:
                # The good ones among them are not delivered: they are returned before the next claim.
                self.held.forget_those((row[1] for row in rows), session, hold)
                self._database.return_unknown()
                with self._lock:
                    self._marks.look_again()
                raise
            if not is_late and (claims or not rows):
                return claims

    def _came_late(self, claims: Sequence[Claim], session: int) -> bool:
        """Return whether the lease has expired before the answer, and there are claims; those are lost."""
        if not claims or self._database.lease.holds(session):
            return False
        # Another process that has claimed them since marks them as redelivered; these would come unmarked.
        log.warning("%d claims of %s came after their lease", len(claims), self.destination)
        self.settling.lose(ClaimLost(tuple(ids_in_order(claims))), claims)
        with self._lock:
            self._marks.look_again()
        return True

    def _look_around(self, *, from_start: bool) -> None:
        """Look for settings; every few seconds for late, expired and stray messages."""
        self.flow.refresh()
        self._settings_due = self._database.clock.monotonic() + LOOK_AGAIN
        if self.flow.is_keyed:
            self._taking.keyed.file_late()
        if from_start:
            is_first = not self._upkeep.processes
            self._upkeep.keep_up()
            if is_first:
                self._taking.begin_among(self._upkeep.processes)
            with self._lock:
                self._marks.shared_by(self._upkeep.processes)

    def _sorted_out(self, rows: list[Row], session: int, hold: int) -> tuple[list[Claim], list[Claim]]:
        """Split claimed rows into deliverable and dead."""
        claims: list[Claim] = []
        dead: list[Claim] = []
        most = self._most_redeliveries
        for _, id_, blob, failed in rows:
            try:
                message = openwire.decode(blob, sequence=id_, container=self._container)
            except BodyInJournal as error:
                log.error("a message is not delivered, and stays claimed until this process ends: %s", error)
                continue
            except CorruptMessage as error:
                unreadable = Claim(Message(), id_, failed, session, hold)
                self._discard([unreadable], str(error), partial(self._bury_found, is_readable=False))
                continue
            if failed:
                message = message.replace(redelivery_counter=failed)
            (dead if 0 <= most < failed else claims).append(Claim(message, id_, failed, session, hold))
        return claims, dead

    @property
    def _most_redeliveries(self) -> int:
        """As in the limits: dead letters have nowhere to go to."""
        limits = self._limits
        return -1 if limits.dead_letters == self.destination else limits.max_redeliveries

    def acknowledge(self, *claims: Claim) -> None:
        """Remove messages that were processed; all or none.

        :raises ClaimLost: some are no longer this process's; nothing was removed
        :raises StoreUnavailable: the database does not answer; acknowledge again
        """
        if not claims:
            return
        if self._database.session.adapter.chains_writes and self._database.recorder is None:
            sql = self._sql.acknowledge_keyed if self.flow.is_keyed else self._sql.acknowledge
            self.settling.acknowledge(claims, sql, self.remove)
        else:
            self.settling.settle(claims, self.remove)
        if self.flow.applies:
            self.wake()  # there is room again

    def remove(
        self, connection: Runs, ids: list[int], outcome: RemovalReason = RemovalReason.ACKNOWLEDGED
    ) -> None:
        """Remove messages and their claims, in a transaction in which the claims are locked.

        Messages first: a claim locks a message, and then adds its row.
        """
        at_once = 1 if self._sql.settles_singly else len(ids)
        for start in range(0, len(ids), at_once):
            some = ids[start : start + at_once]
            connection.remove_messages([(self._container, id_) for id_ in some], outcome)
        if self.flow.is_keyed:
            self._taking.keyed.remove(connection, ids)
        execute(connection, self._sql.remove_claims, ids)

    def returned(self, delay: float = 0.0) -> None:
        """Note that messages were returned, and wake processes that wait for them."""
        with self._lock:
            self._marks.look_again(delay)
        if delay <= 0:
            self._database.wakeups.wake(self._container, returned=True)

    def release(self, *claims: Claim, delay: float = 0.0) -> None:
        """Return messages to their places, as if they had not been claimed; all or none.

        They become claimable after ``delay`` seconds.

        :raises ClaimLost: some are no longer this process's; nothing was changed
        :raises OutcomeUnknown: they are returned as soon as the database answers; trying again is a
            :class:`ClaimLost`
        :raises StoreUnavailable: the database does not answer
        """
        self._return(claims, delay, failures=0)

    def abandon(self, claims: Sequence[Claim]) -> None:
        """Release claims that no caller has; if the database does not answer, as soon as it does."""
        try:
            self.release(*claims)
        except StoreError as error:
            log.info("%d claims are returned later: %s", len(claims), error)
            self.held.forget(claims)
            self._database.return_unknown()
            with self._lock:
                self._marks.look_again()

    def reject(self, *claims: Claim, delay: float = 0.0) -> None:
        """Return messages that could not be processed; all or none. Each counts as a redelivery.

        They become claimable after ``delay`` seconds. Messages that were delivered too often become dead
        letters instead.

        :raises ClaimLost: some are no longer this process's; nothing was changed
        :raises OutcomeUnknown: they are returned as soon as the database answers; trying again is a
            :class:`ClaimLost`
        :raises StoreUnavailable: the database does not answer
        """
        most = self._most_redeliveries
        dead = [claim for claim in claims if 0 <= most <= claim.redeliveries]
        others = [claim for claim in claims if not 0 <= most <= claim.redeliveries]
        self._return(others, delay, failures=1, dead=dead)

    def _return(
        self, claims: Sequence[Claim], delay: float, failures: int, dead: Sequence[Claim] = ()
    ) -> None:
        every = [*claims, *dead]
        if not every:
            return
        ids, session = ids_of(claims, self._database.lease)
        values = {"session": session, "delay_ms": milliseconds(delay), "failures": failures}
        target = self._limits.dead_letters
        letters = _letters(self._database, self.destination, dead, "rejected too often", target)

        def settle(connection: Connection, _: object) -> None:
            if claims:
                execute(connection, self._sql.return_claims, ids, **values)
            if dead:
                self._move(connection, letters)

        self.held.begin(every)
        try:
            self.settling.run_with(every, settle, adds=bool(letters.written))
        except OutcomeUnknown:
            if self.held.forget(every, are_rejected=bool(failures)):
                self._database.return_unknown()
                self.returned()
            raise
        except BaseException:
            self.held.end(every)
            raise
        # Another thread may have claimed them since, before the answer.
        self.held.forget(every)
        self.returned(delay)

    def extend(self, *claims: Claim) -> None:
        """Make sure that the claims are still this process's, for another lease.

        The lease is renewed in the background anyway. This is for work that must not begin on lost claims.

        :raises ClaimLost: some are no longer this process's
        :raises StoreUnavailable: the database does not answer
        """
        self._database.lease.renew()
        self.held.check(claims)
        self.settling.run_with(claims, lambda *_: None)

    def read(self, claim: Claim, reader: Callable[[Message], T]) -> T | None:
        """Apply a function to a claimed message and return its result; None if the message cannot be read.

        That is so if the function raises ValueError or RecursionError, as ``message.body`` and
        ``message.properties`` do if they are damaged, and ``json.loads``. Then the message is a dead letter,
        as with :meth:`dead_letter`, or its claim is lost.

        :raises StoreUnavailable: the database does not answer
        """
        try:
            return reader(claim.message)
        except (ValueError, RecursionError) as error:
            try:
                self.dead_letter(claim, reason=short(str(error)))
            except ClaimLost as lost:
                log.warning("a dead letter is left to another process: %s", lost)
            return None

    def dead_letter(self, *claims: Claim, reason: str) -> None:
        """Make dead letters of messages that cannot be processed, without regard to their redeliveries.

        Without a queue for dead letters they go to ``ActiveMQ.DLQ``. A message that cannot be read is moved
        as it is, and only the log has the reason; a message already in the dead letter queue stays
        claimed until this process ends.

        :raises ClaimLost: some are no longer this process's; nothing was changed
        :raises StoreUnavailable: the database does not answer
        """
        self._discard(claims, reason, self._bury)

    def _discard(self, claims: Sequence[Claim], reason: str, bury: Callable[..., None]) -> None:
        target = self._limits.dead_letters or DEAD_LETTERS
        for claim in claims:
            log.error("message %d of %s cannot be processed: %s", claim.sequence, self.destination, reason)
        if target != self.destination:
            bury(claims, reason, target)

    def _bury_found(
        self, dead: Sequence[Claim], reason: str, target: Destination | None, *, is_readable: bool = True
    ) -> None:
        """Make dead letters of claims that no caller has, unless they are lost."""
        try:
            self._bury(dead, reason, target, is_readable=is_readable)
        except ClaimLost as error:
            log.warning("dead letters are left to another process: %s", error)
            if self.held.forget(dead):
                self._database.return_unknown()

    def _bury(
        self, dead: Sequence[Claim], reason: str, target: Destination | None, *, is_readable: bool = True
    ) -> None:
        letters = _Letters(dead, [], dead, target)
        if is_readable:
            letters = _letters(self._database, self.destination, dead, reason, target)
        adds = bool(letters.written)
        self.settling.settle(dead, lambda connection, _: self._move(connection, letters), adds=adds)
        if self.flow.applies:
            self.wake()

    def _move(self, connection: Connection, letters: _Letters) -> None:
        if letters.written:
            self._database.adder.add_rows(connection, letters.written)
        log.warning("%d messages of %s are dead letters now", len(letters.dead), self.destination)
        moved = [claim.sequence for claim in letters.moved]
        if moved and letters.target is not None:
            target = letters.target.qualified_name
            execute(connection, self._sql.move_messages, moved, target=target)
            if self.flow.is_keyed:
                self._taking.keyed.remove(connection, moved)
            execute(connection, self._sql.remove_claims, moved)
        rest = [id_ for id_ in ids_in_order(letters.dead) if id_ not in moved]
        if rest:
            self.remove(connection, rest, RemovalReason.DEAD)

    def count(self) -> tuple[int, int]:
        """Return the numbers of all messages and of claimable ones. Reads the whole queue."""
        [(every, free)] = self._database.fetch(self._sql.count, container=self._container)
        return int(every), int(free)

    def purge(self) -> int:
        """Remove all unclaimed messages, delayed ones too; return their number."""
        return self._upkeep.remove(self._database.session.statements.find_ids, RemovalReason.PURGED)

    def __repr__(self) -> str:
        return f"<ClaimQueue {self.destination}>"


def _letters(
    database: ClaimDatabase,
    source: Destination,
    dead: Sequence[Claim],
    reason: str,
    target: Destination | None,
) -> _Letters:
    written: list[EncodedMessage] = []
    moved: list[Claim] = []
    if target is None:
        return _Letters(dead, written, moved, target)
    for claim in dead:
        try:
            written.append(database.encode(target, _letter(claim.message, reason)))
        except StoreError as error:
            log.error(
                "message %d of %s is moved to the dead letters as it is: %s",
                claim.sequence,
                source,
                error,
            )
            moved.append(claim)
    return _Letters(dead, written, moved, target)


def _letter(message: Message, reason: str) -> Message:
    properties: dict[str, Any] = {**message.properties, CAUSE: reason}
    id_ = message.message_id
    return message.replace(
        properties=properties,
        expiration_ms=0,
        redelivery_counter=0,
        # The same id in other columns, which no store's audit drops as a duplicate.
        message_id=None if id_ is None else MessageId(None, 0, 0, str(id_)),
    )
