"""The consumers of one OpenWire connection: the messages dispatched to them, and their acknowledgements.

A message that came over OpenWire is dispatched as the bytes in which it came, apart from the number that the
broker gives it in the message id, and the times at which it came and leaves.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import TimerHandle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from jdbcstore.broker.api import Delivery, Subscription, SubscriptionRequest
from jdbcstore.broker.openwire.commands import Type, codec_version, write_command, write_id
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.errors import MessageTooLarge, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, MessageId
from jdbcstore.message.openwire import encode_for_wire, parts_with_broker_out_time

log = logging.getLogger(__name__)

_i32, _i64 = Struct(">i").pack, Struct(">q").pack
_DISPATCH_HEAD = Struct(">Bi?").pack(Type.MESSAGE_DISPATCH, 0, False)
_MOST_HEADS = 100
NO_WAIT = -1
"""The time-out of a pull that takes what is there now."""

Key = tuple[MessageId, Destination]
"""What a delivery is acknowledged by: a composite destination may bring one message twice."""


class AckType(IntEnum):
    """The kinds of acknowledgements."""

    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


@dataclass(slots=True)
class Dispatched:
    """A delivery that its client has not acknowledged, and its number among those of the connection."""

    delivery: Delivery
    number: int


@dataclass(eq=False, repr=False)
class OpenWireConsumer:
    """One consumer of a client: the broker's :class:`~jdbcstore.broker.api.Consumer`."""

    _output: ClientConnection
    consumer_id: ConsumerId
    request: SubscriptionRequest
    _version: int
    """Of the wire format."""
    _most: int
    """The most bytes of a frame for the client."""
    _numbers: Iterator[int]
    """The numbers of the connection's dispatches, by which a client says what it has seen last."""
    _on_end: Callable[[OpenWireConsumer, Exception], None]
    """Called when the broker has ended the subscription."""
    _now_ms: Callable[[], int]

    def __post_init__(self) -> None:
        self.subscription: Subscription
        """The broker's end, set by :meth:`open`; nothing is delivered before."""
        self._pending: dict[Key, Dispatched] = {}
        """Unacknowledged deliveries, in delivery order."""
        self._heads: dict[Destination, bytes] = {}
        self._consumer = write_id(self.consumer_id, self._version)
        self._pull: TimerHandle | None = None
        self._pulls = 0

    @property
    def keeps_messages(self) -> bool:
        """False: a message has been encoded when ``deliver`` returns."""
        return False

    def open(self, subscription: Subscription) -> None:
        """The broker has accepted the subscription: deliveries follow."""
        self.subscription = subscription
        if self._output.paused:
            subscription.pause()

    def deliver(self, delivery: Delivery) -> None:
        try:
            frame, key, number = self._frame(delivery)
        except StoreError as error:
            # It must not block the messages behind it.
            log.error("a message of %s is rejected: %s", delivery.destination, error)
            asyncio.get_running_loop().call_soon(self.subscription.reject, [delivery])
            return
        self._end_pull()
        self._pending[key] = Dispatched(delivery, number)
        self._output.write(frame)

    def _frame(self, delivery: Delivery) -> tuple[bytes, Key, int]:
        message, destination = delivery.message, delivery.destination
        blob, slot = encode_for_wire(message, codec_version(self._version))
        head = self._heads.get(destination)
        if head is None:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            named = write_id(destination, self._version)
            head = self._heads[destination] = _DISPATCH_HEAD + self._consumer + named + b"\1"
        size = len(head) + len(blob)
        if size > self._most:
            raise MessageTooLarge(size, self._most, "the client's connection takes no larger frames")
        number = next(self._numbers)
        count = message.redelivery_counter or (1 if delivery.redelivered else 0)
        start = slot + 8 if slot >= 0 else 4
        numbered = (blob[4:slot], _i64(number)) if slot >= 0 else ()
        rest = parts_with_broker_out_time(blob, start, self._now_ms(), codec_version(self._version))
        assert message.message_id is not None  # noqa: S101 - a message of the broker has one
        frame = b"".join((_i32(size), head, *numbered, *rest, _i32(count)))
        return frame, (message.message_id, destination), number

    def browsed(self) -> None:
        self._write_nothing()

    def _write_nothing(self) -> None:
        """The end of a browser's messages, or of a pull that has found nothing."""
        self._output.write(write_command(Type.MESSAGE_DISPATCH, self._version, consumer_id=self.consumer_id))

    def end(self, error: Exception) -> None:
        # Not in this call: the broker is in the middle of its work.
        asyncio.get_running_loop().call_soon(self._on_end, self, error)

    # Pulling

    def pull(self, timeout_ms: int) -> None:
        """Deliver one message, or nothing after this time; 0 waits for ever."""
        self._end_pull()
        self.subscription.pull(1)
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
    ) -> dict[Key, Delivery]:
        """The deliveries that an acknowledgement covers, in order; none if it does not match any.

        :param first: where the range begins; None is the first that is pending
        """
        if destination is None or (last, destination) not in self._pending:
            known = next((key for key in self._pending if key[0] == last), None)
        else:
            known = (last, destination)
        if known is None:
            return {}
        if kind is AckType.INDIVIDUAL or (first == last and kind is not AckType.DELIVERED):
            return {known: self._pending[known].delivery}
        found: dict[Key, Delivery] = {}
        in_range = first is None or kind is AckType.DELIVERED
        for key, dispatched in self._pending.items():
            in_range = in_range or key[0] == first
            if in_range:
                found[key] = dispatched.delivery
            if key == known:
                break
        return found

    def settled(self, keys: dict[Key, Delivery]) -> None:
        """Forget deliveries: their acknowledgement is final."""
        for key, delivery in keys.items():
            dispatched = self._pending.get(key)
            if dispatched is not None and dispatched.delivery is delivery:
                del self._pending[key]

    def close(self, last_seen: int | None = None) -> None:
        """Return to the broker the deliveries that the client has not acknowledged.

        :param last_seen: the number of the last delivery that the client has looked at; None if unknown
        """
        self._end_pull()
        unseen = set()
        if last_seen is not None:
            unseen = {one.delivery for one in self._pending.values() if one.number > last_seen}
        self._pending.clear()
        self.subscription.close(unseen)
