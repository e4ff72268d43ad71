"""The machine goes down at every write of the journal, and at every transaction of a checkpoint."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import JournaledStore, MemoryStore, Message, Store, StoreConfig, XATransactionId
from jdbcstore.errors import StoreError
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import message_id
from tests.support.journaled.world import World

XID = XATransactionId(7, b"x", b"b")
OTHER = XATransactionId(7, b"y", b"b")
CONFIG = StoreConfig(cleanup_period=0)

Step = Callable[[Store], object]
Seen = dict[str, object]


def add(*numbers: int) -> Step:
    return lambda store: store.queue("A").add_messages(
        Message("x" * 200, message_id=message_id(number)) for number in numbers
    )


def acknowledge(*numbers: int) -> Step:
    return lambda store: store.queue("A").acknowledge(*map(message_id, numbers))


def publish(*numbers: int) -> Step:
    return lambda store: store.topic("T").add_messages(
        Message("x" * 200, message_id=message_id(number)) for number in numbers
    )


def consume(name: str, *numbers: int) -> Step:
    return lambda store: store.topic("T").subscription("c", name).acknowledge(*map(message_id, numbers))


def subscribe(name: str) -> Step:
    return lambda store: store.topic("T").subscribe("c", name, retroactive=True)


def unsubscribe(name: str) -> Step:
    return lambda store: store.topic("T").unsubscribe("c", name)


def update(number: int) -> Step:
    def run(store: Store) -> None:
        message = store.queue("A").get_message(message_id(number))
        store.queue("A").update_message(message.replace(body=f"{number} anew"))

    return run


def move(gone: int, come: int) -> Step:
    def run(store: Store) -> None:
        with store.transaction() as transaction:
            transaction.queue("A").acknowledge(message_id(gone))
            transaction.queue("B").add_message(Message("x", message_id=message_id(come)))
            transaction.topic("T").acknowledge_subscription("c", "s", message_id(31))

    return run


def prepare(xid: XATransactionId, gone: int, come: int) -> Step:
    def run(store: Store) -> None:
        branch = store.xa.start(xid)
        branch.queue("A").acknowledge(message_id(gone))
        branch.queue("B").add_message(Message("x", message_id=message_id(come)))
        branch.topic("T").acknowledge_subscription("c", "s", message_id(32))
        branch.prepare()

    return run


def checkpoint(store: Store) -> None:
    if isinstance(store, JournaledStore):
        store.checkpoint()


HISTORY: list[Step] = [
    subscribe("s"),
    add(1, 2, 3, 4, 5),
    publish(31, 32, 33, 34),
    acknowledge(2),
    prepare(XID, 3, 21),
    checkpoint,
    update(1),
    add(6),
    acknowledge(1, 6),
    consume("s", 33),
    prepare(OTHER, 4, 22),
    lambda store: store.xa.commit(XID),
    move(5, 23),
    checkpoint,
    lambda store: store.xa.rollback(OTHER),
    subscribe("t"),
    consume("t", 31, 34),
    unsubscribe("t"),
    subscribe("t"),
    add(7, 8),
    lambda store: store.queue("B").remove_all_messages(),
    update(7),
    checkpoint,
    acknowledge(7),
]


def seen(store: Store) -> Seen:
    """What is there, by the names of the messages."""
    found: Seen = {
        name: [(str(message.message_id), message.body) for message in source.recover()]
        for name, source in (("A", store.queue("A")), ("B", store.queue("B")), ("T", store.topic("T")))
    }
    for name in ("A", "B"):
        found[f"{name} counts"] = store.queue(name).message_count()
        found[f"{name} sums"] = store.queue(name).statistics()
    for info in store.topic("T").subscriptions():
        subscription = store.topic("T").subscription("c", info.subscription_name)
        found[info.subscription_name] = [str(message.message_id) for message in subscription.recover()]
        found[f"{info.subscription_name} counts"] = subscription.message_count()
    found["prepared"] = store.xa.recover()
    return found


def model_states() -> list[Seen]:
    """After each step, and before the first."""
    with MemoryStore(CONFIG, clock=FakeClock()) as model:
        states = [seen(model)]
        for one in HISTORY:
            one(model)
            states.append(seen(model))
        return states


@pytest.fixture(scope="module")
def states() -> list[Seen]:
    return model_states()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For directories of machines, in memory where there is such a place."""
    memory = Path("/dev/shm")  # noqa: S108
    place = tempfile.mkdtemp(prefix="jdbcstore-journaled-", dir=memory if memory.is_dir() else tmp_path)
    yield Path(place)
    shutil.rmtree(place)


@dataclass
class Life:
    """A history that ends somewhere."""

    world: World
    done: int
    """Steps that were acknowledged."""


QUICK: dict[str, Any] = {"use_quick_journal": True, "journal_log_file_size": 4096}
"""Messages stay in the journal, in so small files that they have to leave it again and again."""


