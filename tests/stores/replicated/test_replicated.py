"""Brokers without anything shared: what one has confirmed, the next one has, whatever it was."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import nats as client
import pytest
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy
from nats.js.errors import NotFoundError

import jdbcstore
from jdbcstore import Configuration, Message, XATransactionId
from jdbcstore.abc import Announcing, Pausing, Store
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import CustomLockerConfig, SharedFileLockerConfig
from jdbcstore.database.schema import JOURNAL_ROWS
from jdbcstore.errors import (
    ConfigurationError,
    CorruptJournal,
    InvalidDestination,
    JournalPending,
    NotMaster,
    StoreError,
    StoreUnavailable,
    SubscriptionExists,
    SubscriptionNotFound,
)
from jdbcstore.journal.logs import health
from jdbcstore.journal.stream.keys import StreamKeys
from jdbcstore.journal.stream.log import StreamLog
from jdbcstore.journal.stream.log import contents_of as stream_contents
from jdbcstore.journal.stream.members import Copy, Member, Members, ReplicaGroup, group
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.message.destination import Destination
from jdbcstore.stores.journaled.records import OPERATE, encode_operation
from jdbcstore.stores.replicated.adopting import adopt
from jdbcstore.stores.replicated.copying import copy_database, restore
from jdbcstore.stores.replicated.follower import StreamFollower
from jdbcstore.stores.replicated.store import ReplicatedStore
from jdbcstore.stores.shared.operations import BEGIN, RecordedOperation
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.clock import SystemClock
from tests.stores.replicated.conftest import Follow
from tests.support.cli.zygote import fork_program
from tests.support.elections import Elections
from tests.support.journal.entries import Item, Told, opened
from tests.support.replicated import PATIENT_LOCK, Waiting, node
from tests.support.streams import NatsServer

pytestmark = pytest.mark.servers

Configured = Callable[..., Configuration]


def look(configuration: Configuration) -> ReplicaGroup:
    assert configuration.journal is not None
    return group(configuration.journal)


def member(configuration: Configuration, name: str) -> Member | None:
    return next((one for one in look(configuration).members if one.node == name), None)


def wait_level(configuration: Configuration, *names: str) -> None:
    """Wait until brokers have everything in their databases."""

    def is_level() -> bool:
        found = look(configuration)
        level = {
            one.node
            for one in found.members
            if one.is_complete and (one.role == "master" or found.lag(one) == 0)
        }
        return {*names} <= level

    wait_until(is_level, what="followers that have everything")


def serving(configuration: Configuration) -> set[str]:
    """The brokers that may serve, or do."""
    return {one.node for one in look(configuration).members if one.is_complete}


def master_of(*brokers: Waiting) -> Waiting:
    """Wait until one of them is the master."""
    found = wait_until(lambda: [one for one in brokers if one.is_master], what="a master")
    return found[0]


def bodies(store: Store, name: str = "Q") -> list[object]:
    return [message.body for message in store.queue(name).recover(20_000)]


def test_everything_that_was_confirmed_is_with_the_next_master(
    follow: Follow, configured: Configured
) -> None:
    """Messages, and what goes to the tables without a message."""
    first = follow("a").store()
    other = follow("b")
    wait_level(configured("a"), "a", "b")
    queue, topic = first.queue("Q"), first.topic("T")
    queue.add_messages([Message(f"m{number}") for number in range(20)])
    queue.acknowledge(*list(queue.recover(5)))
    topic.add_message(Message("before"))
    subscription = topic.subscribe("c", "s", selector="a = 1")
    late = topic.subscribe("c", "retroactive", retroactive=True)
    topic.subscribe("c", "gone")
    references = topic.add_messages([Message(f"t{number}") for number in range(3)])
    subscription.acknowledge(references[1])
    late.acknowledge(references[0])
    topic.unsubscribe("c", "gone")
    first.record_queue("EMPTY")
    first.record_queue("DROPPED")
    first.drop_record(Destination.queue("DROPPED"))
    first.pause_queue(Destination.queue("Q"), "me")
    first.pause_queue(Destination.queue("EMPTY"), "me")
    first.resume_queue(Destination.queue("EMPTY"))
    first.announce([("stomp", "stomp://a:1")])
    branch = first.xa.start(XATransactionId(1, b"g", b"b"))
    branch.queue("X").add_message(Message("in doubt"))
    assert branch.prepare()
    purged = first.queue("P")
    purged.add_messages([Message("p")] * 3)
    assert purged.remove_all_messages() == 3
    with pytest.raises(SubscriptionExists):
        topic.subscribe("c", "s")
    with pytest.raises(SubscriptionNotFound):
        topic.unsubscribe("c", "gone")
    with pytest.raises(InvalidDestination):
        first.pause_queue(Destination.queue("é" * 100), "me")
    first.close()

    second = other.store()
    assert bodies(second) == [f"m{number}" for number in range(5, 20)]
    assert {one.subscription_name for one in second.topic("T").subscriptions()} == {"s", "retroactive"}
    found = second.topic("T").subscription("c", "s").recover(10)
    assert [message.body for message in found] == ["t0", "t2"]
    found = second.topic("T").subscription("c", "retroactive").recover(10)
    assert [message.body for message in found] == ["before", "t1", "t2"]
    assert {str(one) for one in second.destinations()} >= {"queue://EMPTY", "queue://Q", "topic://T"}
    assert "queue://DROPPED" not in {str(one) for one in second.destinations()}
    assert isinstance(second, Pausing)
    assert isinstance(second, Announcing)
    assert [str(one.queue) for one in second.paused_queues()] == ["queue://Q"]
    assert [one.url for one in second.announced()] == ["stomp://a:1"]
    assert [one.xid for one in second.xa.recover()] == [XATransactionId(1, b"g", b"b")]
    second.xa.commit(XATransactionId(1, b"g", b"b"))
    assert bodies(second, "X") == ["in doubt"]
    assert bodies(second, "P") == []


def view(store: ReplicatedStore) -> dict[str, Any]:
    """Return all that callers of a store see."""
    found: dict[str, Any] = {"in doubt": [one.xid for one in store.xa.recover()]}
    for destination in store.destinations():
        place = store.topic(destination) if destination.is_topic else store.queue(destination)
        found[str(destination)] = [(one.sequence, one.body) for one in place.recover(1000)]
        if destination.is_topic:
            for info in store.topic(destination).subscriptions():
                subscription = store.topic(destination).subscription(info.client_id, info.subscription_name)
                pending = [one.sequence for one in subscription.recover(1000)]
                found[f"{destination} {info.subscription_name} {info.selector}"] = pending
    return found


class Walk:
    """Random operations on a store."""

    def __init__(self, store: ReplicatedStore, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        self._numbers = count()

    def step(self) -> None:
        chance, store = self._chance, self._store
        name = chance.choice("ABC")
        place = store.topic(name) if chance.random() < 0.5 else store.queue(name)
        one = chance.choice((
            *(self._add,) * 6, *(self._acknowledge,) * 4, *(self._subscribe,) * 2, self._unsubscribe,
            self._purge, self._prepare, self._decide, self._update, self._commit,
            lambda _: store.cleanup(), lambda _: store.checkpoint(), lambda _: store.record_queue(f"R{name}"),
        ))  # fmt: skip
        one(place)

    def _add(self, place: Any) -> None:
        messages = [Message(f"m{next(self._numbers)}") for _ in range(self._chance.randrange(1, 4))]
        place.add_messages(messages)

    def _acknowledge(self, place: Any) -> None:
        for source in self._sources(place):
            found = [*source.recover(5)]
            source.acknowledge(*self._chance.sample(found, self._chance.randrange(len(found) + 1)))

    def _sources(self, place: Any) -> list[Any]:
        if not place.destination.is_topic:
            return [place]
        every = place.subscriptions()
        return [place.subscription(one.client_id, one.subscription_name) for one in every]

    def _subscribe(self, place: Any) -> None:
        with suppress(SubscriptionExists):
            self._store.topic(place.destination.name).subscribe(
                "c", self._chance.choice("pqr"), retroactive=self._chance.random() < 0.5
            )

    def _unsubscribe(self, place: Any) -> None:
        with suppress(SubscriptionNotFound):
            self._store.topic(place.destination.name).unsubscribe("c", self._chance.choice("pqr"))

    def _purge(self, place: Any) -> None:
        if self._chance.random() < 0.3:
            self._store.delete_destination(place.destination)

    def _commit(self, place: Any) -> None:
        with self._store.transaction() as transaction:
            queue = transaction.queue(place.destination.name)
            queue.add_message(Message(f"m{next(self._numbers)}"))
            queue.acknowledge(*self._store.queue(place.destination.name).recover(1))

    def _prepare(self, place: Any) -> None:
        branch = self._store.xa.start(XATransactionId(1, b"g", b"%d" % next(self._numbers)))
        queue = branch.queue(place.destination.name)
        queue.add_message(Message(f"m{next(self._numbers)}"))
        queue.acknowledge(*self._store.queue(place.destination.name).recover(1))
        branch.prepare()

    def _decide(self, _: Any) -> None:
        for one in self._store.xa.recover()[:1]:
            decide = self._store.xa.commit if self._chance.random() < 0.5 else self._store.xa.rollback
            decide(one.xid)

    def _update(self, place: Any) -> None:
        for message in place.recover(1):
            place.update_message(message.replace(body=f"u{next(self._numbers)}"))


@pytest.mark.parametrize("seed", range(2))
def test_the_next_master_has_what_the_one_before_had(
    follow: Follow, configured: Configured, seed: int
) -> None:
    """Whatever was done, and wherever each of them has made a checkpoint."""
    first = follow("a").store()
    others = [follow("b")]
    walk = Walk(first, random.Random(seed))
    for number in range(300):
        walk.step()
        if number == 150:
            others.append(follow("c"))
    first.checkpoint()
    wait_until(lambda: serving(configured("a")) == {"a", "b", "c"}, what="followers that may serve")
    wanted = view(first)
    first.close()
    for _ in others:
        master = master_of(*others)
        assert view(master.store()) == wanted
        master.close()


SENDING = """
import sys, jdbcstore
from jdbcstore import Message, load_config
store = jdbcstore.open(load_config(sys.argv[1], environment={}))
subscription = store.topic("T").subscribe("c", "s")
for number in range(10_000):
    store.queue("Q").add_message(Message(str(number)))
    print(number, flush=True)
