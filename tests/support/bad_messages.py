"""Messages that a consumer may stumble over: what any client can send, and what only damage makes.

Of each a consumer makes one of three: it delivers it, makes it a dead letter, or raises a StoreError. In any
case the next message comes.
"""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore import Destination, Message
from jdbcstore.message.openwire.encoder import set_broker_sequence
from jdbcstore.message.openwire.pieces import LargeBody, head_of
from jdbcstore.message.openwire.reference import SEQUENCE_AT, is_reference, refer
from jdbcstore.stores.claims import Claims
from jdbcstore.testing import RawTables

HALF = "a\ud83d"
"""With half of a surrogate pair: Java's strings may have it, and no database or terminal."""
BOMB = 3 << 20
"""The characters of a body that is compressed to a few bytes."""
_MARK = "damaged"

SENT: dict[str, Message] = {
    "half a pair in the text": Message(HALF),
    "half a pair in the text of kombu's": Message(HALF, jms_type="kombu"),
    "a NUL in the text": Message("a\0b"),
    "half a pair in a map": Message({HALF: HALF}),
    "half a pair in a stream": Message([HALF]),
    "half a pair in a property": Message("x", properties={"p": HALF, HALF: 1}),
    "half a pair in the correlation id": Message("x", correlation_id=HALF),
    "half a pair in the type": Message("x", jms_type=HALF),
    "half a pair in the user": Message("x", user_id=HALF),
    "half a pair in the group": Message("x", group_id=HALF),
    "a NUL in the group": Message("x", group_id="a\0b"),
    "bytes that are no text": Message(b"\xff\xfe\0"),
    "no body": Message(None),
    "lists within lists": Message("[" * 5000, jms_type="kombu"),
    "an object of Java's": Message(b"\xac\xed\0\5", body_type="object"),
    "a bomb": Message("x" * BOMB, compressed=True),
    "a bomb of bytes": Message(b"\0" * BOMB, compressed=True),
}


def _pieces(blob: bytes) -> bytes:
    return head_of(LargeBody.of(1 << 40, 1 << 20)) + blob


DAMAGED: dict[str, Callable[[bytes], bytes | None]] = {
    "no MSG": lambda _: None,
    "an empty MSG": lambda _: b"",
    "half of it": lambda blob: blob[: len(blob) // 2],
    "garbage": lambda _: b"\0\0\0\5\x17ABCD",
    "a damaged body": lambda blob: blob.replace(b"the body", b"\xff" * 8),
    "a damaged property": lambda blob: blob.replace(b"the value", b"\xff" * 9),
    "a damaged group": lambda blob: blob.replace(b"the group", b"\xff" * 9),
    "a damaged type": lambda blob: blob.replace(_MARK.encode(), b"\xff" * len(_MARK)),
    "half pairs in the reply's destination": lambda blob: blob.replace(b"the reply", b"\xed\xa0\xbd" * 3),
    "pieces that are missing": _pieces,
    "a body that only a journal has": lambda blob: refer(7, 1, 64, blob, 8),
    "half a reference to a journal": lambda blob: refer(7, 1, 64, blob, 8)[:40],
}
CASES = (*SENT, *DAMAGED)
KEPT = {"a body that only a journal has"}
"""Stay in their queue: the journal's broker stores their bodies later."""


def add(claims: Claims, tables: RawTables, queue: str, case: str) -> int:
    """Add a bad message to a queue, before all others; return its ID."""
    damaged = Message(
        "the body",
        properties={"p": "the value"},
        group_id="the group",
        jms_type=_MARK,
        reply_to=Destination.queue("the reply"),
        original_destination=Destination.queue("ORDERS"),
    )
    message = SENT.get(case, damaged)
    [id_] = claims.queue(queue).add(message.replace(priority=9))
    if case in DAMAGED:
        [(blob,)] = tables.rows("SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID = :i", i=id_)
        damage = DAMAGED[case](bytes(blob))
        if damage is not None and len(damage) > SEQUENCE_AT and is_reference(damage):
            damage = set_broker_sequence(damage, SEQUENCE_AT, id_)
        tables.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :m WHERE ID = :i", m=damage, i=id_)
    return id_
