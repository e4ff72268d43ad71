"""A connector: its limits, its end, TLS, clients that do not read, and what a failing store does to it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import stomp

from jdbcstore import Store
from jdbcstore.broker.notices import BoundedLog
from jdbcstore.broker.security import Principal, Security
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.errors import NotAuthorized, ReplySuppressed, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.broker.stomp.serving import PATIENCE, Client, Served, talking
from tests.support.docs.pages import Page
from tests.support.loops import CountingLoop

pytestmark = pytest.mark.backends("memory")

QUEUE = "/queue/Q"


class OnlyQ(Security):
    """Lets in who knows the password, and to Q alone."""

    async def login(self, name: str | None, password: str | None) -> Principal:
        if (name, password) != ("someone", "secret"):
            raise NotAuthorized("the user name or the password is wrong")
        return Principal("someone", *[[Destination.queue("Q")]] * 3)


def test_who_may_not_log_in_is_sent_away(store: Store) -> None:
    with Served(store, security=OnlyQ()) as served:
        for passcode in ("wrong", ""):
            with Client(served.port, None) as client:
                client.write("CONNECT", {"accept-version": "1.2", "login": "someone", "passcode": passcode})
                assert client.expect("ERROR").headers["message"] == "the user name or the password is wrong"
                assert client.ends()


def test_what_a_user_may_not_is_refused(store: Store) -> None:
    with (
        Served(store, security=OnlyQ()) as served,
        Client(served.port, login="someone", passcode="secret") as client,
    ):
        for command in ("SEND", "SUBSCRIBE"):
            client.write(command, {"destination": "/queue/OTHER", "id": "1"})
            assert "/queue/OTHER" in client.expect("ERROR").headers["message"].replace("queue://", "/queue/")
        client.send(QUEUE, "mine")
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body == b"mine"
        assert store.destinations() in ([], [Destination.queue("Q")])


@pytest.mark.backends("postgresql")
def test_a_send_takes_two_turns_of_the_loop(store: Store) -> None:
    """In one it is read and sent to the database, in the other the answer is read and passed on."""
    loop, count = CountingLoop(), 100
    with Served(store, loop=loop) as served, Client(served.port) as client:
        client.send(QUEUE, "the first has the writer's thread connect")
        client.send(QUEUE, "from now on the loop writes")
        before = loop.turns
        for number in range(count):
            client.send(QUEUE, str(number))
        assert loop.turns - before < 2.5 * count


def test_frames_that_follow_connect_wait_for_the_login(store: Store) -> None:
    with Served(store, security=OnlyQ()) as served, Client(served.port, None) as client:
        client.socket.sendall(
            b"CONNECT\naccept-version:1.2\nlogin:someone\npasscode:secret\n\n\0"
            b"SEND\ndestination:/queue/Q\nx:a\\cb\npersistent:true\nreceipt:1\n\n\0"
        )
        assert [client.expect(one).command for one in ("CONNECTED", "RECEIPT")]
        assert store.queue("Q").recover()[0].properties["x"] == "a:b"


def test_the_login_of_a_connection_that_is_gone_is_given_up(store: Store) -> None:
    begun, given_up = threading.Event(), threading.Event()

    class Slow(OnlyQ):
        async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                given_up.set()
                raise
            return Principal("")

    with Served(store, security=Slow(), connect_attempt_timeout=600.0) as served:
        with Client(served.port, None) as client:
            client.write("CONNECT", {"accept-version": "1.2"})
            assert begun.wait(PATIENCE)
        assert given_up.wait(PATIENCE)  # and not only when it has had its time to log in


def test_connections_are_limited_and_strangers_make_room(store: Store) -> None:
    with Served(store, maximum_connections=2) as served:
        stranger = Client(served.port, None)
        with Client(served.port) as one, Client(served.port) as two:
            assert stranger.ends()
            with Client(served.port, None) as third:
                assert "2 connections" in third.expect("ERROR").headers["message"]
                assert third.ends()
            one.send(QUEUE, "goes on")
            two.send(QUEUE, "goes on")
        stranger.socket.close()


def test_who_does_not_log_in_is_sent_away(store: Store) -> None:
    with Served(store, connect_attempt_timeout=0.2) as served, Client(served.port, None) as client:
        assert "did not log in" in client.expect("ERROR").headers["message"]
        assert client.ends()


def test_a_client_that_is_silent_is_dropped_and_told_of_life(store: Store) -> None:
    with Served(store) as served, Client(served.port, heart_beat="300,100") as client:
        assert client.connected.headers["heart-beat"] == "100,300"
        beats = client.socket.recv(1)
        while data := client.socket.recv(100):
            beats += data
        assert set(beats) == {ord("\n")}
        assert len(beats) <= 7  # in 600 ms: one in each 100, and not one in each 50


def output_of(served: Served) -> int:
    """Bytes that clients have not taken."""
    connections = [one for one in served.connector._connections if isinstance(one, ClientConnection)]
    return sum(one._transport.get_write_buffer_size() for one in connections)


def test_a_client_that_does_not_read_holds_up_itself_alone(store: Store) -> None:
    with Served(store) as served, Client(served.port) as lazy, Client(served.port) as other:
        lazy.subscribe("/queue/BIG", ack="auto")
        body = b"x" * 1_000_000
        for _ in range(40):
            other.send("/queue/BIG", body, persistent="false")
        # Far from all of it is on its way: the rest waits in the broker until the client reads.
        assert served.call(lambda: output_of(served)) < 10_000_000
        assert [len(frame.body) for frame in lazy.messages(40)] == [1_000_000] * 40


def test_a_client_that_never_reads_its_answers_is_not_read_either(store: Store) -> None:
    with Served(store) as served, Client(served.port) as lazy:
        lazy.socket.settimeout(0.5)
        frame = b"BEGIN\ntransaction:1\nreceipt:" + b"x" * 5000 + b"\n\n\0ABORT\ntransaction:1\n\n\0"
        with pytest.raises(TimeoutError):
            lazy.socket.sendall(frame * 6000)
        with Client(served.port) as other:
            other.send(QUEUE, "goes on")


def test_the_last_words_arrive_whatever_the_client_still_sends(store: Store) -> None:
    with talking(store) as (_, client):
        client.socket.sendall(b"HELLO\n\n\0" + b"SEND\ndestination:/queue/Q\n\n" + b"x" * 3_000_000 + b"\0")
        assert "HELLO" in client.expect("ERROR").headers["message"]
        assert client.ends()


def test_what_was_sent_before_the_end_of_the_stream_is_answered(store: Store) -> None:
    with talking(store) as (_, client):
        client.write("SEND", {"destination": QUEUE, "persistent": "true", "receipt": "1"})
        client.socket.shutdown(1)
        assert client.expect("RECEIPT").headers["receipt-id"] == "1"
        assert client.ends()


def test_a_connection_that_the_client_reset_can_still_be_closed(store: Store) -> None:
    with Served(store) as served, Client(served.port) as client:
        [connection] = served.connector._connections
        assert isinstance(connection, ClientConnection)

        def close_before_the_loop_sees_the_reset() -> None:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.close()
            connection.close()

        served.call(close_before_the_loop_sees_the_reset)
        wait_until(lambda: not served.call(lambda: [*served.connector._connections]), what="its end")


def test_a_connector_stops_and_starts_at_its_address(store: Store) -> None:
    with Served(store) as served:
        port = served.port
        with Client(port) as client:
            client.write("SEND", {"destination": QUEUE, "persistent": "true", "receipt": "1"})
            assert client.expect("RECEIPT")
            served.run(served.connector.stop())
            assert client.ends()
        with pytest.raises(ConnectionRefusedError):
            Client(port)
        served.run(served.connector.start())
        assert served.port == port
        with Client(port) as client:
            served.call(served.connector.abort)
            assert client.ends()
        served.run(served.connector.start())
        with Client(port) as client:
            client.subscribe(QUEUE)
            assert client.expect("MESSAGE")


def test_an_error_of_the_store_is_the_host_s_to_decide(store: Store) -> None:
    def suppress(error: StoreError) -> None:
        raise ReplySuppressed("the connectors are stopped") from error

    for decide, told in ((None, True), (suppress, False)):
        with Served(store, on_store_error=decide) as served, Client(served.port) as client:
            client.write("SEND", {"destination": "/queue/A.*", "persistent": "true", "receipt": "1"})
            if told:
                assert client.expect("ERROR").headers["receipt-id"] == "1"
                client.send(QUEUE, "goes on")
            else:
                assert client.ends()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine, and its key, in one file."""
    path = tmp_path_factory.mktemp("tls") / "broker.pem"
    key = path.with_name("key.pem")
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"),
            *("-keyout", str(key), "-out", str(path)),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + key.read_text())
    return path


