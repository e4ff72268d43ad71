"""Messages that SQL statements insert, sent by a broker like those of its clients."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Destination, JdbcStore, StoreConfig, load_config
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.errors import (
    ConfigurationError,
    InvalidMessage,
    MessageTooLarge,
    StorageFull,
    StoreUnavailable,
)
from jdbcstore.lockers import make_locker
from jdbcstore.message.dead_letters import CAUSE
from jdbcstore.message.inserted import InsertedMessage
from jdbcstore.message.message import Message
from jdbcstore.stores.jdbc.outbox import JdbcOutbox
from tests.support.broker.consuming import PATIENCE, consume, running
from tests.support.broker.managed import managed
from tests.support.claims.callers import opened
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


CONFIG = StoreConfig(outbox=True)


@pytest.fixture
def store(database: Database) -> Iterator[JdbcStore]:
    with JdbcStore(database.url, CONFIG, locker=make_locker(LeaseDatabaseLockerConfig(), "broker")) as store:
        yield store
    database.expect_closed()


def insert(body: str, destination: str = "queue://Q", **columns: str) -> str:
    names = ", ".join(["DESTINATION", "BODY", *columns])
    values = ", ".join(f"'{value}'" for value in (destination, body, *columns.values()))
    return f"INSERT INTO JDBCSTORE_OUTBOX ({names}) VALUES ({values})"


async def execute(database: Database, *statements: str) -> None:
    for statement in statements:
        await asyncio.to_thread(database.execute, statement)


def rest(database: Database) -> list[Any]:
    return [row[0] for row in database.rows("SELECT BODY FROM JDBCSTORE_OUTBOX")]


def test_they_arrive_in_order_with_those_of_clients(store: JdbcStore, database: Database) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            for turn in range(3):

                def transaction(turn: int = turn) -> None:
                    with opened(database.url, "core") as caller:
                        caller.run(insert("rolled back"))
                        caller.rollback()
                        for number in range(3):
                            caller.run(insert(f"{turn} {number}"))
                        caller.commit()

                await asyncio.to_thread(transaction)
                await consumer.got(3 * (turn + 1))
            assert consumer.bodies == [f"{turn} {number}" for turn in range(3) for number in range(3)]
            await consumer.drain(9)
            assert rest(database) == []

    asyncio.run(main())
    assert list(store.queue("Q").recover()) == []


def test_topics_composites_and_transient_messages(store: JdbcStore, database: Database) -> None:
    async def main() -> None:
        async with running(store) as engine:
            news, first, second = [await consume(engine, name) for name in ("topic://NEWS", "A", "B")]
            await execute(
                database,
                insert("news", "topic://NEWS", properties='{"table": 7, "new": true}'),
                insert("both", "queue://A,queue://B"),
                insert("transient", "A", persistent="0"),
            )
            [delivery] = await news.got(1)
            assert dict(delivery.message.properties) == {"table": 7, "new": True}
            await second.got(1)
            await first.got(2)
            kept = {delivery.message.body: delivery.message.persistent for delivery in first.deliveries}
            assert (kept, second.bodies) == ({"both": True, "transient": False}, ["both"])
            assert rest(database) == []

    asyncio.run(main())


def test_bad_rows_become_dead_letters_and_do_not_stop_others(store: JdbcStore, database: Database) -> None:
    bad = ["temp-queue://A", "queue://A.>", "amqp://A", "queue://JDBCSTORE.SCHEDULED"]

    async def main() -> None:
        async with running(store) as engine:
            consumer, letters = await consume(engine, "Q"), await consume(engine, "ActiveMQ.DLQ")
            await execute(
                database,
                *(insert(name, name) for name in bad),
                insert("later", delay="5000"),
                insert("good"),
            )
            await consumer.got(1)
            found = await letters.got(len(bad) + 1)
            assert letters.bodies == [*bad, "later"]
            assert all(one.message.properties[CAUSE] for one in found)
            assert "scheduler_support" in str(found[-1].message.properties[CAUSE])
            assert rest(database) == []
            view = managed(engine).views.broker()
            assert (view.moved, view.bad) == (len(bad) + 2, len(bad) + 1)

    asyncio.run(main())


def test_a_queue_that_cannot_be_opened_does_not_stop_others(store: JdbcStore, database: Database) -> None:
    store.queue("OTHER", prioritized=True)

    async def main() -> None:
        async with running(store) as engine:
            consumer, letters = await consume(engine, "Q"), await consume(engine, "ActiveMQ.DLQ")
            await execute(database, insert("bad", "OTHER"), insert("good"))
            await consumer.got(1)
            [letter] = await letters.got(1)
            assert "prioritized=True" in str(letter.message.properties[CAUSE])
            assert rest(database) == []

    asyncio.run(main())


def test_delayed_messages_are_scheduled(store: JdbcStore, database: Database) -> None:
    async def main() -> None:
        async with running(store, scheduler_support=True) as engine:
            consumer = await consume(engine, "Q")

            def both() -> None:
                with opened(database.url, "core") as caller:
                    caller.run(insert("later", delay="60"))
                    caller.run(insert("now"))
                    caller.commit()

            await asyncio.to_thread(both)
            await consumer.got(2)
            assert consumer.bodies == ["now", "later"]

    asyncio.run(main())


def test_a_send_id_is_sent_once(store: JdbcStore, database: Database) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await execute(database, insert("a", send_id="1"), insert("again", send_id="1"))
            await consumer.got(1)
            await execute(database, insert("again", send_id="1"), insert("end"))
            await consumer.got(2)
            assert consumer.bodies == ["a", "end"]
            assert rest(database) == []

    asyncio.run(main())


def test_rows_that_cannot_be_sent_stay_with_an_error(
    store: JdbcStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(store, max_uncommitted_count=1) as engine:
            consumer = await consume(engine, "Q")
            await execute(database, insert("too large", jms_type="x"), insert("good"), insert("good"))
            await consumer.got(2)
            assert rest(database) == ["too large"]
            view = managed(engine).views.broker()
            assert (view.moved, view.bad) == (2, 1)
            assert "7 bytes" in str(database.rows("SELECT ERROR FROM JDBCSTORE_OUTBOX"))

    stage = Queue.stage

    def small(queue: Queue, transaction: Any, message: Any) -> bool:
        if message.body == "too large":
            raise MessageTooLarge(7, 3, "split it")
        return stage(queue, transaction, message)

    monkeypatch.setattr(Queue, "stage", small)
    asyncio.run(main())


def test_a_corrected_row_is_sent(
    store: JdbcStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, refuse = threading.Event(), JdbcOutbox.refuse

    def noted(outbox: JdbcOutbox, row: InsertedMessage, reason: str) -> None:
        refuse(outbox, row, reason)
        refused.set()

    def unsendable(_: InsertedMessage, reason: str) -> Message:
        raise InvalidMessage(reason)

    monkeypatch.setattr(JdbcOutbox, "refuse", noted)
    monkeypatch.setattr(InsertedMessage, "dead_letter", unsendable)

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await execute(database, insert("corrected", priority="99"))
            assert await asyncio.to_thread(refused.wait, PATIENCE)
            await execute(
                database,
                "UPDATE JDBCSTORE_OUTBOX SET PRIORITY = 9, ERROR = NULL",
                insert("after", priority="0"),
            )
            await consumer.got(1)
            assert consumer.bodies[0] == "corrected"

    asyncio.run(main())


@pytest.mark.backends("postgresql")
def test_a_stopped_broker_leaves_no_file_open(store: JdbcStore, database: Database) -> None:
    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await execute(database, insert("a"))
            await consumer.got(1)
            await consumer.drain(1)

    asyncio.run(main())
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    assert len(os.listdir("/proc/self/fd")) == before


def test_they_wait_while_the_disk_is_full(
    store: JdbcStore, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts, read = threading.Semaphore(0), JdbcOutbox.read

    def noted(outbox: JdbcOutbox, most: int, **options: Any) -> Any:
        rows = read(outbox, most, **options)
        if rows:
            attempts.release()
        return rows

    monkeypatch.setattr(JdbcOutbox, "read", noted)

    async def main() -> None:
        async with running(store) as engine:
            engine.outbox.room.filled(StorageFull("full"), 0)
            await execute(database, insert("a"))
            for _ in range(3):
                assert await asyncio.to_thread(attempts.acquire, timeout=PATIENCE)
            assert engine.outbox.room.refused == 0
            assert rest(database) == ["a"]

    asyncio.run(main())
    assert caplog.text.count("stay in the outbox for now: full") == 1


def test_it_goes_on_when_the_database_answers_again(
    store: JdbcStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, read = [StoreUnavailable("gone"), StoreUnavailable("gone")], JdbcOutbox.read

    def sometimes(outbox: JdbcOutbox, most: int, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(outbox, most, **options)

    monkeypatch.setattr(JdbcOutbox, "read", sometimes)

    async def main() -> None:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await execute(database, insert("a"))
            await consumer.got(1)

    asyncio.run(main())


def test_what_a_broker_leaves_the_next_one_sends(store: JdbcStore, database: Database) -> None:
    database.execute(insert("before"))

    async def main() -> Engine:
        async with running(store) as engine:
            consumer = await consume(engine, "Q")
            await consumer.got(1)
            await consumer.drain(1)
        return engine

    asyncio.run(main())
    database.execute(insert("between"))
    assert rest(database) == ["between"]
    engine = asyncio.run(main())
    assert engine.destinations.get(Destination.queue("Q")) is not None


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("section", ["journal", "memory", "stores"])
def test_where_nothing_can_be_moved_it_is_refused(database: Database, section: str, tmp_path: Any) -> None:
    file, url = tmp_path / "jdbcstore.toml", f'url = "{database.url}"\n'
    sections = {
        "journal": f'{url}[journal]\ndirectory = "{tmp_path}/j"\n',
        "memory": 'url = "memory:"\n',
        "stores": f'[[stores]]\ndirectory = "{tmp_path}/s"\n',
    }
    file.write_text("outbox = true\n" + sections[section])
    with pytest.raises(ConfigurationError, match="outbox moves messages in transactions of one database"):
        jdbcstore.open(load_config(file))


@pytest.mark.backends("sqlite")
def test_without_a_locker_it_is_refused(database: Database) -> None:
    async def main(store: JdbcStore) -> None:
        with pytest.raises(ConfigurationError, match="add a locker"):
            Engine(store)

    with JdbcStore(database.url, CONFIG) as store:
        asyncio.run(main(store))


def test_after_a_failure_the_writer_ends_first(store: JdbcStore, database: Database) -> None:
    """Rows that a commit in doubt may still remove are read after it."""
    database.execute(insert("a"))
    outbox, lets_go, began = store.outbox, threading.Event(), threading.Event()
    assert outbox is not None

    def commit_late(_: object) -> None:
        began.set()
        assert lets_go.wait(PATIENCE)

    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(outbox._writer.call, commit_late)
        assert began.wait(PATIENCE)
        reading = pool.submit(outbox.read, 10, after_failure=True)
        assert [row.body for row in outbox.read(10)] == ["a"]
        assert not reading.done()
        lets_go.set()
        writing.result(PATIENCE)
        assert [row.body for row in reading.result(PATIENCE)] == ["a"]