"""


def test_a_killed_master_is_followed_without_a_loss(
    follow: Follow, configured: Configured, tmp_path: Path
) -> None:
    journal = configured("a").journal
    assert journal is not None
    file = tmp_path / "a.toml"
    file.write_text(
        f'url = "sqlite:///{tmp_path}/a.db"\n[locker]\ntype = "stream-locker"\nsession_timeout = 2\n'
        f'lock_keep_alive_period = 0.4\n[journal]\nstream = "{journal.stream}"\nreplicas = 1\n'
        f'stream_name = "{journal.stream_name}"\nreplicated = true\nnode = "a"\n'
    )
    process = fork_program(SENDING, str(file), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    others = follow("b"), follow("c")
    wait_until(lambda: member(configured("a"), "c") is not None, what="the followers")
    sent = [process.stdout.readline() for _ in range(200)]
    process.kill()
    sent += process.stdout.readlines()
    with process:
        pass
    second = master_of(*others).store()
    found = [str(body) for body in bodies(second)]
    assert found[: len(sent) + 1] == ["0", *(line.strip() for line in sent)]
    assert len(found) <= len(sent) + 2
    assert len(second.topic("T").subscriptions()) == 1
    again = follow("a")
    second.queue("Q").add_message(Message("last"))
    wait_level(configured("a"), "a", "b", "c")
    master_of(*others).close()
    third = master_of(*others, again).store()
    assert [str(body) for body in bodies(third)] == [*found, "last"]


def test_one_subscription_of_many_threads_is_one(follow: Follow) -> None:
    """A second record of it would be refused by each database, for ever."""
    topic = follow("a").store().topic("T")
    begin, errors = threading.Barrier(4), []

    def subscribe() -> None:
        begin.wait()
        try:
            topic.subscribe("c", "s")
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=subscribe) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, len(topic.subscriptions())) == ([], 1)


def test_a_cleanup_removes_the_same_in_each(follow: Follow, configured: Configured) -> None:
    first = follow("a").store()
    one, two = (first.topic("T").subscribe("c", name) for name in ("one", "two"))
    references = first.topic("T").add_messages([Message(f"t{number}") for number in range(6)])
    one.acknowledge(*references[:4], references[5])
    two.acknowledge(*references[:3], references[5])
    other = follow("b")
    first.checkpoint()
    wait_level(configured("a"), "a", "b")
    assert first.cleanup() == 4
    assert first.cleanup() == 0
    first.checkpoint()
    left = first.topic("T").message_count()
    first.close()
    second = other.store()
    assert (second.topic("T").message_count(), left) == (2, 2)
    assert second.cleanup() == 0
    late = second.topic("T").subscribe("c", "late", retroactive=True)
    assert [message.body for message in late.recover(10)] == ["t3", "t4"]


def test_one_that_is_behind_gets_a_copy(follow: Follow, configured: Configured) -> None:
    """A new one too, once the stream does not begin with the first record any more."""
    first = follow("a", kept_for_followers=1).store()
    behind = follow("b")
    first.queue("Q").add_message(Message("m"))
    first.checkpoint()
    wait_level(configured("a"), "a", "b")
    behind.close()
    for number in range(30):
        first.queue("Q").add_message(Message(str(number), properties={"filling": "x" * 1000}))
    first.checkpoint()
    assert look(configured("a")).first_record > 20
    behind, new = follow("b"), follow("c", weight=2)
    first.checkpoint()
    first.queue("Q").add_message(Message("last"))
    first.checkpoint()
    wait_level(configured("a"), "a", "b", "c")
    first.close()
    second = new.store()
    assert bodies(second) == ["m", *map(str, range(30)), "last"]
    second.close()
    assert bodies(behind.store()) == ["m", *map(str, range(30)), "last"]


def rows(file: Path) -> int:
    """The messages in a database."""
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS").fetchone()[0])


def purge(configuration: Configuration, *, keeps_last: bool = False) -> None:
    """Remove what the stream has, as an administrator may."""
    assert configuration.journal is not None
    with closing(StreamServer(configuration.journal, create=False)) as server:
        server.purge(server.state().last + (0 if keeps_last else 1))


def test_no_copy_replaces_newer_content(follow: Follow, configured: Configured, tmp_path: Path) -> None:
    """Somebody purges the stream, when the master has not written to its database yet."""
    first = follow("a").store()
    behind = follow("b")
    for number in range(20):
        first.queue("Q").add_message(Message(str(number)))
    wait_level(configured("a"), "a", "b")
    behind.close()
    assert (rows(tmp_path / "a.db"), rows(tmp_path / "b.db")) == (0, 20)
    for number in range(20, 30):
        first.queue("Q").add_message(Message(str(number)))
    purge(configured("a"))
    for number in range(30, 40):
        first.queue("Q").add_message(Message(str(number)))
    follow("b")

    def is_copied() -> bool:
        assert rows(tmp_path / "b.db") >= 20
        return rows(tmp_path / "b.db") == 40

    wait_until(is_copied, what="a copy")
    assert rows(tmp_path / "b.db-before-copy") == 20
    assert rows(tmp_path / "a.db") == 40


def test_a_copy_that_lacks_records_is_not_taken(
    follow: Follow, configured: Configured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.stores.replicated.follower._USELESS", 0.1)
    waits = CustomLockerConfig(locker_class=f"{__name__}:Taken")
    first = follow("a").store()
    behind = follow("b", locker=waits)
    first.queue("Q").add_messages([Message("m")] * 20)
    wait_level(configured("a"), "a", "b")
    behind.close()
    first.queue("Q").add_messages([Message("m")] * 5)
    first.queue("Q").add_messages([Message("m")] * 5)
    first.close()
    purge(configured("a"), keeps_last=True)
    follow("b", locker=waits)
    journal = configured("a").journal
    assert journal is not None
    with closing(StreamServer(journal, create=False)) as server:
        members = Members(server)

        def wanted(*before: str) -> str:
            found = member(configured("b"), "b")
            return "" if found is None or found.wants in before else found.wants

        def trouble() -> str:
            found = member(configured("b"), "b")
            return (
                found.trouble
                if found is not None and "copy of the master's database ends" in found.trouble
                else ""
            )

        copy = tmp_path / "copy.db"
        applied = copy_database(tmp_path / "a.db", copy)
        name = wait_until(wanted, what="a follower that asks for a copy")
        members.offer(Copy(name, 1, copy.stat().st_size), copy)
        assert "ends with record 1, and record" in wait_until(trouble, what="what it says")
        assert rows(tmp_path / "b.db") == 20
        members.offer(Copy(wait_until(lambda: wanted(name)), applied, copy.stat().st_size), copy)
        wait_until(lambda: rows(tmp_path / "b.db") == 30, what="the copy")
    assert rows(tmp_path / "b.db-before-copy") == 20


def test_the_stream_keeps_what_a_follower_needs(follow: Follow, configured: Configured) -> None:
    first = follow("a").store()
    behind = follow("b")
    wait_until(lambda: member(configured("a"), "b") is not None, what="the follower")
    behind.close()
    seen = member(configured("a"), "b")
    assert seen is not None
    for number in range(30):
        first.queue("Q").add_message(Message(str(number), properties={"filling": "x" * 1000}))
    first.checkpoint()
    assert look(configured("a")).first_record <= seen.applied + 1
    again = follow("b")
    wait_level(configured("a"), "a", "b")
    first.close()
    assert bodies(again.store()) == [*map(str, range(30))]


def test_a_first_database_with_messages_is_copied(
    follow: Follow, configured: Configured, tmp_path: Path
) -> None:
    with jdbcstore.open(f"sqlite:///{tmp_path}/a.db") as store:
        store.queue("Q").add_message(Message("old"))
    first = follow("a", locker=PATIENT_LOCK).store()
    first.queue("Q").add_message(Message("new"))
    other = follow("b", locker=PATIENT_LOCK)
    wait_until(lambda: getattr(member(configured("a"), "b"), "applied", 0) > 0, what="the copy")
    first.checkpoint()
    wait_level(configured("a"), "a", "b")
    first.close()
    assert bodies(other.store()) == ["old", "new"]


def test_nothing_else_writes_to_its_database(follow: Follow, tmp_path: Path) -> None:
    """Also after a clean close: what it wrote would be in one database alone."""
    first = follow("a").store()
    first.queue("Q").add_message(Message("m"))
    first.close()
    with pytest.raises(JournalPending):
        jdbcstore.open(f"sqlite:///{tmp_path}/a.db")


def test_a_database_of_another_store_is_refused(
    follow: Follow, configured: Configured, tmp_path: Path
) -> None:
    first = follow("a").store()
    first.queue("Q").add_message(Message("m"))
    with jdbcstore.open(f"sqlite:///{tmp_path}/b.db") as store:
        store.queue("Q").add_message(Message("other"))
    with pytest.raises(ConfigurationError, match="belongs to another store"):
        jdbcstore.open(configured("b"), lock_timeout=0.0)
    with pytest.raises(NotMaster):
        jdbcstore.open(configured("c"), lock_timeout=0.0)


def test_a_stream_that_is_gone_is_refused(follow: Follow, configured: Configured) -> None:
    first = follow("a").store()
    first.queue("Q").add_message(Message("m"))
    first.close()
    other = configured("a")
    assert other.journal is not None
    gone = replace(other, journal=replace(other.journal, stream_name=f"{other.journal.stream_name}-gone"))
    with pytest.raises(ConfigurationError, match="does not exist"):
        jdbcstore.open(gone, lock_timeout=0.0)


def administer(configuration: Configuration, what: Callable[[JetStreamContext, str], Awaitable[Any]]) -> None:
    """Do something to the stream, as an administrator may."""
    journal = configuration.journal
    assert journal is not None

    async def connected() -> None:
        connection = await client.connect(journal.servers[0])
        try:
            await what(connection.jetstream(), journal.stream_name)
        finally:
            await connection.close()

    asyncio.run(connected())


@pytest.mark.parametrize("how", ["deleted", "purged"])
def test_a_lost_stream_goes_on_from_the_database_that_has_the_most(
    follow: Follow, configured: Configured, how: str
) -> None:
    first = follow("a").store()
    behind = follow("b")
    first.queue("Q").add_messages([Message(f"m{number}") for number in range(20)])
    wait_level(configured("a"), "a", "b")
    behind.close()
    first.queue("Q").add_message(Message("last"))
    first.queue("Q").add_message(Message("last, too"))
    first.close()
    if how == "deleted":
        administer(configured("a"), lambda js, name: js.delete_stream(name))
    else:
        administer(configured("a"), lambda js, name: js.purge_stream(name))
    for name in "ab":
        with pytest.raises(StoreError, match="jdbcstore journal adopt"):
            jdbcstore.open(configured(name), lock_timeout=0.0)
    if how == "deleted":
        empty = follow("c")
        said = wait_until(lambda: getattr(member(configured("c"), "c"), "trouble", ""), what="what c says")
        assert "the broker a has applied it up to record" in said
    with pytest.raises(ConfigurationError, match=r"the broker a has records up to .*: run this there"):
        adopt(configured("b"))
    done = adopt(configured("a"))
    assert done.replayed == 0
    first = follow("a", weight=2).store()
    again = follow("b")
    if how == "purged":
        empty = follow("c")
    wait_level(configured("a"), "a", "b", "c")
    every = [*(f"m{number}" for number in range(20)), "last", "last, too"]
    assert bodies(first) == every
    with pytest.raises(NotMaster):
        adopt(configured("b"))
    first.queue("Q").add_message(Message("new"))
    wait_level(configured("a"), "a", "b", "c")
    first.close()
    assert bodies(master_of(again, empty).store()) == [*every, "new"]


def test_what_is_left_of_a_stream_is_applied_before_it_goes_on(
    follow: Follow, configured: Configured, tmp_path: Path
) -> None:
    """A database that is not up to date has the rest of it then."""
    first = follow("a").store()
    first.queue("Q").add_message(Message("1"))
    first.checkpoint()
    first.queue("Q").add_message(Message("2"))
    copy_database(tmp_path / "a.db", tmp_path / "b.db")
    first.queue("Q").add_message(Message("3"))
    first.close()
    journal = configured("b").journal
    assert journal is not None
    with closing(StreamServer(journal, create=False)) as server:
        last = server.state().last
    with pytest.raises(ConfigurationError, match="nothing is lost; start the broker"):
        adopt(configured("b"))
    administer(configured("a"), lambda js, name: js.delete_msg(name, last))
    with pytest.raises(CorruptJournal, match=r"message .* is missing"):
        jdbcstore.open(configured("b"), lock_timeout=0.0)
    done = adopt(configured("b"), force=True)
    assert done.replayed == 2
    with jdbcstore.open(configured("b"), lock_timeout=60.0) as store:
        assert bodies(store) == ["1", "2", "3"]
    with jdbcstore.open(configured("a"), lock_timeout=60.0) as store:
        assert bodies(store) == ["1", "2", "3"]


def test_a_strangers_message_does_not_end_service(follow: Follow, configured: Configured) -> None:
    first = follow("a").store()
    other = follow("b")
    first.queue("Q").add_message(Message("1"))
    wait_level(configured("a"), "a", "b")
    administer(configured("a"), lambda js, name: js.publish(f"jdbcstore.journal.{name}", b"hello"))
    first.queue("Q").add_message(Message("2"))
    administer(configured("a"), lambda js, name: js.publish(f"jdbcstore.journal.{name}", b"hello"))
    wait_level(configured("a"), "a", "b")
    first.close()
    second = other.store()
    assert bodies(second) == ["1", "2"]
    second.queue("Q").add_message(Message("3"))
    second.close()
    with jdbcstore.open(configured("a"), lock_timeout=60.0) as store:
        assert bodies(store) == ["1", "2", "3"]


def test_a_stream_that_ends_before_the_mark_is_refused(
    follow: Follow, configured: Configured, tmp_path: Path
) -> None:
    first = follow("a").store()
    first.queue("Q").add_message(Message("m"))
    first.close()
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute("UPDATE JDBCSTORE_STATE SET NUMBER = 100 WHERE NAME = ?", (JOURNAL_ROWS[1],))
    with pytest.raises(CorruptJournal, match="ends with record 2"):
        jdbcstore.open(configured("a"), lock_timeout=0.0)


def test_a_leader_that_is_behind_is_no_stream_that_has_lost_its_end(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is elected while a broker asks where the stream ends, and its database has more."""
    journal = configured("a").journal
    assert journal is not None
    with jdbcstore.open(configured("a"), lock_timeout=60.0) as store:
        store.queue("Q").add_message(Message("m"))
    with closing(StreamServer(journal, create=False)) as server:
        last = server.state().last
    Elections(monkeypatch, last - 2)
    with jdbcstore.open(configured("a"), lock_timeout=60.0) as store:
        assert bodies(store) == ["m"]


