"""The database server is killed under a store at work, and started again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import jdbcstore
from jdbcstore import MessageReference
from jdbcstore.abc import Store
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.support.crash.ledger import Tables
from tests.support.crash.work import Names
from tests.support.databases import Database
from tests.support.servers import Server

WAIT = 180.0


class Workers:
    """Threads that add, and acknowledge what they added some adds ago, until they are stopped."""

    def __init__(self, store: Store) -> None:
        self._queue = store.queue("Q")
        self._stop = threading.Event()
        self.done = 0
        """Calls that returned."""
        self.failed = 0
        """Calls that raised."""
        self._added: dict[str, BaseException | None] = {}
        """What became of each message's add."""
        self._taken: dict[str, BaseException | None] = {}
        """What became of each message's acknowledgement."""
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(4)]
        for thread in self._threads:
            thread.start()

    def work(self) -> None:
        """Wait until they have got something done."""
        goal = self.done + 100
        wait_until(lambda: self.done > goal, WAIT, "that the workers work")

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT)
            assert not thread.is_alive()

    def _run(self, number: int) -> None:
        names = Names("worker", number)
        stored: list[MessageReference] = []
        while not self._stop.is_set():
            message = names.message()

            def add() -> None:
                if number % 2:
                    stored.append(self._queue.add_message(message))  # noqa: B023
                else:
                    stored.append(self._queue.add_message_async(message).result(WAIT))  # noqa: B023

            self._added[str(message.message_id)] = self._outcome(add)
            if len(stored) > 3:
                oldest = stored.pop(0)
                taken = self._outcome(lambda: self._queue.acknowledge(oldest))  # noqa: B023
                self._taken[str(oldest.message_id)] = taken

    def _outcome(self, call: Callable[[], None]) -> BaseException | None:
        try:
            call()
        except StoreUnavailable as error:
            self.failed += 1
            return error
        self.done += 1
        return None

    def check(self, present: set[str]) -> None:
        """What was told is what is in the table."""
        assert present <= self._added.keys()
        for name, added in self._added.items():
            if isinstance(added, OutcomeUnknown):
                continue
            if added is not None:
                assert name not in present, f"{name} was not added: {added}"
            elif name not in self._taken:
                assert name in present, f"{name} is lost"
            elif self._taken[name] is None:
                assert name not in present, f"{name} came back"
            elif not isinstance(self._taken[name], OutcomeUnknown):
                assert name in present, f"{name} was not acknowledged: {self._taken[name]}"


def _check(workers: Workers, database: Database) -> None:
    with database.engine.connect() as connection:
        workers.check(set(Tables(connection, {}).ids["queue://Q"]))


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_restart_is_waited_for(server: Server, database: Database) -> None:
    with jdbcstore.open(database.url, cleanup_period=0, reconnect_timeout=WAIT) as store:
        with ThreadPoolExecutor(8) as readers:
            list(readers.map(lambda _: store.queue("Q").recover(), range(400)))
        assert database.connections() > 3
        workers = Workers(store)
        for _ in range(2):
            workers.work()
            server.kill()
            server.start()
            # Every connection of the pool is dead, and none of them is shown to the caller.
            store.queue("Q").recover()
        workers.work()
        workers.stop()
        assert workers.failed == 0
    _check(workers, database)


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_an_outage_is_told_and_survived(server: Server, database: Database) -> None:
    with jdbcstore.open(database.url, cleanup_period=0, reconnect_timeout=0.05) as store:
        workers = Workers(store)
        workers.work()
        server.kill()
        wait_until(lambda: workers.failed > 8, WAIT, "that callers were told")
        with pytest.raises(StoreUnavailable):
            store.queue("Q").recover()
        server.start()
        workers.work()
        workers.stop()
    _check(workers, database)
