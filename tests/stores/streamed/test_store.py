"""A store with its journal in a stream: what opens, what is refused, and who follows a master."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats as client
import pytest
from nats.js.api import DiscardPolicy, StreamConfig

import jdbcstore
from jdbcstore import Message, StoreConfig, load_config
from jdbcstore.cli.settings import with_locker
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import (
    ConfigurationError,
    CorruptJournal,
    JournalInUse,
    JournalPending,
    LockLost,
    NotMaster,
    OutcomeUnknown,
    StoreUnavailable,
)
from jdbcstore.journal.stream import connection as connection_module
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.guarded import JournaledJdbcStore
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.journaled.checkpointer import Checkpointer
from jdbcstore.stores.opening import Opening
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.polling import wait_until
from tests.support.cli.zygote import fork_program
from tests.support.crash.zygote import StoringProcesses
from tests.support.databases import Database
from tests.support.journaled.killing import kill
from tests.support.journaled.world import Behind
from tests.support.opening import WAIT
from tests.support.streams import NatsServer, streamed

pytestmark = [pytest.mark.servers, pytest.mark.backends("sqlite")]
CONFIG = StoreConfig(cleanup_period=0.0)
XID = XATransactionId(1, b"global", b"branch")


class Interrupted(Behind):
    """A store behind, before whose first answer something else happens."""

    interrupt: Callable[[], object] | None = None

    def journal_mark(self) -> Any:
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        return self.store.journal_mark()


class Streamed:
    """Opens stores on one database with a journal in one stream."""

    def __init__(self, url: str, config: JournalConfig, stores: ExitStack) -> None:
        self.url = url
        self.config = config
        self.interrupt: Callable[[], object] | None = None
        """What happens elsewhere when the next store has read its journal, and before it opens it."""
        self._stores = stores

    def open(self, **options: Any) -> JournaledStore:
        """One that makes checkpoints when it is asked to."""
        self.behind = Interrupted(JdbcStore(self.url, CONFIG, clock=FakeClock(), journaled=True))
        self.behind.interrupt = self.interrupt
        config = replace(self.config, checkpoint_interval=0.0, **options)
        try:
            store = JournaledStore(self.behind, config, clock=FakeClock())
        except BaseException:
            self.behind.close()
            raise
        self._stores.callback(store.close)
        return store

    def kill(self, store: JournaledStore) -> None:
        """The process ends without a last checkpoint."""
        self.behind.down = True
        store.close(30)


@pytest.fixture
def world(nats: NatsServer, name: str, url: str, tmp_path: Path) -> Iterator[Streamed]:
    with ExitStack() as stores:
        yield Streamed(url, streamed(nats.url, name, directory=str(tmp_path / "journal")), stores)


def copied(url: str, source: str, target: str, last: int) -> None:
    """Copy the first messages of a stream to another, as a backup of it is restored."""

    async def copy() -> None:
        connection = await client.connect(url)
        js = connection.jetstream()
        messages = [(await js.get_msg(source, at)).data or b"" for at in range(1, last + 1)]
        if source == target:
            await js.delete_stream(source)
        subject = f"jdbcstore.journal.{target}"
        await js.add_stream(StreamConfig(name=target, subjects=[subject], discard=DiscardPolicy.NEW))
        for message in messages:
            await js.publish(subject, message)
        await connection.close()

    asyncio.run(copy())


@pytest.mark.parametrize("quick", [False, True])
def test_what_was_stored_is_there_after_a_crash(world: Streamed, quick: bool) -> None:
    store = world.open(use_quick_journal=quick, journal_log_files=50)
    queue = store.queue("Q")
    fill(queue, *[f"{index:04}" * 200 for index in range(30)])
    queue.acknowledge(*queue.recover()[:5])
    branch = store.xa.start(XID)
    branch.queue("Q").add_message(Message("prepared"))
    assert branch.prepare()
    store.checkpoint()
    fill(queue, "after")
    world.kill(store)

    store = world.open(use_quick_journal=quick, journal_log_files=50)
    expected = [*(f"{index:04}" * 200 for index in range(5, 30)), "after"]
    assert content(store.queue("Q")) == expected
    assert [one.xid for one in store.xa.recover()] == [XID]
    store.xa.commit(XID)
    assert content(store.queue("Q")) == [*expected, "prepared"]
    state = store.journal_state()
    assert "the stream" in state.directory
    store.close()
    with JdbcStore(world.url, CONFIG) as plain:
        assert content(plain.queue("Q")) == [*expected, "prepared"]


def test_a_checkpoint_releases_what_the_database_has(world: Streamed) -> None:
    store = world.open()
    for index in range(20):
        fill(store.queue("Q"), f"{index}" * 1000)
    assert store.journal_state().first_record == 1
    store.checkpoint()
    assert store.journal_state().first_record > 10


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_refused_opening_leaves_both_to_their_owner(world: Streamed, *, is_stored: bool) -> None:
    """It comes while the owner is writing, which may make the stream look shorter than the database says."""
    store = world.open()
    fill(store.queue("Q"), "a")

    def write() -> None:
        fill(store.queue("Q"), "b")
        if is_stored:
            store.checkpoint()

    world.interrupt = write
    with pytest.raises(JournalInUse, match="stream"):
        world.open()
    world.interrupt = None
    fill(store.queue("Q"), "c")
    store.checkpoint()
    assert content(store.queue("Q")) == ["a", "b", "c"]
    other = world.open()
    with pytest.raises(LockLost):
        fill(store.queue("Q"), "late")
    fill(other.queue("Q"), "d")
    other.checkpoint()
    assert content(other.queue("Q")) == ["a", "b", "c", "d"]


def test_a_write_in_doubt_is_there_after_a_close(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database must not say that it has all of the journal."""
    store = world.open()
    fill(store.queue("Q"), "a")
    append = StreamServer.append

    def lost(self: StreamServer, message: bytes, after: int) -> None:
        append(self, message, after)
        raise OutcomeUnknown

    with monkeypatch.context() as patched:
        patched.setattr(StreamServer, "append", lost)
        with pytest.raises(OutcomeUnknown):
            fill(store.queue("Q"), "b")
    store.close()
    with pytest.raises(JournalPending), JdbcStore(world.url, CONFIG):
        pass
    assert content(world.open().queue("Q")) == ["a", "b"]