class Taken(AbstractLocker):
    """A lock that another always has."""

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        return False

    def do_stop(self) -> None: ...


def test_one_that_waits_says_what_keeps_it_from_following_and_goes_on(tmp_path: Path) -> None:
    """Although it would be refused if it were elected now."""
    waits = CustomLockerConfig(locker_class=f"{__name__}:Taken")
    with NatsServer() as server, ExitStack() as opened:

        def restart_with(data: Path) -> None:
            server.kill()
            shutil.rmtree(server.folder / "data")
            shutil.copytree(data, server.folder / "data")
            server.start()

        def add(name: str) -> None:
            with jdbcstore.open(node(server.url, "s", tmp_path, "a"), lock_timeout=60.0) as store:
                store.queue("Q").add_message(Message("m"))
            server.kill()
            shutil.copytree(server.folder / "data", tmp_path / name)
            server.start()

        add("before")
        add("after")
        configuration = node(server.url, "s", tmp_path, "b", locker=waits)
        waiting = Waiting(configuration)
        opened.callback(waiting.close)
        wait_level(configuration, "b")
        restart_with(tmp_path / "before")

        def trouble() -> str:
            found = member(configuration, "b")
            return "" if found is None else found.trouble

        assert "ends with record" in wait_until(trouble, what="what b says")
        restart_with(tmp_path / "after")
        wait_level(configuration, "b")
        assert waiting.error is None


