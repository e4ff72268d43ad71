"""``python -m benchmarks.staircase``: the files that one message passes through.

These are the files of ``jdbcstore`` in which a function is called, by any thread, during one ``add_message``
and during one STOMP SEND with a receipt. Both are warmed up first, so that one-time work is not counted.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import jdbcstore
from jdbcstore import Configuration, Message
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig

_PACKAGE = str(Path(jdbcstore.__file__).parent)
_SEND = b"SEND\ndestination:/queue/ORDERS\npersistent:true\nreceipt:r\n\ntwo pints\0"


class Steps:
    """The files that are entered while it counts, in the order of their first call."""

    def __init__(self) -> None:
        self._counting = False
        self.files: dict[str, None] = {}
        threading.setprofile(self._entered)
        sys.setprofile(self._entered)

    def _entered(self, frame: FrameType, event: str, _: Any) -> None:
        if self._counting and event == "call" and frame.f_code.co_filename.startswith(_PACKAGE):
            self.files[frame.f_code.co_filename] = None

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.files.clear()
        self._counting = True
        try:
            yield
        finally:
            self._counting = False

    def tell(self, name: str) -> None:
        print(f"{name}: {len(self.files)} files")  # noqa: T201
        for file in self.files:
            print(f"  {Path(file).relative_to(_PACKAGE)}")  # noqa: T201


def add_message(steps: Steps, url: str) -> None:
    with jdbcstore.open(url) as store:
        queue = store.queue("ORDERS")
        for _ in range(3):
            queue.add_message(Message("two pints"))
        with steps.counted():
            queue.add_message(Message("two pints"))
    steps.tell("add_message")


def send(steps: Steps, url: str) -> None:
    ready, ended = threading.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        connector = ConnectorConfig(uri="stomp://127.0.0.1:0")
        configuration = Configuration(
            data_source=DataSourceConfig(url=url), broker=BrokerConfig(connectors=(connector,))
        )
        async with BrokerHost(configuration) as host:
            ports.extend(address.port for _, address in host.addresses)
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        with socket.create_connection(("127.0.0.1", ports[0])) as client:
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
            client.recv(4096)
            for count in range(4):
                if count < 3:
                    client.sendall(_SEND)
                    client.recv(4096)
                else:
                    with steps.counted():
                        client.sendall(_SEND)
                        client.recv(4096)
    finally:
        ended.set()
        thread.join()
    steps.tell("SEND with receipt")


def main() -> None:
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder:
        add_message(steps, f"sqlite:///{folder}/library.db")
        send(steps, f"sqlite:///{folder}/broker.db")


if __name__ == "__main__":
    main()
