"""What clients send: frames of OpenWire and STOMP, and the messages in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jdbcstore import Destination
from jdbcstore.broker.openwire.commands import (
    FIRST_MESSAGE,
    LAST_MESSAGE,
    OLDEST,
    Type,
    codec_version,
    read_command,
    write_command,
)
from jdbcstore.broker.openwire.frames import OpenWireFrameReader, agree
from jdbcstore.broker.stomp.frames import Frame, FrameLimits, Version, encode
from jdbcstore.broker.stomp.messages import DestinationNames, MessageFrames, to_message
from jdbcstore.broker.stomp.reader import StompFrameReader
from jdbcstore.errors import CorruptMessage, ProtocolError
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import decode, encode_for_wire
from jdbcstore.message.openwire.wire_format import OLD_VERSION, VERSION
from tests.support.broker.openwire.fuzzing import VERSIONS, right_frames, right_messages
from tests.support.cores import check_both
from tests.support.openwire.damaged import look_into
from tests.support.recordings import all_messages

_STOMP_LIMITS = FrameLimits(head=600, line=200, headers=20, body=800)
_MOST = 1 << 16
_ID = MessageId(ProducerId("ID:fuzz-1", 1, 1), 1)
_NOW = 1_700_000_000_000


class _Delivery(NamedTuple):
    """A :class:`jdbcstore.broker.api.Delivery`."""

    message: Message
    destination: Destination
    redelivered: bool = False


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Yield data as it may arrive: in pieces of a size, or all at once if that is 0."""
    yield from (data[at : at + size] for at in range(0, len(data), size)) if size else (data,)


# A row's MSG column


def read_message(data: bytes) -> None:
    """Read a message of the MSG column, with its body and properties; write it again."""
    check_both("jdbcstore.message.openwire._decoder_cy", "read_usual", data, 5, "queue://Q")
    for version in (VERSION, OLD_VERSION):
        check_both("jdbcstore.message.openwire._passing_cy", "with_broker_in_time", data, _NOW, version)
    message = look_into(data)
    if message is None:
        raise CorruptMessage("as it should")
    encode_for_wire(message, VERSION)


def messages() -> Iterator[bytes]:
    """Yield recorded messages, and one of each type with every field."""
    yield from [row.msg for row in all_messages() if len(row.msg) < 1000][::7]
    for version in VERSIONS:
        yield from right_messages(version)


# A connection of OpenWire


def read_openwire(data: bytes) -> None:
    """Read a stream of frames: the first byte chooses the version, the second how it arrives."""
    version, size, stream = VERSIONS[data[0] % 3] if data else 12, data[1:2], data[2:]
    whole = list(_openwire_frames(stream, 0))
    assert whole == list(_openwire_frames(stream, size[0] if size else 0)), "it depends on how it arrives"
    for frame in whole:
        if isinstance(frame, bytes):
            _read_frame(frame, version)
        else:
            raise frame


def _openwire_frames(stream: bytes, size: int) -> Iterator[bytes | ProtocolError]:
    reader = OpenWireFrameReader(_MOST)
    for piece in pieces(stream, size):
        reader.feed(piece)
        try:
            while (frame := reader.read()) is not None:
                yield frame
        except ProtocolError as error:
            yield _Same(str(error))
            return
    assert reader.held <= len(stream)


