"""A million messages cost what a thousand do, page by page and batch by batch.

The tests of one backend share its tables, and run in this order: the last two empty them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.abc import Cursor, Recoverable, Store
from jdbcstore.database.adapters.registry import adapter_class
from jdbcstore.stores.shared.paging import REMOVE_BATCH
from tests.support.scale.million import MILLION, Million
from tests.support.scale.transactions import Transactions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SAMPLE = 50
SAME = 3.0
"""What costs the same differs by less than this factor, even on a busy machine; reading all, by a hundred."""
ATTEMPTS = 5
MEMORY = 200_000_000


@pytest.fixture
def store(million: Million) -> Iterator[Store]:
    with jdbcstore.open(million.database.url, cleanup_period=0) as store:
        yield store


def test_paging_through_a_queue(million: Million) -> None:
    command = [sys.executable, "-m", "tests.support.scale.reader", million.database.url, "BACKLOG"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result = json.loads(done.stdout)
    assert result["count"] == million.backlog
    assert result["memory"] < MEMORY


def test_the_last_pages_of_a_queue(million: Million, store: Store) -> None:
    queue = store.queue("BACKLOG")
    last = million.backlog - (SAMPLE + 1) * 500
    assert _cost_the_same(lambda: (_pages(queue, last), _pages(queue, 0)))


def test_pages_of_a_topic_and_its_subscriptions(million: Million, store: Store) -> None:
    topic = store.topic("NEWS")
    for source in (topic, topic.subscription("client", "first")):
        for after in (million.backlog, million.backlog + million.news - (SAMPLE + 1) * 500):
            assert _cost_the_same(
                lambda source=source, after=after: (  # type: ignore[misc]
                    _pages(source, after),
                    _pages(store.queue("BACKLOG"), 0),
                )
            )
    million.acknowledge()
    second = topic.subscription("client", "second")
    assert [message.sequence for message in second.recover()] == [million.gap]


def test_an_empty_queue_beside_them(store: Store) -> None:
    assert _cost_the_same(lambda: (store.queue("EMPTY").recover, _pages(store.queue("BACKLOG"), 0)))


def test_an_empty_queue_with_priorities_beside_them(store: Store) -> None:
    """It has a query for each of ten priorities: a page may take less time than ten answers of the server."""
    empty = store.queue("EMPTY")

    def ten_times() -> None:
        for _ in range(10):
            empty.recover()

    other = store.queue("EMPTY.TOO", prioritized=True)
    assert _cost_the_same(lambda: (other.recover, ten_times))


def test_cleanup(million: Million, monkeypatch: pytest.MonkeyPatch) -> None:
    million.acknowledge()
    transactions = _transactions(million, monkeypatch)
    with jdbcstore.open(million.database.url, cleanup_period=0) as store:
        with _Adder(store) as adder:
            removed = store.cleanup()
        assert removed == million.news - 1
        _check(transactions, adder, removed)
        assert [message.sequence for message in store.topic("NEWS").recover()] == [million.gap]
    assert million.database.rows("SELECT COUNT(*) FROM JDBCSTORE_ACKS") == [(0,)]


def test_purge(million: Million, monkeypatch: pytest.MonkeyPatch) -> None:
    if million.news < MILLION // 5:
        pytest.skip("a purge removes in the batches of a cleanup, and takes long here")
    transactions = _transactions(million, monkeypatch)
    with jdbcstore.open(million.database.url, cleanup_period=0) as store:
        with _Adder(store) as adder:
            removed = store.queue("BACKLOG").remove_all_messages()
        assert removed == million.backlog
        _check(transactions, adder, removed)
        assert store.queue("BACKLOG").message_count() == 0
        assert store.queue("OTHER").message_count() > adder.count


class _Adder:
    """A thread that adds to another queue, one message after the other."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        self._queue = store.queue("OTHER")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._queue.add_message(Message("meanwhile"))
            self.count += 1

    def __enter__(self) -> _Adder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _transactions(million: Million, monkeypatch: pytest.MonkeyPatch) -> Transactions:
    kind = adapter_class(million.database.engine.dialect.name)
    return Transactions(kind, monkeypatch.setattr)


def _check(transactions: Transactions, adder: _Adder, removed: int) -> None:
    """Transactions are short, and between any two of them the other thread had its turn."""
    seconds = sorted(transactions.seconds)
    assert len(seconds) >= removed / REMOVE_BATCH
    # None is a great part of the whole. A busy machine may hold any one up.
    assert seconds[len(seconds) * 95 // 100] < max(1.0, sum(seconds) / 8)
    assert seconds[-1] < max(1.0, sum(seconds) / 4)
    assert adder.count > len(seconds) / 2


def _pages(source: Recoverable, after: int) -> Callable[[], object]:
    """Reads a page behind this sequence, and one more with each call."""
    cursor = Cursor((after,))

    def read() -> None:
        nonlocal cursor
        page = source.recover(500, cursor)
        assert len(page) == 500
        cursor = page.cursor

    return read


def _cost_the_same(calls: Callable[[], tuple[Callable[[], object], Callable[[], object]]]) -> bool:
    """Whether the first call takes as long as the second, in one of some attempts: each has new calls."""
    return any(_compared(*calls()) < SAME for _ in range(ATTEMPTS))


def _compared(some: Callable[[], object], other: Callable[[], object]) -> float:
    """How many times as long the first takes, called in turns: what holds the machine up holds up both."""
    some(), other()  # the first is not counted
    seconds = [(_seconds(some), _seconds(other)) for _ in range(SAMPLE)]
    # Of the shortest: the longer ones tell what else was going on.
    return min(first for first, _ in seconds) / min(second for _, second in seconds)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
