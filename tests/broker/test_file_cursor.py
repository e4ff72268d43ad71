"""Cursors that go on in temporary files."""

from __future__ import annotations

import gc
import logging
import os
import resource
from asyncio import Future
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from jdbcstore.abc import Transaction
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.cursors.file import FileCursor, Spill
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.errors import InvalidMessage, SpillFailed
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.pieces import LargeBody, body_in_pieces, is_alive, with_body_in_pieces
from tests.support.broker.files import files

HERE = Destination.queue("HERE")
LIMIT = 200_000
NO_ROOM = MemoryUsage(0)


def room(limit: int = LIMIT) -> MemoryUsage:
    return MemoryUsage(limit, high_water_mark=100)


class Nowhere:
    """A source of entries that nobody consumes."""

    destination = HERE
    counters = Counters()
    counts_returned = False

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        raise NotImplementedError

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:
        raise NotImplementedError

    def expire(self, entries: Sequence[Entry]) -> Future[None]:
        raise NotImplementedError

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        raise NotImplementedError

    def acknowledged(self, entries: Sequence[Entry]) -> None: ...

    def retain(self, entries: Sequence[Entry]) -> None: ...

    def give_back(self, entries: Sequence[Entry]) -> None: ...

    def delivered(self, entry: Entry) -> None: ...


SOURCE = Nowhere()


def entry(number: int, body: str | bytes = "x" * 1000, priority: int = 4) -> Entry:
    message_id = MessageId.parse(f"ID:a-1:1:1:{number}")
    message = Message(
        body,
        destination=HERE,
        message_id=message_id,
        producer_id=message_id.producer_id,
        priority=priority,
        timestamp_ms=number,
        properties={"number": number},
    )
    return Entry(message, SOURCE, number, stored=False)


def drained(cursor: FileCursor) -> Iterator[Entry]:
    while (head := cursor.head()) is not None:
        taken = cursor.pop()
        assert taken is head
        yield head


