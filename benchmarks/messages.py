"""A table of mixed messages for readers, with three to seven properties, in a hundred destinations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import psycopg
from sqlalchemy import create_engine, text

from jdbcstore import Destination, Message
from jdbcstore.message import openwire
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Body

COLUMNS = ("id", "container", "msgid_prod", "msgid_seq", "expiration", "msg", "priority", "xid")
Row = tuple[int, str, str, int, int, bytes, int, None]
_NOW = 1_795_222_373_329
_REGIONS = ("eu-west", "eu-north", "us-east", "ap-south")
_INSERT = f"INSERT INTO ACTIVEMQ_MSGS ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{c}' for c in COLUMNS)})"


_BODIES: tuple[Callable[[int], Body], ...] = (
    *(lambda id_: f'{{"order": {id_}, "lines": [{"7, " * (id_ % 300)}7]}}',) * 6,
    *(lambda id_: id_.to_bytes(8, "big") * (1 + id_ % 200),) * 2,
    lambda id_: {"order": id_, "table": id_ % 40, "price": id_ / 4},
    lambda id_: (id_, "pint", True) if id_ % 2 else None,
)
"""The bodies: of ten, six are text, two bytes, one a map, and one a stream or nothing."""


def _message(id_: int) -> Message:
    """Make a message; others have other fields."""
    several = {f"p{place}": (place, f"v{id_}", id_ / 2)[place % 3] for place in range(id_ % 5)}
    common = {"region": _REGIONS[id_ % 4], "table": id_ % 1000, "urgent": id_ % 10 == 0}
    return Message(
        _BODIES[id_ % 10](id_),
        properties={**common, **several},
        jms_type=("order", None, "event")[id_ % 3],
        correlation_id=f"c{id_}" if id_ % 4 == 0 else None,
        group_id=f"g{id_ % 9}" if id_ % 6 == 0 else None,
        reply_to=Destination.queue("ANSWERS") if id_ % 7 == 0 else None,
    )


def rows(count: int) -> Iterator[Row]:
    """Yield the rows; the property ``table`` has each number below 1,000 in one message of a thousand."""
    queues = [Destination.queue(f"QUEUE.{number:03}") for number in range(100)]
    producers = [ProducerId(f"ID:host-{number}-45303-1795222373329-3:1", 1, 1) for number in range(20)]
    for id_ in range(1, count + 1):
        queue, producer = queues[id_ * 7919 % 100], producers[id_ % 20]
        blob, _ = openwire.encode_for_store(
            _message(id_),
            destination=queue,
            message_id=MessageId(producer, id_),
            timestamp_ms=_NOW + id_,
        )
        yield id_, str(queue), str(producer), id_, 0, blob, 0, None


def insert(url: str, count: int) -> None:
    """Insert the rows into any database."""
    engine, pending = create_engine(url), rows(count)
    while some := [dict(zip(COLUMNS, row, strict=True)) for row in islice(pending, 5000)]:
        with engine.begin() as connection:
            connection.execute(text(_INSERT), some)
    engine.dispose()


def copy(url: str, count: int) -> None:
    """Insert the rows into PostgreSQL, and analyse the table."""
    types = ["int8", "varchar", "varchar", "int8", "int8", "bytea", "int8", "varchar"]
    into = f"COPY activemq_msgs ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.cursor().copy(into) as sink:
            sink.set_types(types)
            for row in rows(count):
                sink.write_row(row)
        connection.execute("VACUUM ANALYZE")