class _Same(ProtocolError):
    """An error that is equal to another of the same text."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and str(self) == str(other)

    __hash__ = ProtocolError.__hash__


def _read_frame(frame: bytes, version: int) -> None:
    kind = frame[4]
    if kind == Type.WIRE_FORMAT_INFO:
        agreed = agree(frame, 1 << 20, 30_000)
        assert 0 <= agreed.inactivity_ms <= 30_000
        assert agreed.max_frame_size <= 1 << 20
    elif FIRST_MESSAGE <= kind <= LAST_MESSAGE:
        message = decode(frame, version=codec_version(version))
        _ = message.properties, message.body
        encode_for_wire(message, codec_version(version))
    else:
        command = read_command(frame, version)
        values = dict(command._values)
        if command.type is Type.CONSUMER_INFO and version == OLDEST:
            del values["client_id"]  # which it does not have
        again = write_command(
            command.type,
            version,
            command_id=command.command_id,
            response_required=command.response_required,
            **values,
        )
        assert repr(read_command(again, version)) == repr(command)


def openwire_streams() -> Iterator[bytes]:
    """Yield each command, for each version."""
    for number, version in enumerate(VERSIONS):
        for frame in right_frames(version):
            yield bytes((number, 0)) + frame
    yield bytes((2, 7)) + b"".join(right_frames(12)[:6])


# A connection of STOMP


def read_stomp(data: bytes) -> None:
    """Read a stream of frames: the first byte chooses the version, the second how it arrives."""
    version, size, stream = list(Version)[data[0] % 3] if data else Version.V1_2, data[1:2], data[2:]
    whole = list(_stomp_frames(stream, version, 0))
    in_pieces = list(_stomp_frames(stream, version, size[0] if size else 1))
    # With less at hand, the limit that is exceeded first may be another.
    assert [type(frame) for frame in whole] == [type(frame) for frame in in_pieces], (
        "it depends on how it arrives"
    )
    assert [frame for frame in whole if isinstance(frame, Frame)] == [
        frame for frame in in_pieces if isinstance(frame, Frame)
    ], "it depends on how it arrives"
    check_both("jdbcstore.broker.stomp._reader_cy", "usual_frame", stream, 0, _STOMP_LIMITS)
    names = DestinationNames("ID:fuzz-1")
    for frame in whole:
        if not isinstance(frame, Frame):
            raise frame
        _check_limits(frame)
        _check_written_again(frame, version)
        if frame.command in ("SEND", "SUBSCRIBE"):
            _pass_on(frame, version, names)


def _stomp_frames(stream: bytes, version: Version, size: int) -> Iterator[Frame | ProtocolError]:
    reader = StompFrameReader(_STOMP_LIMITS, version)
    for piece in pieces(stream, size):
        reader.feed(piece)
        try:
            while (frame := reader.read()) is not None:
                yield Frame(frame.command, dict(frame.headers), frame.body)
        except ProtocolError as error:
            yield error
            return
    assert reader.held <= len(stream)


def _check_limits(frame: Frame) -> None:
    assert len(frame.headers) <= _STOMP_LIMITS.headers
    assert len(frame.body) <= _STOMP_LIMITS.body
    assert "" not in frame.headers


def _check_written_again(frame: Frame, version: Version) -> None:
    """A frame with the same headers, and the length of its body, is read as the same."""
    if "\0" in frame.command or frame.command == "CONNECTED" or version is Version.V1_0:
        return
    headers = {**frame.headers, **({"content-length": str(len(frame.body))} if frame.body else {})}
    if version is Version.V1_1 and any("\r" in text for pair in headers.items() for text in pair):
        return  # it cannot be written in 1.1
    reader = StompFrameReader(FrameLimits(), version)
    reader.feed(encode(frame.command, headers.items(), version, frame.body))
    again = reader.read()
    assert again is not None
    assert (again.command.strip("\r\n"), again.headers) == (frame.command.strip("\r\n"), headers)


def _pass_on(frame: Frame, version: Version, names: DestinationNames) -> None:
    """Make a message of a SEND, and a MESSAGE of that; whatever a store does with it in between."""
    destination = names.destination(frame.headers.pop("destination", "/queue/Q"))
    message = to_message(frame, destination, _ID, _NOW, names)
    stored = decode(encode_for_wire(message, VERSION)[0])
    assert stored == message.replace(producer_id=_ID.producer_id)
    delivery = _Delivery(stored, Destination.queue("Q"))
    sent = MessageFrames(names, version).encode(delivery, "subscription:1\n", "ack:1\n")
    reader = StompFrameReader(FrameLimits(headers=2000, line=1 << 20, head=1 << 21), version)
    reader.feed(sent)
    assert reader.read() is not None
    assert reader.read() is None


_FRAMES = (
    b"CONNECT\naccept-version:1.1,1.2\nhost:h\nlogin:u\npasscode:p\nheart-beat:0,1000\n\n\0",
    b"SEND\ndestination:/queue/Q\n\nhello\0",
    b"SEND\ndestination:/topic/T\ncontent-length:3\npersistent:true\npriority:4\n\na\0b\0",
    b"SEND\r\ndestination:/temp-queue/x\r\nreply-to:/temp-queue/y\r\ncorrelation-id:1\r\n\r\n\xc3\xa9\0\n",
    b"SEND\ndestination:a,/queue/b,/topic/c\namq-msg-type:text\nx\\cy:\\n\\\\\\r\nexpires:1\n\nb\0",
    b"SUBSCRIBE\nid:1\ndestination:/queue/Q?consumer.prefetchSize=1\nack:client\nselector:a = 1\n\n\0",
    b"ACK\nid:1\ntransaction:t\nreceipt:r\n\n\0\n\n",
    b"BEGIN\ntransaction:t\n\n\0COMMIT\ntransaction:t\n\n\0DISCONNECT\nreceipt:9\n\n\0",
    b"SEND\na:1\na:2\nno colon\nJMSXGroupID:g\nJMSXGroupSeq:2\ntimestamp:5\ntype:t\nJMSDeliveryMode:2\n\n\0",
)


def stomp_streams() -> Iterator[bytes]:
    """Yield frames of each kind, in each version."""
    for number in range(3):
        for size in (0, 1, 9):
            yield from (bytes((number, size)) + frame for frame in _FRAMES)
        yield bytes((number, 30)) + b"".join(_FRAMES)
