"""A connection that takes IDs before it stores: ``python -m tests.support.analytics.producing``.

Several processes share a counter, as the connections of an ActiveMQ do, and so commit out of order.
Now and then one rolls back, which leaves a gap for good. A store that is away is tried again.
"""

from __future__ import annotations

import fcntl
import os
import random
import sys
import time
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from jdbcstore import Destination, Message, MessageId, ProducerId
from jdbcstore.message.openwire import encode

INSERT = text(
    "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY)"
    " VALUES (:id, :container, :producer, :id, 0, :msg, 0)"
)
QUEUE = Destination.queue("STREAMED")


def next_id(counter: Path, block: int = 1) -> int:
    """The next ID of all processes, the first of a block."""
    with counter.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        last = int(file.read() or 0)
        file.seek(0)
        file.write(str(last + block))
    return last + 1


def main(url: str, counter: Path, messages: int) -> None:
    engine = create_engine(url)
    producer = ProducerId(f"ID:streamed-{os.getpid()}", 1, 1)
    stored = 0
    while stored < messages:
        id_ = next_id(counter)
        message = Message(str(id_), destination=QUEUE, message_id=MessageId(producer, id_), timestamp_ms=1)
        row = {"id": id_, "container": str(QUEUE), "producer": str(producer), "msg": encode(message)}
        try:
            with engine.connect() as connection:
                connection.execute(INSERT, row)
                time.sleep(random.choice((0, 0, 0.002, 0.02)))
                if random.random() < 0.99:
                    connection.commit()
        except DBAPIError:
            time.sleep(0.05)
            continue
        stored += 1


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
