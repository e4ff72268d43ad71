"""A process with a journal is gone, and its checkpoint is not: what the next one reads must be decided."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import JdbcStore, Message
from jdbcstore.errors import LockLost, StoreError, StoreUnavailable
from jdbcstore.stores.jdbc.checkpoint import Application
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.testing.messages import content, fill, message_id
from jdbcstore.testing.polling import wait_until
from tests.conftest import small_journal
from tests.lockers.conftest import LEASE, OpenLocked, open_locked
from tests.support.databases import Database
from tests.support.faults.blocking import WAITING

__all__ = ["open_locked"]

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

GUARD = 180.0
STORED = "SELECT COUNT(*) FROM ACTIVEMQ_MSGS"
LIVES = ("first", "second")
"""The directories of the journal: the second is the first one as it was when its process was killed."""

OpenLife = Callable[..., JournaledStore]


@pytest.fixture(params=["without a locker", "fenced"])
def locker(request: pytest.FixtureRequest) -> Any:
    return LEASE if request.param == "fenced" else None


@pytest.fixture
def open_life(open_locked: OpenLocked, tmp_path: Path) -> Iterator[OpenLife]:
    with ExitStack() as stores:

        def open_life(
            life: str, locker: Any = None, behind: JdbcStore | None = None, **options: Any
        ) -> JournaledStore:
            behind = behind or open_locked(locker, journaled=True, broker_name=life, **options)
            store = JournaledStore(behind, small_journal(tmp_path / life, checkpoint_interval=0.0))
            stores.callback(store.close)
            return store

        yield open_life


class HeldCheckpoint:
    """The next transaction of a checkpoint, which is not committed before it is let go."""

    def __init__(self, store: JournaledStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._run = Application.run
        self._is_there, self._goes_on = threading.Event(), threading.Event()
        monkeypatch.setattr(Application, "run", lambda *arguments: self._hold(*arguments))
        self.error: StoreError | None = None
        self._thread = threading.Thread(target=self._checkpoint, args=(store,))
        self._thread.start()
        assert self._is_there.wait(GUARD)

    def _hold(self, application: Application, connection: Any) -> None:
        self._run(application, connection)
        if not self._is_there.is_set():
            self._is_there.set()
            assert self._goes_on.wait(GUARD)

    def _checkpoint(self, store: JournaledStore) -> None:
        try:
            store.checkpoint()
        except StoreError as error:
            self.error = error

    def close(self) -> None:
        """Let it go, and wait for its end."""
        self._goes_on.set()
        self._thread.join(GUARD)


def kill(folder: Path) -> None:
    shutil.copytree(folder / LIVES[0], folder / LIVES[1])


def consume(store: JournaledStore, database: Database) -> None:
    """Everything is there once, and does not come again."""
    queue = store.queue("Q")
    assert content(queue) == ["a", "b", "c"]
    for message in queue.recover():
        queue.acknowledge(message)
    store.checkpoint()
    assert content(queue) == []
    assert database.rows(STORED) == [(0,)]


def test_a_checkpoint_that_begins_late_is_refused(
    open_life: OpenLife, database: Database, tmp_path: Path, locker: Any
) -> None:
    first = open_life(LIVES[0], locker)
    fill(first.queue("Q"), "a", "b", "c")
    kill(tmp_path)
    database.execute("UPDATE ACTIVEMQ_LOCK SET TIME = 0")
    second = open_life(LIVES[1], locker)
    consume(second, database)
    with pytest.raises(LockLost, match="can no longer write"):
        first.checkpoint()
    assert database.rows(STORED) == [(0,)]
    with pytest.raises(LockLost):
        first.queue("Q").add_message(Message("late"))
    # What its close writes would end the journal.
    first.close()
    second.queue("Q").add_message(Message("new"))
    second.checkpoint()
    assert database.rows(STORED) == [(1,)]


@pytest.mark.backends("sqlite")
def test_what_was_committed_while_the_next_began_is_known_to_it(
    open_life: OpenLife, open_locked: OpenLocked, database: Database, tmp_path: Path
) -> None:
    messages = [Message(body, message_id=message_id(number)) for number, body in enumerate("abc", 1)]
    first = open_life(LIVES[0])
    first.queue("Q").add_messages(messages)
    behind = open_locked(None, journaled=True, enable_audit=True)
    first.checkpoint()
    kill(tmp_path)
    second = open_life(LIVES[1], behind=behind)
    assert [one.sequence for one in second.queue("Q").add_messages(messages)] == [-1, -1, -1]
    consume(second, database)


@pytest.mark.needs("row_locks")
def test_an_opening_fails_while_one_is_committed(
    open_life: OpenLife, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_life(LIVES[0])
    fill(first.queue("Q"), "a", "b", "c")
    with closing(HeldCheckpoint(first, monkeypatch)) as held:
        kill(tmp_path)
        with pytest.raises(StoreUnavailable, match="still has a transaction open there after 1 second"):
            open_life(LIVES[1], reconnect_timeout=0.0)
    assert held.error is None
    assert database.rows(STORED) == [(3,)]
    consume(open_life(LIVES[1]), database)


@pytest.mark.needs("row_locks")
def test_an_opening_waits_until_one_is_decided(
    open_life: OpenLife, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locker: Any
) -> None:
    first = open_life(LIVES[0], locker)
    fill(first.queue("Q"), "a", "b", "c")
    opened: list[JournaledStore] = []
    is_open = threading.Event()

    def follow() -> None:
        opened.append(open_life(LIVES[1], locker, reconnect_timeout=GUARD))
        is_open.set()

    database.execute("UPDATE ACTIVEMQ_LOCK SET TIME = 0")
    with closing(HeldCheckpoint(first, monkeypatch)):
        kill(tmp_path)
        thread = threading.Thread(target=follow)
        thread.start()
        if waiting := WAITING.get(database.engine.dialect.name):  # SQLite does not tell
            wait_until(lambda: database.rows(waiting) != [(0,)], what="that the opening waits")
        assert not is_open.is_set(), "it was opened while a checkpoint was under way"
    thread.join(GUARD)
    [second] = opened
    consume(second, database)


@pytest.mark.backends("galera", "group-replication")
def test_one_that_is_committed_at_another_node_after_an_opening_is_refused(
    open_life: OpenLife, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locker: Any
) -> None:
    """The opening does not wait for it, because the nodes share no row locks."""
    first = open_life(LIVES[0], locker)
    fill(first.queue("Q"), "a", "b", "c")
    database.execute("UPDATE ACTIVEMQ_LOCK SET TIME = 0")
    with closing(HeldCheckpoint(first, monkeypatch)) as held:
        kill(tmp_path)
        second = open_life(LIVES[1], locker)
    assert isinstance(held.error, LockLost)
    consume(second, database)
