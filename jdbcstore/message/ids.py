"""The names that ActiveMQ gives to producers, messages, transactions and consumers."""

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
    """Who sent a message; as text, and in the MSGID_PROD column, ``connection:session:value``."""

    connection_id: str
    session_id: int
    value: int
    _text: str = field(init=False, repr=False, compare=False)
    _openwire: bytes | None = field(init=False, repr=False, compare=False, default=None)  # the codec's memo

    def __post_init__(self) -> None:
        _set(self, "_text", f"{self.connection_id}:{self.session_id}:{self.value}")

    @classmethod
    def parse(cls, text: str) -> ProducerId:
        """The producer id in a MSGID_PROD column; :class:`InvalidMessage` if it is none."""
        parts = _split(_PRODUCER_ID, text)
        if parts is None:
            raise InvalidMessage(f"{text!r} is no producer id; it should be connection:session:value")
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
    """A message's name: its producer's id and a number that the producer counts.

    ``broker_sequence`` is the number a broker gave it, the ID column once it is read from a store;
    it does not take part in comparisons. ``text_view`` is an id that another system chose. An id
    that is nothing but a ``text_view`` has no ``producer_id``, and no row: a store adds one.
    """

    __slots__ = ()

    def __init__(
        self,
        producer_id: ProducerId | None,
        producer_sequence: int,
        broker_sequence: int = 0,
        text_view: str | None = None,
    ) -> None:
        _set(self, "__class__", _MessageIdFields)  # four times faster than setting each through object
        self.producer_id = producer_id
        self.producer_sequence = producer_sequence
        self.broker_sequence = broker_sequence
        self.text_view = text_view
        _set(self, "__class__", MessageId)

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """The id that prints as ``text``; one that is not of ActiveMQ's form becomes a ``text_view``."""
        if not text:
            raise InvalidMessage("a message id is a text of at least one character")
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


def _split(pattern: re.Pattern[str], text: str) -> tuple[str, list[int]] | None:
    """The text before the numbers, and the numbers, if they are Java longs as Java prints them."""
    match = pattern.fullmatch(text)
    if match is None:
        return None
    connection_id, *digits = match.groups()
    numbers = [int(number) for number in digits]
    return (connection_id, numbers) if all(-(1 << 63) <= n < 1 << 63 for n in numbers) else None


@dataclass(frozen=True, slots=True)
class ConnectionId:
    value: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class BrokerId:
    value: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class SessionId:
    connection_id: str
    value: int

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.value}"


@dataclass(frozen=True, slots=True)
class ConsumerId:
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


@dataclass(frozen=True, slots=True)
class XATransactionId:
    """A branch of a distributed transaction, an Xid; as text, and in ActiveMQ's log and JMX,
    ``XID:[86,globalId=01020304,branchId=0902]`` with the bytes in hexadecimal."""

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes

    @classmethod
    def parse(cls, text: str) -> XATransactionId:
        """The branch that prints as ``text``; :class:`TransactionError` if none does."""
        match = _XID.fullmatch(text.strip())
        try:
            format_id, *names = match.groups() if match else ("",)
            return cls(int(format_id), *map(bytes.fromhex, names))
        except ValueError:
            raise TransactionError(
                f"{text!r} is no XID; it should be XID:[86,globalId=01020304,branchId=0902]"
            ) from None

    def __str__(self) -> str:
        return (
            f"XID:[{self.format_id},globalId={self.global_transaction_id.hex()},"
            f"branchId={self.branch_qualifier.hex()}]"
        )


TransactionId = LocalTransactionId | XATransactionId
