"""Frames as they are on the wire: odd ones and wrong ones, which no library sends."""

from __future__ import annotations

import re

import pytest

from tests.interop.behaviours.conftest import OpenWire, RunningBroker
from tests.support.interop.activemq import IS_SIX
from tests.support.stomp import Frame, Wire


def _sent(socket: Wire, queue: str, body: str = "goes on") -> Frame:
    """The session lives: a message goes there and back."""
    socket.write("SEND", {"destination": queue}, body.encode())
    socket.write("SUBSCRIBE", {"destination": queue, "id": "last"})
    while (frame := socket.read()).body != body.encode():
        assert frame.command == "MESSAGE", frame
    return frame


def _errors(socket: Wire) -> list[str]:
    """What the broker complains about before it closes the connection."""
    errors: list[str] = []
    while True:
        try:
            frame = socket.read()
        except ConnectionError:
            return errors
        assert frame.command == "ERROR", frame
        errors.append(frame.headers["message"])


def _subscribe(socket: Wire, queue: str) -> None:
    """Before anything is sent: ActiveMQ may send what comes while a consumer does twice."""
    socket.write("SUBSCRIBE", {"destination": queue, "id": "1", "receipt": "subscribed"})
    assert socket.read().headers == {"receipt-id": "subscribed"}


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE", "ACK", "BEGIN", "UNSUBSCRIBE"])
def test_connect_comes_first(wire: OpenWire, command: str) -> None:
    socket = wire(connected=False)
    socket.write(command, {"destination": "/queue/Q", "id": "1", "transaction": "1"})
    error = socket.read()
    assert error.command == "ERROR"
    assert re.search("Not connected|unexpected frame before CONNECT", error.headers["message"])


def test_second_connect_is_refused(broker: RunningBroker, wire: OpenWire, queue: str) -> None:
    socket = wire()
    error = socket.connect()
    assert error.command == "ERROR"
    # As ActiveMQ 6 says it, and as those before and we do.
    assert re.search("duplicate CONNECT|Already connected", error.headers["message"])
    if broker.either(activemq=not IS_SIX, ours=True):
        _sent(socket, queue)


def test_unknown_command_closes(wire: OpenWire) -> None:
    socket = wire()
    socket.write("HELLO", {"receipt": "1"})
    assert "HELLO" in _errors(socket)[0]


def test_error_names_the_receipt(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("SEND", {"receipt": "r-1", "destination": queue, "transaction": "unknown"}, b"body")
    error = socket.read()
    assert error.command == "ERROR"
    assert error.headers["receipt-id"] == "r-1"
    assert error.headers["content-type"] == "text/plain"
    _sent(socket, queue)


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("SEND", {}),
        ("SUBSCRIBE", {"id": "1"}),
        ("SUBSCRIBE", {"destination": "/queue/Q"}),
        ("UNSUBSCRIBE", {}),
        ("UNSUBSCRIBE", {"id": "unknown"}),
        ("ACK", {}),
        ("ACK", {"id": "unknown"}),
        ("NACK", {}),
        ("NACK", {"id": "unknown"}),
        ("BEGIN", {}),
        ("COMMIT", {}),
        ("COMMIT", {"transaction": "unknown"}),
        ("ABORT", {}),
        ("ABORT", {"transaction": "unknown"}),
        ("ACK", {"id": "1", "transaction": "unknown"}),
    ],
)
def test_frame_without_what_it_needs(
    wire: OpenWire, queue: str, command: str, headers: dict[str, str]
) -> None:
    socket = wire()
    socket.write(command, headers)
    assert socket.read().command == "ERROR"
    _sent(socket, queue)


