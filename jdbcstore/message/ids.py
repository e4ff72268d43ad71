"""ActiveMQ's ids of producers, messages, transactions and consumers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import final

from jdbcstore.errors import InvalidMessage, TransactionError

_NUMBER = ":(0|-?[1-9][0-9]{0,18})"
_PRODUCER_ID = re.compile(f"(.*){_NUMBER * 2}", re.DOTALL)
_MESSAGE_ID = re.compile(f"(.*){_NUMBER * 3}", re.DOTALL)
_XID = re.compile(r"XID:\[(-?[0-9]{1,10}),globalId=([0-9a-f]+),branchId=([0-9a-f]*)\]", re.IGNORECASE)
_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class ProducerId:
    """A message producer: ``value`` is its number in the JMS session ``session_id`` of ``connection_id``.

    As a string and in the MSGID_PROD column it is ``connection:session:value``.
    """

    connection_id: str
    session_id: int
    value: int
    _text: str = field(init=False, repr=False, compare=False)
    _openwire: bytes | None = field(
        init=False, repr=False, compare=False, default=None
    )  # cached by the encoder

    def __post_init__(self) -> None:
        _set(self, "_text", f"{self.connection_id}:{self.session_id}:{self.value}")

    @classmethod
    def parse(cls, text: str) -> ProducerId:
        """Parse a producer id.

        :raises InvalidMessage: it is not valid
        """
        parts = _split(_PRODUCER_ID, text)
        if parts is None:
            raise InvalidMessage(f"{text[:200]!r} is not a producer id; it must be connection:session:value")
        connection_id, (session_id, value) = parts
        return cls(connection_id, session_id, value)

    def __str__(self) -> str:
        return self._text


class _MessageIdFields:
    __slots__ = ("broker_sequence", "producer_id", "producer_sequence", "text_view")

    producer_id: ProducerId | None
    producer_sequence: int
    broker_sequence: int
    text_view: str | None


@final
class MessageId(_MessageIdFields):
    """JMSMessageID: ``producer_id`` and ``producer_sequence``, the producer's number of the message.

    ``broker_sequence`` is the number assigned by a broker, the ID column once the message is read from a
    store; comparisons ignore it. ``text_view`` is an id chosen by another system. An id with only a
    ``text_view`` has no ``producer_id``; a store adds one, since its row needs it.
    """

    __slots__ = ()

    def __init__(
        self,
        producer_id: ProducerId | None,
        producer_sequence: int,
        broker_sequence: int = 0,
        text_view: str | None = None,
    ) -> None:
        _set(self, "__class__", _MessageIdFields)  # four times faster than object.__setattr__ for each
        self.producer_id = producer_id
        self.producer_sequence = producer_sequence
        self.broker_sequence = broker_sequence
        self.text_view = text_view
        _set(self, "__class__", MessageId)

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Parse a message ID; an ID in another form than ActiveMQ's becomes a ``text_view``.

        :raises InvalidMessage: the string is empty
        """
        if not text:
            raise InvalidMessage("a message id needs at least one character")
        parts = _split(_MESSAGE_ID, text)
        if parts is None:
            return cls(None, 0, 0, text)
        connection_id, (session_id, value, sequence) = parts
        return cls(ProducerId(connection_id, session_id, value), sequence)

    def __str__(self) -> str:
        text = self.text_view
        if text is None:
            return f"{self.producer_id}:{self.producer_sequence}"
        return text if text.startswith("ID:") else f"ID:{text}"

    def __repr__(self) -> str:
        return f"<MessageId {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return (
            self.producer_sequence == other.producer_sequence
            and self.producer_id == other.producer_id
            and self.text_view == other.text_view
        )

    def __hash__(self) -> int:
        return hash((self.producer_sequence, self.producer_id))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a MessageId cannot be changed: {name}")


MESSAGE_ID_FIELDS = ("producer_id", "producer_sequence", "broker_sequence", "text_view")
"""The slots of a message id, in the order of its constructor."""


def _split(pattern: re.Pattern[str], text: str) -> tuple[str, list[int]] | None:
    """Return the part before the numbers, and the numbers; None if these are not Java longs."""
    match = pattern.fullmatch(text)
    if match is None:
        return None
    connection_id, *digits = match.groups()
    numbers = [int(number) for number in digits]
    return (connection_id, numbers) if all(-(1 << 63) <= n < 1 << 63 for n in numbers) else None


@dataclass(frozen=True, slots=True)
class ConnectionId:
    """A client connection."""

    value: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class BrokerId:
    """A broker in a network of brokers."""

    value: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class SessionId:
    """A JMS session of a connection."""

    connection_id: str
    value: int

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.value}"


@dataclass(frozen=True, slots=True)
class ConsumerId:
    """A consumer of a JMS session."""

    connection_id: str
    session_id: int
    value: int

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


@dataclass(frozen=True, slots=True)
class LocalTransactionId:
    """A transaction of one connection."""

    connection_id: ConnectionId
    value: int

    def __str__(self) -> str:
        return f"TX:{self.connection_id}:{self.value}"


@dataclass(frozen=True, slots=True, order=True)
class XATransactionId:
    """A branch of a distributed transaction: JTA's Xid, with its ``format_id``, ``global_transaction_id`` and
    ``branch_qualifier``.

    As a string, and in ActiveMQ's log and JMX, it is ``XID:[86,globalId=01020304,branchId=0902]``, with the
    bytes in hexadecimal.
    """

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes

    @classmethod
    def parse(cls, text: str) -> XATransactionId:
        """Parse the id of a transaction branch.

        :raises TransactionError: it is not valid
        """
        match = _XID.fullmatch(text.strip())
        try:
            format_id, *names = match.groups() if match else ("",)
            return cls(int(format_id), *map(bytes.fromhex, names))
        except ValueError:
            raise TransactionError(
                f"{text[:200]!r} is not an XID; it must be XID:[86,globalId=01020304,branchId=0902]"
            ) from None

    def __str__(self) -> str:
        return (
            f"XID:[{self.format_id},globalId={self.global_transaction_id.hex()},"
            f"branchId={self.branch_qualifier.hex()}]"
        )


TransactionId = LocalTransactionId | XATransactionId
