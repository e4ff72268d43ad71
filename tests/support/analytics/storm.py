"""Connections beside an export: ``python -m tests.support.analytics.storm produce|consume URL ...``.

Producers take IDs in blocks before they store, as the connections of an ActiveMQ do, and so commit out of
order; some roll back. They print the first ID of each block that they have committed. A consumer removes some
of the newest messages, until its standard input ends.
"""

from __future__ import annotations

import os
import random
import select
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from jdbcstore import Destination, Message, MessageId, ProducerId
from jdbcstore.message.openwire import encode
from tests.support.analytics.producing import INSERT, next_id

BLOCK = 100
"""Messages of one transaction."""
_HOUR_MS = 3_600_000
_BEGIN_MS = 1_790_000_000_000
_REMOVE = text("DELETE FROM ACTIVEMQ_MSGS WHERE ID > :after AND ID % 5 = :rest")


def message(id_: int, producer: ProducerId) -> Message:
    """The message with this ID: one of five kinds, of ten destinations, with none to six properties."""
    bodies: Mapping[int, Any] = {
        0: f'{{"order": {id_}, "sides": ["peas", "chips"]}}' * (1 + id_ % 7),
        1: id_.to_bytes(8, "big") * (1 + id_ % 50),
        2: {"order": id_, "table": id_ % 40, "price": id_ / 4},
        3: [id_, "pint", True],
        4: None,
    }
    several = {f"p{place}": (place, f"v{id_}", id_ / 2)[place % 3] for place in range(id_ % 7)}
    kind = Destination.topic if id_ % 10 == 9 else Destination.queue
    return Message(
        bodies[id_ % 5],
        destination=kind(f"D{id_ % 10}"),
        message_id=MessageId(producer, id_),
        timestamp_ms=_BEGIN_MS + id_ % 48 * _HOUR_MS,
        jms_type=("order", None, "event")[id_ % 3],
        correlation_id=f"c{id_}" if id_ % 4 == 0 else None,
        group_id=f"g{id_ % 9}" if id_ % 6 == 0 else None,
        properties={"number": id_, **several},
    )


def produce(url: str, counter: str, messages: str, seed: str) -> None:
    engine, chance = create_engine(url), random.Random(int(seed))
    producer = ProducerId(f"ID:storm-{os.getpid()}", 1, 1)
    left = int(messages)
    while left > 0:
        first = next_id(Path(counter), BLOCK)
        rows = []
        for id_ in range(first, first + BLOCK):
            sent = message(id_, producer)
            names = {"container": str(sent.destination), "producer": str(producer)}
            rows.append({"id": id_, **names, "msg": encode(sent)})
        try:
            with engine.connect() as connection:
                connection.execute(INSERT, rows)
                time.sleep(chance.choice((0, 0, 0.01, 0.1)))
                if chance.random() < 0.01:
                    continue
                connection.commit()
        except DBAPIError:
            time.sleep(0.05)
            continue
        sys.stdout.write(f"{first}\n")
        sys.stdout.flush()
        left -= BLOCK


def consume(url: str, seed: str) -> None:
    engine, chance = create_engine(url), random.Random(int(seed))
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        try:
            with engine.connect() as connection:
                newest = connection.execute(text("SELECT MAX(ID) FROM ACTIVEMQ_MSGS")).scalar() or 0
                connection.execute(_REMOVE, {"after": newest - 500, "rest": chance.randrange(5)})
                connection.commit()
        except DBAPIError:
            time.sleep(0.05)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "produce":
        produce(*arguments)
    else:
        consume(*arguments)
