"""STOMP over WebSocket: the handshake, pages and their origins, messages and frames, and the end."""

from __future__ import annotations

import contextlib
import http.client
import logging
import random
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import stomp
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from jdbcstore import Store
from jdbcstore.broker.security import Principal, Security
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.broker.stomp.websocket import is_allowed
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.errors import NotAuthorized
from jdbcstore.testing.polling import wait_until
from tests.support.broker.certificates import make_certificate
from tests.support.broker.stomp.serving import PATIENCE, Client, Served
from tests.support.broker.stomp.websocket import WebSocketClient

pytestmark = pytest.mark.backends("memory")

QUEUE = "/queue/Q"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0"
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: mq\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Nobody(Security):
    """Refuses every login."""

    async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
        raise NotAuthorized("the user name or the password is wrong")


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    with Served(store, uri="ws://127.0.0.1:0") as served:
        yield served


def refused(port: int, **options: Any) -> int:
    """The HTTP status with which a handshake is refused."""
    with pytest.raises(InvalidStatus) as raised:
        WebSocketClient(port, None, **options)
    return raised.value.response.status_code


# The session, which is the same as over TCP.


@pytest.mark.parametrize("text", [True, False], ids=["text", "binary"])
@pytest.mark.parametrize("version", Version)
def test_a_session(served: Served, version: Version, text: bool) -> None:
    with WebSocketClient(served.port, version, text=text) as client:
        assert client.connected.headers["version"] == version.value
        client.send(QUEUE, "grüße")
        client.subscribe(QUEUE, ack="client-individual")
        first = client.expect("MESSAGE")
        assert first.body.decode() == "grüße"
        client.write("BEGIN", {"transaction": "t"})
        client.send(QUEUE, "in a transaction", transaction="t")
        header = {"1.0": "message-id", "1.1": "message-id", "1.2": "id"}[version.value]
        value = first.headers["ack" if version is Version.V1_2 else "message-id"]
        client.request("ACK", {header: value, "subscription": "0", "transaction": "t"})
        client.request("COMMIT", {"transaction": "t"})
        assert client.expect("MESSAGE").body == b"in a transaction"


def test_what_tcp_sent_comes_by_websocket_and_back(store: Store) -> None:
    with Served(store, uri="ws://127.0.0.1:0") as served, Served(store) as plain:
        with Client(plain.port) as tcp:
            tcp.send(QUEUE, "one")
        with WebSocketClient(served.port) as client:
            client.send(QUEUE, b"\0\xff two")
        assert [message.body for message in store.queue("Q").recover()] == ["one", b"\0\xff two"]


def test_stomp_py(served: Served) -> None:
    """Its client for WebSocket, which offers the subprotocol of one version."""
    messages: list[str] = []

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_message(self, frame: Any) -> None:
            messages.append(frame.body)

    client = stomp.WSStompConnection([("127.0.0.1", served.port)], ws_path="/stomp")
    client.set_listener("", Listener())
    client.connect(wait=True)
    client.subscribe(QUEUE, id="1")
    client.send(QUEUE, "from stomp.py")
    wait_until(lambda: messages == ["from stomp.py"], PATIENCE)
    client.disconnect()


# The handshake.


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["v10.stomp", "v11.stomp", "v12.stomp"], "v12.stomp"),
        (["v11.stomp", "v10.stomp"], "v11.stomp"),
        (["mqtt", "stomp"], "stomp"),
        (None, None),
    ],
)
def test_subprotocols(served: Served, offered: list[str] | None, chosen: str | None) -> None:
    with WebSocketClient(served.port, subprotocols=offered) as client:
        assert client.websocket.subprotocol == chosen


def test_another_protocol_is_refused(served: Served) -> None:
    assert refused(served.port, subprotocols=["mqtt"]) == 400


@pytest.mark.parametrize(
    ("origin", "host", "allowed", "expected"),
    [
        ("http://mq.example.com", "mq.example.com:61614", None, True),
        ("https://MQ.example.com:8443", "mq.example.com:61614", None, True),
        ("http://[::1]:8000", "localhost:61614", None, True),
        ("http://localhost:8000", "127.0.0.1:61614", None, True),
        ("https://evil.example", "127.0.0.1:61614", None, False),
        ("https://mq.example.com.evil.example", "mq.example.com:61614", None, False),
        ("null", "127.0.0.1:61614", None, False),
        ("http://[broken", "127.0.0.1", None, False),
        ("http://mq.example.com", "", None, False),
        ("https://shop.example.com", "mq", "https://a.example, https://SHOP.example.com", True),
        ("http://shop.example.com", "mq", "https://shop.example.com", False),
        ("http://mq", "mq", "https://shop.example.com", False),
        ("https://evil.example", "mq", "*", True),
        ("null", "mq", "null", True),
    ],
)
def test_origins(origin: str, host: str, allowed: str | None, expected: bool) -> None:
    assert is_allowed(origin, host, allowed) is expected


