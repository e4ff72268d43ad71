"""ReplicatedStore: the master of several brokers, each of which has a database of its own."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from jdbcstore.abc import Progress, SubscriptionInfo
from jdbcstore.config import Configuration
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, LockLost, OutcomeUnknown, StoreError
from jdbcstore.journal.abc import Span
from jdbcstore.journal.stream.members import MASTER, Copy, Member, Members, ReplicaGroup
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.stores.guarded import JournaledJdbcStore
from jdbcstore.stores.jdbc.pauses import check_pause
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled.destinations import JournaledTopicMessageStore
from jdbcstore.stores.journaled.entries import JournalUnit
from jdbcstore.stores.journaled.front import JournalFront
from jdbcstore.stores.journaled.records import OPERATE, RecordedWrites
from jdbcstore.stores.replicated.copying import copy_database
from jdbcstore.stores.replicated.nodes import database_file, life_of, node_of, place_of
from jdbcstore.stores.shared.checkpoint import CheckpointedTopic, SubscriptionKey
from jdbcstore.stores.shared.checks import destination_named
from jdbcstore.stores.shared.encoding import nothing
from jdbcstore.stores.shared.operations import (
    BEGIN,
    DROP_RECORD,
    RECORD_QUEUE,
    RESUME,
    RecordedOperation,
    announcing,
    of_queue,
    pausing,
    subscribing,
    unsubscribing,
)
from jdbcstore.stores.shared.paging import counted
from jdbcstore.stores.shared.subscriptions import check_subscription, subscription_exists
from jdbcstore.util.clock import Clock
from jdbcstore.util.stream_health import StreamHealth, StreamMember

log = logging.getLogger(__name__)

_PERIOD = 1.0
"""Seconds between two looks at the others."""


Operate = Callable[[Callable[[], RecordedOperation | None]], None]
"""Has each of several databases do an operation, made while nothing is written.

