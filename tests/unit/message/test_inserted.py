"""Rows of the outbox as messages, and as dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from jdbcstore.errors import InvalidDestination, InvalidMessage
from jdbcstore.message.dead_letters import CAUSE, DEAD_LETTERS
from jdbcstore.message.destination import Destination
from jdbcstore.message.inserted import InsertedMessage
from jdbcstore.message.message import BodyType, Message


def row(destination: str = "ORDERS", **columns: Any) -> InsertedMessage:
    values = dict.fromkeys(InsertedMessage._fields) | {"row_id": 7, "is_duplicate": 0, "created_ms": 5}
    return InsertedMessage(**{**values, "destination": destination, **columns})


def test_a_row_with_all_columns() -> None:
    properties = '{"table": 7, "total": 2.5, "is_new": true, "name": "Ada", "big": 5000000000}'
    message = row(
        "topic://NEWS",
        body="two pints",
        properties=properties,
        priority=9,
        persistent=0,
        expiration_ms=99,
        correlation_id="C",
        reply_to="queue://REPLIES",
        jms_type="order",
        group_id="G",
    ).message()

    assert message == Message(
        "two pints",
        destination=Destination.topic("NEWS"),
        properties={"table": 7, "total": 2.5, "is_new": True, "name": "Ada", "big": 5000000000},
        priority=9,
        persistent=False,
        timestamp_ms=5,
        expiration_ms=99,
        correlation_id="C",
        reply_to=Destination.queue("REPLIES"),
        jms_type="order",
        group_id="G",
    )


@pytest.mark.parametrize(
    ("columns", "kind", "body"),
    [
        ({}, BodyType.TEXT, None),
        ({"body": ""}, BodyType.TEXT, ""),
        ({"body": "text", "body_type": "Text"}, BodyType.TEXT, "text"),
        ({"body_bytes": b"\0"}, BodyType.BYTES, b"\0"),
        ({"body_bytes": b"", "body_type": "bytes"}, BodyType.BYTES, b""),
        ({"body": '{"n": 1}', "body_type": "map"}, BodyType.MAP, {"n": 1}),
    ],
)
def test_bodies(columns: dict[str, Any], kind: BodyType, body: object) -> None:
    message = row(**columns).message()
    assert (message.destination, message.body_type) == (Destination.queue("ORDERS"), kind)
    assert message.body == body
    assert (message.priority, message.persistent, message.expiration_ms) == (4, True, 0)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"body": "text", "body_bytes": b"bytes"}, "both set"),
        ({"body": "text", "body_type": "stream"}, "BODY_TYPE is 'stream'; use text, bytes, map"),
        ({"body": "text", "body_type": "bytes"}, "needs its body in BODY_BYTES"),
        ({"body_bytes": b"bytes", "body_type": "map"}, "needs its body in BODY"),
        ({"body": "{", "body_type": "map"}, "BODY is not JSON"),
        ({"body": "[]", "body_type": "map"}, "BODY is not a JSON object"),
        ({"properties": "table=7"}, "PROPERTIES is not JSON"),
        ({"properties": "[" * 100_000}, "PROPERTIES is not JSON"),
        ({"properties": f'{{"big": {1 << 70}}}'}, "beyond a Java long"),
        ({"priority": 11}, "priority"),
        ({"delay_ms": "soon"}, "DELAY is 'soon'; insert milliseconds"),
        ({"destination": "temp-queue://ID:1"}, "temporary"),
        ({"destination": "amqp://ORDERS"}, "amqp"),
        ({"destination": " "}, "name"),
        ({"reply_to": "QUEUE://ORDERS"}, "QUEUE"),
    ],
)
def test_bad_rows_become_dead_letters(columns: dict[str, Any], says: str) -> None:
    bad = row(**columns)
    with pytest.raises((InvalidMessage, InvalidDestination), match=says) as found:
        bad.message()

    letter = bad.dead_letter(str(found.value))
    assert letter.destination == DEAD_LETTERS
    assert says in str(letter.properties[CAUSE])
    assert letter.body == (bad.body if bad.body_bytes is None else bad.body_bytes)
    assert letter.properties.get("PROPERTIES") == bad.properties
