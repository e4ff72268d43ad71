"""What a signal handler raises in the middle of a write ends that call, and not the journal."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import JournaledStore, MemoryStore, Message, StoreConfig, XATransactionId
from jdbcstore.errors import StoreError, TransactionNotFound
from jdbcstore.testing.messages import content
from jdbcstore.util.files import Files
from tests.conftest import small_journal
from tests.support import ROOT


class Interrupted(Exception):
    pass


class Signalling(Files):
    """Files at whose next write or sync the main thread gets a signal."""

    at = ""
    holds = False
    """Whether that then waits for ``go_on``."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def _signal(self, what: str) -> None:
        if self.at == what:
            self.at = ""
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            if self.holds:
                self.go_on.wait(30)

    def write(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        self._signal("write")
        return super().write(file, data, offset)

    def sync(self, file: int) -> None:
        self._signal("sync")
        super().sync(file)


@pytest.fixture
def _raises() -> Iterator[None]:
    def handler(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


def add(store: JournaledStore, how: str) -> None:
    message = Message("interrupted")
    if how == "alone":
        store.queue("Q").add_message(message)
    elif how == "without waiting":
        store.queue("Q").add_message_async(message).result()
    else:
        with store.transaction() as transaction:
            transaction.queue("Q").add_message(message)


@pytest.mark.usefixtures("_raises")
@pytest.mark.parametrize("at", ["write", "sync"])
@pytest.mark.parametrize("how", ["alone", "in a transaction", "without waiting"])
def test_the_journal_goes_on_behind_it(tmp_path: Path, at: str, how: str) -> None:
    assert threading.current_thread() is threading.main_thread()
    files = Signalling()
    options = {"journal_disk_sync_strategy": "always"}

    def opened() -> JournaledStore:
        return JournaledStore(
            MemoryStore(StoreConfig(cleanup_period=0)),
            small_journal(tmp_path, **options),
            files=files,
        )

    with opened() as store:
        queue = store.queue("Q")
        queue.add_message(Message("before"))
        for _ in range(5):
            files.at = at
            with pytest.raises(Interrupted):
                add(store, how)
        queue.add_message(Message("after"))
        expected = content(queue)
        assert (expected[0], expected[-1]) == ("before", "after")
        store.checkpoint()
        assert content(queue) == expected
    with opened() as store:
        assert content(store.queue("Q")) == expected


@pytest.mark.usefixtures("_raises")
def test_an_interrupted_decision_is_made_once(tmp_path: Path) -> None:
    """A transaction manager that does not know the outcome asks for it again, and a checkpoint is due."""
    files, xid = Signalling(), XATransactionId(1, b"x", b"")

    def opened() -> JournaledStore:
        return JournaledStore(
            MemoryStore(StoreConfig(cleanup_period=0)),
            small_journal(tmp_path, journal_disk_sync_strategy="always"),
            files=files,
        )

    with opened() as store:
        branch = store.xa.start(xid)
        branch.queue("Q").add_message(Message("once"))
        branch.prepare()
        for number in range(50):  # enough for the checkpoint to write the prepare again
            store.queue("Q").add_message(Message(f"{number}"))
        files.at, files.holds = "write", True
        with pytest.raises(Interrupted):
            store.xa.commit(xid)
        errors: list[StoreError] = []

        def commit_again() -> None:
            try:
                store.xa.commit(xid)
            except StoreError as error:
                errors.append(error)

        again = threading.Thread(target=commit_again)
        again.start()
        again.join(5)
        files.go_on.set()
        again.join()
        assert [type(error) for error in errors] == [TransactionNotFound]
        store.checkpoint()
        expected = [*map(str, range(50)), "once"]
        assert content(store.queue("Q")) == expected
        assert store.xa.recover() == []
    with opened() as store:
        assert content(store.queue("Q")) == expected


STORM = """
import random, signal, sys
from jdbcstore import JournaledStore, MemoryStore, Message, StoreConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.testing.messages import content

class Interrupted(Exception):
    pass

armed = False
def handler(*_):
    global armed
    if armed:
        armed = False
        raise Interrupted

signal.signal(signal.SIGALRM, handler)
chance = random.Random(int(sys.argv[2]))
config = JournalConfig(directory=sys.argv[1], journal_disk_sync_strategy="never", preallocation_scope="none")
store = JournaledStore(MemoryStore(StoreConfig(cleanup_period=0)), config)
queue = store.queue("Q")
told, interrupted = [], 0
for number in range(int(sys.argv[3])):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 3e-4))
        reference = queue.add_message(Message(f"{number}"))
        if number % 3 == 0:
            queue.acknowledge(reference)
        armed = False
        if number % 3:
            told.append(f"{number}")
    except Interrupted:
        interrupted += 1
armed = False
signal.setitimer(signal.ITIMER_REAL, 0)
queue.add_message(Message("last"))
store.checkpoint()
found = set(content(queue))
missing = set(told) - found
store.close(20)
print(len(told), interrupted, len(missing), len(found) <= len(told) + interrupted + 1)
"""


def test_a_storm_of_them_leaves_nothing_hanging(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STORM, str(tmp_path), "1", "1500"]
    root = ROOT
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    told, interrupted, missing, is_right = done.stdout.split()
    assert int(told) > 10
    assert int(interrupted) > 100
    assert (missing, is_right) == ("0", "True")
