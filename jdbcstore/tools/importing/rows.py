"""The rows of a store, from the messages of a source that remain after the replay of its log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.errors import CorruptMessage, StoreError
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, XATransactionId
from jdbcstore.message.jobs import CRON, JOBS, Job
from jdbcstore.message.message import Message
from jdbcstore.stores.jdbc.xa.column import ACKNOWLEDGED, ADDED, OURS_ALONE, encode_flag
from jdbcstore.tools.importing.replay import (
    BodyPlace,
    Left,
    MessageState,
    Replay,
    ReplayedSubscription,
)
from jdbcstore.tools.importing.source import Findings, SharedLocks
from jdbcstore.tools.pages import bounded
from jdbcstore.tools.transfer import AheadRow, MarkRow, MessageRow
from jdbcstore.tools.transfer import Subscription as Key
from jdbcstore.util.closing import Closing

_LANES = 10


@dataclass(slots=True)
class _Lane:
    """The row of a subscription for one priority, or for all."""

    mark: int = 0
    is_open: bool = True
    """Whether all messages so far are acknowledged."""
    up_to: int = 0
    """The new mark if ``xid`` is committed."""
    xid: XATransactionId | None = None
    """The transaction that acknowledges the first that is not."""
    is_followed: bool = True
    """Whether all messages since then are acknowledged, or in that transaction."""

    def pass_by(self, state: MessageState) -> None:
        if self.is_open and state.is_acknowledged:
            self.mark = state.id
            return
        if self.is_open:
            self.is_open, self.xid = False, state.xid
        self.is_followed &= state.is_acknowledged or (state.xid is not None and state.xid == self.xid)
        if self.xid is not None and self.is_followed:
            self.up_to = state.id

    def text(self, priority: int) -> str | None:
        """Return the XID column of the row."""
        return None if self.xid is None else encode_flag(ACKNOWLEDGED, self.xid, self.up_to, priority)


class ReplayedRows(Closing):
    """Rows made of another broker's store, of which a replay has ended; a context manager that closes it.

    Reading changes nothing of that store.

    :param findings: damage and remarks are reported there; complete once the messages were read
    """

    place: str
    """The URL, or the folder, without secrets."""

    def __init__(self, findings: Findings | None) -> None:
        self.findings = Findings() if findings is None else findings
        self.replay = Replay()
        self._resources = ExitStack()
        self._resources.callback(self.replay.close)
        self.shares = SharedLocks()
        """The shares of the lock files of its brokers."""
        self._lanes: dict[Key, dict[int, _Lane]] = {}

    def close(self) -> None:
        self._resources.close()

    @abstractmethod
    def facts(self) -> Mapping[str, int]:
        """Return further numbers to show: files, transactions in doubt, scheduled messages."""

    @abstractmethod
    def read(self, place: BodyPlace) -> bytes:
        """Return the OpenWire bytes of a message, as they were stored.

        :raises OSError: they cannot be read
        :raises CorruptMessage: they are damaged
        """

    @abstractmethod
    def on_damage(self, place: BodyPlace, reason: str) -> None:
        """Report a message that cannot be read."""

    def messages(self) -> Iterator[list[MessageRow]]:
        """Yield all messages in pages, ordered by ID; report and omit unreadable ones."""
        return bounded(self._rows(), lambda row: len(row.msg))

    def _rows(self) -> Iterator[MessageRow]:
        for left in self.replay.messages():
            try:
                yield self._row(left)
            except OSError as error:
                self.on_damage(left.place, f"message {left.name} cannot be read: {error.strerror}")
            except StoreError as error:
                self.on_damage(left.place, f"message {left.name} of {left.destination}: {_reason(error)}")

    def _row(self, left: Left) -> MessageRow:
        blob = self.read(left.place)
        message = openwire.decode(blob)
        if left.due is not None:
            return self._job(left, message)
        producer, sequence = name_columns(left.name)
        message_id = message.message_id
        if message_id is None or (str(message_id.producer_id), message_id.producer_sequence) != (
            producer,
            sequence,
        ):
            raise CorruptMessage(f"there is the message {message_id} in its place")
        xid = None
        if left.xid is not None:
            xid = encode_flag(ADDED if left.is_added else ACKNOWLEDGED, left.xid)
        expiration, priority = message.expiration_ms, left.priority or 0
        container = left.destination.qualified_name
        return MessageRow(left.id, container, producer, sequence, expiration, blob, priority, xid)

    def _job(self, left: Left, message: Message) -> MessageRow:
        """Return the row in which our scheduler keeps a message."""
        assert left.due is not None  # noqa: S101
        at_ms, repeats, has_cron = left.due
        if message.destination is None or message.message_id is None:
            raise CorruptMessage("a scheduled message has no destination, or no id")
        original = message.original_destination
        job = Job(
            job_id=left.name,
            at_ms=at_ms,
            repeats=repeats,
            destination=str(message.destination),
            original_destination=None if original is None else str(original),
            expiration_ms=message.expiration_ms,
            follows_cron=CRON in message.properties and not has_cron,
        )
        row = job.in_row(message, message.message_id)
        blob, _ = openwire.encode_for_store(
            row, destination=JOBS, message_id=message.message_id, timestamp_ms=message.timestamp_ms or 0
        )
        producer, sequence = (str(message.message_id.producer_id), message.message_id.producer_sequence)
        return MessageRow(left.id, JOBS.qualified_name, producer, sequence, 0, blob, 0, None)

    # Subscriptions

    def containers(self) -> set[str]:
        """Return the topics with durable subscriptions."""
        return {topic.qualified_name for topic in self.replay.topics()}

    def marks(self, container: str) -> list[MarkRow]:
        """Return the rows of ACTIVEMQ_ACKS of a topic, ordered by key."""
        topic = Destination.parse(container, DestinationKind.TOPIC)
        rows = []
        for subscription in self.replay.topics().get(topic, ()):
            for priority, lane in self._lanes_of(topic, subscription).items():
                mark = self.replay.last if lane.is_open else lane.mark
                info, xid = subscription.info, lane.text(priority)
                row = (container, str(info.subscribed_destination), *_key(topic, info)[1:], info.selector)
                rows.append(MarkRow(*row, mark, priority, xid))
        return sorted(rows, key=lambda row: row.key)

    def _lanes_of(self, topic: Destination, subscription: ReplayedSubscription) -> dict[int, _Lane]:
        key = _key(topic, subscription.info)
        lanes = self._lanes.get(key)
        if lanes is None:
            count = _LANES if self.replay.has_priorities(topic) else 1
            lanes = self._lanes[key] = {priority: _Lane() for priority in range(count)}
            for state in self.replay.states(topic, subscription):
                lanes[_lane(state, lanes)].pass_by(state)
        return lanes

    def subscriptions_ahead(self) -> set[Key]:
        """Return the subscriptions with acknowledgements ahead of their marks."""
        keys = set()
        for topic, subscriptions in self.replay.topics().items():
            for subscription in subscriptions:
                key = _key(topic, subscription.info)
                if next(self.ahead(key), None) is not None:
                    keys.add(key)
        return keys

    def ahead(self, key: Key) -> Iterator[AheadRow]:
        """Yield the acknowledgements ahead of the mark of a subscription, ordered by ID."""
        topic = Destination.parse(key[0], DestinationKind.TOPIC)
        for subscription in self.replay.topics().get(topic, ()):
            if _key(topic, subscription.info) == key:
                yield from self._ahead(topic, subscription)

    def _ahead(self, topic: Destination, subscription: ReplayedSubscription) -> Iterator[AheadRow]:
        lanes = self._lanes_of(topic, subscription)
        for state in self.replay.states(topic, subscription):
            priority = _lane(state, lanes)
            lane = lanes[priority]
            if state.xid is None and not (state.is_acknowledged and state.id > lane.mark):
                continue
            text = None
            if state.xid is not None:
                text = encode_flag(OURS_ALONE, state.xid)
                if state.xid == lane.xid:
                    text = lane.text(priority)
            key = _key(topic, subscription.info)
            yield AheadRow(*key, state.id, *name_columns(state.name), text)

    def reserved(self) -> int:
        """Return the highest sequence that was used."""
        return self.replay.last


def _key(topic: Destination, info: SubscriptionInfo) -> Key:
    return topic.qualified_name, info.client_id, info.subscription_name


def _lane(state: MessageState, lanes: dict[int, _Lane]) -> int:
    return (state.priority or 0) if len(lanes) > 1 else 0


def name_of(message_id: MessageId) -> str:
    """Return a message's name in the replay."""
    return f"{message_id.producer_id}:{message_id.producer_sequence}"


def name_columns(name: str) -> tuple[str, int]:
    """Return MSGID_PROD and MSGID_SEQ of a message id.

    :raises CorruptMessage: it is none
    """
    producer, _, sequence = name.rpartition(":")
    try:
        return producer, int(sequence)
    except ValueError:
        raise CorruptMessage(f"{name[:200]!r} is not a message id") from None


def _reason(error: StoreError) -> str:
    return error.reason if isinstance(error, CorruptMessage) else str(error)