def test_tls(store: Store, certificate: Path) -> None:
    with Served(store, uri="stomp+ssl://127.0.0.1:0", certificate=str(certificate)) as served:
        context = ssl.create_default_context(cafile=str(certificate))
        with Client(served.port, None) as client:
            client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
            client.write("CONNECT", {"accept-version": "1.2", "host": "localhost"})
            client.expect("CONNECTED")
            client.send(QUEUE, b"\0" * 3_000_000)
            client.subscribe(QUEUE)
            assert len(client.expect("MESSAGE").body) == 3_000_000
            client.request("DISCONNECT")
            assert client.ends()
        with Client(served.port, None) as plain:
            plain.write("CONNECT", {"accept-version": "1.2", "host": "localhost"})
            assert plain.ends()


def test_connections_count_before_they_speak_tls(store: Store, certificate: Path) -> None:
    uri = "stomp+ssl://127.0.0.1:0"
    with (
        Served(store, uri=uri, certificate=str(certificate), maximum_connections=2) as served,
        ExitStack() as stack,
    ):
        silent = [stack.enter_context(Client(served.port, None)) for _ in range(5)]
        # The oldest make room for those who come; here, too, nobody keeps others out by only connecting.
        assert [one.ends() for one in silent[:3]] == [True] * 3
        assert served.connector.connections == 2
        context = ssl.create_default_context(cafile=str(certificate))
        client = stack.enter_context(Client(served.port, None))
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        client.write("CONNECT", {"accept-version": "1.2", "host": "localhost"})
        client.expect("CONNECTED")
        client.send(QUEUE, "served")


