"""A consumer of copies: exports them to a Delta table, and then acknowledges them.

A copy stays in the store until it is in the table, and the table knows which copies it has. So each one is
exported once, whatever is killed at any time.

    python copies.py sqlite:///mq.db /data/orders COPIES 127.0.0.1:61613
"""

from __future__ import annotations

import sys
import time
from typing import Any

import stomp

from jdbcstore import Destination
from jdbcstore.analytics.lake import DeltaTable, to_lake


class Received(stomp.ConnectionListener):  # type: ignore[misc]
    """What is to be acknowledged."""

    acks: list[str]

    def on_message(self, frame: Any) -> None:
        self.acks.append(frame.headers["ack"])


def main(url: str, table: str, name: str, address: str, login: str = "", passcode: str = "") -> None:
    host, _, port = address.rpartition(":")
    connection = stomp.Connection12([(host, int(port))])
    received = Received()
    received.acks = []
    connection.set_listener("", received)
    connection.connect(login, passcode, wait=True)
    prefetch = {"activemq.prefetchSize": "10000"}
    connection.subscribe(f"/queue/{name}", id="1", ack="client-individual", headers=prefetch)
    queue = Destination.queue(name)
    target = DeltaTable(table, destination=str(queue))
    while connection.is_connected():
        # Received before the export, and so stored before it.
        acks, received.acks = received.acks, []
        to_lake(url, target, destination=queue)
        for ack in acks:
            connection.ack(ack)
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
