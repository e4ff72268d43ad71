"""A stopped Artemis as a source, whether it has its data in files or in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.jobs import JOBS
from jdbcstore.message.message import Message
from jdbcstore.tools.importing.artemis import journal, records
from jdbcstore.tools.importing.artemis.amqp import read_amqp, skip_amqp
from jdbcstore.tools.importing.artemis.buffer import Buffer
from jdbcstore.tools.importing.artemis.core import Envelope, read_core, skip_core
from jdbcstore.tools.importing.artemis.files import PagedRecord, PageOrder
from jdbcstore.tools.importing.artemis.journal import Content, JournalRecord, Records
from jdbcstore.tools.importing.artemis.queues import NoCounterpart, Target, target_of, topic_of
from jdbcstore.tools.importing.artemis.records import ArtemisQueue
from jdbcstore.tools.importing.artemis.state import Found, LeftMessage, LiveState, Reference
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.rows import ReplayedRows
from jdbcstore.tools.importing.source import Findings, SharedLocks

_MOST_SEQUENCE = 2**31 - 1
_LARGE_CORE = (1, 255)
_FROM_STATE = 0


class Storage(Protocol):
    """The files or tables in which a broker has its records."""

    place: str
    """The folder, or the URL without secrets."""
    node: str
    """The UUID of the broker; empty if it is not known."""
    has_all: bool
    """Whether a record is there as long as one refers to it."""

    shares: SharedLocks
    """The shares of the broker's lock files, if it has some."""

    @property
    def count(self) -> int:
        """The number of files, or tables."""

    def close(self) -> None: ...

    def bindings(self) -> Records:
        """Yield the records of the journal of the queues."""

    def messages(self) -> Records:
        """Yield the records of the journal of the messages."""

    def pages(self) -> Iterator[PagedRecord]:
        """Yield the messages in pages, in their order."""

    def read(self, id_: int, place: BodyPlace, /) -> bytes:
        """Return the bytes of a message at a place."""

    def large_body(self, id_: int) -> bytes:
        """Return the body of a large message."""

    def name(self, file: int) -> str:
        """Return the name of a file by its number."""


Open = Callable[[Callable[[int, int, int, str], None]], Storage]
"""Opens a storage, which reports damages to the argument."""


