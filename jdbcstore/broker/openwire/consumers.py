"""The consumers of one OpenWire connection: their dispatched messages and acknowledgements.

A message that arrived over OpenWire is dispatched as the same bytes, except for the broker's number in the
message id, and the times of arrival and departure.
"""

from __future__ import annotations

import asyncio
import weakref
from asyncio import Future, TimerHandle
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from jdbcstore.broker.api import Delivery, SubscriptionRequest
from jdbcstore.broker.large import LargeTransfers
from jdbcstore.broker.openwire.commands import Type, codec_version, write_command, write_id
from jdbcstore.broker.openwire.frames import WireFormat
from jdbcstore.broker.transport.consumers import ClientConsumer
from jdbcstore.broker.transport.output import HIGH_WATER
from jdbcstore.broker.transport.replies import Replies
from jdbcstore.errors import (
    BodyInPieces,
    MessageTooLarge,
    StoreError,
    TransactionError,
)
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, MessageId
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import encode_for_wire
from jdbcstore.message.openwire._passing_cy import dispatch_frame
from jdbcstore.message.openwire.decoder import find_content
from jdbcstore.message.openwire.pieces import body_in_pieces, without_body
from jdbcstore.message.openwire.wire_format import MAX_SIZE

_DISPATCH_HEAD = Struct(">Bi?").pack(Type.MESSAGE_DISPATCH, 0, False)
_i32 = Struct(">i")
_MOST_HEADS = 100
_PART = 64 * 1024
_MOST_REFUSED = 100
"""The transactions of a paused consumer that are only rolled back; the next one ends its connection."""
NO_WAIT = -1
"""The timeout of a pull that does not wait."""

Numbered = dict[int, Delivery]
"""Deliveries by their numbers in the connection, in order."""


class AckType(IntEnum):
    """The kinds of acknowledgements."""

    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


class _Dispatched(NamedTuple):
    """An unacknowledged delivery; a composite destination may deliver a message twice."""

    delivery: Delivery
    message_id: MessageId
    destination: Destination