def test_a_decision_that_was_refused_is_taken_again(world: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    store = world.open()
    branch = store.xa.start(XID)
    branch.queue("Q").add_message(Message("prepared"))
    assert branch.prepare()

    def refuse(*_: object) -> None:
        raise StoreUnavailable("the stream is full")

    with monkeypatch.context() as patched:
        patched.setattr(StreamServer, "append", refuse)
        with pytest.raises(StoreUnavailable, match="full"):
            store.xa.commit(XID)
    store.xa.commit(XID)
    assert content(store.queue("Q")) == ["prepared"]


def test_what_the_one_before_still_releases_is_not_replayed(
    world: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request comes when the next one has opened the journal, and before that has read it."""
    store = world.open()
    with monkeypatch.context() as patched:
        delayed: list[int] = []
        patched.setattr(StreamServer, "purge", lambda _, before: delayed.append(before))
        for index in range(20):
            fill(store.queue("Q"), f"{index}" * 1000)
        store.checkpoint()
        fill(store.queue("Q"), "last")
        world.kill(store)
    [before] = delayed
    find = Checkpointer.find_refused

    def late(self: Checkpointer) -> None:
        find(self)
        stream: Any = self._writer.journal
        stream.log._server.purge(before)

    monkeypatch.setattr(Checkpointer, "find_refused", late)
    store = world.open()
    assert content(store.queue("Q")) == [*(f"{index}" * 1000 for index in range(20)), "last"]


def test_the_stream_of_another_store_is_refused(world: Streamed, tmp_path: Path) -> None:
    fill(world.open().queue("Q"), "a")
    other = Streamed(f"sqlite:///{tmp_path}/other.db", world.config, ExitStack())
    with pytest.raises(ConfigurationError, match=r"belongs to another store.*name another stream_name"):
        other.open()


def test_a_stream_that_is_lost_is_missed(world: Streamed) -> None:
    store = world.open()
    fill(store.queue("Q"), "a")
    world.kill(store)
    with pytest.raises(JournalPending):
        world.open(stream_name=f"{world.config.stream_name}-new")


def test_a_stream_that_ends_behind_the_database_is_refused(world: Streamed, nats: NatsServer) -> None:
    store = world.open()
    for index in range(5):
        fill(store.queue("Q"), f"{index}")
    store.checkpoint()
    world.kill(store)
    copied(nats.url, world.config.stream_name, world.config.stream_name, 4)
    with pytest.raises(CorruptJournal, match=r"it ends with record 3, and .* applied it up to record 5"):
        world.open()


def test_a_message_that_the_database_refuses_is_set_aside_for_the_next_master(
    world: Streamed, database: Database
) -> None:
    """It may be larger than the servers take at once."""
    store = world.open()
    database.execute(
        "CREATE TRIGGER NARROW BEFORE INSERT ON ACTIVEMQ_MSGS WHEN length(NEW.MSG) > 60000"
        " BEGIN SELECT RAISE(ABORT, 'MSG is too long'); END"
    )
    large = random.Random(1).randbytes(2_000_000)
    queue = store.queue("Q")
    fill(queue, "first")
    queue.add_message(Message(large))
    store.checkpoint()
    assert store.journal_state().refused == 1
    world.kill(store)

    store = world.open()
    [one] = store.refused()
    assert (one.destination, one.message.body) == ("queue://Q", large)
    assert content(store.queue("Q")) == ["first"]
    database.execute("DROP TRIGGER NARROW")
    store.retry_refused(one.sequence)
    assert store.refused() == []
    assert content(store.queue("Q")) == ["first", large]


def test_a_check_asks_the_stream_too(url: str, name: str, tmp_path: Path) -> None:
    """So a broker whose connectors are stopped waits for its servers, and a deposed one knows."""
    with NatsServer() as server:
        config = streamed(server.url, name, directory=str(tmp_path))

        def opened() -> JournaledJdbcStore:
            return JournaledJdbcStore(JdbcStore(url, CONFIG, journaled=True), config)

        store = opened()
        store.check()
        server.kill()

        def is_noticed() -> bool:
            with suppress(StoreUnavailable):
                store.check()
                return False
            return True

        wait_until(is_noticed, what="that the server is gone")
        server.start()
        wait_until(lambda: not is_noticed(), what="that it is there again")
        other = opened()
        with pytest.raises(LockLost):
            fill(store.queue("Q"), "late")
        with pytest.raises(LockLost):
            store.check()
        other.check()
        store.close()
        other.close()


def test_its_state_is_known_while_the_servers_are_away(
    url: str, database: Database, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics and the console ask for it all the time, in threads that read messages, too."""
    with NatsServer() as server, ExitStack() as stores:
        store = Streamed(url, streamed(server.url, name, directory=str(tmp_path)), stores).open()
        fill(store.queue("Q"), "a")
        database.execute(
            "CREATE TRIGGER NARROW BEFORE INSERT ON ACTIVEMQ_MSGS WHEN length(NEW.MSG) > 60000"
            " BEGIN SELECT RAISE(ABORT, 'MSG is too long'); END"
        )
        fill(store.queue("Q"), "b" * 100_000)
        store.checkpoint()
        server.kill()
        monkeypatch.setattr(connection_module, "PATIENCE", 0.3)
        assert store.journal_state().refused == 1
        with pytest.raises(StoreUnavailable):
            store.refused()
        server.start()
        monkeypatch.setattr(connection_module, "PATIENCE", 30.0)
        [one] = store.refused()
        store.drop_refused(one.sequence)
        assert store.journal_state().refused == 0


def test_a_disused_stream_is_applied_first(nats: NatsServer, name: str, tmp_path: Path) -> None:
    path = tmp_path / "jdbcstore.toml"
    path.write_text(
        f'url = "sqlite:///{tmp_path}/mq.db"\n[journal]\nstream = "{nats.url}"\nstream_name = "{name}"\n'
        f'replicas = 1\ndirectory = "{tmp_path}/journal"\n'
    )
    configuration = load_config(path, environment={}, cleanup_period=0.0)
    assert configuration.journal is not None
    disused = replace(configuration, journal=replace(configuration.journal, use_journal=False))
    with jdbcstore.open(disused) as store:
        assert isinstance(store, JdbcStore)  # there is no stream yet
    process = fork_program(MASTER, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    with process:
        pass
    with jdbcstore.open(disused) as store:
        assert isinstance(store, JdbcStore)
        assert content(store.queue("Q")) == [f"m{n}" for n in range(10)]


def test_several_stores_keep_the_locker_that_is_implied(
    url: str, nats: NatsServer, name: str, tmp_path: Path
) -> None:
    """Without it a second broker would take over at once, and not wait."""
    path = tmp_path / "jdbcstore.toml"
    path.write_text(
        f'[[stores]]\ndata_source = {{ url = "{url}" }}\n'
        f'journal = {{ stream = "{nats.url}", stream_name = "{name}", replicas = 1 }}\n'
    )
    configuration = with_locker(load_config(path, environment={}, cleanup_period=0.0))
    with jdbcstore.open(configuration) as store:
        with pytest.raises(NotMaster):
            Opening(configuration, lock_timeout=0.0).open()
        fill(store.queue("Q"), "a")
        assert content(store.queue("Q")) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("quick", ["", "-quick"])
def test_a_killed_store_keeps_its_word(
    url: str, database: Database, nats: NatsServer, name: str, quick: str
) -> None:
    journal = f"{nats.url}/{name}{quick}"
    processes = StoringProcesses(url, journal)
    try:
        kill(processes, database, journal, 3)
    finally:
        processes.close()


MASTER = """
import sys, jdbcstore
from jdbcstore import Message, load_config
from jdbcstore.errors import StoreError
store = jdbcstore.open(load_config(sys.argv[1], environment={}), cleanup_period=0.0)
queue = store.queue("Q")
queue.add_messages([Message(f"m{n}") for n in range(10)])
print("ready", flush=True)
for line in sys.stdin:
    try:
        queue.add_message(Message(line.strip()))
        print("added", flush=True)
    except StoreError as error:
        print(type(error).__name__, flush=True)
"""


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_the_next_master_goes_on_from_the_mark(
    nats: NatsServer, name: str, tmp_path: Path, database: Database, fault: signal.Signals
) -> None:
    """Nothing of the journal is on a disk of theirs, and who slept through its lease can write nothing."""
    path = tmp_path / "jdbcstore.toml"
    path.write_text(
        f'url = "{database.url}"\n[locker]\ntype = "lease-database-locker"\n'
        "lock_acquire_sleep_interval = 2.0\nlock_keep_alive_period = 0.5\n"
        f'[journal]\nstream = "{nats.url}"\nstream_name = "{name}"\nreplicas = 1\n'
        f'directory = "{tmp_path}/journal"\n'
    )
    successor = replace(load_config(path, environment={}, cleanup_period=0.0), broker_name="other")
    process = fork_program(MASTER, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(NotMaster):
                jdbcstore.open(successor, lock_timeout=0.0)
            assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]
            process.send_signal(fault)
            with jdbcstore.open(successor, lock_timeout=WAIT) as store:
                assert content(store.queue("Q")) == [f"m{n}" for n in range(10)]
                fill(store.queue("Q"), "next")
                if fault == signal.SIGSTOP:
                    process.send_signal(signal.SIGCONT)
                    process.stdin.write("late\n")
                    process.stdin.flush()
                    assert process.stdout.readline() == f"{LockLost.__name__}\n"
                fill(store.queue("Q"), "last")
            with jdbcstore.open(successor, lock_timeout=WAIT) as store:
                assert content(store.queue("Q")) == [*(f"m{n}" for n in range(10)), "next", "last"]
        finally:
            process.kill()


def is_applied(store: JournaledStore) -> bool:
    state = store.journal_state()
    return state.applied == state.last_record


def test_what_a_purge_has_removed_is_written_to_the_database(world: Streamed) -> None:
    """Without being asked to, so that the next master has it."""
    config = replace(world.config, checkpoint_interval=0.0)
    with JournaledStore(JdbcStore(world.url, CONFIG, journaled=True), config) as store:
        fill(store.queue("Q"), *"abc")
        with closing(StreamServer(world.config, create=False)) as server:
            server.purge(server.state().last + 1)
        wait_until(lambda: is_applied(store), what="a checkpoint")
        wait_until(lambda: store.streams()[0].problem is None, what="that nothing is missing any more")
        fill(store.queue("Q"), "d")
    assert [one.body for one in world.open().queue("Q").recover()] == ["a", "b", "c", "d"]


def test_a_stream_without_records_is_not_taken_over(world: Streamed, tmp_path: Path) -> None:
    """By another store: its first one is open, and has not written yet."""
    first = world.open()
    with pytest.raises(ConfigurationError, match="belongs to another store"):
        JournaledStore(JdbcStore(f"sqlite:///{tmp_path}/other.db", CONFIG, journaled=True), world.config)
    fill(first.queue("Q"), "a")
    world.kill(first)
    assert [one.body for one in world.open().queue("Q").recover()] == ["a"]