@contextmanager
def full_disk() -> Iterator[None]:
    """Nothing can be written at any place of any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_fits_stays_in_memory(tmp_path: Path) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, room(), folder=tmp_path)
    entries = [entry(number) for number in range(30)]
    for one in entries:
        cursor.push(one)

    assert files(tmp_path) == []
    assert [*drained(cursor)] == entries  # the very same objects


def test_memory_is_bounded_and_the_order_kept(tmp_path: Path) -> None:
    memory = room()
    cursor = FileCursor("HERE", lambda _: SOURCE, memory, folder=tmp_path)
    for number in range(3000):
        cursor.push(entry(number))
    assert cursor.count == 3000
    assert cursor.in_memory.count <= LIMIT // entry(0).size + 1
    assert memory.used == cursor.in_memory.count * entry(0).size
    assert len(files(tmp_path)) == 1
    assert os.listdir(tmp_path) == []

    for number, one in enumerate(drained(cursor)):
        memory.decrease(one.size)
        assert memory.used <= LIMIT
        assert (one.sequence, one.message) == (number, entry(number).message)

    assert number == 2999
    assert memory.used == 0
    assert (cursor.count, cursor.in_memory.count, files(tmp_path)) == (0, 0, [])


def test_it_goes_on_in_files_until_they_are_empty(tmp_path: Path) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, room(), folder=tmp_path)
    chance = Random(5)
    waiting: list[int] = []
    pushed = 0
    for _ in range(6000):
        if chance.random() < 0.5 + 0.3 * (pushed < 1500):
            cursor.push(entry(pushed))
            waiting.append(pushed)
            pushed += 1
        elif waiting:
            head = cursor.head()
            assert head is not None
            assert head.sequence == waiting.pop(0)
            cursor.pop()
        assert cursor.count == len(waiting)

    assert [one.sequence for one in drained(cursor)] == waiting


def test_higher_priorities_come_first(tmp_path: Path) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, room(), lanes=10, folder=tmp_path)
    for number in range(1000):
        cursor.push(entry(number, priority=number % 3 + 3))

    found = [*drained(cursor)]

    assert [(one.message.priority, one.sequence) for one in found] == sorted(
        ((one.message.priority, one.sequence) for one in found), key=lambda key: (-key[0], key[1])
    )
    assert len(found) == 1000
    assert files(tmp_path) == []


def test_an_entry_comes_back_as_it_was(tmp_path: Path) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, NO_ROOM, folder=tmp_path)
    stored = entry(7).message.replace(sequence=7, redelivery_counter=2, expiration_ms=5, persistent=False)
    cursor.push(Entry(stored, SOURCE, 7, stored=True, redelivered=True))
    cursor.push(Entry(entry(8).message, SOURCE, 8, stored=False))

    first, second = drained(cursor)

    assert first.message == stored
    assert (first.sequence, first.message.sequence, first.stored, first.redelivered) == (7, 7, True, True)
    assert (second.sequence, second.message.sequence, second.stored, second.redelivered) == (
        8,
        None,
        False,
        False,
    )
    assert first.source is SOURCE


def test_what_has_expired_is_taken_out(tmp_path: Path) -> None:
    memory = room()
    cursor = FileCursor("HERE", lambda _: SOURCE, memory, folder=tmp_path)
    for number in range(200):
        one = entry(number)
        one.message = one.message.replace(expiration_ms=10 + number % 2)
        cursor.push(one)
    in_memory = cursor.in_memory.count

    expired = cursor.take(lambda entry: 0 < entry.message.expiration_ms < 11)
    memory.decrease(sum(one.size for one in expired))

    assert [one.sequence for one in expired] == [*range(0, in_memory, 2)]
    assert cursor.count == 200 - len(expired)
    left = [*drained(cursor)]
    assert [one.sequence for one in left] == sorted({*range(200)} - {one.sequence for one in expired})
    memory.decrease(sum(one.size for one in left))
    assert memory.used == 0


def test_a_message_may_be_larger_than_everything(tmp_path: Path) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, room(1000), folder=tmp_path)
    bodies = [bytes([number]) * size for number, size in enumerate((10, 3_000_000, 10, 700_000, 10))]
    for number, body in enumerate(bodies):
        cursor.push(entry(number, body))

    assert [one.message.body for one in drained(cursor)] == bodies


def test_a_message_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, NO_ROOM, folder=tmp_path)

    with pytest.raises(InvalidMessage):
        cursor.push(Entry(entry(1).message.replace(correlation_id="x" * 70_000), SOURCE, 1, stored=False))

    assert (cursor.count, cursor.head()) == (0, None)


def test_space_is_given_back_while_it_goes_on(tmp_path: Path) -> None:
    spill = Spill(tmp_path, segment_bytes=10_000, buffer_bytes=1000)
    record = b"x" * 500
    for _ in range(20):
        spill.append(record)
    for _ in range(500):
        spill.append(record)
        assert spill.read(1) == [record]
        assert len(files(tmp_path)) <= 3
        assert sum(files(tmp_path)) <= 30_000

    assert len(spill) == 20
    spill.close()
    assert files(tmp_path) == []


def test_close_gives_the_disk_back(tmp_path: Path) -> None:
    memory = room(10_000)
    cursor = FileCursor("HERE", lambda _: SOURCE, memory, folder=tmp_path)
    for number in range(100):
        cursor.push(entry(number))
    assert memory.used >= 10_000
    assert files(tmp_path) != []

    cursor.close()

    assert memory.used == 0

    assert files(tmp_path) == []
    assert (cursor.count, cursor.head()) == (0, None)


def test_a_full_disk_is_told_once_and_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, room(), folder=tmp_path)
    for number in range(200):
        cursor.push(entry(number))
    assert not cursor.is_full
    with full_disk():
        for number in range(200, 400):
            cursor.push(entry(number))
        assert cursor.is_full
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "HERE stay in memory" in record.message
    assert f"of pending messages in {tmp_path} cannot be written" in record.message
    assert "free space there" in record.message

    assert not cursor.is_full  # the disk has room again
    assert [one.sequence for one in drained(cursor)] == [*range(400)]
    assert not cursor.is_full


def test_a_full_disk_is_no_reason_not_to_go_on(tmp_path: Path) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, room(), folder=tmp_path)
    with full_disk():
        for number in range(400):
            cursor.push(entry(number))
        assert [one.sequence for one in drained(cursor)] == [*range(400)]
        assert not cursor.is_full


def test_a_folder_that_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cursor = FileCursor("HERE", lambda _: SOURCE, NO_ROOM, folder=tmp_path / "none")
    for number in range(100):
        cursor.push(entry(number))

    assert cursor.is_full
    assert "No such file" in caplog.text
    assert [one.sequence for one in drained(cursor)] == [*range(100)]


@pytest.mark.parametrize("place", [0, 6, 2000])
def test_damage_is_told_with_what_is_lost(
    tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[SpillFailed] = []
    cursor = FileCursor("HERE", lambda _: SOURCE, room(20_000), folder=tmp_path, on_lost=lost.append)
    for number in range(200):
        cursor.push(entry(number))
    [file] = files(tmp_path)
    os.pwrite(file, b"damaged", place)

    found = [one.sequence for one in drained(cursor)]

    assert found == [*range(len(found))]
    assert 0 < len(found) < 100
    assert len(lost) == 1
    assert f"{200 - len(found)} messages of HERE are lost" in caplog.text
    assert cursor.count == 0
    cursor.push(entry(200))
    assert [one.sequence for one in drained(cursor)] == [200]


def test_a_file_that_is_cut_off_is_told(tmp_path: Path) -> None:
    spill = Spill(tmp_path, buffer_bytes=1000)
    for _ in range(10):
        spill.append(b"x" * 500)
    [file] = files(tmp_path)
    os.truncate(file, 700)

    assert spill.read(100) == [b"x" * 500]
    with pytest.raises(SpillFailed, match="is damaged"):
        spill.read(100)
    spill.close()


def test_a_body_in_pieces_is_kept_while_its_message_is_in_a_file() -> None:
    cursor = FileCursor("test", lambda _: SOURCE, NO_ROOM)
    large = entry(1)
    large.message = with_body_in_pieces(large.message, BodyType.BYTES, LargeBody.of(12345, 5_000_000))
    cursor.push(large)
    cursor.push(entry(2))
    del large
    gc.collect()
    assert is_alive(12345)
    head = cursor.head()
    assert head is not None
    assert (head.message.body_size, body_in_pieces(head.message)) == (5_000_000, LargeBody.of(12345, 0))
    cursor.close()
    del head
    gc.collect()
    assert not is_alive(12345)


def test_a_body_in_pieces_is_let_go_when_its_message_has_been_read() -> None:
    """Although others stay in files: a queue may never be empty."""
    cursor = FileCursor("test", lambda _: SOURCE, NO_ROOM, lanes=10)
    for number in range(200):
        one = entry(number, priority=number % 2)
        if number % 3 == 0:
            one.message = with_body_in_pieces(one.message, BodyType.BYTES, LargeBody.of(number, 5_000_000))
        cursor.push(one)
    del one
    for count in range(1, 151):
        assert cursor.head() is not None
        cursor.pop()
        if count == 100:
            gc.collect()
            assert [number for number in range(200) if is_alive(number)] == [*range(0, 200, 6)]
    gc.collect()
    alive = [number for number in range(200) if is_alive(number)]
    assert alive == [number for number in range(0, 200, 6) if number >= min(alive)]
    assert cursor.count == 50
    assert 0 < len(alive) < 34
    cursor.close()
    del cursor
    gc.collect()
    assert not any(map(is_alive, range(200)))
