"""Callers wait while too much is waiting to be written, and go on when it has been."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from jdbcstore import Message, MessageReference
from jdbcstore.abc import MessageStore
from jdbcstore.errors import OutcomeUnknown, StoreClosed
from jdbcstore.testing import OpenStore
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held
from tests.support.faults.effects import WAIT

COUNT = 100


class Producer:
    """Adds messages on a thread of its own, as fast as it may."""

    def __init__(self, queue: MessageStore, body: str = "") -> None:
        self.futures: list[Future[MessageReference]] = []
        self.error: Exception | None = None
        self._queue = queue
        self._body = body
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            for number in range(COUNT):
                self.futures.append(self._queue.add_message_async(Message(f"{number}{self._body}")))
        except StoreClosed as error:
            self.error = error

    def is_held(self) -> bool:
        """Whether it has been waiting for a while."""
        before = len(self.futures)
        self.thread.join(0.1)
        return self.thread.is_alive() and len(self.futures) == before > 0


@pytest.mark.parametrize(
    ("options", "body"),
    [({"max_pending_count": 10}, ""), ({"max_pending_bytes": 40_000}, "x" * 4_000)],
    ids=["count", "bytes"],
)
def test_a_full_queue_holds_its_callers(
    open_store: OpenStore, database: Database, options: dict[str, Any], body: str
) -> None:
    queue = open_store(cleanup_period=0, **options).queue("Q")
    with writes_held(database):
        producer = Producer(queue, body)
        wait_until(producer.is_held, WAIT, "that the producer is held")
        # The writer has at most one queue's worth in its hands, and one is waiting.
        assert len(producer.futures) <= 20
        assert not any(future.done() for future in producer.futures)
    producer.thread.join(WAIT)
    sequences = [future.result(WAIT).sequence for future in producer.futures]
    assert len(sequences) == COUNT
    assert sequences == sorted(sequences)
    assert queue.message_count() == COUNT


def test_a_close_that_gives_up_tells_everybody(open_store: OpenStore, database: Database) -> None:
    store = open_store(cleanup_period=0, max_pending_count=10)
    queue = store.queue("Q")
    queue.add_message(Message("before"))
    with writes_held(database):
        producer = Producer(queue)
        wait_until(producer.is_held, WAIT, "that the producer is held")
        with pytest.raises(StoreClosed) as closed:
            store.close(timeout=0.1)
        producer.thread.join(WAIT)
        assert producer.error is not None
        errors = [future.exception(WAIT) for future in producer.futures]
    assert closed.value.unwritten == len(errors)
    assert all(isinstance(error, OutcomeUnknown | StoreClosed) for error in errors)
    doubtful = sum(isinstance(error, OutcomeUnknown) for error in errors)
    wait_until(lambda: database.connections() == 0, WAIT, "that the store has let go")
    [(stored,)] = database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
    assert stored in (1, 1 + doubtful)


@pytest.mark.backends("postgresql")
def test_a_close_that_gives_up_counts_the_write_of_a_caller(
    open_store: OpenStore, database: Database
) -> None:
    waiting = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    store = open_store(cleanup_period=0)
    queue = store.queue("Q")
    queue.add_message(Message("before"))
    with ThreadPoolExecutor(1) as pool:
        with writes_held(database):
            added = pool.submit(queue.add_message, Message("held"))
            wait_until(lambda: database.rows(waiting), WAIT, "that it waits for the lock")
            with pytest.raises(StoreClosed) as closed:
                store.close(timeout=0.1)
        error = added.exception(WAIT)
    assert closed.value.unwritten == 1
    stored = database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
    assert stored == [(2,)] if error is None else isinstance(error, OutcomeUnknown)
