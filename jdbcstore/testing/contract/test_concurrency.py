"""Many threads at once: no reader misses a message, nothing is lost, stored twice or half."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from sqlalchemy import text

from jdbcstore import Cursor, Message, MessageReference, MessageStore, Store, TopicMessageStore, pages
from jdbcstore.abc import Recoverable
from jdbcstore.errors import MessageNotFound
from jdbcstore.testing.messages import content, fill, sequences
from jdbcstore.testing.provider import Capabilities, OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import IN_THE_JOURNAL, ONE_STORE

# Slow, and what a statement says has no part in it.
pytestmark = pytest.mark.variants

PRODUCERS = 16
EACH = 50
END = "end"
"""The body of a message that is added when all others are committed: a reader that meets it is done."""


def run_together(*tasks: Callable[[], object]) -> list[object]:
    """Run each on a thread of its own, all starting at once; their results, or the first error."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> object:
        start.wait(180)
        return task()

    with ThreadPoolExecutor(len(tasks)) as threads:
        return [future.result(240) for future in [threads.submit(run, task) for task in tasks]]


@pytest.mark.ours
def test_tasks_of_a_loop_await_what_is_written(store: Store) -> None:
    orders, news = store.queue("ORDERS"), store.topic("NEWS")
    subscription = news.subscribe("client", "reader")

    async def work() -> None:
        added = [orders.add_message_async(Message(str(number))) for number in range(300)]
        references = await asyncio.gather(*added)
        await asyncio.gather(*(orders.acknowledge_async(reference) for reference in references[:200]))
        with store.transaction() as transaction:
            transaction.topic("NEWS").add_message(Message("news"))
            [reference] = await transaction.commit_async()
        await subscription.acknowledge_async(reference)
        together = [Message("together", destination=orders.destination)]
        [outcome] = await store.add_each_async(together)
        assert orders.get_message(outcome.sequence).body == "together"  # type: ignore[union-attr]

    asyncio.run(asyncio.wait_for(work(), 180))
    assert content(orders) == [*map(str, range(200, 300)), "together"]
    assert subscription.message_count() == 0


def produce(store: Store, name: str, number: int) -> list[int]:
    """Add ``EACH`` messages in every way there is; their sequences."""
    queue = store.queue(name)
    references: list[MessageReference] = []
    while len(references) < EACH:
        message = Message("x" * number, priority=(number + len(references)) % 10)
        match number % 4:
            case 0:
                references.append(queue.add_message(message))
            case 1:
                futures = [queue.add_message_async(message) for _ in range(5)]
                references += [future.result(180) for future in futures]
            case 2:
                references += queue.add_messages([message] * 5)
            case _:
                with contextlib.closing(_Committing(store)) as transaction:
                    for _ in range(5):
                        transaction.queue(name).add_message(message)
                        transaction.queue("ELSEWHERE").add_message(message)
                references += transaction.references[::2]
    return [reference.sequence for reference in references]


class _Committing:
    """A transaction that commits when it is closed."""

    def __init__(self, store: Store) -> None:
        self._transaction = store.transaction()
        self.queue = self._transaction.queue
        self.references: list[MessageReference] = []

    def close(self) -> None:
        self.references = self._transaction.commit()


@dataclass
class Readers:
    """Readers that only ever go forward, each from page to page as long as others add."""

    found: dict[str, list[int]] = field(default_factory=dict)
    turned: Counter[str] = field(default_factory=Counter)
    """Pages that ended before the end."""

    def through(self, name: str, source: Recoverable, limit: int) -> Callable[[], None]:
        """Read through the store contract."""

        def read() -> None:
            sequences = self.found.setdefault(name, [])
            cursor: Cursor | None = None
            while True:
                page = source.recover(limit, cursor)
                cursor = page.cursor
                self.turned[name] += bool(page)
                for message in page:
                    if message.body == END:
                        return
                    sequences.append(message.sequence or 0)

        return read


def add_while_reading(store: Store, tasks: list[Callable[[], None]]) -> list[int]:
    """Add with all producers while the tasks read; the sequences of what was added."""

    def producers() -> list[int]:
        numbers = range(1, PRODUCERS + 1)
        added = run_together(*[lambda number=number: produce(store, "ORDERS", number) for number in numbers])
        store.queue("ORDERS").add_message(Message(END, priority=0))
        return list(itertools.chain.from_iterable(added))  # type: ignore[arg-type]

    added = run_together(producers, *tasks)[0]
    assert isinstance(added, list)
    assert len(set(added)) == PRODUCERS * EACH
    return sorted(added)