@pytest.fixture(params=[{}, QUICK], ids=["whole", "quick"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Of the journal."""
    given: dict[str, Any] = request.param
    return given


def live(
    folder: Path,
    options: dict[str, Any],
    *,
    stop_at: int | None = None,
    behind_stop_at: int | None = None,
) -> Life:
    """Run the history until the machine, or the store behind, goes down."""
    behind, clock = MemoryStore(CONFIG, clock=FakeClock()), FakeClock()
    world = World(Path(tempfile.mkdtemp(dir=folder)), lambda: behind, clock, closes=False)
    # Each message a transaction of its own: a checkpoint that stops in between has done half of it.
    world.options |= {"max_checkpoint_message_add_size": 150 if options else 300, **options}
    done = 0
    try:
        store = world.open(stop_at=stop_at, behind_stop_at=behind_stop_at)
        for one in HISTORY:
            one(store)
            done += 1
    except StoreError:
        assert world.files.down or world.behind.down
    return Life(world, done)


def check(life: Life, states: list[Seen]) -> None:
    """Everything acknowledged is there, nothing is half there; what was under way is there or not."""
    found = seen(life.world.store)
    assert found in states[life.done : life.done + 2]


@pytest.mark.parametrize("seed", [None, 1, 2], ids=["killed", "down", "down too"])
def test_at_every_write(folder: Path, states: list[Seen], options: dict[str, Any], seed: int | None) -> None:
    whole = live(folder, options)
    operations = whole.world.files.operations
    assert whole.done == len(HISTORY)
    whole.world.crash()
    for stop_at in range(operations):
        life = live(folder, options, stop_at=stop_at)
        crash(life, None if seed is None else random.Random(seed * stop_at))
        life.world.open()
        check(life, states)
        life.world.close()


def crash(life: Life, chance: random.Random | None) -> None:
    if hasattr(life.world, "store"):
        life.world.crash(chance)
    else:
        life.world.lost(chance)


def test_at_every_transaction_of_a_checkpoint(
    folder: Path, states: list[Seen], options: dict[str, Any]
) -> None:
    whole = live(folder, options)
    steps = whole.world.behind.steps
    whole.world.crash()
    assert steps > 30
    for stop_at in range(steps):
        life = live(folder, options, behind_stop_at=stop_at)
        crash(life, random.Random(stop_at))
        life.world.open()
        check(life, states)
        # Once more, at once; and with the store behind failing somewhere on the way.
        life.world.crash(random.Random(stop_at))
        life.world.open(behind_stop_at=1 + stop_at % 3)
        life.world.crash()
        life.world.open()
        check(life, states)
        life.world.close()
        life.world.open()
        check(life, states)
        life.world.close()


def test_a_recovery_that_is_interrupted_ends_the_same(
    folder: Path, states: list[Seen], options: dict[str, Any]
) -> None:
    """In so little memory that it has to make checkpoints itself."""
    stop_at = 0
    while True:
        life = live(folder, options)
        life.world.crash(random.Random(stop_at))
        life.world.options["memory_limit"] = 3_000
        try:
            life.world.open(behind_stop_at=stop_at)
        except StoreError:
            life.world.lost()
            life.world.open()
            check(life, states)
            life.world.close()
            stop_at += 1
        else:
            check(life, states)
            life.world.close()
            return


DECIDED: list[Step] = [
    subscribe("s"),
    add(1, 2, 3, 4, 5),
    publish(31, 32, 33, 34),
    prepare(XID, 3, 21),
    prepare(OTHER, 4, 22),
    *(add(number) for number in range(100, 125)),
    lambda store: store.xa.commit(XID),
    lambda store: store.xa.rollback(OTHER),
    *(add(number) for number in range(125, 135)),
    prepare(XID, 1, 24),
    *(add(number) for number in range(135, 150)),
]


@pytest.mark.parametrize("kept", [len(DECIDED), 31, 32, 33], ids=["whole", "undecided", "committed", "both"])
def test_a_recovery_that_makes_checkpoints_brings_nothing_decided_back(
    folder: Path, options: dict[str, Any], kept: int
) -> None:
    """The decisions stand further on in the files than the place to which it has come."""
    steps = DECIDED[:kept]
    with MemoryStore(CONFIG, clock=FakeClock()) as model:
        for one in steps:
            one(model)
        expected = seen(model)
    behind, clock = MemoryStore(CONFIG, clock=FakeClock()), FakeClock()
    world = World(folder, lambda: behind, clock, closes=False)
    world.options |= {"max_checkpoint_message_add_size": 150 if options else 300, **options}
    store = world.open()
    for one in steps:
        one(store)
    world.crash()
    for operation in range(40):
        # In so little memory that it makes checkpoints; it is killed afterwards, or on its way.
        world.options["memory_limit"] = 3_000
        with contextlib.suppress(StoreError):
            world.open(behind_stop_at=None if operation % 2 else 2 * operation + 1)
            assert seen(world.store) == expected
        world.crash()
        del world.options["memory_limit"]
        world.open()
        assert seen(world.store) == expected
        world.crash()
    world.open()
    world.close()
    world.open()
    assert seen(world.store) == expected
    world.close()
