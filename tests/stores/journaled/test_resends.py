"""Resends behind a journal with ``enable_audit``: stored once, also while the first copy is in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import (
    Destination,
    JournaledStore,
    MemoryStore,
    Message,
    MessageId,
    MessageReference,
    ProducerId,
    StoreConfig,
    XATransactionId,
)
from jdbcstore.errors import StoreError, StoreUnavailable
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.files import Files
from jdbcstore.util.futures import StoreFuture
from tests.conftest import small_journal
from tests.support.journaled.world import Behind

CONFIG = StoreConfig(cleanup_period=0, enable_audit=True)
PRODUCER = ProducerId("ID:till", 1, 1)
GOOD = Destination.queue("GOOD")
XID = XATransactionId(86, b"transaction", b"branch")
WAIT = 180.0


class HeldFiles(Files):
    """Syncs wait while they are held, and fail when they are to."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.syncing = threading.Event()
        self.fails = False

    def sync(self, file: int) -> None:
        self.syncing.set()
        assert self.free.wait(WAIT)
        if self.fails:
            raise OSError(5, "input/output error")
        super().sync(file)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.syncing.clear()
        self.free.clear()
        try:
            yield
        finally:
            self.free.set()


class Audited:
    """A store over one in memory, and the files of its journal."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.files = HeldFiles()
        self.clock = FakeClock()
        self.behind = Behind(MemoryStore(CONFIG), closes=False)
        self._config = small_journal(directory, journal_disk_sync_strategy="always", **options)
        self.store = self.open()

    def open(self) -> JournaledStore:
        self.store = JournaledStore(self.behind, self._config, clock=self.clock, files=self.files)
        return self.store

    def add(self, number: int) -> StoreFuture[MessageReference]:
        return self.store.queue(GOOD).add_message_async(message(number))

    @property
    def numbers(self) -> list[int]:
        return [int(str(message.body)) for message in self.store.queue(GOOD).recover(1000)]

    def prepare(self, number: int) -> bool:
        transaction = self.store.xa.start(XID)
        transaction.queue(GOOD).add_message(message(number))
        return transaction.prepare()


@pytest.fixture
def open_audited(tmp_path: Path) -> Iterator[Callable[..., Audited]]:
    opened: list[Audited] = []

    def open_audited(**options: Any) -> Audited:
        opened.append(Audited(tmp_path / str(len(opened)), **options))
        return opened[-1]

    yield open_audited
    for audited in opened:
        audited.behind.down = False
        audited.store.close()


@pytest.fixture
def audited(open_audited: Callable[..., Audited]) -> Audited:
    return open_audited()


def message(number: int, body: str | None = None) -> Message:
    return Message(body or str(number), destination=GOOD, message_id=MessageId(PRODUCER, number))


def test_after_the_first_was_cancelled(audited: Audited) -> None:
    with audited.store._writer.paused():
        before, first, again, later = (audited.add(number) for number in (0, 1, 1, 2))
        assert first.cancel()

    assert [one.result(WAIT).sequence for one in (before, again, later)] == [1, 2, 3]
    assert audited.numbers == [0, 1, 2]


def test_after_the_first_was_stored(audited: Audited) -> None:
    with audited.store._writer.paused():
        futures = [audited.add(number) for number in (1, 1, 2, 1)]

    assert [one.result(WAIT).sequence for one in futures] == [1, -1, 2, -1]
    assert audited.numbers == [1, 2]


def test_while_the_first_is_being_written(audited: Audited) -> None:
    with audited.files.held():
        first = audited.add(1)
        assert audited.files.syncing.wait(WAIT)
        again, cancelled, last, later = (audited.add(number) for number in (1, 2, 2, 3))
        assert not first.cancel()
        assert cancelled.cancel()

    assert [one.result(WAIT).sequence for one in (first, again, last, later)] == [1, -1, 2, 3]
    assert audited.numbers == [1, 2, 3]


def test_in_transactions(audited: Audited) -> None:
    with audited.store._writer.paused():
        commits = []
        for numbers in ((1, 2), (2, 3, 3), (1, 4)):
            transaction = audited.store.transaction()
            for number in numbers:
                transaction.queue(GOOD).add_message(message(number))
            commits.append(transaction.commit_async())
        rolled_back = audited.store.transaction()
        rolled_back.queue(GOOD).add_message(message(5))
        rolled_back.rollback()
        each = audited.store.add_each_async([message(number) for number in (4, 5, 5)])
        assert commits[0].cancel()

    assert [[one.sequence for one in commit.result(WAIT)] for commit in commits[1:]] == [[1, 2, -1], [3, 4]]
    assert [getattr(one, "sequence", None) for one in each.result(WAIT)] == [-1, 5, -1]
    assert audited.numbers == [2, 3, 1, 4, 5]


def test_after_the_first_found_no_room(open_audited: Callable[..., Audited]) -> None:
    audited = open_audited(memory_limit=20_000)
    audited.behind.down = True
    filler = [audited.store.queue("A").add_message_async(Message("x" * 1_000)) for _ in range(20)]
    wait_until(lambda: audited.store._writer.admission.wants_room)
    first = audited.add(1)
    audited.clock.advance(CONFIG.reconnect_timeout - 1)
    again = audited.add(1)
    audited.clock.advance(1)

    assert isinstance(first.exception(WAIT), StoreUnavailable)
    assert not again.done()
    audited.behind.down = False
    audited.store.checkpoint()
    assert again.result(WAIT).sequence > 0
    assert any(one.exception(WAIT) is None for one in filler)
    assert audited.numbers == [1]
    assert audited.add(1).result(WAIT).sequence == -1


def test_where_the_journal_fails(audited: Audited) -> None:
    with audited.files.held():
        first = audited.add(1)
        assert audited.files.syncing.wait(WAIT)
        again = audited.add(1)
        audited.files.fails = True
    assert isinstance(first.exception(WAIT), StoreError)
    assert isinstance(again.exception(WAIT), StoreError)


def test_a_prepare_of_duplicates_alone_has_nothing_to_decide(audited: Audited) -> None:
    with audited.files.held():
        first = audited.add(1)
        assert audited.files.syncing.wait(WAIT)
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(audited.prepare(1)))
        thread.start()
        wait_until(lambda: audited.store._writer._in_flight == 2)
    thread.join(WAIT)

    assert first.result(WAIT).sequence == 1
    assert found == [False]
    assert audited.store.xa.recover() == []
    assert audited.numbers == [1]


def test_behind_a_rollback(audited: Audited) -> None:
    """What is prepared is seen; once it is rolled back it may come again."""
    assert audited.prepare(1)
    assert audited.add(1).result(WAIT).sequence == -1
    with audited.files.held():
        thread = threading.Thread(target=lambda: audited.store.xa.rollback(XID))
        thread.start()
        assert audited.files.syncing.wait(WAIT)
        again, later, twice = (audited.add(number) for number in (1, 2, 1))
    thread.join(WAIT)

    assert [one.result(WAIT).sequence for one in (again, later, twice)] == [1, 2, -1]
    assert audited.numbers == [1, 2]


@pytest.mark.parametrize("checkpoints", [False, True])
def test_of_what_was_rolled_back_before_the_store_was_opened(audited: Audited, checkpoints: bool) -> None:
    assert audited.prepare(1)
    audited.add(2).result(WAIT)
    if checkpoints:
        audited.store.checkpoint()
    audited.store.xa.rollback(XID)
    audited.behind.down = True
    with pytest.raises(StoreError):
        audited.store.checkpoint()
    audited.store.close(timeout=1)
    audited.behind.down = False
    audited.open()

    assert audited.add(1).result(WAIT).sequence > 0
    assert audited.add(2).result(WAIT).sequence == -1
    assert audited.numbers == [2, 1]