def test_a_loopback_address_has_no_other_names() -> None:
    """A page of another site can have its own name resolved to 127.0.0.1."""
    rebound = ("http://evil.example:61614", "evil.example:61614", None)
    assert is_allowed(*rebound, is_local=False)
    assert not is_allowed(*rebound, is_local=True)
    assert is_allowed("http://localhost:8000", "127.0.0.1:61614", None, is_local=True)
    assert is_allowed("http://evil.example", "evil.example", "http://evil.example", is_local=True)


def test_pages_of_another_host_are_refused(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Served(store, uri="ws://127.0.0.1:0") as served:
        assert refused(served.port, origin="https://evil.example") == 403
        assert "'https://evil.example' is not in allowed_origins" in caplog.text
        for origin in (None, f"http://127.0.0.1:{served.port}"):
            with WebSocketClient(served.port, origin=origin) as client:
                client.send(QUEUE, "from here")
    with (
        Served(store, uri="ws://127.0.0.1:0", allowed_origins="https://shop.example") as served,
        WebSocketClient(served.port, origin="https://shop.example") as client,
    ):
        client.send(QUEUE, "from there")


def test_whoever_asks_for_a_page_is_answered(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    connection.request("GET", "/")
    response = connection.getresponse()
    assert response.status == 426
    assert b"WebSocket" in response.read()
    connection.close()


@pytest.mark.parametrize(
    "data", [CONNECT, b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", b"\x16\x03\x01\r\n"]
)
def test_what_is_not_a_request_is_closed(served: Served, data: bytes) -> None:
    with Client(served.port, None) as client:
        client.socket.sendall(data)
        while client.socket.recv(1000):
            pass


@pytest.mark.parametrize("line", [b"x" * 100, b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 8000 + b"\r\n"])
def test_a_request_without_end_is_closed(served: Served, line: bytes) -> None:
    def send() -> None:
        for _ in range(1_000_000):
            client.socket.sendall(line)

    with Client(served.port, None) as client, pytest.raises(ConnectionError):
        send()


# Messages and frames.


def test_several_frames_in_a_message(served: Served) -> None:
    with WebSocketClient(served.port, None) as client:
        sends = b"".join(b"SEND\ndestination:%s\n\n%d\0\n" % (QUEUE.encode(), n) for n in range(3))
        client.socket.sendall(b"\n" + CONNECT + b"\n\n")
        client.expect("CONNECTED")
        client.socket.sendall(sends + b"SUBSCRIBE\nid:0\ndestination:%s\n\n\0" % QUEUE.encode())
        assert [frame.body for frame in client.messages(3)] == [b"0", b"1", b"2"]


def test_a_frame_in_many_messages(served: Served) -> None:
    """As @stomp/stompjs does with splitLargeFrames; a character may be cut, too."""
    with WebSocketClient(served.port, None) as client:
        for byte in CONNECT:
            client.socket.sendall(bytes([byte]))
        client.expect("CONNECTED")
        for byte in b"SEND\ndestination:/queue/Q\nreceipt:r\n\ngr\xc3\xbc\xc3\x9fe\0":
            client.socket.sendall(bytes([byte]))
        client.expect("RECEIPT")
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body.decode() == "grüße"


def test_a_message_in_fragments(served: Served) -> None:
    with WebSocketClient(served.port) as client:
        body = "é" * 1000
        frame = f"SEND\ndestination:{QUEUE}\nreceipt:r\n\n{body}\0".encode()
        pieces = [frame[start : start + 7] for start in range(0, len(frame), 7)]
        client.websocket.send(iter(pieces), text=True)  # many a piece ends within a character
        client.expect("RECEIPT")
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body.decode() == body


def test_a_message_to_the_client_is_one_frame_in_text_if_it_can_be(served: Served) -> None:
    with WebSocketClient(served.port, heart_beat="0,0") as client:
        client.subscribe(QUEUE)
        for body in ("one", b"\xff\0\xfe", "drei €"):
            client.write(
                "SEND", {"destination": QUEUE, "content-length": str(len(_bytes(body)))}, _bytes(body)
            )
        assert [frame.body for frame in client.messages(3)] == [b"one", b"\xff\0\xfe", "drei €".encode()]
        messages = [one for one in client.socket.received if "MESSAGE" in str(one)[:10]]
        assert [type(one) for one in messages] == [str, bytes, str]
        assert all(str(one).count("destination") == 1 for one in messages)


def _bytes(body: str | bytes) -> bytes:
    return body if isinstance(body, bytes) else body.encode()


def test_large_messages(served: Served) -> None:
    with WebSocketClient(served.port) as client:
        client.send(QUEUE, bytes(range(256)) * 20_000)
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body == bytes(range(256)) * 20_000


def test_pings_are_answered(served: Served) -> None:
    with WebSocketClient(served.port) as client:
        assert client.websocket.ping(b"are you there").wait(PATIENCE)


def test_heart_beats_are_messages_of_a_line_feed(served: Served) -> None:
    with WebSocketClient(served.port, heart_beat="1000,100") as client:
        assert client.connected.headers["heart-beat"] == "100,1000"
        client.socket.sendall(b"\n")
        while client.socket.recv(1):
            pass
        beats = client.socket.received[1:]
        assert set(beats) == {"\n"}
        assert client.websocket.protocol.close_rcvd is None  # the client is taken for gone


# FrameLimits.


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\nHost: mq\r\n"])
def test_who_does_not_ask_for_a_websocket_is_sent_away(store: Store, data: bytes) -> None:
    with (
        Served(store, uri="ws://127.0.0.1:0", connect_attempt_timeout=0.2) as served,
        Client(served.port, None) as client,
    ):
        client.socket.sendall(data)
        assert client.ends()


def has_ended(connection: object) -> bool:
    return isinstance(connection, ClientConnection) and connection.replies.ended


def test_who_asks_too_late_is_answered(store: Store) -> None:
    with (
        Served(store, uri="ws://127.0.0.1:0", connect_attempt_timeout=0.2) as served,
        Client(served.port, None) as client,
    ):
        wait_until(lambda: any(map(has_ended, [*served.connector._connections])), PATIENCE)
        client.socket.sendall(REQUEST)
        answer = client.socket.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"did not log in within 0.2 seconds" in answer


def test_who_does_not_log_in_is_sent_away(store: Store) -> None:
    with (
        Served(store, uri="ws://127.0.0.1:0", connect_attempt_timeout=1.5) as served,
        WebSocketClient(served.port, None) as client,
    ):
        assert "did not log in" in client.expect("ERROR").headers["message"]
        assert client.ends()
        assert client.socket.closed_with == (1002, "the client did not log in within 1.5 seconds")


def test_connections_are_limited_and_strangers_make_room(store: Store) -> None:
    with Served(store, uri="ws://127.0.0.1:0", maximum_connections=2) as served, ExitStack() as stack:
        silent = stack.enter_context(Client(served.port, None))
        stranger = stack.enter_context(WebSocketClient(served.port, None))
        clients = [stack.enter_context(WebSocketClient(served.port)) for _ in range(2)]
        assert silent.ends()
        assert stranger.ends()
        assert refused(served.port) == 503
        for client in clients:
            client.send(QUEUE, "goes on")


def test_frames_are_limited(store: Store) -> None:
    with Served(store, uri="ws://127.0.0.1:0", max_frame_size=2000) as served:
        with WebSocketClient(served.port) as client:
            client.write("SEND", {"destination": QUEUE}, b"x" * 2001)
            assert "exceeds 2000 bytes" in client.expect("ERROR").headers["message"]
            assert client.ends()
            assert client.socket.closed_with[0] == 1002
        with WebSocketClient(served.port) as client:
            # The size at the beginning is enough: nothing of it is waited for.
            client.websocket.socket.sendall(b"\x82\xff" + struct.pack(">Q", 1 << 40) + b"mask")
            assert client.ends()
            assert client.socket.closed_with[0] == 1009


def test_little_is_taken_before_the_login(served: Served) -> None:
    with WebSocketClient(served.port, None) as client:
        client.websocket.socket.sendall(b"\x82\xff" + struct.pack(">Q", 1_000_000) + b"mask" + b"x" * 50_000)
        assert "before the login" in client.expect("ERROR").headers["message"]
        assert client.ends()
        assert client.socket.closed_with[0] == 1002


def output_of(served: Served) -> int:
    """Bytes that the only client has not taken."""
    [connection] = served.connector._connections
    return connection._transport.get_write_buffer_size()


def test_a_client_that_pings_and_does_not_read_is_not_read(served: Served) -> None:
    with Client(served.port, None) as client:
        client.socket.sendall(REQUEST)
        client.socket.recv(1000)
        pings = Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 1000
        client.socket.settimeout(1)

        def send() -> None:
            for _ in range(1000):
                client.socket.sendall(pings)

        with pytest.raises(TimeoutError):
            send()
        assert served.call(lambda: output_of(served)) < 10_000_000


# The end.


def test_disconnect(served: Served) -> None:
    with WebSocketClient(served.port) as client:
        client.request("DISCONNECT")
        assert client.ends()
        assert client.socket.closed_with == (1000, "DISCONNECT")


def test_what_was_sent_before_the_client_closed_is_stored(store: Store) -> None:
    with Served(store, uri="ws://127.0.0.1:0") as served:
        with WebSocketClient(served.port, None) as client:
            sends = b"".join(
                b"SEND\ndestination:/queue/Q\npersistent:true\n\n%d\0" % number for number in range(500)
            )
            client.socket.sendall(CONNECT)
            client.socket.sendall(sends)
        assert client.socket.closed_with[0] == 1000
        wait_until(lambda: served.connector.connections == 0, PATIENCE)
        assert len(store.queue("Q").recover(limit=1000)) == 500


def test_the_reason_of_the_end(store: Store) -> None:
    with (
        Served(store, uri="ws://127.0.0.1:0", security=Nobody()) as served,
        WebSocketClient(served.port, None) as client,
    ):
        client.socket.sendall(CONNECT)
        assert client.expect("ERROR").headers["message"] == "the user name or the password is wrong"
        assert client.ends()
        assert client.socket.closed_with == (1008, "the user name or the password is wrong")
    with Served(store, uri="ws://127.0.0.1:0") as served:
        client = WebSocketClient(served.port)
        client.write("BEGIN", {})
        assert "needs the header transaction" in client.expect("ERROR").headers["message"]
        ended = threading.Thread(target=client.ends)
        ended.start()
    ended.join(PATIENCE)
    assert client.socket.closed_with == (1001, "the broker is stopping")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (Frame(Opcode.TEXT, b"SEND\n\xff").serialize(mask=True), 1007),
        (Frame(Opcode.TEXT, b"\n").serialize(mask=False), 1002),
        (Frame(Opcode.CONT, b"\n").serialize(mask=True), 1002),
        (b"\xf1\x80mask", 1002),
    ],
    ids=["UTF-8", "mask", "continuation", "reserved"],
)
def test_what_is_not_websocket_is_closed(served: Served, data: bytes, code: int) -> None:
    with WebSocketClient(served.port) as client:
        client.websocket.socket.sendall(data)
        assert client.ends()
        assert client.socket.closed_with[0] == code


def test_a_lost_connection_returns_its_messages(served: Served) -> None:
    with WebSocketClient(served.port) as client:
        client.send(QUEUE, "again")
        client.subscribe(QUEUE, ack="client")
        client.expect("MESSAGE")
        client.websocket.socket.shutdown(socket.SHUT_RDWR)
        with WebSocketClient(served.port) as other:
            other.subscribe(QUEUE)
            assert other.expect("MESSAGE").headers["redelivered"] == "true"


def test_tls(store: Store, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(cafile=str(certificate))
    # This client reads and writes in two threads. OpenSSL then loses one connection of some hundreds on a
    # busy machine with TLS 1.3, whose tickets arrive after the handshake.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Served(store, uri="wss://127.0.0.1:0", certificate=str(certificate)) as served:
        with WebSocketClient(served.port, scheme="wss", ssl=context) as client:
            client.send(QUEUE, b"\0" * 1_000_000)
            client.subscribe(QUEUE)
            assert len(client.expect("MESSAGE").body) == 1_000_000
            client.request("DISCONNECT")
            assert client.ends()
            assert client.socket.closed_with == (1000, "DISCONNECT")
        with Client(served.port, None) as plain:
            plain.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert plain.ends()


def test_tls_1_3(store: Store, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(cafile=str(certificate))
    with (
        Served(store, uri="wss://127.0.0.1:0", certificate=str(certificate)) as served,
        socket.create_connection(("127.0.0.1", served.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        assert client.version() == "TLSv1.3"
        client.sendall(
            b"GET /stomp HTTP/1.1\r\nHost: mq\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert client.recv(1 << 12).startswith(b"HTTP/1.1 101 ")


def test_random_bytes(served: Served) -> None:
    """After the handshake, as frames of a WebSocket and as anything else; others are served meanwhile."""
    chance = random.Random(16)
    with WebSocketClient(served.port) as other:
        for _ in range(100):
            with WebSocketClient(served.port, None) as client:
                for _ in range(chance.randrange(5)):
                    opcode = chance.choice([*Opcode])
                    body = chance.randbytes(chance.randrange(126))
                    frame = bytearray(Frame(opcode, body).serialize(mask=True))
                    frame[0] ^= chance.choice((0, 0, 0, 0x80, 0x40, 0x03))
                    cut = chance.randrange(len(frame)) if chance.random() < 0.3 else len(frame)
                    try:
                        client.websocket.socket.sendall(frame[:cut])
                    except OSError:
                        break
                with contextlib.suppress(OSError):
                    client.websocket.socket.shutdown(socket.SHUT_RDWR)
        other.send(QUEUE, "goes on")
        wait_until(lambda: served.connector.connections == 1, PATIENCE)