def test_transaction_begins_once(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("BEGIN", {"transaction": "1"})
    socket.write("BEGIN", {"transaction": "1"})
    error = socket.read()
    assert error.command == "ERROR"
    assert "already started" in error.headers["message"]
    _sent(socket, queue)


def test_nack_is_not_of_version_1_0(wire: OpenWire, queue: str) -> None:
    socket = wire("1.0")
    socket.write("NACK", {"message-id": "1", "subscription": "1"})
    assert socket.read().command == "ERROR"
    _sent(socket, queue)


def test_version_1_0_unsubscribes_by_destination(wire: OpenWire, queue: str) -> None:
    socket = wire("1.0")
    socket.write("SUBSCRIBE", {"destination": queue, "receipt": "1"})
    assert socket.read().headers == {"receipt-id": "1"}
    socket.write("SEND", {"destination": queue}, b"one")
    message = socket.read()
    assert message.body == b"one"
    assert "subscription" not in message.headers
    socket.write("UNSUBSCRIBE", {"destination": queue, "receipt": "2"})
    assert socket.read().headers == {"receipt-id": "2"}


def test_subscription_id_can_be_used_twice(wire: OpenWire, queue: str) -> None:
    socket = wire()
    for number in ("1", "2"):
        socket.write("SUBSCRIBE", {"destination": f"{queue}.{number}", "id": "same", "receipt": number})
        assert socket.read().command == "RECEIPT"
        socket.write("SEND", {"destination": f"{queue}.{number}"}, number.encode())
        assert socket.read().headers["subscription"] == "same"


def test_first_of_repeated_headers_counts(wire: OpenWire, queue: str) -> None:
    socket = wire()
    _subscribe(socket, queue)
    socket.write_bytes(f"SEND\ndestination:{queue}\ncustom:1\ncustom:2\n\nbody\0".encode())
    assert socket.read().headers["custom"] == "1"


def test_carriage_returns_end_lines_of_version_1_2(wire: OpenWire, queue: str) -> None:
    socket = wire()
    _subscribe(socket, queue)
    socket.write_bytes(f"SEND\r\ndestination:{queue}\r\ncustom:1\r\n\r\nbody\0".encode())
    message = socket.read()
    assert (message.body, message.headers["custom"]) == (b"body", "1")


def test_line_ends_between_frames(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write_bytes(b"\n\n\n")
    socket.write("SEND", {"destination": queue, "receipt": "1"}, b"one")
    socket.write_bytes(b"\n\n")
    assert socket.read().command == "RECEIPT"
    _sent(socket, queue)


def test_frames_that_come_in_pieces_and_together(wire: OpenWire, queue: str) -> None:
    socket = wire()
    _subscribe(socket, queue)
    for byte in f"SEND\ndestination:{queue}\ncontent-length:3\n\na\0b\0".encode():
        socket.write_bytes(bytes([byte]))
    one = f"SEND\ndestination:{queue}\n\n%d\0\n"
    socket.write_bytes("".join(one % number for number in range(20)).encode())
    assert socket.read().body == b"a\0b"
    assert [socket.read().body for _ in range(20)] == [b"%d" % number for number in range(20)]


def test_content_length_that_is_no_number_closes(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("SEND", {"destination": queue, "content-length": "many"}, b"one")
    assert _errors(socket)


def test_long_header_closes(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("SEND", {"destination": queue, "custom": "x" * 20_000}, b"one")
    assert "header" in _errors(socket)[0]


def test_too_many_headers_close(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("SEND", {"destination": queue, **{f"h{number}": "" for number in range(1100)}}, b"one")
    assert "headers" in _errors(socket)[0]


def test_unknown_escape_is_kept(wire: OpenWire, queue: str) -> None:
    socket = wire()
    _subscribe(socket, queue)
    socket.write_bytes(f"SEND\ndestination:{queue}\ncustom:a\\tb\n\nbody\0".encode())
    assert socket.read().headers["custom"] == "a\\tb"


def test_header_without_colon(wire: OpenWire, queue: str) -> None:
    socket = wire()
    _subscribe(socket, queue)
    socket.write_bytes(f"SEND\ndestination:{queue}\nno colon\n\nbody\0".encode())
    assert socket.read().headers["no colon"] == ""


@pytest.mark.parametrize("subscribe", ["SUB", "SUBSCRIBED"])
def test_command_may_be_longer_or_shorter(wire: OpenWire, queue: str, subscribe: str) -> None:
    socket = wire()
    socket.write(subscribe, {"destination": queue, "id": "1", "receipt": "1"})
    assert socket.read().headers == {"receipt-id": "1"}
    socket.write("UNSUB", {"id": "1", "receipt": "2"})
    assert socket.read().headers == {"receipt-id": "2"}


def test_command_in_small_letters_closes(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("send", {"destination": queue}, b"one")
    assert "Unknown STOMP action" in _errors(socket)[0]


def test_content_length_that_is_too_short_closes(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("SEND", {"destination": queue, "content-length": "2"}, b"four")
    assert "trailing null" in _errors(socket)[0]


def test_body_where_none_belongs_is_ignored(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("BEGIN", {"transaction": "1", "receipt": "1"}, b"body")
    assert socket.read().command == "RECEIPT"
    _sent(socket, queue)


def test_nul_between_frames_is_ignored(wire: OpenWire, queue: str) -> None:
    socket = wire()
    socket.write("SEND", {"destination": queue, "receipt": "1"}, b"one")
    socket.write_bytes(b"\0\0")
    assert socket.read().command == "RECEIPT"
    _sent(socket, queue)


def test_acknowledgement_in_auto_mode_is_refused(broker: RunningBroker, wire: OpenWire, queue: str) -> None:
    socket = wire()
    _subscribe(socket, queue)
    socket.write("SEND", {"destination": queue}, b"one")
    message = socket.read()
    socket.write("ACK", {"id": message.headers["message-id"], "receipt": "1"})
    error = socket.read()
    if error.command == "MESSAGE" and broker.either(activemq=True, ours=False):
        error = socket.read()  # it has been seen to deliver it once more before
    assert error.command == "ERROR"
    assert error.headers["message"].startswith("Unexpected ACK received")


@pytest.mark.parametrize("length", ["0", "4", "1000", "many"])
def test_content_length_is_of_bodies_alone(wire: OpenWire, queue: str, length: str) -> None:
    """Some clients acknowledge with the headers that the message had."""
    socket = wire()
    _subscribe(socket, queue)
    socket.write("BEGIN", {"transaction": "t", "content-length": length, "receipt": "begun"})
    socket.write("ABORT", {"transaction": "t", "content-length": length, "receipt": "over"})
    assert [socket.read().headers["receipt-id"] for _ in range(2)] == ["begun", "over"]
    _sent(socket, queue)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_every_frame_ends_with_a_line(wire: OpenWire, queue: str, version: str) -> None:
    """Some clients read the line end behind the NUL, and wait for it."""
    socket = wire(version, connected=False)

    def has_line_ends_up_to(command: str) -> None:
        # ActiveMQ may deliver a message of a subscription this young twice.
        received = socket.read().command
        assert socket.read_byte() == b"\n"
        while received == "MESSAGE" != command:
            received = socket.read().command
            assert socket.read_byte() == b"\n"
        assert received == command

    assert socket.connect().command == "CONNECTED"
    assert socket.read_byte() == b"\n"
    socket.write("SUBSCRIBE", {"destination": queue, "id": "1", "receipt": "1"})
    has_line_ends_up_to("RECEIPT")
    socket.write("SEND", {"destination": queue}, b"one")
    has_line_ends_up_to("MESSAGE")
    socket.write("COMMIT", {"transaction": "unknown"})
    has_line_ends_up_to("ERROR")
    socket.write("HELLO", {})  # which closes the connection
    has_line_ends_up_to("ERROR")
