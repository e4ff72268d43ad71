"""One port for STOMP and OpenWire: what each client is taken for, and clients that say too little."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Destination, Store
from jdbcstore.broker.openwire.frames import begins_openwire, wire_format_info
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.testing.polling import wait_until
from tests.support.broker.certificates import make_certificate
from tests.support.broker.openwire.client import Client as OpenWire
from tests.support.broker.programs import BrokerProcess
from tests.support.broker.stomp.serving import PATIENCE, Client, Served

pytestmark = pytest.mark.backends("memory")

Q = Destination.queue("Q")
AUTO, AUTO_TLS = "auto://127.0.0.1:0", "auto+ssl://127.0.0.1:0"
OFFER = wire_format_info(1024, 0, "")


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    with Served(store, uri=AUTO) as served:
        yield served


def test_the_first_bytes() -> None:
    for size in range(13):
        assert begins_openwire(OFFER[:size]) is None
    assert begins_openwire(OFFER[:13]) is True
    assert begins_openwire(OFFER) is True
    for first in (b"C", b"\n", b"\r", b"\1", b"\0\0\0\1\2", b"\0\0\0\1\1ActiveMx", b"\0\0\0\0\0"):
        assert begins_openwire(first) is False, first


def test_both_on_one_port(served: Served) -> None:
    with Client(served.port) as stomp, OpenWire(served.port, speaks_first=True) as openwire:
        consumer_id = openwire.consume(Q)
        stomp.send("/queue/Q", "from STOMP")
        message, _ = openwire.dispatched()
        assert message.body == "from STOMP"
        openwire.acknowledge(consumer_id, message)
        stomp.subscribe("/queue/OTHER")
        openwire.send(Destination.queue("OTHER"), "from OpenWire")
        assert stomp.expect("MESSAGE").body == b"from OpenWire"


@pytest.mark.parametrize("version", Version)
def test_every_version_of_stomp(served: Served, version: Version) -> None:
    with Client(served.port, version) as client:
        assert client.connected.headers["version"] == version.value


def test_bytes_one_by_one(served: Served) -> None:
    with Client(served.port, None) as stomp:
        for byte in b"\n\nCONNECT\naccept-version:1.2\nhost:localhost\n\n\0":
            stomp.socket.sendall(bytes([byte]))
        stomp.expect("CONNECTED")
        stomp.send("/queue/Q", "slowly")
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as openwire:
        openwire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in OFFER:
            openwire.sendall(bytes([byte]))
        assert b"ActiveMQ" in openwire.recv(1000)


def test_much_at_once(served: Served) -> None:
    """What comes with the first bytes is the session's, whatever it is."""
    with Client(served.port, None) as client:
        body = b"x" * 500_000
        client.socket.sendall(
            b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0SEND\ndestination:/queue/Q\nreceipt:1\n\n%s\0"
            % body
        )
        client.expect("CONNECTED")
        client.expect("RECEIPT")
        client.subscribe("/queue/Q")
        assert client.expect("MESSAGE").body == body


def test_anything_else_is_answered_in_stomp(served: Served) -> None:
    with Client(served.port, None) as client:
        client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n\0")
        assert "Unknown STOMP action" in client.expect("ERROR").headers["message"]
        assert client.ends()


@pytest.mark.parametrize("limit", ["connect_attempt_timeout", "protocol_detection_time_out"])
@pytest.mark.parametrize("data", [b"", OFFER[:8]])
def test_who_says_too_little_is_sent_away(
    store: Store, limit: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    config: dict[str, Any] = {limit: 0.2}
    with Served(store, uri=AUTO, **config) as served, Client(served.port, None) as client:
        client.socket.sendall(data)
        assert client.ends()
        assert "too little to detect its protocol" in caplog.text


def test_who_does_not_log_in_is_sent_away(store: Store) -> None:
    with Served(store, uri=AUTO, connect_attempt_timeout=1.5) as served:
        with Client(served.port, None) as client:
            client.socket.sendall(b"CONN")
            assert "did not log in" in client.expect("ERROR").headers["message"]
        with OpenWire(served.port, login=False, speaks_first=True) as client:
            client.agree()
            assert client.ends()


def test_connections_are_limited_and_strangers_make_room(store: Store) -> None:
    with Served(store, uri=AUTO, maximum_connections=2) as served, ExitStack() as stack:
        strangers = [stack.enter_context(Client(served.port, None)) for _ in range(2)]
        one = stack.enter_context(Client(served.port))
        stack.enter_context(OpenWire(served.port, speaks_first=True))
        assert all(stranger.ends() for stranger in strangers)
        with Client(served.port, None) as third:
            assert third.ends()
        one.send("/queue/Q", "goes on")


def test_who_leaves_before_it_is_known(served: Served) -> None:
    for data in (b"", OFFER[:8]):
        with Client(served.port, None) as client:
            client.socket.sendall(data)
            client.socket.shutdown(socket.SHUT_WR)
            assert client.ends()
    wait_until(lambda: served.connector.connections == 0, PATIENCE)


def test_a_connector_ends_with_clients_that_are_not_known(store: Store) -> None:
    with Served(store, uri=AUTO) as served:
        client = Client(served.port, None)
        wait_until(lambda: served.connector.connections == 1, PATIENCE)
    assert client.ends()
    client.socket.close()


@pytest.mark.slow
def test_the_option_of_the_command(tmp_path: Path) -> None:
    options = ("--url", f"sqlite:///{tmp_path / 'mq.db'}", "--auto", "127.0.0.1:0", "--ws", "127.0.0.1:0")
    with BrokerProcess(tmp_path, *options) as broker:
        addresses = dict(part.split("=") for part in broker.line().split()[1:])
        assert list(addresses) == ["stomp", "auto", "ws", "master"]
        port = int(addresses["auto"].rpartition(":")[2])
        with Client(port) as stomp, OpenWire(port, speaks_first=True) as openwire:
            stomp.send("/queue/Q", "by the command")
            openwire.consume(Q)
            assert openwire.dispatched()[0].body == "by the command"


def test_tls(store: Store, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(cafile=str(certificate))
    with Served(store, uri=AUTO_TLS, certificate=str(certificate)) as served:
        with Client(served.port, None) as stomp:
            stomp.socket = context.wrap_socket(stomp.socket, server_hostname="127.0.0.1")
            stomp.write("CONNECT", {"accept-version": "1.2", "host": "localhost"})
            stomp.expect("CONNECTED")
            stomp.send("/queue/Q", "encrypted")
        plain = socket.create_connection(("127.0.0.1", served.port), PATIENCE)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as openwire:
            openwire.sendall(OFFER)
            assert b"ActiveMQ" in openwire.recv(1000)
