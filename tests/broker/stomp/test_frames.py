"""Frames: from bytes in pieces of any size, and to bytes; what is no frame, and what is too large."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore.broker.stomp.frames import Frame, FrameLimits, Version, encode
from jdbcstore.broker.stomp.reader import StompFrameReader
from jdbcstore.errors import ProtocolError

SMALL = FrameLimits(head=200, line=50, headers=5, body=100)


def read_all(data: bytes, version: Version = Version.V1_2, limits: FrameLimits | None = None) -> list[Frame]:
    reader = StompFrameReader(limits or FrameLimits(), version)
    reader.feed(data)
    return list(iter(reader.read, None))


def read_in_pieces(data: bytes, sizes: list[int], version: Version) -> list[Frame]:
    reader, frames = StompFrameReader(FrameLimits(), version), []
    while data:
        size = sizes.pop() if sizes else 7
        reader.feed(data[:size])
        frames += list(iter(reader.read, None))
        data = data[size:]
    return frames


_many = settings(max_examples=150)
_VERSIONS = st.sampled_from([*Version])
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)
_NAMES = _TEXTS.filter(bool)
_BODIES = st.binary(max_size=40)


@st.composite
def frames(draw: st.DrawFn, version: Version) -> Frame:
    headers = draw(st.dictionaries(_NAMES, _TEXTS, max_size=4))
    if version is Version.V1_0:  # which has no escapes, and strips
        plain = {name.strip().replace(":", "").replace("\n", ""): value for name, value in headers.items()}
        headers = {
            name.strip(): value.replace("\n", "").strip() for name, value in plain.items() if name.strip()
        }
    headers.pop("content-length", None)
    command = draw(st.sampled_from(["SEND", "ACK", "MESSAGE"]))
    body = b"" if command == "ACK" else draw(_BODIES)
    if b"\0" in body or draw(st.booleans()):
        headers["content-length"] = "1000" if command == "ACK" else str(len(body))
    return Frame(command, headers, body)


@_many
@given(_VERSIONS.flatmap(lambda version: st.tuples(st.just(version), st.lists(frames(version), max_size=4))))
def test_what_is_written_is_read(sent: tuple[Version, list[Frame]]) -> None:
    version, given_frames = sent
    data = b"\n".join(encode(one.command, one.headers.items(), version, one.body) for one in given_frames)
    assert read_all(data, version) == given_frames


@_many
@given(
    _VERSIONS.flatmap(lambda version: st.tuples(st.just(version), st.lists(frames(version), max_size=4))),
    st.lists(st.integers(1, 20)),
)
def test_pieces_make_the_same_frames(sent: tuple[Version, list[Frame]], sizes: list[int]) -> None:
    version, given_frames = sent
    data = b"\n".join(encode(one.command, one.headers.items(), version, one.body) for one in given_frames)
    assert read_in_pieces(data, sizes, version) == given_frames
    assert read_in_pieces(data, [1] * len(data), version) == given_frames


@_many
@given(
    st.one_of(
        st.binary(max_size=300), st.text("SEND\n:\r\0 content-length9\\c", max_size=300).map(str.encode)
    )
)
def test_any_bytes_are_frames_or_refused_whatever_the_pieces(data: bytes) -> None:
    def read(size: int) -> list[Frame | str]:
        reader, found = StompFrameReader(SMALL, Version.V1_2), list[Frame | str]()
        for start in range(0, len(data), size):
            reader.feed(data[start : start + size])
            try:
                while (frame := reader.read()) is not None:
                    found.append(frame)
            except ProtocolError:
                return [*found, "refused"]
            assert reader.held <= SMALL.head + SMALL.body + size + 2
        return found

    whole = read(len(data) or 1)
    for size in (1, 3):
        pieces = read(size)
        # What is too large may be found out before the rest of it is there, or only then.
        shared = min(len(pieces), len(whole))
        assert [one for one in pieces[:shared] if one != "refused"] == [
            one for one in whole[:shared] if one != "refused"
        ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SEND\n" + b"x" * 51 + b":1\n\nbody\0", "header"),
        (b"S" * 60 + b"\n\n\0", "header"),
        (b"SEND\n" + b"a:1\n" * 6 + b"\nbody\0", "headers"),
        (b"SEND\n" + b"a:1234567\n" * 40, "headers"),
        (b"S" * 300, "headers"),
        (b"SEND\ncontent-length:101\n\n", "body"),
        (b"SEND\ncontent-length:" + b"9" * 30 + b"\n\n", "content-length"),
        (b"SEND\ncontent-length:-1\n\n", "content-length"),
        ("SEND\ncontent-length:٣\n\nabc\0".encode(), "content-length"),
        (b"SEND\ncontent-length:2\n\nabc\0", "trailing null"),
        (b"SEND\n\n" + b"x" * 101, "body"),
        (b"SEND\ndestination:a\0", "headers"),
        (b"SEND\nabc:\xff\n\n\0", "UTF-8"),
        (b"SEND\n:value\n\n\0", "name"),
    ],
)
def test_what_is_no_frame_or_too_large_is_refused(data: bytes, why: str) -> None:
    for size in (len(data), 1):
        reader = StompFrameReader(SMALL, Version.V1_2)

        def read(reader: StompFrameReader = reader, size: int = size) -> None:
            for start in range(0, len(data), size):
                reader.feed(data[start : start + size])
                while reader.read() is not None:
                    pass

        with pytest.raises(ProtocolError, match=why) as caught:
            read()
        assert caught.value.fatal


@pytest.mark.parametrize(("version", "value"), [("1.0", r"a\nb\c\\"), ("1.1", "a\nb:\\"), ("1.2", "a\nb:\\")])
def test_escapes_are_those_of_the_version(version: str, value: str) -> None:
    [frame] = read_all(b"SEND\nx:a\\nb\\c\\\\\n\n\0", Version(version))
    assert frame.headers == {"x": value}


@pytest.mark.parametrize(("version", "value"), [("1.0", r"a\rb"), ("1.1", r"a\rb"), ("1.2", "a\rb")])
def test_an_escaped_carriage_return_is_of_version_1_2(version: str, value: str) -> None:
    [frame] = read_all(b"SEND\nx:a\\rb\n\n\0", Version(version))
    assert frame.headers == {"x": value}


def test_a_version_holds_from_the_next_frame_on() -> None:
    reader = StompFrameReader(FrameLimits())
    reader.feed(b"CONNECT\npasscode:a\\cb\n\n\0SEND\nx:a\\cb\n\n\0")
    first = reader.read()
    reader.version = Version.V1_2
    second = reader.read()
    assert first is not None
    assert second is not None
    assert (first.headers["passcode"], second.headers["x"]) == (r"a\cb", "a:b")


def test_nothing_can_be_smuggled_into_a_frame() -> None:
    sent = {"x": "1\ny:2\n\nbody\0MESSAGE", "a\nb:c": "\r\n"}
    for version in Version:
        frames_read = read_all(encode("MESSAGE", sent.items(), version, b"b"), version)
        assert [frame.body for frame in frames_read] == [b"b"]
        assert len(frames_read[0].headers) == 2
        assert "y" not in frames_read[0].headers


def test_reading_is_linear_in_what_arrives() -> None:
    """Counted in bytes that are looked at, by a body that arrives byte by byte."""
    looked = 0

    class Counting(bytearray):
        def find(self, *arguments: Any) -> int:
            nonlocal looked
            looked += len(self) - arguments[1]
            return super().find(*arguments)

    reader = StompFrameReader(FrameLimits(), Version.V1_2)
    reader.feed(b"SEND\n\nx")
    assert reader.read() is None
    reader._partial = Counting(reader._partial)
    for _ in range(5000):
        reader.feed(b"x")
        assert reader.read() is None
    assert looked <= 5001
    reader.feed(b"\0")
    frame = reader.read()
    assert frame is not None
    assert len(frame.body) == 5001
