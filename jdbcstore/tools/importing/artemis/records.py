"""The contents of the records in Artemis's two journals: queues, references, acknowledgements, pages."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.ids import XATransactionId
from jdbcstore.tools.importing.artemis.buffer import Buffer

QUEUE, ADDRESS = 21, 44
LARGE, MESSAGE, OLD_MESSAGE = 30, 45, 31
REFERENCE, ACKNOWLEDGED, DELIVERIES, SCHEDULED = 32, 33, 34, 36
PAGE_TRANSACTION, PAGE_ACKNOWLEDGED, PAGE_DONE = 35, 39, 42
WITHOUT_MESSAGES = frozenset(
    {20, 22, 24, 25, 26, 27, 28, 29, 37, 38, 40, 41, 43, 46, 47, 48, 49, 50, 51, 52, 53}
)
"""Types of contents that say nothing about which messages are left."""
CORE, AMQP, AMQP_2, AMQP_LARGE, AMQP_3 = 1, 2, 3, 4, 5
"""The protocol that has encoded a message."""
AMQPS = frozenset({AMQP, AMQP_2, AMQP_LARGE, AMQP_3})
_ANYCAST = 1
_NUMBERS = {
    REFERENCE: Struct(">q"),
    ACKNOWLEDGED: Struct(">q"),
    DELIVERIES: Struct(">qi"),
    SCHEDULED: Struct(">qq"),
    PAGE_TRANSACTION: Struct(">qi"),
    PAGE_ACKNOWLEDGED: Struct(">qqi"),
    PAGE_DONE: Struct(">qqi"),
}


class ArtemisQueue(NamedTuple):
    """A queue of Artemis's, which is a durable subscription if its address is multicast."""

    id: int
    name: str
    address: str
    selector: str | None
    is_anycast: bool
    is_configured: bool
    """Whether it is from broker.xml, and not a client's."""
    is_internal: bool


def read_queue(id_: int, body: bytes) -> ArtemisQueue:
    """Read the record of a queue.

    :raises CorruptMessage: it is damaged
    """
    buffer = Buffer(body)
    name, address = buffer.simple_string(), buffer.simple_string()
    selector = buffer.nullable_simple_string()
    buffer.nullable_simple_string()  # who made it
    buffer.skip(1)  # whether it was made automatically
    is_anycast = is_configured = is_internal = False
    if buffer.left:
        buffer.skip(5)  # consumers, purging
        is_anycast = buffer.byte() == _ANYCAST
    if buffer.left > 2:
        buffer.skip(2)  # exclusive, last value
        is_configured = buffer.boolean()
    if buffer.left > 12:
        buffer.skip(12)  # consumers before dispatch, delay before dispatch
        buffer.nullable_simple_string()  # the key of the last value
        buffer.skip(min(buffer.left, 1 + 1 + 4 + 1 + 8 + 8))  # not destructive, groups, when to delete it
        if buffer.left:
            buffer.nullable_simple_string()
        buffer.skip(min(buffer.left, 8 + 1 + 1))  # ring size, enabled, pause
        if buffer.left:
            is_internal = buffer.boolean()
    return ArtemisQueue(id_, name, address, selector, is_anycast, is_configured, is_internal)


class MessageHead(NamedTuple):
    """The front of every message's record."""

    id: int
    address: str | None
    protocol: int
    """CORE for a large message of the core protocol, too."""


def read_head(content: int, body: bytes) -> MessageHead:
    """Read the beginning of a message's record.

    :raises CorruptMessage: it is damaged, or of a protocol that is not known
    """
    buffer = Buffer(body)
    protocol = CORE if content == LARGE else buffer.byte()
    id_ = buffer.long()
    if protocol == AMQP_LARGE:
        buffer.skip(1)  # durable
    if protocol != CORE:
        buffer.skip(8)  # the format
    return MessageHead(id_, buffer.nullable_simple_string(), protocol)


def read_numbers(content: int, body: bytes) -> tuple[int, ...]:
    """Read the numbers of a record without a message: that of its queue, or of its transaction, is first.

    :raises CorruptMessage: it is damaged, or of a type that is not known
    """
    form = _NUMBERS.get(content)
    if content == OLD_MESSAGE:
        raise CorruptMessage("it is a message of Artemis 1, which Artemis 2 does not read either")
    if form is None:
        raise CorruptMessage(f"its content has the type {content}, which is not known")
    if len(body) != form.size:
        raise CorruptMessage(f"it has {len(body)} bytes, and should have {form.size}")
    return tuple(form.unpack(body))


def read_xid(body: bytes) -> XATransactionId:
    """Read the XID of a prepared transaction.

    :raises CorruptMessage: it is damaged
    """
    buffer = Buffer(body)
    format_id = buffer.integer()
    branch, transaction = buffer.sized(), buffer.sized()
    return XATransactionId(format_id, transaction, branch)
