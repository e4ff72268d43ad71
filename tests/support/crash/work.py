"""What a storing process does until it is killed, and says: one line before and after each call.

Every message has its own name as its id and its body. The invariants are in ``ledger.py``.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import jdbcstore
from jdbcstore import JournaledStore, Message, MessageId, MessageReference, ProducerId, StoreConfig
from jdbcstore.abc import MessageStore, Page, Store
from jdbcstore.config.journal import JournalConfig
from jdbcstore.stores.jdbc.store import JdbcStore

SUBSCRIPTIONS = ("first", "second")
RANKED = "ranked"
"""The subscription of topic IN, which is prioritised."""
QUICKLY = "-quick"
"""At the end of a journal's directory: the database is to get references."""
_BACKLOG = 60
"""Messages beyond which a producer waits for its consumer."""


def say(*words: object) -> None:
    """One line, whole: a write this short to a pipe is never mixed with another thread's."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Names:
    """Messages that nobody sent before, in this process or an earlier one."""

    def __init__(self, kind: str, incarnation: int) -> None:
        self._producer = ProducerId(f"ID:{kind}-{incarnation}", 1, 1)
        self._numbers = itertools.count(1)

    def message(self, **headers: int) -> Message:
        return named(MessageId(self._producer, next(self._numbers)), **headers)


def named(name: MessageId, **headers: int) -> Message:
    return Message(str(name), message_id=name, priority=headers.get("priority", 4))


def open_store(url: str, journal: str = "") -> Store:
    """A store that cleans up all the time; with a journal in a directory, or in a stream, ``nats://server/name``,
    it makes checkpoints as often."""
    if not journal:
        return jdbcstore.open(url, cleanup_period=0.03)
    server, _, name = journal.rpartition("/")
    where = (
        {"stream": server, "stream_name": name, "replicas": 3 if "," in server else 1}
        if journal.startswith("nats:")
        else {}
    )
    config = JournalConfig(
        **{"directory": journal, **where},  # type: ignore[arg-type]
        journal_log_files=1,
        journal_log_file_size=1 << (14 if journal.endswith(QUICKLY) else 18),
        use_quick_journal=journal.endswith(QUICKLY),
        checkpoint_interval=0.05,
        max_checkpoint_message_add_size=2_000,
    )
    return JournaledStore(JdbcStore(url, StoreConfig(cleanup_period=0.03), journaled=True), config)


def run(url: str, incarnation: int, journal: str = "") -> None:
    """Store, acknowledge and clean up in all ways at once, for ever."""
    with open_store(url, journal) as store:
        news = store.topic("NEWS")
        for name in SUBSCRIPTIONS:
            news.subscribe("client", name)
        store.topic("IN", prioritized=True).subscribe("client", RANKED)
        say("ready")
        jobs: list[Callable[[Store, int], None]] = [
            *(lambda store, n, i=i: add_one_by_one(store, Names(f"one{i}", n)) for i in range(2)),
            lambda store, n: add_with_futures(store, Names("future", n)),
            add_many,
            lambda store, n: publish(store, Names("news", n)),
            feed,
            move,
            lambda store, _: consume(store.queue("ONE")),
            lambda store, _: consume(store.queue("FUTURE")),
            lambda store, _: consume_batches(store.queue("MANY")),
            *(lambda store, _, name=name: subscribe(store, name) for name in SUBSCRIPTIONS),
        ]
        threads = [threading.Thread(target=_work, args=(job, store, incarnation)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _work(job: Callable[[Store, int], None], store: Store, incarnation: int) -> None:
    try:
        job(store, incarnation)
    except BaseException as error:  # whatever it is, the test must hear of it
        say("error", repr(error).replace("\n", " "))


def _added(queue: str, reference: MessageReference) -> None:
    say("added", queue, reference.sequence, reference.message_id)


def add_one_by_one(store: Store, names: Names) -> None:
    """Each add waits for its own commit."""
    queue = store.queue("ONE")
    while True:
        _added("queue://ONE", queue.add_message(names.message()))
        _make_room(queue)


def add_with_futures(store: Store, names: Names) -> None:
    """Twenty adds under way at any time."""
    queue = store.queue("FUTURE")
    waiting: list[Future[MessageReference]] = []
    while True:
        waiting.append(queue.add_message_async(names.message()))
        if len(waiting) == 20:
            _added("queue://FUTURE", waiting.pop(0).result())
            _make_room(queue)


def add_many(store: Store, incarnation: int) -> None:
    """Lists of 2 to 30 messages, one producer each, whose name says how many there are."""
    queue = store.queue("MANY")
    for number in itertools.count(1):
        size = random.choice((2, 3, 30))
        names = Names(f"many-{number}-of-{size}", incarnation)
        for reference in queue.add_messages([names.message() for _ in range(size)]):
            _added("queue://MANY", reference)
        _make_room(queue)


def publish(store: Store, names: Names) -> None:
    topic = store.topic("NEWS")
    while True:
        _added("topic://NEWS", topic.add_message(names.message()))
        _make_room(topic)


def feed(store: Store, incarnation: int) -> None:
    """Message N to queue WORK and message N to topic IN, or neither."""
    work, into = Names("work", incarnation), Names("in", incarnation)
    while True:
        with store.transaction() as transaction:
            transaction.queue("WORK").add_message(work.message())
            transaction.topic("IN").add_message(into.message(priority=random.randrange(10)))
        _make_room(store.queue("WORK"))


def move(store: Store, _incarnation: int) -> None:
    """Take N from WORK and from IN, and add N to both OUTs, all or nothing."""
    inbox = store.topic("IN").subscription("client", RANKED)
    while True:
        page = _shuffled(store.queue("WORK").recover(30))
        arrived = {message.message_id: message for message in inbox.recover(500)}
        for message in page[:10]:
            assert message.message_id is not None
            peer = arrived[_renamed(message, "work", "in")]
            with store.transaction() as transaction:
                transaction.queue("WORK").acknowledge(random.choice((message, message.message_id)))
                transaction.topic("IN").acknowledge_subscription("client", RANKED, peer)
                for out in ("OUT1", "OUT2"):
                    transaction.queue(out).add_message(named(_renamed(message, "work", "out")))
                say("moving", message.message_id)
            say("moved", message.message_id)


def _renamed(message: Message, old: str, new: str) -> MessageId:
    assert message.message_id is not None
    return MessageId.parse(str(message.message_id).replace(f"ID:{old}-", f"ID:{new}-"))


def consume(queue: MessageStore) -> None:
    """Acknowledge in any order, named in any way, waiting or not."""
    name = queue.destination.qualified_name
    while True:
        page = _shuffled(queue.recover(40))
        waiting: list[tuple[list[Message], Future[None]]] = []
        for message in page[: random.randrange(1, 30)]:
            assert message.sequence is not None
            assert message.message_id is not None
            say("acking", name, message.message_id)
            reference = random.choice((message, message.sequence, message.message_id))
            if random.random() < 0.5:
                queue.acknowledge(reference)
                say("acked", name, message.message_id)
            else:
                waiting.append(([message], queue.acknowledge_async(reference)))
        _await_acknowledged(name, waiting)


def consume_batches(queue: MessageStore) -> None:
    """Acknowledge a whole batch in one call."""
    while True:
        batches: dict[ProducerId | None, list[Message]] = {}
        for message in queue.recover(200):
            assert message.message_id is not None
            batches.setdefault(message.message_id.producer_id, []).append(message)
        for producer, messages in batches.items():
            size = int(str(producer).split("-of-")[1].split("-")[0])
            if len(messages) == size:  # a page may end within a batch
                ids = [message.message_id for message in messages]
                say("acking", "queue://MANY", *ids)
                queue.acknowledge(*messages)
                say("acked", "queue://MANY", *ids)


def subscribe(store: Store, name: str) -> None:
    """Acknowledge for one subscription, out of order."""
    subscription = store.topic("NEWS").subscription("client", name)
    while True:
        page = _shuffled(subscription.recover(30))
        waiting: list[tuple[list[Message], Future[None]]] = []
        while page:
            some = [page.pop() for _ in range(min(len(page), 3))]
            say("acking", name, *(message.message_id for message in some))
            waiting.append((some, subscription.acknowledge_async(*some)))
        _await_acknowledged(name, waiting)


def _shuffled(page: Page) -> list[Message]:
    messages = list(page)
    if not messages:
        _pause.wait(0.001)
    random.shuffle(messages)
    return messages


def _await_acknowledged(name: str, waiting: Sequence[tuple[list[Message], Future[None]]]) -> None:
    for messages, future in waiting:
        future.result()
        say("acked", name, *(message.message_id for message in messages))


def _make_room(store: MessageStore) -> None:
    """Let the consumer catch up, so that the checks stay short."""
    while store.message_count() > _BACKLOG:
        _pause.wait(0.001)


_pause = threading.Event()
