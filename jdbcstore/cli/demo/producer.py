"""A producer process: sends each message until it is acknowledged.

python -m jdbcstore.cli.demo.producer PORT DESTINATION LEDGER NAME COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

from jdbcstore.cli.demo.client import Client, ConnectionLost
from jdbcstore.cli.demo.ledger import Ledger
from jdbcstore.cli.demo.orders import AGAIN, ORDER, body_of


def produce(client: Client, ledger: Ledger, destination: str, name: str, count: int) -> None:
    """Send ``count`` messages, one after another, each under one name however often it is sent."""
    last = None
    for number in range(1, count + 1):
        order = f"ID:{name}:1:1:{number}"
        ledger.sending(order, acknowledged=last)
        _send(client, ledger, destination, order)
        last = order
    if last is not None:
        ledger.acknowledged(last)


def _send(client: Client, ledger: Ledger, destination: str, order: str) -> None:
    """One that is sent again may have been stored already, and says so."""
    headers = {"persistent": "true", ORDER: order}
    while True:
        try:
            client.send(destination, body_of(order), headers)
            return
        except ConnectionLost:
            headers[AGAIN] = "true"
            ledger.sending_again(order)


if __name__ == "__main__":
    port, queue, path, producer, messages = sys.argv[1:]
    with Client(int(port)) as stomp_client, Ledger(Path(path)) as book:
        produce(stomp_client, book, queue, producer, int(messages))