def test_what_comes_with_the_end_of_the_handshake_is_read(store: Store, certificate: Path) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    with (
        Served(store, uri="stomp+ssl://127.0.0.1:0", certificate=str(certificate)) as served,
        Client(served.port, None) as client,
    ):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                client.socket.sendall(outgoing.read())
                incoming.write(client.socket.recv(65536))
        tls.write(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        client.socket.sendall(outgoing.read())
        while True:
            incoming.write(client.socket.recv(65536))
            try:
                assert tls.read().startswith(b"CONNECTED")
                break
            except ssl.SSLWantReadError:
                continue


def test_a_handshake_has_its_time(store: Store, certificate: Path) -> None:
    uri = "stomp+ssl://127.0.0.1:0"
    with Served(store, connect_attempt_timeout=0.2, uri=uri, certificate=str(certificate)) as served:
        with Client(served.port, None) as silent, Client(served.port, None) as wrong:
            wrong.socket.sendall(b"CONNECT\n\n\0")
            assert wrong.ends()
            assert silent.ends()
        wait_until(lambda: not served.connector.connections)


def test_many_uploads_at_once_take_turns(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    size, count = 600_000, 12
    with Served(store) as served, ExitStack() as stack:
        inflow = served.service.inflow
        inflow.limit = 2 * size
        most = 0

        def watch() -> None:
            nonlocal most
            most = max(most, inflow.held)

        half = stack.enter_context(Client(served.port))  # has its turn, and does nothing with it
        half.socket.sendall(b"SEND\ndestination:/queue/Q\n\n" + b"x" * (size // 2))
        clients = [stack.enter_context(Client(served.port)) for _ in range(count)]
        threads = [threading.Thread(target=one.send, args=("/queue/UP", b"x" * size)) for one in clients]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            served.call(watch)
        for thread in threads:
            thread.join()
        half.socket.sendall(b"\0")
        for one in (half, *clients):
            one.send("/queue/UP", "goes on")
        # And a read of each, with which it was seen that there is too much.
        assert most <= 3 * size + (count + 1) * (128 + 64) * 1024
        wait_until(lambda: (inflow.held, inflow.under_way) == (0, 0))
    assert store.queue("UP").message_count() == 2 * count + 1
    assert "take turns" in caplog.text


class Collector(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.frames: list[stomp.utils.Frame] = []

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.frames.append(frame)


@pytest.mark.parametrize("version", [*Version])
def test_a_stock_client(store: Store, version: Version) -> None:
    kinds = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}
    with Served(store) as served:
        connection = kinds[version]([("127.0.0.1", served.port)])
        collector, waiting = Collector(), stomp.listener.WaitingListener("bye")
        connection.set_listener("", collector)
        connection.set_listener("waiting", waiting)
        connection.connect(wait=True)
        connection.subscribe(QUEUE, id="1", ack="client-individual")
        connection.send(QUEUE, "zażółć", headers={"persistent": "true", "a": "b:c"})
        wait_until(lambda: bool(collector.frames))
        [frame] = collector.frames
        assert frame.body == "zażółć"
        if version is Version.V1_2:
            connection.ack(frame.headers["ack"])
        elif version is Version.V1_1:
            connection.ack(frame.headers["message-id"], "1")
        else:
            connection.ack(frame.headers["message-id"])
        connection.disconnect(receipt="bye")
        waiting.wait_on_receipt()
    assert store.queue("Q").message_count() == 0


def test_the_client_of_the_guide(store: Store, tmp_path: Path) -> None:
    """Run as a script, it has the message and leaves nothing behind."""
    [example] = [
        one for one in Page(ROOT / "docs/guide/stomp.md").examples("py") if "import stomp" in one.code
    ]
    script = tmp_path / "client.py"
    with Served(store) as served:
        script.write_text(example.code.replace("61613", str(served.port)))
        ran = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
    assert (ran.stdout, ran.stderr) == ("two pints\n", "")
    assert store.queue("ORDERS").message_count() == 0


def test_an_idle_client_is_sent_away(store: Store) -> None:
    with Served(store, idle_timeout=1.0) as served, Client(served.port) as client:
        assert client.ends()


def test_a_client_calls_the_broker_by_its_name(store: Store) -> None:
    with Served(store, virtual_hosts="prod, localhost") as served, Client(served.port) as client:
        client.send(QUEUE, "one")
        with Client(served.port, None) as other:
            other.write("CONNECT", {"accept-version": "1.2", "host": "test"})
            assert "'test'" in other.expect("ERROR").headers["message"]
            assert other.ends()


def test_the_log_says_who_came_what_they_consumed_and_why_they_went(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jdbcstore.broker")
    with Served(store, security=OnlyQ(), max_subscriptions=1) as served:
        with Client(served.port, login="someone", passcode="secret") as client:
            client.subscribe(QUEUE, selector="a = 1")
            client.write("SUBSCRIBE", {"id": "2", "destination": QUEUE})
            client.expect("ERROR")
            client.request("UNSUBSCRIBE", {"id": "0"})
            client.send(QUEUE, "very private")
            client.request("DISCONNECT")
            assert client.ends()
        with Client(served.port, None) as client:
            client.write("CONNECT", {"accept-version": "1.2", "login": "mallory", "passcode": "hush"})
            assert client.expect("ERROR")
        wait_until(lambda: not served.connector.connections)
    told = [record for record in caplog.records if hasattr(record, "connection")]
    assert {record.connection for record in told[:1]} == {told[0].connection}
    texts = [record.getMessage() for record in told]
    for part in (
        "is logged in as 'someone'",
        "subscribes to queue://Q, ack auto, with a selector",
        "(max_subscriptions)",
        "unsubscribes from queue://Q",
        "ended after",
        "failed to log in as 'mallory'",
    ):
        assert len([text for text in texts if part in text]) == 1, (part, texts)
    assert any(text.endswith("1 messages sent: DISCONNECT") for text in texts)
    assert not any(secret in text for text in texts for secret in ("secret", "hush", "private"))


def test_a_flood_of_wrong_logins_does_not_flood_the_log(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with Served(store, security=OnlyQ()) as served:
        served.service.refusals = BoundedLog("refused logins", 3)
        for _ in range(10):
            with Client(served.port, None) as client:
                client.write("CONNECT", {"accept-version": "1.2", "login": "x"})
                client.expect("ERROR")
    assert caplog.text.count("failed to log in") == 3
