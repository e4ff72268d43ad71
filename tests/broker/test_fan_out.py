"""A large message to many subscribers that do not read: all of them share its one body."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from jdbcstore import Destination
from tests.support.broker.backlog import most_resident, resident
from tests.support.broker.openwire.client import Client as OpenWireClient
from tests.support.broker.stomp.serving import PATIENCE
from tests.support.broker.stomp.serving import Client as StompClient
from tests.support.broker.stomp.websocket import WebSocketClient
from tests.support.cli.command_line import CommandLine

pytestmark = [pytest.mark.slow]

SIZE = 16 * 1024 * 1024
READERS = 24
_CONFIGURATION = """
[broker]
persistent = false
[[broker.connectors]]
uri = "stomp://127.0.0.1:0"
[[broker.connectors]]
uri = "tcp://127.0.0.1:0"
[[broker.connectors]]
uri = "ws://127.0.0.1:0"
"""
_READY = re.compile(rb"ready stomp=.*")
_PORT = re.compile(rb"(\w+)=127\.0\.0\.1:(\d+)")


class Broker(NamedTuple):
    pid: int
    ports: dict[str, int]
    """By protocol."""

    @property
    def stomp(self) -> StompClient:
        return StompClient(self.ports["stomp"])

    @property
    def openwire(self) -> OpenWireClient:
        return OpenWireClient(self.ports["tcp"])

    @property
    def websocket(self) -> WebSocketClient:
        return WebSocketClient(self.ports["ws"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """The process of a broker."""
    (tmp_path / "jdbcstore.toml").write_text(_CONFIGURATION)
    arguments = ("--config", str(tmp_path / "jdbcstore.toml"), "broker")
    with (tmp_path / "log").open("wb") as log:
        process = CommandLine(tmp_path).start(*arguments, stdout=subprocess.PIPE, stderr=log)
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    assert process.stdout is not None
    try:
        found = next((ready[0] for line in process.stdout if (ready := _READY.search(line))), None)
        assert found, (tmp_path / "log").read_text()
        yield Broker(process.pid, {name.decode(): int(port) for name, port in _PORT.findall(found)})
    finally:
        watchdog.cancel()
        process.terminate()
        process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("kind", ["stomp", "openwire", "websocket"])
@pytest.mark.parametrize("body", ["text", "bytes"])
def test_readers_that_do_not_read_share_a_body(broker: Broker, kind: str, body: str) -> None:
    content = ("x" * SIZE).encode()
    headers = {} if body == "text" else {"content-length": str(SIZE)}
    with ExitStack() as clients:
        for _ in range(READERS):
            if kind == "openwire":
                clients.enter_context(broker.openwire).consume(Destination.topic("T"))
            elif kind == "stomp":
                clients.enter_context(broker.stomp).subscribe("/topic/T")
            else:
                client = clients.enter_context(broker.websocket)
                client.subscribe("/topic/T")
                clients.callback(client.websocket.close_socket)  # else each waits for what it does not read
        before = resident(broker.pid)
        with broker.stomp as producer:
            producer.request("SEND", {"destination": "/topic/T", **headers}, content)
            producer.subscribe("/queue/BESIDE")  # others are served meanwhile
            producer.send("/queue/BESIDE", "small")
            assert producer.expect("MESSAGE").body == b"small"
        grown = most_resident(broker.pid) - before
    # The frame that came, its body, and what is read and written at a time.
    assert grown < 8 * SIZE < READERS * SIZE, f"{grown / SIZE:.1f} times the message"


@pytest.mark.parametrize("kind", ["stomp", "openwire"])
def test_a_long_body_comes_whole(broker: Broker, kind: str) -> None:
    bodies = ("\u20ac" * 400_000, "a\0b" * 200_000, "\U0001f600" * 300_000, bytes(range(256)) * 3000)
    topic = Destination.topic("T")
    with ExitStack() as clients:
        sender, one = clients.enter_context(broker.stomp), clients.enter_context(broker.stomp)
        page = clients.enter_context(broker.websocket)
        one.subscribe("/topic/T")
        page.subscribe("/topic/T")
        other, producer = (clients.enter_context(broker.openwire) for _ in range(2))
        other.consume(topic)
        for body in bodies:
            content = body.encode() if isinstance(body, str) else body
            if kind == "stomp":
                headers = {"amq-msg-type": "text" if isinstance(body, str) else "bytes", "mark": "m"}
                length = {"content-length": str(len(content))}
                sender.request("SEND", {"destination": "/topic/T", **headers, **length}, content)
            else:
                producer.send(topic, body, properties={"mark": "m"})
            for client in (one, page):
                frame = client.expect("MESSAGE")
                assert (frame.body, frame.headers["mark"]) == (content, "m")
            [*_, message] = page.socket.received
            assert isinstance(message, type(body))
            assert message[-1] in ("\0", 0)
            received, _ = other.dispatched()
            assert (received.body, received.properties["mark"]) == (body, "m")
