"""CONNECT, CONNECTED and the end of a session."""

from __future__ import annotations

import pytest

from tests.interop.behaviours.conftest import Connect, OpenWire, RunningBroker
from tests.support.interop.behaviours.conversation import Closed, Refused


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_version(connect: Connect, version: str) -> None:
    headers = connect(version).connected.headers
    assert headers.get("version", version) == version
    assert headers["session"]
    assert headers.get("heart-beat") == "0,0"


def test_server_names_itself(connect: Connect, broker: RunningBroker) -> None:
    server = connect().connected.headers["server"]
    assert server.lower().startswith(broker.name)
    assert "activemq" in server.lower()


def test_client_id_is_the_session(connect: Connect, name: str) -> None:
    assert connect(headers={"client-id": name}).connected.headers["session"] == name


def test_client_id_is_connected_once(connect: Connect, name: str) -> None:
    first = connect(headers={"client-id": name})
    with pytest.raises(Refused, match=name):
        connect(headers={"client-id": name})
    first.disconnect()
    connect(headers={"client-id": name})


def test_client_id_is_free_when_the_connection_is_lost(connect: Connect, name: str) -> None:
    connect(headers={"client-id": name}).drop()
    while True:  # until the broker has seen it
        try:
            connect(headers={"client-id": name})
        except (Refused, ConnectionError):  # ActiveMQ may close it before the ERROR is sent
            continue
        break


def test_heart_beats_are_agreed_on(connect: Connect) -> None:
    session = connect(headers={"heart-beat": "60000,50000"})
    assert session.connected.headers["heart-beat"] == "50000,60000"


def test_disconnect_closes(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one")
    session.disconnect()
    with pytest.raises((Closed, OSError, ValueError)):
        session.message()
    other = connect()
    other.subscribe(queue)
    assert other.bodies(1) == ["one"]


def test_highest_common_version(wire: OpenWire) -> None:
    answer = wire(connected=False).connect({"accept-version": "1.0,1.1,2.0"})
    assert answer.headers["version"] == "1.1"


def test_version_is_1_0_without_accept_version(wire: OpenWire) -> None:
    socket = wire("1.0", connected=False)
    socket.write("CONNECT", {})
    assert socket.read().headers["version"] == "1.0"


def test_unknown_version_is_refused(wire: OpenWire) -> None:
    socket = wire(connected=False)
    error = socket.connect({"accept-version": "3.0"})
    assert error.command == "ERROR"
    assert "version" in error.headers["message"].lower()
    assert socket.read_byte() in (b"\n", b"")


def test_stomp_instead_of_connect(wire: OpenWire) -> None:
    socket = wire(connected=False)
    socket.write("STOMP", {"accept-version": "1.2", "host": "localhost"})
    assert socket.read().command == "CONNECTED"


def test_receipt_of_connect(wire: OpenWire) -> None:
    answer = wire(connected=False).connect({"receipt": "c-1"})
    assert answer.command == "CONNECTED"
    assert answer.headers["receipt-id"] == "c-1"


@pytest.mark.parametrize("beat", ["1", "a,b", "1,2,3"])
def test_wrong_heart_beat_is_refused(wire: OpenWire, beat: str) -> None:
    error = wire(connected=False).connect({"heart-beat": beat})
    assert error.command == "ERROR"
    assert "heart-beat" in error.headers["message"]


def test_server_sends_heart_beats(wire: OpenWire) -> None:
    socket = wire(connected=False)
    assert socket.connect({"heart-beat": "0,200"}).headers["heart-beat"] == "200,0"
    assert [socket.read_byte() for _ in range(3)] == [b"\n"] * 3


def test_silent_client_is_dropped(wire: OpenWire) -> None:
    socket = wire(connected=False)
    assert socket.connect({"heart-beat": "200,0"}).headers["heart-beat"] == "0,200"
    while socket.read_byte():
        pass