class ArtemisSource(ReplayedRows):
    """The messages of a stopped Artemis.

    :raises NothingToImport: there are none
    :raises SourceInUse: a running broker has them
    """

    def __init__(self, open_storage: Open, findings: Findings | None = None) -> None:
        super().__init__(findings)
        try:
            self._storage = open_storage(self._damaged_at)
            self._resources.callback(self._storage.close)
            self.place, self.shares = self._storage.place, self._storage.shares
            self._state = LiveState(self._damaged_at)
            self._resources.callback(self._state.close)
            self._targets: dict[int, Target] = {}
            self._queues: dict[int, ArtemisQueue] = {}
            self._keys: dict[Destination, set[str]] = {}
            self._aside = Counter[str]()
            self._run()
        except BaseException:
            self._resources.close()
            raise

    def _damaged_at(self, file: int, offset: int, size: int, reason: str) -> None:
        self.findings.damage(self._storage.name(file), offset, size, reason)

    def on_damage(self, place: BodyPlace, reason: str) -> None:
        entry = self._state.find(place.at)
        name = self._storage.name(entry.place.file)
        self.findings.damage(name, *entry.place[1:], reason, lambda: self._raw(entry))

    # Reading

    def _run(self) -> None:
        self._read_queues()
        state = self._state
        for record, file, content in self._storage.messages():
            state.read(record, file, content)
        state.leave_in_doubt()
        if self._storage.has_all and state.loose:
            self.findings.note(
                f"{self.place} has {state.loose} records, or transactions, without those that they are about:"
                " a broker that was killed leaves some, and so does a row that was changed or deleted; then"
                " messages are missing, or there again"
            )
        order = PageOrder(self._storage.name, self.findings.note)
        for paged in self._storage.pages():
            order.add(paged)
            self._read_paged(paged)
        order.end()
        for queue in self._queues.values():
            self._subscribe(queue)
        for left in state.left():
            self._replay(left)
        for text, count in self._aside.items():
            self.findings.damage(self.place, 0, 0, f"{count} messages {text}")
        self.replay.end()

    def _read_queues(self) -> None:
        opened: dict[int, list[tuple[int, ArtemisQueue | None]]] = {}
        for record, file, content in self._storage.bindings():
            change = record.id, self._queue(record, file, content)
            match record.kind:
                case journal.ADD_TX | journal.UPDATE_TX | journal.DELETE_TX:
                    opened.setdefault(record.transaction, []).append(change)
                case journal.COMMIT:
                    self._keep_queues(opened.pop(record.transaction, []))
                case journal.ROLLBACK:
                    opened.pop(record.transaction, None)
                case _:
                    self._keep_queues([change])

    def _queue(self, record: JournalRecord, file: int, content: Content) -> ArtemisQueue | None:
        """Return the queue that a record has; None if it has another content, or deletes one."""
        if record.content != records.QUEUE:
            return None
        try:
            return records.read_queue(record.id, content(*record.body))
        except CorruptMessage as error:
            self._damaged_at(file, record.offset, record.size, f"queue {record.id}: {error.reason}")
            return None

    def _keep_queues(self, changes: list[tuple[int, ArtemisQueue | None]]) -> None:
        for id_, queue in changes:
            if queue is None:
                self._queues.pop(id_, None)
            else:
                self._queues[id_] = queue

    def _read_paged(self, paged: PagedRecord) -> None:
        """Add a message of a page: its transaction, its kind, the message, and the queues it is for."""
        file, at, _ = paged.place
        try:
            buffer = Buffer(paged.body)
            transaction, is_large = buffer.long(), buffer.byte()
            content = records.LARGE if is_large in _LARGE_CORE else records.MESSAGE
            if content == records.LARGE:
                size = buffer.integer()
                start = buffer.skip(size)
            else:
                start = buffer.at
                if buffer.data[start] == records.CORE:
                    skip_core(buffer)
                else:
                    skip_amqp(buffer)
                size = buffer.at - start
            count = buffer.integer()
            if buffer.left != 8 * count:
                raise CorruptMessage(f"it is for {count} queues, and {buffer.left} bytes follow")
            queues = tuple(buffer.long() for _ in range(count))
            head = records.read_head(content, paged.body[start : start + size])
        except CorruptMessage as error:
            self._damaged_at(*paged.place, f"message {paged.number} of page {paged.page}: {error.reason}")
            return
        place = BodyPlace(file, at + start, size)
        self._state.add_paged(place, content, head, (paged.page, paged.number), transaction, queues)

    def _subscribe(self, queue: ArtemisQueue) -> None:
        try:
            target = target_of(queue)
        except NoCounterpart as error:
            self.findings.note(f"the queue {queue.name} of {queue.address} is not imported: {error}")
            return
        self._targets[queue.id] = target
        if target.note:
            self.findings.note(f"the queue {queue.name} of {queue.address}: {target.note}")
        if target.destination.is_topic:
            self._subscribe_to(target.destination, target)

    def _subscribe_to(self, topic: Destination, target: Target) -> None:
        """Create the subscription among those of a topic, which may be one that a wildcard stands for."""
        info = SubscriptionInfo(target.client_id, target.name, topic, target.destination, target.selector)
        self.replay.subscribe(target.key, info)
        self._keys.setdefault(topic, set()).add(target.key)

    # The remaining messages

    def _replay(self, left: LeftMessage) -> None:
        """Add a message that is left to where its queues are."""
        if left.size < 0:
            self.findings.damage(
                self.place,
                0,
                0,
                f"message {left.id} is not there, and {len(left.references)} queues refer to it",
            )
            return
        name = str(self._message_id(left.id))
        topics: dict[Destination, list[tuple[Reference, Target]]] = {}
        for reference in left.references:
            target = self._targets.get(reference.queue)
            if target is None:
                self._put_aside(reference)
            elif target.destination.is_topic:
                self._want(topics, left, reference, target)
            else:
                self._add(target.destination, name, left.size, reference)
        for topic, wanted in topics.items():
            self._add_to_topic(topic, name, left.size, wanted)

    def _put_aside(self, reference: Reference) -> None:
        known = self._queues.get(reference.queue)
        if known is None:
            of, reason = (
                str(reference.queue),
                "are for the queue {}, which is not among the bindings: left out",
            )
        else:
            of, reason = known.name, "of the queue {} are left out: it has no counterpart"
        self._aside[reason.format(of)] += 1
        self._leave_out(reference, of)

    def _leave_out(self, reference: Reference, of: str) -> None:
        entry = self._state.find(reference.seq)
        name = self._storage.name(entry.place.file)
        raw = partial(self._raw, entry)
        self.findings.leave_out(name, entry.place.at, raw, "it has no counterpart", of)

    def _raw(self, entry: Found) -> bytes:
        """Return a message's record, and behind it the body of a large one."""
        record = self._storage.read(entry.id, entry.place)
        if entry.content != records.LARGE:
            return record
        try:
            return record + self._storage.large_body(entry.id)
        except CorruptMessage:
            return record

    def _want(
        self,
        topics: dict[Destination, list[tuple[Reference, Target]]],
        left: LeftMessage,
        reference: Reference,
        target: Target,
    ) -> None:
        """Note that a subscription is to get a message, by the topic that it was sent to."""
        topic = target.destination
        if left.address is not None and {"*", ">"}.intersection(topic.name.split(".")):
            try:
                topic = topic_of(left.address)
            except NoCounterpart as error:
                self._aside[f"of the topic {left.address} are left out: {error}"] += 1
                self._leave_out(reference, left.address)
                return
        topics.setdefault(topic, []).append((reference, target))

    def _add(self, destination: Destination, name: str, size: int, reference: Reference) -> None:
        place = BodyPlace(_FROM_STATE, reference.seq, size)
        if reference.is_added and reference.xid is not None:
            if reference.due_ms is not None:
                self.findings.note(f"{reference.xid} schedules a message, which is due when it is committed")
            self.replay.add_prepared(reference.xid, destination, name, place, None)
        elif reference.due_ms is not None:
            self.replay.add(JOBS, f"{name}:{reference.queue}", place, due=(reference.due_ms, 0, False))
        else:
            if not self.replay.add(destination, name, place):
                self.findings.note(
                    f"a message that several queues had of the name of {destination} is there once"
                )
            if reference.xid is not None:
                self.replay.remove_prepared(reference.xid, destination, name)

    def _add_to_topic(
        self, topic: Destination, name: str, size: int, wanted: list[tuple[Reference, Target]]
    ) -> None:
        for _, target in wanted:
            self._subscribe_to(topic, target)
        first = wanted[0][0]
        self._add(topic, name, size, first)
        if first.is_added or first.due_ms is not None:
            return
        for reference, target in wanted:
            if reference.xid is not None:
                self.replay.remove_prepared(reference.xid, topic, name, target.key)
        wanting = {target.key for _, target in wanted}
        for key in self._keys[topic] - wanting:
            self.replay.acknowledge(topic, name, key)

    def _message_id(self, id_: int) -> MessageId:
        """Return the id that Artemis itself gives a message for OpenWire's clients."""
        value, sequence = divmod(id_, _MOST_SEQUENCE)
        return MessageId(ProducerId(f"ID:{self._storage.node or 'artemis'}", -1, value), sequence)

    def read(self, place: BodyPlace) -> bytes:
        """Return a message in OpenWire, from its record."""
        entry = self._state.find(place.at)
        target = self._targets[entry.queue]
        destination = target.destination
        if destination.is_topic and entry.address is not None:
            destination = Destination(DestinationKind.TOPIC, entry.address)
        message_id = self._message_id(entry.id)
        message = self._message(
            entry.content,
            self._storage.read(entry.id, entry.place),
            Envelope(
                entry.id,
                destination,
                message_id,
                entry.deliveries,
                partial(self._storage.large_body, entry.id),
            ),
        )
        blob, _ = openwire.encode_for_store(
            message, destination=destination, message_id=message_id, timestamp_ms=message.timestamp_ms or 0
        )
        return blob

    def _message(self, content: int, record: bytes, envelope: Envelope) -> Message:
        head = records.read_head(content, record)
        if head.id != envelope.number:
            raise CorruptMessage(f"there is the message {head.id} in its place")
        if head.protocol == records.CORE:
            return read_core(record, envelope, is_large=content == records.LARGE)
        if head.protocol in records.AMQPS:
            return read_amqp(record, envelope)
        raise CorruptMessage(f"its protocol has the number {head.protocol}, which is not known")

    def facts(self) -> Mapping[str, int]:
        """Return the numbers of files or tables, records, queues and transactions in doubt."""
        return {
            "files": self._storage.count,
            "records": self._state.records,
            "queues": len(self._queues),
            "in_doubt": len(self.replay.branches()),
        }
