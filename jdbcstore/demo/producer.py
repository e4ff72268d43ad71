"""A producer process: sends each message until it is acknowledged.

python -m jdbcstore.demo.producer PORT LEDGER NAME COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

from jdbcstore.demo.ledger import Ledger
from jdbcstore.demo.orders import body_of
from jdbcstore.demo.protocol import Client, ConnectionLost


def produce(client: Client, ledger: Ledger, name: str, count: int) -> None:
    """Send ``count`` messages, one after another, each under one message id however often it is sent."""
    last = None
    for number in range(1, count + 1):
        message_id = f"ID:{name}:1:1:{number}"
        ledger.sending(message_id, acknowledged=last)
        _send(client, ledger, message_id)
        last = message_id
    if last is not None:
        ledger.acknowledged(last)


def _send(client: Client, ledger: Ledger, message_id: str) -> None:
    again = False
    while True:
        try:
            client.request(operation="add", message_id=message_id, body=body_of(message_id), again=again)
            return
        except ConnectionLost:
            again = True
            ledger.sending_again(message_id)


if __name__ == "__main__":
    port, path, name, count = sys.argv[1:]
    with Client(int(port)) as client, Ledger(Path(path)) as ledger:
        produce(client, ledger, name, int(count))
