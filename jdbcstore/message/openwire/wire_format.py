"""Type numbers and tags of OpenWire, and limits that keep a damaged row harmless."""

from __future__ import annotations

from struct import Struct

from jdbcstore.message.destination import DestinationKind
from jdbcstore.message.message import BodyType

VERSION = 11
"""The version that ActiveMQ 5.12 and later store. Version 6, of 5.4 to 5.11, is read and can be written."""

OLD_VERSION = 6

MESSAGE_TYPES = {
    BodyType.MESSAGE: 23,
    BodyType.BYTES: 24,
    BodyType.MAP: 25,
    BodyType.OBJECT: 26,
    BodyType.STREAM: 27,
    BodyType.TEXT: 28,
    BodyType.BLOB: 29,
}
BODY_TYPES = {number: kind for kind, number in MESSAGE_TYPES.items()}

DESTINATION_TYPES = {
    DestinationKind.QUEUE: 100,
    DestinationKind.TOPIC: 101,
    DestinationKind.TEMPORARY_QUEUE: 102,
    DestinationKind.TEMPORARY_TOPIC: 103,
}
DESTINATION_KINDS = {number: kind for kind, number in DESTINATION_TYPES.items()}

MESSAGE_ID, LOCAL_TRANSACTION_ID, XA_TRANSACTION_ID = 110, 111, 112
CONNECTION_ID, SESSION_ID, CONSUMER_ID, PRODUCER_ID, BROKER_ID = 120, 121, 122, 123, 124

# A usual message, one without optional headers, so that one struct has all of them. Each x is the zero of an
# absent header.
HEAD = Struct(">Bi?")
"""Type, command id, whether a response is required."""
NUMBERS = Struct(">qq7x?qbxqx")
"""From the message id's two numbers to the type: with persistent, expiration, priority and timestamp."""
TAIL = Struct(">xx?ixqx??xqq?")
"""After the properties."""
PRESENT = Struct(">Bi")
"""In front of bytes that are there: a 1 and their length."""
PRESENT_TEXT = Struct(">Bii")
"""In front of the content of a TextMessage, which has a length of its own."""

# Tags of the values in properties, map bodies and stream bodies.
NULL, BOOLEAN, BYTE, CHAR, SHORT, INT, LONG, DOUBLE, FLOAT, STRING, BYTES, MAP, LIST, BIG_STRING = range(14)

BIG_STRING_CHARS = 8191
"""From this many Java chars on, ActiveMQ writes a string with a length of four bytes."""

MAX_SIZE = 0x7FFF_FFFF
"""The most bytes of an encoded message."""

BODY_ELSEWHERE = b"\xff\xff\xff\xffjdbcs"
"""The beginning of a MSG whose body is in a journal or in pieces; no message has a negative size."""
MAX_INFLATED = 256 * 1024 * 1024
"""The most bytes that a compressed text, bytes or object body may inflate to."""

MAX_INFLATED_VALUES = 32 * 1024 * 1024
"""The same for maps and streams, whose values take many times their bytes in memory."""

MAX_MESSAGE_NESTING = 8
"""Greatest depth of messages nested as data structures of each other (advisories carry one)."""


class Malformed(Exception):
    """The bytes are not valid OpenWire; the decoder's callers get a CorruptMessage instead."""