It is decided then whether there is anything to do: a record that a database refuses would stop each."""


class ReplicatedTopicMessageStore(JournaledTopicMessageStore):
    """A topic whose subscriptions are created and deleted by records of the journal."""

    def __init__(self, front: JournalFront, backing: CheckpointedTopic, operate: Operate) -> None:
        super().__init__(front, backing)
        self._operate = operate

    def _subscribe(self, info: SubscriptionInfo, *, retroactive: bool) -> None:
        key = self._key(info.client_id, info.subscription_name)
        if not self._has(key, info):
            check_subscription(info, self._front.store.config.name_lengths)
            self._operate(lambda: self._subscribing(key, info, retroactive=retroactive))
        self._front.subscriptions.lanes(key)

    def _has(self, key: SubscriptionKey, info: SubscriptionInfo) -> bool:
        """Return whether a subscription exists; :class:`SubscriptionExists` if it is another one."""
        existing = self._front.subscriptions.of(self.destination).get(key)
        if existing is not None and existing != info:
            raise subscription_exists(existing)
        return existing is not None

    def _subscribing(
        self, key: SubscriptionKey, info: SubscriptionInfo, *, retroactive: bool
    ) -> RecordedOperation | None:
        if self._has(key, info):
            return None
        # Messages stored now are before it, later ones are not.
        mark = -1 if retroactive else self._writer.log.last_sequence
        return subscribing(info, mark, self._lanes)

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        self._info_of(client_id, subscription_name)
        self._operate(lambda: self._unsubscribing(client_id, subscription_name))

    def _unsubscribing(self, client_id: str, subscription_name: str) -> RecordedOperation:
        self._info_of(client_id, subscription_name)
        return unsubscribing(self.destination, client_id, subscription_name)


class ReplicatedStore(JournaledJdbcStore):
    """A journal in a stream that other brokers follow, in front of this one's database, as the master.

    Everything that changes the database is a record first: messages as in any journal, and the rest as
    operations. The stream is released as far as the others have applied it, or where it keeps more than
    ``kept_for_followers`` bytes; a broker that needs more gets a copy of this database.

    :raises ConfigurationError: the database has transactions in doubt from before it had a journal
    :raises StoreError: as :class:`JournaledStore` says
    """

    def __init__(
        self,
        database: JdbcStore,
        configuration: Configuration,
        journal: JournalConfig,
        *,
        clock: Clock | None = None,
        progress: Progress | None = None,
    ) -> None:
        if database.xa.recover():
            raise ConfigurationError(
                f"{database.place} has transactions in doubt, which no other broker would have: commit or"
                " roll them back without replicated first",
                option="journal.replicated",
            )
        self._was_empty = not database.last_sequence() and not database.destinations()
        self._members = MembersWatch(configuration, journal)
        try:
            super().__init__(database, journal, clock=clock, progress=progress)
        except BaseException:
            self._members.close()
            raise
        self._members.start(self._positions, self.checkpoint)

    def _begun(self) -> None:
        # So that no prepare is written again before it: the first record tells whose the others are.
        self._checkpointer.checkpoint(is_replay=True)
        facts = {"is_empty": self._was_empty, "writer": self._journal.log.writer}
        self._operate(lambda: RecordedOperation(BEGIN, facts))

    def _new_topic(self, backing: CheckpointedTopic) -> JournaledTopicMessageStore:
        return ReplicatedTopicMessageStore(self._front, backing, self._operate)

    def _operate(self, make: Callable[[], RecordedOperation | None]) -> None:
        """Do an operation that is in the journal before it is in the backing store.

        :raises OutcomeUnknown: it is in the journal, or may be, and is not in the backing store yet
        """
        self._writer.check_open()
        with self._checkpointer.up_to_date(), self._writer.paused():
            self._checkpointer.checkpoint()
            operation = make()
            if operation is None:
                return
            writes = RecordedWrites(operation=operation)
            self._writer.write_now(JournalUnit(writes, nothing, kind=OPERATE))
            try:
                self._checkpointer.checkpoint()
            except LockLost:
                raise
            except StoreError as error:
                raise OutcomeUnknown(
                    f"this is in the journal, and will be done once the database takes it: {error}"
                ) from error

    def record_queue(self, name: str | Destination) -> None:
        queue = destination_named(name, DestinationKind.QUEUE, self._lengths)
        if queue not in self._recorded:
            self._operate(lambda: of_queue(RECORD_QUEUE, queue))
        self._recorded.add(queue)

    def drop_record(self, queue: Destination) -> None:
        self._writer.check_open()
        self._operate(lambda: of_queue(DROP_RECORD, queue))
        self._recorded.discard(queue)

    def announce(self, addresses: Iterable[tuple[str, str]]) -> None:
        now_ms = self._clock.now_ms()
        self._operate(lambda: announcing(addresses, now_ms))

    def pause_queue(self, queue: Destination, user: str) -> None:
        now_ms = self._clock.now_ms()
        check_pause(queue, user, now_ms)
        self._operate(lambda: pausing(queue, user, now_ms))

    def resume_queue(self, queue: Destination) -> None:
        self._operate(lambda: of_queue(RESUME, queue))

    def cleanup(self, progress: Progress | None = None) -> int:
        return counted(self._cleaned(), progress)

    def _cleaned(self) -> Iterator[int]:
        """Remove what all subscriptions have consumed by records: the same is removed in each database."""
        with self._checkpointer.up_to_date():
            for container, sequences in self._store.consumed_by_all():
                removes = RecordedWrites(removes=[(container, sequences)])
                self._writer.write_now(JournalUnit(removes, nothing))
                yield len(sequences)

    def _clean(self) -> int:
        return self.cleanup()

    def _positions(self) -> tuple[int, int]:
        return self._checkpointer.mark.applied, self._writer.log.last_number

    def _releasable(self, number: int) -> int:
        return self._members.releasable(number, self._journal.log.spans())

    def streams(self) -> list[StreamHealth]:
        """As :meth:`JournaledStore.streams`, with the brokers that follow."""
        states = super().streams()
        with suppress(StoreError):
            return [
                state if state.problem is not None else replace(state, members=self._members.described())
                for state in states
            ]
        return states

    def close(self, timeout: float | None = None) -> None:
        self._members.stop()
        try:
            super().close(timeout)
        finally:
            self._members.close()


class MembersWatch:
    """A master's view of its followers: the records they still need, and copies for those too far behind.

    Its thread tells them where the master is, and hears of them.
    """

    def __init__(self, configuration: Configuration, journal: JournalConfig) -> None:
        self._journal = journal
        self._file = database_file(configuration)
        self._member = Member(
            node_of(configuration),
            MASTER,
            is_complete=True,
            weight=journal.weight,
            place=place_of(configuration),
            life=life_of(configuration),
        )
        self._positions: Callable[[], tuple[int, int]] | None = None
        self._checkpoint: Callable[[], None] | None = None
        self._lock = threading.Lock()
        """Protects the connection; held while it is made."""
        self._server: StreamServer | None = None
        self._stopping = threading.Event()
        self._made: set[str] = set()
        self._has_room = False
        """Whether there is an object store for copies."""
        self._thread = threading.Thread(target=self._run, name="jdbcstore-members", daemon=True)

    def start(self, positions: Callable[[], tuple[int, int]], checkpoint: Callable[[], None]) -> None:
        """Begin to tell the others the last records that are applied and written.

        A checkpoint is made before each copy, which would not have those records else.
        """
        self._positions, self._checkpoint = positions, checkpoint
        self._thread.start()

    def stop(self) -> None:
        """Say nothing any more, and make no more copies."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
            with suppress(StoreError):
                self._connected().report(replace(self._member, life=""))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def releasable(self, number: int, segments: Sequence[Span]) -> int:
        """Return up to which record the stream may be released, of those up to a number.

        The followers are read each time, because a new one may have begun. If they are unknown, the records
        that they might need stay. The last applied record stays, too: it proves that stream and database
        match.
        """
        number = max(number - 1, 0)
        if len(segments) < 2:
            return number
        lowest = 0
        with suppress(StoreError):
            lowest = min((member.applied - 1 for member in self._others(self._connected())), default=number)
        if lowest >= number:
            return number
        most = self._journal.kept_for_followers
        if self._server is not None and self._server.max_bytes:
            most = min(most, self._server.max_bytes // 2)
        size, forced = sum(segment.size for segment in segments), 0
        for segment in segments:
            if size <= most:
                break
            size -= segment.size
            forced = segment.last_number
        return min(number, max(lowest, forced))

    def described(self) -> tuple[StreamMember, ...]:
        """Return all brokers of the stream, this one included.

        :raises StoreUnavailable: the servers do not answer
        """
        members, positions = self._connected(), self._positions
        written = 0 if positions is None else positions()[1]
        return ReplicaGroup(written, 0, tuple(members.every())).described

    def _connected(self) -> Members:
        with self._lock:
            if self._server is None:
                self._server = StreamServer(self._journal, create=False)
            return Members(self._server)

    def _others(self, members: Members) -> list[Member]:
        return [member for member in members.every() if member.node != self._member.node]

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._tell(self._connected())
            except StoreError as error:
                log.warning("lost contact with the follower brokers: %s", error)
            except Exception:
                log.exception("lost contact with the follower brokers")
            self._stopping.wait(_PERIOD)

    def _tell(self, members: Members) -> None:
        applied, written = (0, 0) if self._positions is None else self._positions()
        self._member = replace(self._member, applied=applied, seen=written)
        members.report(self._member)
        if not self._has_room:
            try:
                members.make_room()
                self._has_room = True
            except StoreError as error:
                log.warning("there is no room for copies beside the stream yet: %s", error)
        for member in self._others(members):
            if member.wants and member.wants not in self._made:
                try:
                    self._copy(members, member)
                except StoreError as error:
                    log.warning("the broker %s gets no copy of this database now: %s", member.node, error)

    def _copy(self, members: Members, member: Member) -> None:
        log.warning("the broker %s is too far behind, and gets a copy of this database", member.node)
        if self._checkpoint is not None:
            self._checkpoint()
        with tempfile.TemporaryDirectory(prefix=".jdbcstore-copy-", dir=self._file.parent) as folder:
            copy = Path(folder) / "copy.db"
            applied = copy_database(self._file, copy)
            members.offer(Copy(member.wants, applied, copy.stat().st_size), copy)
        self._made.add(member.wants)
