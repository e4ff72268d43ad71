"""The format of an XID column: base64 of the role of a row in a prepared transaction, and of its id.

::

    tag (1)  '+' a message is added, '-' it is acknowledged; nothing in the rows of ACTIVEMQ_ACKS
    sequence (8), priority (1)  in ACTIVEMQ_ACKS: up to where it is acknowledged, and in which lane
    format id (4), length of the global transaction id (2), that, branch qualifier

ActiveMQ uses one buffer for all rows of a transaction, and leaves in each the bytes of the one
before: the tag counts in ACTIVEMQ_MSGS alone, sequence and priority in ACTIVEMQ_ACKS alone.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import NamedTuple

from jdbcstore.message.ids import XATransactionId

ADDED, ACKNOWLEDGED = b"+", b"-"
OURS_ALONE = b"*"
"""Acknowledged, in JDBCSTORE_ACKS only: ACTIVEMQ_ACKS does not record it."""

_HEAD = struct.Struct(">cqbih")


class Flag(NamedTuple):
    """The content of an XID column."""

    tag: bytes
    sequence: int
    priority: int
    xid: XATransactionId


def encode_flag(tag: bytes, xid: XATransactionId, sequence: int = 0, priority: int = 0) -> str:
    """Return the value of an XID column."""
    globally = xid.global_transaction_id
    head = _HEAD.pack(tag, sequence, priority, xid.format_id, len(globally))
    return base64.b64encode(head + globally + xid.branch_qualifier).decode()


def decode_flag(text: str) -> Flag | None:
    """Return the content of an XID column; None if no broker wrote it."""
    try:
        raw = base64.b64decode(text, validate=True)
        tag, sequence, priority, format_id, length = _HEAD.unpack_from(raw)
    except (binascii.Error, ValueError, struct.error):
        return None
    end = _HEAD.size + length
    if length < 0 or len(raw) < end:
        return None
    return Flag(tag, sequence, priority, XATransactionId(format_id, raw[_HEAD.size : end], raw[end:]))
