"""The core as Python and compiled: the same results, and the compiled one only if it is of these sources."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore import Destination, Message
from jdbcstore.abc import MessageReference
from jdbcstore.broker.stomp import frames as stomp
from jdbcstore.broker.stomp.frames import Frame, FrameLimits
from jdbcstore.broker.stomp.reader import StompFrameReader
from jdbcstore.errors import InvalidMessage
from jdbcstore.journal.layout import RECORD, Record, Stamp, WrittenEntry
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import BodyType
from jdbcstore.message.openwire import decode, encoder
from jdbcstore.message.openwire.wire_format import OLD_VERSION, VERSION
from jdbcstore.stores.journaled.entries import JournalUnit
from jdbcstore.stores.journaled.records import WRITE, RecordedWrites, decode_writes
from jdbcstore.stores.shared.rows import EncodedMessage, RowLimits
from jdbcstore.util import core as chosen
from jdbcstore.util.core import build
from tests.support import ROOT
from tests.support.openwire.strategies import messages, plain_messages

ORDERS = Destination.queue("ORDERS")
PRODUCER = ProducerId("ID:host-1-2-0:1", 1, 1)
NOW = 1_700_000_000_000


def names_of(modules: Iterable[ModuleType]) -> SimpleNamespace:
    return SimpleNamespace(**{name: value for one in modules for name, value in vars(one).items()})


def as_python() -> SimpleNamespace:
    """The names of all hot modules, loaded again as Python."""
    loaded = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDBCSTORE_PURE", "1")
        for path in build.sources():
            spec = importlib.util.spec_from_file_location(f"as_python.{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            loaded.append(importlib.util.module_from_spec(spec))
            spec.loader.exec_module(loaded[-1])
    return names_of(loaded)


def as_compiled() -> SimpleNamespace:
    paths = [path.relative_to(ROOT).with_suffix("") for path in build.sources()]
    return names_of(importlib.import_module(build.compiled_name(".".join(path.parts))) for path in paths)


source = as_python()


@cache
def both() -> list[Any]:
    """The core as Python, and compiled where it was built."""
    try:
        return [source, as_compiled()]
    except ImportError:
        return [source, pytest.param(None, marks=pytest.mark.skip(reason="the core was not compiled"))]


@pytest.fixture(params=both(), ids=["python", "compiled"])
def core(request: pytest.FixtureRequest) -> Any:
    return request.param


class Namer(NamedTuple):
    producer: ProducerId
    sequences: Iterator[int]


def rows(core: Any, destination: Destination = ORDERS, largest: int = 1 << 20) -> Any:
    return core.Rows(destination, Namer(PRODUCER, itertools.count(1)), RowLimits(largest, 250))


def expected(message: Message, destination: Destination, message_id: MessageId) -> tuple[bytes, int]:
    """The message field by field."""
    timestamp_ms = NOW if message.timestamp_ms is None else message.timestamp_ms
    return encoder.encode_fields(message, None, destination, message_id, timestamp_ms, VERSION)


def available() -> Iterator[Any]:
    return (one for one in both() if isinstance(one, SimpleNamespace))


@given(messages())
def test_any_message_is_the_same_bytes_or_left_to_others(message: Message) -> None:
    destination = message.destination or ORDERS
    for core in available():
        row = rows(core, destination).row(message, NOW, True)
        if row is not None:
            message_id = message.message_id or MessageId(PRODUCER, 1)
            blob, slot = expected(message, destination, message_id)
            assert (row.blob, row.slot) == (blob, slot)
            assert row[:6] == (
                message_id,
                str(message_id.producer_id),
                message_id.producer_sequence,
                destination.qualified_name,
                message.expiration_ms,
                message.priority,
            )


bodies = st.one_of(st.none(), st.text(), st.binary(), st.lists(st.integers(0, 9)))


@given(
    bodies,
    st.dictionaries(st.text(min_size=1), st.one_of(st.text(), st.integers(-5, 5), st.booleans())),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from([None, ORDERS]),
    st.sampled_from([None, 0, 17]),
    st.sampled_from([None, MessageId(PRODUCER, 7, 8)]),
    st.sampled_from([0, NOW]),
)
def test_a_usual_message_is_the_same_bytes(
    body: Any,
    properties: dict[str, Any],
    priority: int,
    persistent: bool,
    destination: Destination | None,
    timestamp_ms: int | None,
    message_id: MessageId | None,
    broker_in_time_ms: int,
) -> None:
    message = Message(
        body,
        properties=properties,
        priority=priority,
        persistent=persistent,
        destination=destination,
        timestamp_ms=timestamp_ms,
        message_id=message_id,
        broker_in_time_ms=broker_in_time_ms,
    )
    blob, slot = expected(message, ORDERS, message_id or MessageId(PRODUCER, 1))
    for core in available():
        for row in (
            rows(core).row(message, NOW, False),
            *rows(core).rows([message], lambda: NOW, False, None),
        ):
            assert (row.blob, row.slot, row.priority) == (blob, slot, 0)
            assert type(row) is EncodedMessage
            assert type(row.message_id) is MessageId


@pytest.mark.parametrize(
    "headers",
    [
        {"correlation_id": "c"},
        {"reply_to": ORDERS},
        {"compressed": True},
        {"body_type": "blob", "body": None},
        {"destination": Destination.queue("OTHER")},
        {"message_id": MessageId(None, 0, 0, "text")},
        {"message_id": MessageId(PRODUCER, 1, 0, "text")},
        {"message_id": MessageId(PRODUCER, 1 << 63)},
        {"broker_out_time_ms": 1},
        {"body": b"x" * 2000},
    ],
    ids=str,
)
def test_what_is_not_usual_is_left_to_others(core: Any, headers: dict[str, Any]) -> None:
    message = Message(**{"body": b"x", **headers})

    assert rows(core, largest=1000).row(message, NOW, True) is None
    assert rows(core, largest=1000).rows([message], lambda: NOW, True, lambda one: one.body) == [message.body]


def test_an_object_of_another_class_is_not_a_usual_message(core: Any) -> None:
    # Python looks for the attributes; C must not look into an object of another layout.
    with contextlib.suppress(AttributeError):
        assert rows(core).row(object(), NOW, True) is None


def some_rows(core: Any, count: int, size: int = 100) -> list[EncodedMessage]:
    found: list[EncodedMessage] = rows(core).rows([Message(b"x" * size)] * count, lambda: NOW, False, None)
    return found


def test_references_are_numbered(core: Any) -> None:
    found = core.references(some_rows(core, 3), 17)

    assert found == [MessageReference(17 + at, MessageId(PRODUCER, 1 + at)) for at in range(3)]
    assert {type(one) for one in found} == {MessageReference}


def test_rows_become_the_body_of_a_record(core: Any) -> None:
    added = some_rows(core, 3)
    chunks, size = core.row_chunks(added, 1)

    assert size == sum(map(len, chunks))
    assert decode_writes(b"".join(chunks)) == RecordedWrites(adds=added)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=5), st.integers(0, 2000))
def test_records_are_the_same_bytes(sizes: list[int], room: int) -> None:
    found = []
    for core in available():
        units = [JournalUnit(RecordedWrites(adds=some_rows(source, 2, size))) for size in sizes]
        data, written, last = core.frame(units, Stamp(3, 4), 7, 9, 5, room, (1, 512))
        assert len(data) <= room
        assert last == 8 + 2 * len(written)
        assert all(type(one) is WrittenEntry and one.entry.kind == WRITE for one in written)
        found.append((data, [one[1:] for one in written]))
    assert found.count(found[0]) == len(found)


def test_records_are_read_back(core: Any) -> None:
    units = [JournalUnit(RecordedWrites(adds=some_rows(source, 2, size))) for size in (0, 3, 200)]
    window, written, _ = core.frame(units, Stamp(3, 4), 7, 9, 5, 10_000, (1, 512))

    def read(data: bytes, last: int = 1 << 40, *, is_read: bool = True) -> Any:
        return core.records(data, Stamp(3, 4), 7, last, (1, 512), is_read=is_read)

    found, *ends = read(window)
    assert ends == [len(window), 10, WRITE, 15]
    assert {type(one) for one in found} == {Record}
    assert [one[:3] for one in found] == [(7, WRITE, 9), (8, WRITE, 11), (9, WRITE, 13)]
    assert [(one.segment, one.offset + RECORD) for one in found] == [one[3:] for one in written]
    assert [decode_writes(one.body).adds for one in found] == [unit.writes.adds for unit in units]
    assert read(window, is_read=False) == ([], *ends)

    second, third = (one.offset - 512 for one in found[1:])
    assert read(window, 8)[0] == read(window[:-8])[0] == found[:2]
    for at in range(second, third - 8):  # without what may be padding
        damaged = window[:at] + bytes([window[at] ^ 1]) + window[at + 1 :]
        assert read(damaged) == (found[:1], second, 8, WRITE, 11)
    assert read(b"") == read(window[1:]) == ([], 0, 7, 0, 0)


def test_rows_are_read_from_a_record(core: Any) -> None:
    added = some_rows(source, 3)
    chunks, size = source.row_chunks(added, 1)
    body = b"".join(chunks)

    def read(data: bytes, operation: int, most: int) -> Any:
        return core.read_rows(data, 0, operation, most)

    rows, end = read(body, 1, 10)
    assert (rows, end) == (added, size)
    assert {(type(row), type(row.message_id)) for row in rows} == {(EncodedMessage, MessageId)}
    assert read(body, 1, 1) == (added[:1], size // 3)
    assert read(body + b"\3", 1, 10) == (added, size)
    assert read(body, 2, 10) == ([], 0)
    for shorter in range(1, size // 3):
        with pytest.raises((ValueError, struct.error)):
            read(body[: size // 3 - shorter], 1, 10)


# The constructor of messages.

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 12), st.just(1 << 63), st.text(max_size=3), st.just(ORDERS),
    st.just(MessageId(PRODUCER, 7)),
    st.dictionaries(st.text(max_size=2), st.integers(0, 1 << 70), max_size=2),
)  # fmt: skip
NAMES = ("destination", "message_id", "priority", "timestamp_ms", "expiration_ms", "persistent", "properties")
MORE = (
    *("broker_in_time_ms", "correlation_id", "jms_type", "group_id"),
    *("user_id", "reply_to", "body_type", "nothing", "redelivery_counter", "sequence"),
)


def assert_constructors_agree(body: Any, fields: dict[str, Any]) -> None:
    init = getattr(Message.__init__, "__wrapped__", Message.__init__)

    def made(how: Any) -> Any:
        message = Message.__new__(Message)
        try:
            how(message, body, **fields)
        except (InvalidMessage, TypeError, ValueError) as error:
            return type(error), str(error).replace("Message.__init__", "__init__")
        return message, message.body, dict(message.properties), type(message.properties), message.sequence

    assert made(Message.__init__) == made(init)


@given(bodies, st.dictionaries(st.sampled_from((*NAMES, *MORE)), VALUES, max_size=4))
def test_the_constructors_agree(body: Any, fields: dict[str, Any]) -> None:
    assert_constructors_agree(body, fields)


def test_the_constructors_agree_on_each_header() -> None:
    numbers = (-1, 0, 9, 10, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, 1 << 63)
    others: tuple[Any, ...] = (
        None,
        True,
        1.5,
        "",
        "a",
        b"a",
        ORDERS,
        MessageId(PRODUCER, 7),
        {},
        {"a": 1},
        {"a": object()},
        [1],
    )
    for name, value in itertools.product((*NAMES, *MORE), (*numbers, *others)):
        assert_constructors_agree(b"body", {name: value})


def test_a_message_that_is_made_stays_unchanged() -> None:
    message = Message("text", destination=ORDERS)

    with pytest.raises(AttributeError, match="cannot be changed"):
        message.priority = 5
    assert Message("other").body == "other"
    assert message.body == "text"


# Frames of STOMP.

LARGE = FrameLimits()
TIGHT = FrameLimits(head=200, line=30, headers=2, body=4)
SMALL = FrameLimits(head=30, line=50, headers=1, body=3)
LINES = (
    *("a:1", "b:", "b:2", "é:ü", "d:e:f", " e : 1 ", "content-length:3", "content-length:4"),
    *("content-length:03", "content-length:+3", "content-length: 3", "content-length:٣", "content-length:²"),
    *("content-length:" + "9" * 19, "a\\c:1", "c:1\r", ":x", "none", "n\0:1", "long:" + "x" * 30),
)
BEFORE, COMMANDS = ("", "\n", "\n\n", "\r\n", "\0"), ("SEND", "ACK", "MESSAGE\r", "S\\", "")
BODIES, ENDS = ("", "abc", "abcd", "a\0c", "\n\n\n"), ("\0", "\0\0", "\0\nSEND\n\n\0", "x", "")


def frames_as_bytes() -> Iterator[bytes]:
    """Usual frames, and others that are nearly so, and some that are both or neither."""
    lines = [(), *((one,) for one in LINES), *itertools.permutations(LINES, 2), ("a:1", "b:1", "c:1")]
    for head, body in itertools.product(lines, BODIES):
        yield "\n".join(("SEND", *head, "", f"{body}\0")).encode()
    for before, command, blank, body, end in itertools.product(
        BEFORE, COMMANDS, ("\n", "\r\n", ""), BODIES, ENDS
    ):
        yield f"{before}{command}\ncontent-length:3\n{blank}{body}{end}".encode()
    yield b"SEND\na:\xff\n\nabc\0"


def usual_frame(core: Any, data: bytes, at: int = 0, limits: FrameLimits = LARGE) -> Any:
    return core.usual_frame(data, at, limits)


@pytest.mark.parametrize("limits", [LARGE, TIGHT, SMALL], ids=["large", "tight", "small"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_frame_is_the_one_that_is_read_or_left_to_others(version: str, limits: FrameLimits) -> None:
    usual = 0
    for data in frames_as_bytes():
        found = [usual_frame(core, data, 0, limits) for core in available()]
        assert found.count(found[0]) == len(found)
        if found[0] is not None:
            general = StompFrameReader(limits, stomp.Version(version))
            general.feed(data)
            assert general._read_head()
            assert (general._read_body(), len(data) - general.held) == found[0]
            assert {type(frame) for frame, _ in found} == {Frame}
            usual += 1
    assert usual > 40


def test_a_frame_is_usual_once_it_is_complete(core: Any) -> None:
    for last in (b"\n", b"content-length:3\n\n"):
        data = b"\0\nSEND\ndestination:/queue/a\n" + last + b"abc\0\n"
        frame, end = usual_frame(core, data, 1)
        assert (frame.command, frame.headers["destination"], frame.body) == ("SEND", "/queue/a", b"abc")
        assert end == len(data) - 1
        for shorter in range(1, len(data)):
            assert usual_frame(core, data[: end - shorter], 1) is None
        assert usual_frame(core, data, end) is None


@pytest.mark.parametrize("version", [VERSION, OLD_VERSION])
@given(message=plain_messages(), now_ms=st.integers(0, 1 << 42))
def test_a_message_that_passes_a_broker(version: int, message: Message, now_ms: int) -> None:
    message = message.replace(message_id=MessageId(PRODUCER, 4, 5))
    blob, sequence_at = encoder.encode_for_wire(message, version)
    for core in available():
        came = core.with_broker_in_time(blob, now_ms, version)
        out = core.dispatch_frame(b"head", came, sequence_at, 77, now_ms + 1, 3, version)
        assert (out[:8], out[-4:]) == (len(out[4:]).to_bytes(4, "big") + b"head", b"\0\0\0\3")
        dispatched = decode(blob[:4] + out[8:-4], version=version)
        assert dispatched.message_id is not None
        assert dispatched.message_id.broker_sequence == 77
        expected = decode(blob, version=version)
        if message.body_type is not BodyType.BLOB:
            expected = expected.replace(broker_in_time_ms=now_ms, broker_out_time_ms=now_ms + 1)
        assert dispatched == expected


def test_what_is_too_short_for_the_times_stays_as_it_is(core: Any) -> None:
    for size in range(4, 22):
        blob = bytes((0, 0, 0, size - 4, 23, *range(5, size)))[:size]
        assert core.with_broker_in_time(blob, NOW, VERSION) == blob


# The choice between the two.


def version(folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import jdbcstore.message.openwire; from jdbcstore.util.core import in_use; print(in_use())"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        check=True,
        text=True,
    )


def test_the_environment_chooses_python() -> None:
    assert version(JDBCSTORE_PURE="1").stdout == "Python, because JDBCSTORE_PURE is set\n"


def test_a_compiled_core_of_another_version_is_not_used(tmp_path: Path) -> None:
    if chosen.in_use() != "compiled":
        pytest.skip("the core was not compiled")
    shutil.copytree(
        ROOT / "jdbcstore",
        tmp_path / "jdbcstore",
        ignore=shutil.ignore_patterns("__pycache__", "cli", "broker"),
    )
    path = tmp_path / "jdbcstore" / "message" / "openwire" / "_decoder_cy.py"
    path.write_text(f"# changed\n{path.read_text()}")

    done = version(tmp_path, JDBCSTORE_PURE="")

    assert done.stdout.startswith("Python: the compiled core is of another version")
    assert "jdbcstore.message.openwire._decoder_cy runs as Python" in done.stderr
    assert "build it again" in done.stderr


@pytest.mark.slow
@pytest.mark.whole
def test_messages_journals_and_frames_pass_as_python_too() -> None:
    if chosen.in_use() != "compiled":
        pytest.skip("the core was not compiled, so all tests run as Python")
    of_units = ("message/openwire", "message/test_message.py", "journal")
    of_stomp = ("test_frames.py", "test_messages.py")
    tested = [*(f"unit/{name}" for name in of_units), "stores/journaled/test_state_machine.py"]
    tested += [f"broker/stomp/{name}" for name in of_stomp]
    # Most of the time, for no line of the core that the others leave out: what a crash leaves, and damage.
    spared = ("test_agreement.py", "test_crash.py", "test_damage.py")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("--backends", "memory,sqlite"),
            *(f"--ignore={ROOT / 'tests' / 'unit' / 'journal' / name}" for name in spared),
            *(str(ROOT / "tests" / name) for name in tested),
        ],
        cwd=ROOT,
        env={**os.environ, "JDBCSTORE_PURE": "1", "PYTEST_ADDOPTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


def test_what_cannot_be_built_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(build.CannotBuildError, match="there is no C compiler"):
        build.build(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_arrays_of_postgresql(core: Any) -> None:
    number, text = (1).to_bytes(8, "big", signed=True), b"\xc3\xa4"
    rows = [(1, "ä", b"b", None)]
    assert core.arrays(rows, (20, 1043, 17, 1043), 20) == [
        array(20, 1, False) + size(8) + number,
        array(1043, 1, False) + size(2) + text,
        array(17, 1, False) + size(1) + b"b",
        array(1043, 1, True) + size(-1),
    ]
    assert core.arrays(rows * 2 + [(-1, None, b"", "c")], (20, 1043, 17, 1043), 20) == [
        array(20, 3, False) + (size(8) + number) * 2 + size(8) + b"\xff" * 8,
        array(1043, 3, True) + (size(2) + text) * 2 + size(-1),
        array(17, 3, False) + (size(1) + b"b") * 2 + size(0),
        array(1043, 3, True) + size(-1) * 2 + size(1) + b"c",
    ]
    assert core.scalars(rows[0], (20, 1043, 17, 1043), 20) == [number, text, b"b", None]


def array(of: int, count: int, nulls: bool) -> bytes:
    """The head of an array of one dimension."""
    return struct.pack(">iiIii", 1, nulls, of, count, 1)


def size(of: int) -> bytes:
    return struct.pack(">i", of)