@pytest.mark.slow
def test_no_reader_misses_a_message(store: Store, queue: MessageStore) -> None:
    readers = Readers()

    tasks = [readers.through(f"limit {limit}", queue, limit) for limit in (1, 7, 100)]
    added = add_while_reading(store, tasks)

    for name, of_reader in readers.found.items():
        assert of_reader == added, name
    assert readers.turned["limit 1"] == len(added) + 1
    assert sequences(store.queue("ORDERS")) == [*added, store.last_sequence()]


@pytest.mark.slow
def test_no_reader_by_priority_misses_one(open_store: OpenStore) -> None:
    store = open_store()
    queue = store.queue("ORDERS", prioritized=True)
    readers = Readers()

    def read() -> None:
        sequences, cursor = readers.found.setdefault("by priority", []), None
        while True:
            page = queue.recover(9, cursor)
            cursor = page.cursor
            ended = False
            for message in page:
                sequences.append(message.sequence or 0)
                ended |= message.body == END
            if ended:
                # What is left was committed before the end was, in lanes that had been read already.
                sequences += [message.sequence or 0 for rest in pages(queue, 9, cursor) for message in rest]
                return

    added = add_while_reading(store, [read])

    sequences = readers.found["by priority"]
    assert len(sequences) == len(set(sequences))
    assert sorted(sequences) == [*added, store.last_sequence()]


def test_a_subscription_misses_none(open_store: OpenStore) -> None:
    """It acknowledges what it reads, so each page starts again at its mark."""
    store = open_store()
    topic = store.topic("PRICES")
    subscription = topic.subscribe("client", "ticker")
    slow = topic.subscribe("client", "slow")
    taken: list[int] = []

    def publish() -> None:
        for number in range(60):
            fill(topic, *[str(number)] * 5)

    def publish_all() -> None:
        run_together(*[publish] * 4)
        fill(topic, END)

    def consume() -> None:
        while True:
            page = subscription.recover(17)
            done = [message for message in page if message.body != END]
            # The last of the page first: each page leaves a gap for a moment.
            for message in reversed(done):
                subscription.acknowledge_async(message)
            subscription.acknowledge(*done)
            taken.extend(message.sequence or 0 for message in done)
            if len(done) < len(page):
                return

    def clean() -> None:
        for _ in range(20):
            store.cleanup()

    run_together(publish_all, consume, clean)

    assert len(taken) == len(set(taken)) == 1_200
    assert content(subscription) == [END]
    assert slow.message_count() == topic.message_count() == 1_201
    topic.unsubscribe("client", "slow")
    assert store.cleanup() == 1_200


def test_each_message_goes_to_one_of_many_consumers(queue: MessageStore) -> None:
    todo: list[MessageReference] = []
    more = threading.Condition()
    finished = threading.Event()
    taken: list[str] = []

    def send() -> None:
        for number in range(100):
            reference = queue.add_message(Message(f"{threading.get_ident()} {number}"))
            with more:
                todo.append(reference)
                more.notify()

    def take() -> None:
        while True:
            with more:
                more.wait_for(lambda: todo or finished.is_set())
                if not todo:
                    return
                reference = todo.pop()
            taken.append(str(queue.get_message(reference.sequence).body))
            queue.acknowledge(reference)
            with pytest.raises(MessageNotFound):
                queue.get_message(reference.sequence)

    def send_all() -> None:
        run_together(*[send] * 4)
        finished.set()
        with more:
            more.notify_all()

    run_together(send_all, *[take] * 4)

    assert len(taken) == len(set(taken)) == 400
    assert queue.message_count() == 0
    assert queue.statistics().message_bytes == 0


def test_acknowledging_one_message_from_many_threads(store: Store) -> None:
    queue, subscription = store.queue("ORDERS"), store.topic("PRICES").subscribe("client", "ticker")
    references = fill(queue, *map(str, range(50)))
    published = fill(store.topic("PRICES"), *map(str, range(50)))

    def acknowledge() -> None:
        for reference, other in zip(references, reversed(published), strict=True):
            queue.acknowledge(reference)
            subscription.acknowledge(other)

    run_together(*[acknowledge] * 6)

    assert queue.message_count() == subscription.message_count() == 0


