"""The commands of OpenWire: read and written, truncated at every byte, and made of anything."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore import Destination
from jdbcstore.broker.openwire.commands import (
    _FIELDS,
    OLDEST,
    Throwable,
    Type,
    _fields,
    read_command,
    write_command,
)
from jdbcstore.broker.openwire.frames import OpenWireFrameReader, agree, wire_format_info
from jdbcstore.errors import ProtocolError
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)

VALUES: dict[str, Any] = {
    "bool": True,
    "byte": -5,
    "int": -(2**31),
    "long": 2**63 - 1,
    "string": "å\0\U0001f980",
    "bytes": b"\0\xff",
    "array": (BrokerId("a"), BrokerId("b")),
    "throwable": Throwable("java.lang.Exception", "why"),
    "null": None,
    "command": None,
    "BrokerId": BrokerId("b"),
    "ConnectionId": ConnectionId("c"),
    "ConsumerId": ConsumerId("c", 1, 2),
    "ProducerId": ProducerId("c", 1, 2),
    "SessionId": SessionId("c", 1),
    "MessageId": MessageId(ProducerId("c", 1, 2), 3, 4),
    "Destination": Destination.topic("T"),
    "TransactionId": XATransactionId(1, b"\1", b"\2"),
    "AnyId": SessionId("c", 1),
}


def filled(kind: Type, version: int) -> dict[str, Any]:
    return {field.name: VALUES[field.kind] for field in _fields(kind, version)}


@pytest.mark.parametrize("version", [9, 10, 11, 12])
@pytest.mark.parametrize("kind", _FIELDS)
def test_what_is_written_is_read(kind: Type, version: int) -> None:
    values = filled(kind, version)
    frame = write_command(kind, version, command_id=7, response_required=True, **values)
    command = read_command(frame, version)
    assert (command.type, command.command_id, command.response_required) == (kind, 7, True)
    for name, value in values.items():
        assert command[name] == value, name


@pytest.mark.parametrize("kind", _FIELDS)
def test_truncated_at_every_byte(kind: Type) -> None:
    frame = write_command(kind, **filled(kind, 12))
    for end in range(5, len(frame)):
        with pytest.raises(ProtocolError) as caught:
            read_command(frame[:end], 12)
        assert caught.value.fatal
    with pytest.raises(ProtocolError):
        read_command(frame + b"\0", 12)


def is_command_or_fatal(frame: bytes, version: int) -> bool:
    """Whether it is read, or ends its connection: nothing else may come of any bytes."""
    try:
        read_command(frame, version)
    except ProtocolError as error:
        return error.fatal
    return True


@given(st.sampled_from([*range(256)]), st.binary(max_size=300), st.integers(9, 12))
def test_anything_is_a_command_or_an_error(kind: int, body: bytes, version: int) -> None:
    frame = len(body).to_bytes(4, "big") + bytes((kind,)) + body
    assert is_command_or_fatal(frame, version)


def test_every_command_with_any_byte_changed() -> None:
    rng = random.Random(4)
    for kind in _FIELDS:
        frame = bytearray(write_command(kind, **filled(kind, 12)))
        for at in range(5, len(frame)):
            changed = frame[:]
            changed[at] = rng.randrange(256)
            assert is_command_or_fatal(bytes(changed), 12)


def test_what_may_not_be_null() -> None:
    frame = write_command(Type.CONSUMER_INFO, consumer_id=ConsumerId("c", 1, 2))
    with pytest.raises(ProtocolError, match="destination is missing"):
        read_command(frame, 12)


def test_an_id_of_another_kind() -> None:
    values: dict[str, Any] = {"consumer_id": SessionId("c", 1), "destination": Destination.queue("Q")}
    with pytest.raises(ProtocolError, match="ConsumerId"):
        read_command(write_command(Type.CONSUMER_INFO, **values), 12)


def test_the_client_id_of_a_consumer_is_new_in_version_10() -> None:
    values: dict[str, Any] = {"consumer_id": ConsumerId("c", 1, 1), "destination": Destination.queue("Q")}
    frame = write_command(Type.CONSUMER_INFO, OLDEST, **values)
    assert read_command(frame, OLDEST)["client_id"] is None
    assert len(write_command(Type.CONSUMER_INFO, 10, **values)) == len(frame) + 1


def test_a_local_transaction() -> None:
    name = LocalTransactionId(ConnectionId("c"), 5)
    assert (
        read_command(write_command(Type.TRANSACTION_INFO, transaction_id=name), 12)["transaction_id"] == name
    )


def test_a_password_is_not_shown() -> None:
    values: dict[str, Any] = {"connection_id": ConnectionId("c"), "password": "secret"}
    assert "secret" not in repr(read_command(write_command(Type.CONNECTION_INFO, **values), 12))


def test_a_long_error_is_cut() -> None:
    frame = write_command(Type.CONNECTION_ERROR, error=Throwable("java.io.IOException", "\0" * 70_000))
    assert set(read_command(frame, 12)["error"].text) == {"\0"}


def test_frames_in_pieces() -> None:
    frames = [write_command(Type.KEEP_ALIVE_INFO, command_id=number) for number in range(50)]
    data, reader, found = b"".join(frames), OpenWireFrameReader(100), []
    for at in range(0, len(data), 7):
        reader.feed(data[at : at + 7])
        while (frame := reader.read()) is not None:
            found.append(frame)
    assert found == frames
    assert reader.held == 0


@pytest.mark.parametrize("size", [0, -1, 101, 2**31 - 1])
def test_sizes_that_are_refused_before_their_bytes(size: int) -> None:
    reader = OpenWireFrameReader(100)
    reader.feed(size.to_bytes(4, "big", signed=True))
    with pytest.raises(ProtocolError, match="Frame size"):
        reader.read()


def test_the_agreement_is_the_less_of_both() -> None:
    agreed = agree(wire_format_info(5000, 10_000, "1"), 9000, 30_000)
    assert (agreed.version, agreed.inactivity_ms, agreed.max_frame_size) == (12, 10_000, 5000)
    assert agree(wire_format_info(50_000, 0, "1"), 9000, 30_000).inactivity_ms == 0


def test_an_offer_truncated_at_every_byte() -> None:
    frame = wire_format_info(5000, 10_000, "1")
    for end in range(5, len(frame)):
        with pytest.raises(ProtocolError):
            agree((end - 4).to_bytes(4, "big") + frame[4:end], 9000, 30_000)
