"""The database gets references, and messages stay in the journal until their file is used again."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore import Configuration, JournaledStore, Message, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.errors import (
    BodyInJournal,
    CorruptJournal,
    CorruptMessage,
    JournalPending,
    StoreUnavailable,
)
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.inspection import repair
from jdbcstore.message.openwire import decode, encode, set_broker_sequence
from jdbcstore.message.openwire.reference import (
    REFERENCE_SIZE,
    SEQUENCE_AT,
    BodyReference,
    is_reference,
    read_reference,
    refer,
)
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import bodies
from jdbcstore.stores.shared.checkpoint import Changes
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import content, message_id
from jdbcstore.tools.transfer import copy
from tests.conftest import small_journal
from tests.support.databases import Database
from tests.support.journaled.world import Behind

pytestmark = pytest.mark.backends("sqlite")
CONFIG = StoreConfig(cleanup_period=0)
EACH = 1_000
"""Bytes of a message's body, of which two go into a file."""


class Quick:
    """Opens journaled stores on one database and one directory."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self._open = ExitStack()

    def open(self, **options: Any) -> JournaledStore:
        """One that makes checkpoints when it is asked to."""
        self.behind = Behind(JdbcStore(self.url, CONFIG, clock=FakeClock(), journaled=True))
        given = {"use_quick_journal": True, "journal_log_file_size": 4096, "journal_log_files": 50}
        journal = small_journal(self.directory, **{**given, "checkpoint_interval": 0.0, **options})
        try:
            store = JournaledStore(self.behind, journal, clock=FakeClock())
        except BaseException:
            self.behind.close()
            raise
        self._open.callback(store.close)
        return store

    def kill(self, store: JournaledStore) -> None:
        """The process ends without a last checkpoint."""
        self.behind.down = True
        store.close(30)

    @property
    def files(self) -> dict[int, Path]:
        return live_segments(self.directory)

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def quick(url: str, tmp_path: Path) -> Iterator[Quick]:
    quick = Quick(url, tmp_path / "journal")
    yield quick
    quick.behind.down = False
    quick.close()


def add(store: JournaledStore, *numbers: int, queue: str = "A") -> None:
    """A record for each."""
    for number in numbers:
        store.queue(queue).add_message(message(number))


def message(number: int) -> Message:
    return Message(f"{number}:".ljust(EACH, "x"), message_id=message_id(number))


def numbers(store: JournaledStore, queue: str = "A") -> list[int]:
    return [int(str(body).split(":")[0]) for body in content(store.queue(queue))]


def rows(database: Database) -> dict[int, bytes]:
    return {id_: bytes(msg) for id_, msg in database.rows("SELECT ID, MSG FROM ACTIVEMQ_MSGS ORDER BY ID")}


def referring(database: Database) -> list[int]:
    """The IDs of rows that are no messages."""
    return [id_ for id_, msg in rows(database).items() if is_reference(msg)]


def moved(applied: list[Changes]) -> int:
    return sum(len(changes.bodies) for changes in applied)


def test_a_checkpoint_writes_references_and_a_close_messages(quick: Quick, database: Database) -> None:
    store = quick.open()
    add(store, *range(1, 11))
    topic = store.topic("T")
    topic.subscribe("c", "s")
    topic.add_messages([message(20), message(21)])
    store.checkpoint()

    assert len(referring(database)) == 12
    assert {len(msg) for msg in rows(database).values()} == {REFERENCE_SIZE}
    assert numbers(store) == list(range(1, 11))
    assert [str(one.message_id) for one in topic.subscription("c", "s").recover()] == [
        str(message_id(20)),
        str(message_id(21)),
    ]
    [first, *_] = store.queue("A").recover(1)
    assert store.queue("A").get_message(message_id(1)).body == first.body
    store.queue("A").update_message(first.replace(body="anew"))
    store.queue("A").acknowledge(message_id(2))
    store.checkpoint()
    assert len(referring(database)) == 10
    assert store.queue("A").get_message(message_id(1)).body == "anew"
    store.close()
    assert referring(database) == []


@pytest.mark.parametrize("damaged", [(1,), (2,), (2, 3), (3, 4, 5, 6), (8,)])
def test_rows_that_are_only_as_long_as_a_reference(
    quick: Quick, database: Database, monkeypatch: pytest.MonkeyPatch, damaged: tuple[int, ...]
) -> None:
    """Pages in which they stand are not taken for the last."""
    monkeypatch.setattr(bodies, "_PAGE", 2)
    store = quick.open()
    add(store, *range(1, 9))
    store.checkpoint()
    for id_ in damaged:
        database.execute(f"UPDATE ACTIVEMQ_MSGS SET MSG = zeroblob({REFERENCE_SIZE}) WHERE ID = {id_}")
    store.close()
    assert referring(database) == []
    assert [id_ for id_, msg in rows(database).items() if len(msg) < EACH] == [*damaged]


def test_it_comes_to_the_same_rows(quick: Quick, tmp_path: Path) -> None:
    """Byte for byte, and the same sums on the way."""
    found: list[Any] = []
    for use in (True, False):
        quick.url, quick.directory = f"sqlite:///{tmp_path / str(use)}", tmp_path / f"journal {use}"
        store = quick.open(use_quick_journal=use, journal_log_files=2)
        seen: list[Any] = []
        for number in range(1, 30):
            add(store, number)
            if number % 4 == 0:
                store.queue("A").acknowledge(message_id(number - 2))
            if number % 9 == 0:
                [old, *_] = store.queue("A").recover(1)
                store.queue("A").update_message(old.replace(body=f"{number}: anew"))
            if number % 3 == 0:
                store.checkpoint()
                seen.append((numbers(store), store.queue("A").statistics()))
        assert bool(moved(quick.behind.applied)) == use
        store.close()
        with contextlib.closing(sqlite3.connect(tmp_path / str(use))) as tables:
            found.append((seen, tables.execute("SELECT * FROM ACTIVEMQ_MSGS ORDER BY ID").fetchall()))
    assert found[0] == found[1]
    assert len(found[0][1]) == 22


def test_only_what_outlasts_its_file_is_written(quick: Quick, database: Database) -> None:
    store = quick.open(journal_log_files=3)
    kept = set()
    for start in range(1, 91, 3):
        add(store, start, start + 1, start + 2)
        store.checkpoint()
        kept.add(start)
        store.queue("A").acknowledge(message_id(start + 1), message_id(start + 2))
    assert numbers(store) == sorted(kept)
    assert len(quick.files) <= 4
    # Two thirds were written as references, and never as messages.
    assert moved(quick.behind.applied) <= len(kept)
    assert moved(quick.behind.applied) > len(kept) - 10
    whole = [msg for msg in rows(database).values() if not is_reference(msg)]
    assert len(whole) == moved(quick.behind.applied)


def test_what_a_killed_process_left_is_read_and_moved(quick: Quick, database: Database) -> None:
    store = quick.open()
    add(store, *range(1, 11))
    store.checkpoint()
    add(store, 11, 12)
    quick.kill(store)
    assert len(referring(database)) == 10

    store = quick.open()
    assert numbers(store) == list(range(1, 13))
    store.checkpoint()
    add(store, 13)
    store.checkpoint()
    assert len(referring(database)) == 13
    quick.kill(store)

    # Without the option, the next checkpoint takes all of them.
    store = quick.open(use_quick_journal=False)
    assert numbers(store) == list(range(1, 14))
    add(store, 14)
    store.checkpoint()
    assert referring(database) == []
    assert len(quick.files) == 1
    assert numbers(store) == list(range(1, 15))


def test_without_the_journal_a_reader_is_told(quick: Quick, tmp_path: Path) -> None:
    store = quick.open()
    add(store, 1, 2)
    store.checkpoint()
    number = store._journal.log.journal
    with JdbcStore(quick.url, CONFIG, read_only=True) as reader:
        page = reader.queue("A").recover()
        assert list(page) == []
        assert [type(error) for error in page.corrupt] == [BodyInJournal] * 2
        with pytest.raises(BodyInJournal, match=f"journal number {number}.*and close it") as found:
            reader.queue("A").get_message(message_id(1))
        assert found.value.journal == number
        assert found.value.sequence == page.corrupt[0].sequence
        assert reader.queue("A").statistics().oldest_timestamp_ms is None
    with pytest.raises(JournalPending):
        JdbcStore(quick.url, CONFIG)
    here = Configuration(data_source=DataSourceConfig(url=quick.url))
    there = Configuration(data_source=DataSourceConfig(url=f"sqlite:///{tmp_path / 'copy.db'}"))
    with pytest.raises(JournalPending):
        copy(here, there)


def test_a_missing_file_names_itself(quick: Quick, caplog: pytest.LogCaptureFixture) -> None:
    store = quick.open()
    add(store, *range(1, 11))
    store.checkpoint()
    quick.kill(store)
    first, *others = quick.files
    assert len(others) > 1
    quick.files[first].rename(quick.directory / "away")

    with pytest.raises(CorruptJournal, match="file is missing, and the message with the ID") as error:
        quick.open()
    assert error.value.segment == first

    with caplog.at_level(logging.ERROR):
        store = quick.open(ignore_missing_journalfiles=True)
    assert "messages of the store are lost" in caplog.text
    page = store.queue("A").recover()
    lost = len(page.corrupt)
    assert 0 < lost < 5
    assert len(page) == 10 - lost
    assert "file is missing" in str(page.corrupt[0])
    store.queue("A").acknowledge(*[error.sequence or 0 for error in page.corrupt])
    assert store.queue("A").message_count() == 10 - lost


def test_what_is_damaged_is_one_message(
    quick: Quick, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    store = quick.open()
    add(store, *range(1, 8))
    store.checkpoint()
    reference = read_reference(rows(database)[referring(database)[1]])
    with quick.files[reference.segment].open("r+b") as file:
        file.seek(reference.offset + 100)
        file.write(b"?")

    page = store.queue("A").recover()
    assert [str(one.message_id) for one in page] == [str(message_id(n)) for n in (1, 3, 4, 5, 6, 7)]
    [error] = page.corrupt
    assert f"in segment {reference.segment} of the journal" in str(error)
    with pytest.raises(CorruptMessage):
        store.queue("A").get_message(message_id(2))
    with caplog.at_level(logging.ERROR):
        store.close()
    assert caplog.text.count("a message is lost") == 1
    assert len(referring(database)) == 1
    with JdbcStore(quick.url, CONFIG) as plain:
        assert len(plain.queue("A").recover()) == 6


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_reference_is_one_message(quick: Quick, database: Database, cut: bool) -> None:
    store = quick.open()
    add(store, 1, 2, 3)
    store.checkpoint()
    [_, (id_, stored), _] = rows(database).items()
    wrong = stored[:-1] if cut else stored[:20] + bytes([stored[20] ^ 1]) + stored[21:]
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :wrong WHERE ID = :id", wrong=wrong, id=id_)

    page = store.queue("A").recover()
    assert [str(one.message_id) for one in page] == [str(message_id(1)), str(message_id(3))]
    assert [error.sequence for error in page.corrupt] == [id_]
    assert store.queue("A").statistics().message_count == 3
    store.close()
    assert referring(database) == [id_]


def test_a_file_that_cannot_be_read_now_is_not_let_go_of(
    quick: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quick.open(journal_log_files=1)
    add(store, 1)
    store.checkpoint()
    add(store, *range(2, 8))
    log = store._journal.log

    def unreadable(*_: int) -> bytes:
        raise StoreUnavailable("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(log, "read", unreadable)
        with pytest.raises(StoreUnavailable):
            store.checkpoint()
        assert 1 in quick.files
        with pytest.raises(StoreUnavailable):
            store.queue("A").recover()
    add(store, 8)
    store.checkpoint()
    assert 1 not in quick.files
    assert numbers(store) == list(range(1, 9))


def test_a_reader_is_overtaken_by_the_file_going(quick: Quick, database: Database) -> None:
    """Its rows refer to what is used again by then: it reads them once more."""
    store = quick.open(journal_log_files=2)
    add(store, 1, 2, 3)
    store.checkpoint()
    assert len(referring(database)) == 3
    find, overtaken = store._front.bodies.find, list[int]()

    def overtaking(reference: bytes, sequence: int, container: str) -> bytes:
        if not overtaken:
            overtaken.append(sequence)
            store.queue("A").acknowledge(message_id(2))
            for number in range(4, 24):
                add(store, number)
                store.checkpoint()
            assert set(referring(database)).isdisjoint(range(sequence, sequence + 3))
        return find(reference, sequence, container)

    quick.behind.store.find_bodies(overtaking)
    page = store.queue("A").recover(3)
    assert not page.corrupt
    assert [str(one.message_id) for one in page] == [str(message_id(number)) for number in (1, 3, 4)]
    assert overtaken


def test_a_repaired_journal_still_has_what_is_referred_to(quick: Quick, database: Database) -> None:
    """Also where the header of a file, and with it the first sequence, had to be guessed."""
    store = quick.open(journal_log_files=1)
    add(store, 1, 2)
    store.checkpoint()
    quick.kill(store)
    store = quick.open(journal_log_files=50)
    add(store, *range(3, 12))
    store.checkpoint()
    quick.kill(store)
    segments = list(quick.files)
    for segment in segments[1:3]:
        with quick.files[segment].open("r+b") as file:
            file.write(b"?" * 40)
    with pytest.raises(CorruptJournal):
        quick.open()

    repair(quick.directory)
    store = quick.open(journal_log_files=2)
    assert numbers(store) == list(range(1, 12))
    add(store, *range(12, 22))
    store.checkpoint()
    assert len(quick.files) <= 2
    assert numbers(store) == list(range(1, 22))
    store.close()
    assert referring(database) == []


def test_every_transaction_of_a_close_may_be_the_last(quick: Quick, database: Database) -> None:
    stop_at = 0
    while True:
        store = quick.open(max_checkpoint_message_add_size=1)
        add(store, *range(10 * stop_at, 10 * stop_at + 4))
        wanted = numbers(store)
        store.checkpoint()
        quick.behind.stop_at = quick.behind.steps + stop_at
        store.close(30)
        if not quick.behind.down:
            break
        store = quick.open()
        assert numbers(store) == wanted
        store.queue("A").remove_all_messages()
        store.close()
        stop_at += 1
    assert stop_at > 4
    assert referring(database) == []


@settings(max_examples=60)
@given(st.binary(min_size=8, max_size=200), st.integers(0, 2**62), st.integers(0, 2**40), st.data())
def test_a_reference_is_what_it_says_or_nothing(
    blob: bytes, sequence: int, offset: int, data: st.DataObject
) -> None:
    slot = data.draw(st.integers(0, len(blob) - 8))
    stored = set_broker_sequence(refer(7, 3, offset, blob, slot), SEQUENCE_AT, sequence)
    reference = read_reference(stored, sequence)
    assert reference == BodyReference(7, 3, offset, len(blob), slot, zlib.crc32(blob))
    assert reference.complete(blob, sequence) == set_broker_sequence(blob, slot, sequence)
    other = blob[:-1] + bytes([blob[-1] ^ 1])
    for wrong in (other, blob[:-1], blob + b"x", bytes(len(blob)) if any(blob) else b"\1" * len(blob)):
        with pytest.raises(ValueError, match="not the message"):
            reference.complete(wrong, sequence)
    bit = data.draw(st.integers(0, 8 * len(stored) - 1))
    damaged = bytearray(stored)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptMessage):
        read_reference(damaged, sequence)
    for one in (stored, bytes(damaged), stored[:-1], stored + b"x"):
        with pytest.raises(CorruptMessage):
            decode(one, sequence=sequence)


def test_a_message_is_never_a_reference() -> None:
    assert not is_reference(encode(message(1)))
    assert not is_reference(b"")
    assert not is_reference(None)


def test_pages_by_priority(quick: Quick) -> None:
    """A page over several priorities, of which some rows have messages and some references."""
    store = quick.open(journal_log_files=2)
    queue = store.queue("P", prioritized=True)
    wanted: list[tuple[int, int]] = []
    for number in range(30):
        priority = (number * 7) % 10
        queue.add_message(message(100 + number).replace(priority=priority))
        wanted.append((-priority, 100 + number))
        if number % 4 == 3:
            store.checkpoint()
    for limit in (1, 3, 7, 100):
        found: list[str] = []
        page = queue.recover(limit)
        while True:
            found += [str(one.body).split(":")[0] for one in page]
            if page.at_end:
                break
            page = queue.recover(limit, page.cursor)
        assert found == [str(number) for _, number in sorted(wanted)]