class _LongMessage:
    """A long message in memory, encoded once for all consumers that have not read it yet."""

    def __init__(self, message: Message, codec: int, blob: bytes, slot: int, at: int, size: int) -> None:
        self._message = message  # while this exists, no other object has its id()
        self._blob = blob
        self._begin, self._end = at + 5, at + 5 + size
        self.slot = slot
        self.size = size
        self.rest = blob[:at] + b"\0" + blob[self._end :]
        """The message without its content."""
        key = id(message), codec
        _long_messages[key] = weakref.ref(self, lambda _: _long_messages.pop(key, None))

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the content."""
        for start in range(self._begin, self._end, _PART):
            yield self._blob[start : min(start + _PART, self._end)]


_long_messages: dict[tuple[int, int], weakref.ref[_LongMessage]] = {}
"""The long messages that are being written, by the ``id`` of the message and the version of the codec."""


class OpenWireConsumer(ClientConsumer):
    """One consumer of a client.

    :param numbers: the numbers of the connection's dispatches; a client reports its last one
    :param large: the bodies that the store keeps in pieces
    """

    def __init__(
        self,
        *,
        consumer_id: ConsumerId,
        request: SubscriptionRequest,
        wire_format: WireFormat,
        numbers: Iterator[int],
        now_ms: Callable[[], int],
        replies: Replies,
        large: LargeTransfers | None,
        on_end: Callable[[OpenWireConsumer, Exception], None],
    ) -> None:
        super().__init__(replies=replies, request=request, on_end=on_end)
        self.consumer_id = consumer_id
        self.pending: dict[int, _Dispatched] = {}
        """Unacknowledged deliveries by number, in delivery order. The acknowledgement of a client contains
        the number as a part of the message's id."""
        self._by_id: dict[MessageId, list[int]] | None = None
        """The numbers of each pending message; built when a client uses a wrong number."""
        self._version = version = wire_format.version
        self._codec = codec_version(version)
        self._most = min(wire_format.max_frame_size, MAX_SIZE)
        self._numbers = numbers
        self._now_ms = now_ms
        self._large = large
        self._heads: dict[Destination, bytes] = {}
        self._consumer = write_id(consumer_id, version)
        self._pull: TimerHandle | None = None
        self._pulls = 0
        self._refused = 0

    def deliver(self, delivery: Delivery) -> None:
        try:
            long = _long_messages.get((id(delivery.message), self._codec)) if _long_messages else None
            if long is not None and (shared := long()) is not None:
                self._deliver_long(delivery, shared)
                return
            blob, slot = encode_for_wire(delivery.message, self._codec)
            if (
                len(blob) > HIGH_WATER
                and (content := find_content(blob, self._codec))
                and content[1] > HIGH_WATER
            ):
                self._deliver_long(
                    delivery, _LongMessage(delivery.message, self._codec, blob, slot, *content)
                )
                return
            number, dispatched, frame = self._frame(delivery, delivery.message, blob, slot)
        except BodyInPieces as error:
            self._deliver_large(delivery, error)
            return
        except StoreError as error:
            self._reject_later(delivery, error)
            return
        self._note(number, dispatched)
        self._output.write(frame)

    def _note(self, number: int, dispatched: _Dispatched) -> None:
        self._end_pull()
        self.pending[number] = dispatched
        if self._by_id is not None:
            self._by_id.setdefault(dispatched.message_id, []).append(number)

    def _deliver_large(self, delivery: Delivery, error: StoreError) -> None:
        """Write a message part by part: its frame around the content from the store."""
        large, body = self._large, body_in_pieces(delivery.message)
        if large is None or body is None:
            self._reject_later(delivery, error)
            return
        try:
            message = without_body(delivery.message)
            blob, slot = encode_for_wire(message, self._codec)
            number, dispatched, frame = self._frame(delivery, message, blob, slot, body.size + 4)
        except StoreError as failure:
            self._reject_later(delivery, failure)
            return
        self._stream(delivery, number, dispatched, frame, body.size, large.content(body))

    def _deliver_long(self, delivery: Delivery, long: _LongMessage) -> None:
        """Write a message in memory part by part.

        :raises StoreError: its frame is too large
        """
        more = long.size + 4
        number, dispatched, frame = self._frame(delivery, delivery.message, long.rest, long.slot, more)
        self._stream(delivery, number, dispatched, frame, long.size, long.content())

    def _stream(
        self,
        delivery: Delivery,
        number: int,
        dispatched: _Dispatched,
        frame: bytes,
        size: int,
        content: AsyncIterator[bytes],
    ) -> None:
        """Write a frame without content, with content of this size."""
        self._note(number, dispatched)
        # The frame's head follows the message's size, instead of the message's own head.
        at = len(self._heads[delivery.destination])
        place = find_content(frame[:4] + frame[4 + at :], self._codec)
        assert place is not None  # noqa: S101 - it was encoded just now
        at += place[0]
        length = _i32.pack(len(frame) - 4 + 4 + size)
        head, tail = b"".join((length, frame[4:at], b"\1", _i32.pack(size))), frame[at + 1 :]

        async def parts() -> AsyncIterator[bytes]:
            yield head + await anext(content, b"")
            async for part in content:
                yield part
            yield tail

        def forget() -> None:
            self.pending.pop(number, None)
            self._by_id = None

        self._write_in_parts(delivery, parts(), forget)

    def _frame(
        self, delivery: Delivery, message: Message, blob: bytes, slot: int, more: int = 0
    ) -> tuple[int, _Dispatched, bytes]:
        """Return the frame of a delivery, with its number.

        :param message: the delivery's message, or its copy without the body
        :param blob: the encoded message, with the offset ``slot`` of its id's broker sequence
        :param more: additional bytes for the frame
        """
        destination, codec = delivery.destination, self._codec
        head = self._heads.get(destination)
        if head is None:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            named = write_id(destination, self._version)
            head = self._heads[destination] = _DISPATCH_HEAD + self._consumer + named + b"\1"
        size = len(head) + len(blob) + more
        if size > self._most:
            raise MessageTooLarge(size, self._most, "the client's connection accepts no larger frames")
        number = next(self._numbers)
        count = message.redelivery_counter or (1 if delivery.redelivered else 0)
        assert message.message_id is not None  # noqa: S101 - a message of the broker has one
        frame = dispatch_frame(head, blob, slot, number, self._now_ms(), count, codec)
        return number, _Dispatched(delivery, message.message_id, destination), frame

    def browsed(self) -> None:
        self._write_nothing()

    def _write_nothing(self) -> None:
        """Write the end of a browser's messages, or of an empty pull."""
        self._output.write(write_command(Type.MESSAGE_DISPATCH, self._version, consumer_id=self.consumer_id))

    # Pulling

    def pull(self, timeout_ms: int) -> None:
        """Deliver one message, or nothing after this time; 0 waits forever."""
        self._end_pull()
        self.subscription.pull(1)
        if self.request.browser:
            return  # "nothing" would be the end of its messages
        if timeout_ms == NO_WAIT:
            pull = self._pulls
            self.subscription.when_settled(lambda: self._found_nothing(pull))
        elif timeout_ms > 0:
            loop = asyncio.get_running_loop()
            self._pull = loop.call_later(timeout_ms / 1000, self._found_nothing, self._pulls)

    def _found_nothing(self, pull: int) -> None:
        if pull == self._pulls:
            self._end_pull()
            self.subscription.pull(0)
            self._write_nothing()

    def _end_pull(self) -> None:
        self._pulls += 1
        if self._pull is not None:
            self._pull.cancel()
            self._pull = None

    # Acknowledging

    def covered(
        self, kind: AckType, first: MessageId | None, last: MessageId, destination: Destination | None
    ) -> Numbered:
        """Return the deliveries that an acknowledgement covers, in order; none if it does not match any.

        :param first: the beginning of the range; None means the first pending delivery
        """
        pending = self.pending
        end = self._number_of(last, destination)
        if end is None:
            return {}
        if kind is AckType.INDIVIDUAL or (first == last and kind is not AckType.DELIVERED):
            return {end: pending[end].delivery}
        begin: int | None = 0
        if first is not None and kind is not AckType.DELIVERED:
            begin = self._number_of(first, destination)
        deliveries: Numbered = {}
        if begin is None:
            return deliveries
        numbers = range(begin, end + 1) if begin > 0 and end - begin < len(pending) else pending
        for number in numbers:
            if number > end:
                break
            if number >= begin and (delivery := pending.get(number)) is not None:
                deliveries[number] = delivery.delivery
        return deliveries

    def has(self, message_id: MessageId) -> bool:
        """Return whether a delivery of this message is pending."""
        return bool(self._numbers_of(message_id))

    def has_paused(self) -> bool:
        """Record a transaction with messages of an earlier connection.

        Return whether its client may still forget them. It reconnects without a prefetch, and sets one after
        it has forgotten. If the connection ends before that, it never does.
        """
        self._refused += 1
        return self.subscription.prefetch == 0 and self._refused <= _MOST_REFUSED

    def _number_of(self, message_id: MessageId, destination: Destination | None) -> int | None:
        """Return the number of the delivery with this id, preferably from the destination."""
        number = message_id.broker_sequence
        delivery = self.pending.get(number)
        if delivery is not None and delivery.message_id == message_id:
            return number
        numbers = self._numbers_of(message_id)
        named = (number for number in numbers if self.pending[number].destination == destination)
        return next(named, numbers[0] if numbers else None)

    def _numbers_of(self, message_id: MessageId) -> Sequence[int]:
        """Return the numbers of a message's deliveries, in order."""
        if self._by_id is None:
            self._by_id = {}
            for number, delivery in self.pending.items():
                self._by_id.setdefault(delivery.message_id, []).append(number)
        return self._by_id.get(message_id, ())

    def carry_out(
        self, kind: AckType, numbered: Numbered, *, is_transacted: bool, cause: str | None
    ) -> Future[None] | None:
        """Carry out an acknowledgement immediately; return the future of its write.

        :param is_transacted: whether it is part of a transaction, which may not contain its kind
        :param cause: the reason why the client could not consume the messages
        :raises TransactionError: it may not be part of a transaction
        """
        subscription, deliveries = self.subscription, [*numbered.values()]
        if kind is AckType.REDELIVERED:
            return None  # the client will consume them again
        if kind is AckType.DELIVERED:
            subscription.extend(deliveries)
            return None
        if kind is AckType.POISON and is_transacted:
            raise TransactionError("Poison ack cannot be transacted")
        self.settled(numbered)
        if kind is AckType.POISON:
            return subscription.reject(deliveries, cause)
        if kind is AckType.EXPIRED:
            return subscription.expire(deliveries)
        return subscription.acknowledge(deliveries)

    def settled(self, numbers: Numbered) -> None:
        """Forget deliveries whose acknowledgement is final."""
        for number in numbers:
            delivery = self.pending.pop(number, None)
            if delivery is not None and self._by_id is not None:
                same = self._by_id[delivery.message_id]
                same.remove(number)
                if not same:
                    del self._by_id[delivery.message_id]

    def close(self, last_seen: int | None = None, *, has_left: bool = False) -> None:
        """Return the unacknowledged deliveries to the broker.

        :param last_seen: the number of the last delivery that the client has looked at; None if unknown
        :param has_left: whether the client has ended the consumer or its connection
        """
        self._end_pull()
        unseen = set()
        if last_seen is not None:
            unseen = {delivery.delivery for number, delivery in self.pending.items() if number > last_seen}
        self.pending.clear()
        self._by_id = None
        self.subscription.close(unseen, has_left=has_left)


def covers_more(numbered: Numbered, count: int) -> bool:
    """Return whether a range has more messages than its client counted.

    The client then consumes in another order, for example by priority.
    """
    return len(numbered) > count and len({delivery.message.priority for delivery in numbered.values()}) == 1