@IN_THE_JOURNAL
def test_transactions_are_never_seen_in_part(
    open_store: OpenStore, database: RawTables, capabilities: Capabilities
) -> None:
    if not capabilities.snapshots:
        pytest.skip("here a statement sees what is committed while it reads")
    store = open_store()
    done = threading.Event()
    seen: Counter[bool] = Counter()
    halves = text(
        "SELECT SUM(CASE WHEN CONTAINER = 'queue://A' THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN CONTAINER = 'queue://B' THEN 1 ELSE 0 END) FROM ACTIVEMQ_MSGS"
    )

    def transfer(number: int) -> None:
        names = ("A", "B") if number % 2 else ("B", "A")
        taken: list[MessageReference] = []
        for _ in range(30):
            transaction = store.transaction()
            for name in names:
                transaction.queue(name).add_message(Message("x"))
            if taken:
                for name, reference in zip(names, taken, strict=True):
                    transaction.queue(name).acknowledge(reference)
            taken = transaction.commit()

    def watch() -> None:
        with database.engine.connect() as connection:
            while not done.is_set():
                [(a, b)] = connection.execute(halves)
                seen[a == b] += 1

    def all_transfers() -> None:
        try:
            run_together(*[lambda number=number: transfer(number) for number in range(8)])
        finally:
            done.set()

    run_together(all_transfers, watch)

    assert seen[False] == 0
    assert seen[True] > 10
    assert store.queue("A").message_count() == store.queue("B").message_count() == 8


@pytest.mark.parametrize("remove", [MessageStore.remove_all_messages, MessageStore.remove_expired])
def test_removing_while_others_add(queue: MessageStore, remove: Callable[[MessageStore], int]) -> None:
    adding = threading.Event()
    adding.set()

    def add() -> None:
        for _ in range(40):
            fill(queue, *["x"] * 10, expiration_ms=1)

    def add_all() -> None:
        run_together(*[add] * 4)
        adding.clear()

    def remove_all() -> int:
        removed = 0
        while adding.is_set():
            removed += getattr(queue, remove.__name__)()
        return removed

    _, removed = run_together(add_all, remove_all)

    assert isinstance(removed, int)
    assert removed + queue.message_count() == 1_600
    assert len(content(queue)) == queue.message_count()


def test_purging_leaves_what_is_added_meanwhile(queue: MessageStore) -> None:
    fill(queue, *["old"] * 3_000)

    def add(_: int) -> None:
        # Between two batches: the first is reported before the second is looked for.
        fill(queue, "new")

    removed = queue.remove_all_messages(add)

    assert removed == 3_000
    assert set(content(queue)) == {"new"}


def test_subscribing_from_many_threads(topic: TopicMessageStore) -> None:
    run_together(*[lambda number=number: topic.subscribe("client", f"s{number % 2}") for number in range(8)])

    assert sorted(info.subscription_name for info in topic.subscriptions()) == ["s0", "s1"]
    fill(topic, "a")
    assert content(topic.subscription("client", "s0")) == ["a"]


def test_many_destinations_at_once(store: Store) -> None:
    def work(number: int) -> None:
        for round_ in range(10):
            queue = store.queue(f"Q{(number + round_) % 5}")
            reference = queue.add_message(Message("x"))
            queue.acknowledge(reference.message_id)
            queue.add_message(Message("stays"))

    run_together(*[lambda number=number: work(number) for number in range(8)])

    assert sum(store.queue(f"Q{number}").message_count() for number in range(5)) == 80
    assert store.last_sequence() == 160


@ONE_STORE
@pytest.mark.new_database
@pytest.mark.needs("durable", "shared")
def test_first_starts_at_once(open_store: OpenStore) -> None:
    """The tables are made once, whoever comes first."""
    stores: list[Store] = []
    run_together(*[lambda: stores.append(open_store())] * 4)

    for store in stores:
        fill(store.queue("ORDERS"), "x")
    assert len(stores) == 4
    assert len(set(sequences(stores[0].queue("ORDERS")))) == 4