def test_a_stream_whose_settings_are_changed_back_is_followed_again(
    follow: Follow, configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, configuration = follow("a").store(), configured("b")
    store.queue("Q").add_message(Message("m"))
    waiting = follow("b")
    wait_level(configuration, "b")
    attempts: list[JournalConfig] = []

    def connected(config: JournalConfig, **options: Any) -> StreamServer:
        attempts.append(config)
        return StreamServer(config, **options)

    def discard(which: DiscardPolicy) -> None:
        async def change(js: JetStreamContext, name: str) -> None:
            config = (await js.stream_info(name)).config
            await js.update_stream(config.evolve(discard=which))

        administer(configuration, change)

    monkeypatch.setattr("jdbcstore.stores.replicated.follower.StreamServer", connected)
    discard(DiscardPolicy.OLD)
    wait_until(lambda: len(attempts) > 2, what="that b has tried again, and again")
    discard(DiscardPolicy.NEW)
    wait_level(configuration, "a", "b")
    store.close()
    assert bodies(waiting.store()) == ["m"]


def test_a_stream_that_has_lost_its_end_is_refused_however_far_it_grows(tmp_path: Path) -> None:
    """As with ``quorum_mem`` when all servers lose their power: a database has records that are gone."""
    with NatsServer() as server:

        def add(name: str, *texts: str) -> None:
            with jdbcstore.open(node(server.url, "s", tmp_path, name), lock_timeout=60.0) as store:
                store.queue("Q").add_messages([Message(text) for text in texts])

        add("a", "first")
        server.kill()
        shutil.copytree(server.folder / "data", tmp_path / "before")
        server.start()
        add("a", "lost", "lost, too")
        config = node(server.url, "s", tmp_path, "a").journal
        assert config is not None
        with closing(StreamServer(config, create=False)) as servers:
            had = stream_contents(servers)
            assert had.is_still_there(had)
        server.kill()
        shutil.rmtree(server.folder / "data")
        shutil.copytree(tmp_path / "before", server.folder / "data")
        server.start()

        with pytest.raises(CorruptJournal, match=r"ends with record \d"):
            add("a", "not yet")
        with closing(StreamServer(config, create=False)) as servers:
            assert not had.is_still_there(stream_contents(servers))
        add("b", *map(str, range(20)))
        with closing(StreamServer(config, create=False)) as servers:
            assert not replace(had, server=servers).is_still_there(stream_contents(servers))
        with pytest.raises(CorruptJournal, match=r"record \d of the stream differs from .* audit shows"):
            add("a", "never")
        (tmp_path / "a.db").rename(tmp_path / "moved.db")
        add("a", "last")
        add("b", "there")


def test_a_first_master_that_ended_at_once_keeps_nobody_from_beginning(configured: Configured) -> None:
    """It has claimed the stream, and not yet said what its database had."""
    journal = configured("a").journal
    assert journal is not None
    log = StreamLog(journal, SystemClock())
    log.recover()
    log.open(first_sequence=1, store=0)
    log.close()
    with jdbcstore.open(configured("b"), lock_timeout=60.0) as store:
        store.queue("Q").add_message(Message("m"))
    with jdbcstore.open(configured("a"), lock_timeout=60.0) as store:
        assert bodies(store) == ["m"]


def test_a_later_version_among_brokers(follow: Follow, configured: Configured, tmp_path: Path) -> None:
    """Who is not upgraded yet knows where the others are, and stops at a record that it cannot read."""
    first = follow("a").store()
    first.queue("Q").add_message(Message("m"))
    other = follow("b")
    wait_level(configured("a"), "a", "b")
    other.close()
    first.close()
    journal = configured("b").journal
    assert journal is not None
    with closing(StreamServer(journal, create=False)) as server:
        keys = StreamKeys(server.connection, f"{server.name}-members", 1, 60.0)
        found = keys.get("member.b")
        assert found is not None
        keys.put("member.later", json.dumps({**json.loads(found.value), "node": "c", "new": [1]}).encode())
        keys.put("copy.later", json.dumps({"name": "later", "applied": 1, "size": 2, "new": [1]}).encode())
        assert Members(server).offered("later") == Copy("later", 1, 2)
    seen = member(configured("a"), "c")
    assert seen is not None
    assert seen.applied > 0
    told = Told()
    later = opened(journal, told)
    later.append(Item(b"what it means is not known", kind=99))
    told.wait(1)
    later.close()
    with pytest.raises(CorruptJournal, match=r"there is no kind 99; where another broker .* upgrade this"):
        jdbcstore.open(configured("b"), lock_timeout=0.0)
    assert look(configured("b")).last_record == told.written[0].number
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS").fetchone() == (1,)


def test_a_stream_that_an_earlier_version_has_begun_is_followed(configured: Configured) -> None:
    """Its master did not say by which number the stream knows it."""
    journal = configured("a").journal
    assert journal is not None
    told = Told()
    earlier = opened(journal, told, accept=lambda _: (7, 1))
    earlier.append(Item(encode_operation(RecordedOperation(BEGIN, {"is_empty": True})), kind=OPERATE))
    told.wait(1)
    earlier.close()
    with jdbcstore.open(configured("b"), lock_timeout=60.0) as store:
        store.queue("Q").add_message(Message("m"))
    with jdbcstore.open(configured("b"), lock_timeout=60.0) as store:
        assert bodies(store) == ["m"]


def test_two_of_one_name_are_told_apart(follow: Follow, configured: Configured) -> None:
    follow("a").store()
    with pytest.raises(ConfigurationError, match=r"name a with .*/a\.db on .* be with .*/b\.db on .*_NODE"):
        jdbcstore.open(configured("b", node="a"), lock_timeout=0.0)
    with pytest.raises(NotMaster):
        jdbcstore.open(configured("b"), lock_timeout=0.0)


class Unlocked(AbstractLocker):
    """A lock that everybody gets."""

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        return True

    def do_stop(self) -> None:
        return

    def keep_alive(self) -> bool:
        return True


def test_one_that_is_not_the_first_after_all_follows(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another, which was cut off meanwhile, begins the stream when this one has found that there is none."""
    finish = StreamFollower.finish
    unlocked = CustomLockerConfig(locker_class=f"{__name__}:Unlocked")

    def finished(follower: StreamFollower) -> None:
        finish(follower)
        monkeypatch.undo()
        with jdbcstore.open(configured("b", locker=unlocked)) as store:
            store.queue("Q").add_message(Message("m"))

    monkeypatch.setattr(StreamFollower, "finish", finished)
    with jdbcstore.open(configured("a"), lock_timeout=60.0) as store:
        assert bodies(store) == ["m"]


def test_a_stream_that_is_damaged_whoever_opens_it_is_not_tried_for_ever(
    configured: Configured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The follower finds nothing, and the master that it becomes does."""

    def damaged(*_: Any, **__: Any) -> ReplicatedStore:
        raise CorruptJournal("the stream is empty: it was purged", segment=9, in_stream=True)

    monkeypatch.setattr("jdbcstore.stores.replicated.opening.ReplicatedStore", damaged)
    with pytest.raises(CorruptJournal, match="it was purged"):
        jdbcstore.open(configured("a"), lock_timeout=60.0)
    assert (
        "another broker seems to have used the stream since this one has read it: the journal" in caplog.text
    )


def test_servers_that_elect_when_it_becomes_the_master_are_waited_for(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they do for the streams that three brokers have just made."""
    asked = count()

    def elects(*arguments: Any, **options: Any) -> ReplicatedStore:
        if next(asked) == 0:
            raise StoreUnavailable("the stream does not answer: TimeoutError")
        return ReplicatedStore(*arguments, **options)

    monkeypatch.setattr("jdbcstore.stores.replicated.opening.ReplicatedStore", elects)
    with jdbcstore.open(configured("a"), lock_timeout=60.0) as store:
        store.queue("Q").add_message(Message("m"))
    asked = count()
    with pytest.raises(NotMaster, match="TimeoutError"):
        jdbcstore.open(configured("b"), lock_timeout=0.0)


def test_servers_that_elect_when_it_begins_to_follow_are_waited_for(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count()

    def elects(server: StreamServer) -> Members:
        if next(asked) == 0:
            raise StoreUnavailable("the stream does not answer: TimeoutError")
        return Members(server)

    monkeypatch.setattr("jdbcstore.stores.replicated.follower.Members", elects)
    with jdbcstore.open(configured("a"), lock_timeout=0.0) as store:
        store.queue("Q").add_message(Message("m"))


def test_what_is_needed_in_trouble_is_there_before(configured: Configured) -> None:
    """The stores of objects beside the stream: while a server is missing, they could not be made."""
    with jdbcstore.open(configured("a"), lock_timeout=60.0):
        made: list[str] = []

        async def find(js: JetStreamContext, name: str) -> None:
            for folder in ("copies", "refused"):
                with suppress(NotFoundError):
                    made.append((await js.stream_info(f"OBJ_{name}-{folder}")).config.name)

        def is_made() -> bool:
            made.clear()
            administer(configured("a"), find)
            return len(made) == 2

        wait_until(is_made, what="both")


def test_a_copy_without_room_is_waited_for(configured: Configured, tmp_path: Path) -> None:
    """Its follower goes on when there is some."""
    configuration = configured("a")
    with jdbcstore.open(configuration, lock_timeout=60.0):
        assert configuration.journal is not None
        with closing(StreamServer(configuration.journal, create=False)) as server:
            members, copy = Members(server), Copy("c", 1, 5)
            (tmp_path / "taken").write_bytes(b"12345")
            members.offer(copy, tmp_path / "taken")
            with pytest.raises(StoreUnavailable, match="cannot be written to /dev/full: No space left"):
                members.fetch(copy, Path("/dev/full"), lambda _: None)


def test_copies_are_not_readable_by_all(configured: Configured, tmp_path: Path) -> None:
    configuration, umask = configured("a"), os.umask(0o022)
    try:
        with jdbcstore.open(configuration, lock_timeout=60.0) as store:
            assert configuration.journal is not None
            store.queue("Q").add_message(Message("1"))
            with closing(StreamServer(configuration.journal, create=False)) as server:
                members, taken = Members(server), tmp_path / "taken"
                copy = Copy("c", copy_database(tmp_path / "a.db", taken), taken.stat().st_size)
                members.offer(copy, taken)
                members.fetch(copy, tmp_path / "fetched", lambda _: None)
        restore(taken, tmp_path / "fetched", tmp_path / "kept")
    finally:
        os.umask(umask)
    files = ("taken", "fetched", "kept")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in files] == [0o640] * 3


def test_without_servers_it_says_so(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.journal.stream.connection.CONNECTING", 0.5)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        jdbcstore.open(configured("a", stream="nats://127.0.0.1:1"), lock_timeout=0.0)
    with pytest.raises(ConfigurationError, match="JDBCSTORE_JOURNAL_STREAM"):
        jdbcstore.open(configured("a", stream=None), lock_timeout=0.0)


def test_what_cannot_be_replicated_is_refused(configured: Configured) -> None:
    for options in ({"use_quick_journal": True}, {"ignore_missing_journalfiles": True}, {"node": "a b"}):
        with pytest.raises(ConfigurationError):
            configured("a", **options)
    for url in ("postgresql://h/d", "memory:"):
        with pytest.raises(ConfigurationError, match="database of its own"):
            jdbcstore.open(replace(configured("a"), data_source=DataSourceConfig(url=url)))
    with pytest.raises(ConfigurationError, match="shared-file-locker"):
        jdbcstore.open(configured("a", locker=SharedFileLockerConfig(directory="x")))


def test_who_asks_is_told_of_each_broker(follow: Follow, configured: Configured) -> None:
    store = follow("a").store()
    store.queue("Q").add_message(Message("x"))
    follow("b")
    wait_level(configured("a"), "b")

    def seen() -> dict[str, tuple[str, int]]:
        [stream] = store.streams()
        assert {one.name for one in stream.members} == {"a", "b"}
        assert all(one.is_alive and not one.trouble for one in stream.members)
        return {one.name: (one.role, one.lag) for one in stream.members}

    wait_until(lambda: seen()["b"] == ("follower", 0), what="a follower that has everything")
    assert seen()["a"][0] == "master"
    journal = configured("a").journal
    assert journal is not None
    found = health(journal)
    assert found is not None
    assert {one.name for one in found.members} == {"a", "b"}
