"""The processes of the demo: a broker, producers and a consumer. Each ends when its standard input does.

    python -m jdbcstore.cli.demo.workers broker PORT LOCK
    python -m jdbcstore.cli.demo.workers producer PORT DESTINATION LEDGER NAME COUNT
    python -m jdbcstore.cli.demo.workers consumer PORT DESTINATION LEDGER MOVED

``LOCK`` is the folder of the broker's file lock; its store's URL is in JDBCSTORE_URL. ``MOVED`` is the SQLite
file of the consumer's own store.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jdbcstore.cli.demo.client import Client, ConnectionLost, Delivery
from jdbcstore.cli.demo.ledger import Ledger

# Each role imports its other modules itself: producers have no store, so they start in a third of the time.
if TYPE_CHECKING:
    from jdbcstore import Message
    from jdbcstore.abc import MessageStore

_ORDER = "order"
"""The header that identifies an order, however often it is sent."""
_RESENT = "resent"
"""The header of an order that may already be stored, because it was sent before."""
_MOVED = "DEMO.MOVED"
"""The queue of the consumer's own store."""
_BATCH = 50
_PREFETCH = 100
_FIRST_TIMEOUT = 0.1
_MORE_TIMEOUT = 0.02
"""Seconds to wait for more messages, which share one commit and one acknowledgement."""


def serve(port: str, lock: str) -> None:
    """Run a broker as ``jdbcstore broker`` does, at a given port."""
    from jdbcstore import Configuration
    from jdbcstore.broker.process.host import BrokerHost
    from jdbcstore.config import DataSourceConfig
    from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
    from jdbcstore.config.locker import SharedFileLockerConfig

    configuration = Configuration(
        data_source=DataSourceConfig(url=os.environ["JDBCSTORE_URL"]),
        locker=SharedFileLockerConfig(directory=lock),
        broker=BrokerConfig(connectors=(ConnectorConfig(uri=f"stomp://127.0.0.1:{port}"),)),
    )

    async def main() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        _at_end_of_input(lambda: loop.call_soon_threadsafe(ended.set))
        async with BrokerHost(configuration):
            await ended.wait()

    asyncio.run(main())


def produce(port: str, destination: str, ledger: str, name: str, count: str) -> None:
    """Send ``count`` orders, one after another, each until it is acknowledged."""
    with Client(int(port)) as client, Ledger(Path(ledger)) as book:
        last = None
        for number in range(1, int(count) + 1):
            order = f"ID:{name}:1:1:{number}"
            book.sending(order, acknowledged=last)
            _send(client, book, destination, order)
            last = order
        if last is not None:
            book.acknowledged(last)


def _send(client: Client, ledger: Ledger, destination: str, order: str) -> None:
    headers = {"persistent": "true", _ORDER: order}
    while True:
        try:
            client.send(destination, _body_of(order), headers)
            return
        except ConnectionLost:
            headers[_RESENT] = "true"
            ledger.resending(order)


def consume(port: str, destination: str, ledger: str, moved: str) -> None:
    """Receive orders, record them, move them to the consumer's own store, and acknowledge them."""
    from jdbcstore import open as open_store

    ended = threading.Event()
    _at_end_of_input(ended.set)
    with (
        Ledger(Path(ledger)) as book,
        open_store(f"sqlite:///{moved}", cleanup_period=0.0) as store,
        Client(int(port)) as client,
    ):
        client.subscribe(destination, _PREFETCH)
        while not ended.is_set():
            try:
                _move_batch(client, book, store.queue(_MOVED))
            except ConnectionLost:
                # Unacknowledged messages are redelivered, and marked as such.
                continue


def _move_batch(client: Client, ledger: Ledger, moved: MessageStore) -> None:
    batch: list[Delivery] = []
    while len(batch) < _BATCH:
        delivery = client.receive(_MORE_TIMEOUT if batch else _FIRST_TIMEOUT)
        if delivery is None:
            break
        batch.append(delivery)
    if batch:
        ledger.received(
            (headers[_ORDER], _redelivery_counter(headers), body == _body_of(headers[_ORDER]))
            for headers, body in batch
        )
        moved.add_messages(map(_message, batch))
        client.acknowledge(batch)


def _redelivery_counter(headers: dict[str, str]) -> int:
    """Return 1 for a possible duplicate: the broker redelivered it, or its producer sent it again."""
    return int(headers.get("redelivered") == "true" or _RESENT in headers)


def _message(delivery: Delivery) -> Message:
    """Return the message as it was received; every delivery is kept, duplicates included."""
    from jdbcstore import Message, MessageId

    headers, body = delivery
    producer = headers[_ORDER].rsplit(":", 3)[0].rpartition("-")[2]
    return Message(
        body,
        message_id=MessageId.parse(headers[_ORDER]),
        timestamp_ms=int(headers["timestamp"]),
        broker_out_time_ms=time.time_ns() // 1_000_000,
        redelivery_counter=_redelivery_counter(headers),
        properties={"producer": int(producer)},
    )


def _body_of(order: str) -> str:
    """Return a body of about a kilobyte that is unique to this order."""
    return f"order {order}: {hashlib.sha256(order.encode()).hexdigest() * 15}"


def _at_end_of_input(call: Callable[[], object]) -> None:
    def watch() -> None:
        sys.stdin.buffer.read()
        call()

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"broker": serve, "producer": produce, "consumer": consume}
    roles[sys.argv[1]](*sys.argv[2:])
