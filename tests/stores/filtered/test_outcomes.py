"""A transaction over several stores has one outcome, whatever fails and whenever the process ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import jdbcstore
from jdbcstore import (
    Destination,
    MemoryStore,
    Message,
    MessageId,
    ProducerId,
    Store,
    XATransactionId,
    pages,
)
from jdbcstore.errors import OutcomeUnknown, StoreError, StoreUnavailable, TransactionError
from jdbcstore.stores.filtered import FilteredStore, Route
from tests.support.filtered.mortal import NEVER, Died, Fate, Mortal

QUEUES = ("A.ORDERS", "B.ORDERS", "ORDERS")
A, B = Destination.queue("A.>"), Destination.queue("B.>")
OLD = ["old", "kept"]
NEW = ["kept", "new"]


def stores(folder: Path) -> list[Store]:
    return [jdbcstore.open(f"sqlite:///{folder}/{name}.db", cleanup_period=0) for name in "abc"]


def filtered(inner: list[Store], fate: Fate | None = None) -> FilteredStore:
    a, b, c = inner if fate is None else [cast(Store, Mortal(store, fate)) for store in inner]
    return FilteredStore(
        [
            Route(store=a, destination=A),
            Route(store=b, destination=B),
            Route(store=c),
        ]
    )


@contextmanager
def opened(folder: Path, fate: Fate | None = None) -> Iterator[FilteredStore]:
    """Closed without a word of the filtered store: as after a kill, each database is as it is."""
    with ExitStack() as stack:
        yield filtered([stack.enter_context(store) for store in stores(folder)], fate)


def bodies(store: Store, queue: str) -> list[Any]:
    return [message.body for page in pages(store.queue(queue)) for message in page]


def begin(store: Store) -> jdbcstore.Transaction:
    """Take the old message of each queue and put a new one there."""
    transaction = store.transaction()
    for name in QUEUES:
        queue = transaction.queue(name)
        queue.acknowledge(store.queue(name).recover()[0])
        queue.add_message(Message("new"))
    return transaction


def outcome(store: Store) -> str:
    """Of all queues; there is one."""
    found = [bodies(store, name) for name in QUEUES]
    assert found in ([OLD] * 3, [NEW] * 3)
    assert store.xa.recover() == []
    return "committed" if found[0] == NEW else "rolled back"


def fill(folder: Path) -> None:
    folder.mkdir()
    with opened(folder) as store:
        for name, body in itertools.product(QUEUES, OLD):
            store.queue(name).add_message(Message(body))


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_the_process_ends_at_each_step(done: bool, tmp_path: Path) -> None:
    seen = []
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        fill(folder)
        fate = Fate(at, Died, done)
        with opened(folder, fate) as store:
            transaction = begin(store)
            try:
                transaction.commit()
            except Died:
                committed = False
            else:
                committed = True
        with opened(folder) as store:
            seen.append(outcome(store))
        if committed:
            break
    assert len(seen) == 7, "three prepare, three commit, and one is not hit"
    # Decided by the coordinator's commit, the fourth call.
    decided = 4 if done else 5
    assert seen == ["rolled back"] * (decided - 1) + ["committed"] * (8 - decided)


@pytest.mark.parametrize("at", [4, 5, 6])
@pytest.mark.parametrize("again", [1, 2, 3])
def test_it_ends_once_more_while_this_is_mended(at: int, again: int, tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    fill(folder)
    with opened(folder, Fate(at, Died, done=True)) as store, pytest.raises(Died):
        begin(store).commit()
    with ExitStack() as stack:
        inner = [stack.enter_context(store) for store in stores(folder)]
        with pytest.raises(Died) if again <= 6 - at else ExitStack():
            filtered(inner, Fate(again, Died, done=again % 2 == 0))
    with opened(folder) as store:
        assert outcome(store) == "committed"


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize(
    ("error", "done"), [(StoreUnavailable, False), (OutcomeUnknown, False), (OutcomeUnknown, True)]
)
def test_a_store_fails_at_each_step(
    error: Callable[[], StoreError], done: bool, lasting: bool, tmp_path: Path
) -> None:
    """The error that the caller gets says the truth, and the next transaction finds nothing in its way."""
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        fill(folder)
        fate = Fate(at, error, done, lasting)
        with opened(folder, fate) as store:
            said = commit(begin(store))
            if lasting and fate.calls >= at:
                with pytest.raises(StoreError):
                    begin(store).commit()
            fate.at = 10**9
            store.outcomes.finish()
            known = outcome(store)
            assert said in (known, "unknown")
            if fate.calls < at:
                break


def commit(transaction: jdbcstore.Transaction) -> str:
    """What the caller knows of it."""
    try:
        transaction.commit()
    except OutcomeUnknown:
        return "unknown"
    except StoreError:
        return "rolled back"
    return "committed"


@pytest.mark.parametrize("again", [1, 2, 3])
def test_it_ends_once_more_while_this_is_rolled_back(again: int, tmp_path: Path) -> None:
    """The coordinator is the last: as long as it has its part, nothing was decided."""
    folder = tmp_path / "stores"
    fill(folder)
    with opened(folder, Fate(3, Died, done=True)) as store, pytest.raises(Died):
        begin(store).commit()
    with ExitStack() as stack:
        inner = [stack.enter_context(store) for store in stores(folder)]
        with pytest.raises(Died):
            filtered(inner, Fate(again, Died, done=True))
    with opened(folder) as store:
        assert outcome(store) == "rolled back"


def test_references_come_in_the_order_of_the_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        transaction = store.transaction()
        for number, name in enumerate((*QUEUES, *QUEUES)):
            transaction.queue(name).add_message(Message(str(number)))
        references = transaction.commit_async().result(180)

        found = [
            store.queue(name).get_message(reference.message_id)
            for name, reference in zip((*QUEUES, *QUEUES), references, strict=True)
        ]
        assert [message.body for message in found] == ["0", "1", "2", "3", "4", "5"]
        assert [message.sequence for message in found] == [reference.sequence for reference in references]


def test_references_are_of_this_transaction_s_messages(tmp_path: Path) -> None:
    """A producer may send a message again: its id names both then."""
    again = MessageId(ProducerId("ID:one", 1, 1), 1)
    with opened(tmp_path) as store:
        for name in QUEUES:
            store.queue(name).add_message(Message("before", message_id=again))
        transaction = store.transaction()
        for number, name in enumerate(2 * QUEUES):
            transaction.queue(name).add_message(Message(str(number), message_id=again))
        references = transaction.commit()

        found = [
            store.queue(name).get_message(reference.sequence)
            for name, reference in zip(2 * QUEUES, references, strict=True)
        ]
        assert [message.body for message in found] == ["0", "1", "2", "3", "4", "5"]


class Blind(Mortal):
    """Once its XA is used, it answers nothing else."""

    _answers = True

    @property
    def xa(self) -> Any:
        self._answers = False
        return super().xa

    def queue(self, *args: Any, **options: Any) -> Any:
        if self._answers:
            return self._store.queue(*args, **options)
        raise StoreUnavailable("the database does not answer")


def test_what_is_committed_and_cannot_be_read_is_committed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        a, b, c = (stack.enter_context(store) for store in stores(tmp_path))
        blind = FilteredStore(
            [
                Route(store=cast(Store, Blind(a, Fate(NEVER, Died, done=False))), destination=A),
                Route(store=b, destination=B),
                Route(store=c),
            ]
        )
        blind.routes.stores[0]._answers = True  # type: ignore[attr-defined]
        transaction = blind.transaction()
        for name in QUEUES:
            transaction.queue(name).add_message(Message("new"))
        references = transaction.commit()

        assert [reference.sequence >= 0 for reference in references] == [False, True, True]
        assert [bodies(filtered([a, b, c]), name) for name in QUEUES] == [["new"]] * 3


def test_what_one_store_refuses_none_does(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        old = store.queue("A.ORDERS").get_message(
            store.queue("A.ORDERS").add_message(Message("old")).sequence
        )
        transaction = store.transaction()
        transaction.queue("A.ORDERS").update_message(old.replace(body="changed"))
        transaction.queue("B.ORDERS").add_message(Message("new"))
        with pytest.raises(TransactionError):
            transaction.commit()

        assert [bodies(store, name) for name in QUEUES] == [["old"], [], []]
        assert store.xa.recover() == []


def test_a_transaction_in_one_store_is_its_own(tmp_path: Path) -> None:
    """Also one that has looked at others: an update is taken then."""
    with opened(tmp_path) as store:
        queue = store.queue("A.ORDERS")
        old = queue.get_message(queue.add_message(Message("old")).sequence)
        with store.transaction() as transaction:
            transaction.queue("B.ORDERS")
            transaction.queue("A.ORDERS").update_message(old.replace(body="changed"))

        assert bodies(store, "A.ORDERS") == ["changed"]


def test_a_store_in_memory_does_not_decide(tmp_path: Path) -> None:
    """Else nobody would know the outcome once the process has ended."""
    url = f"sqlite:///{tmp_path}/durable.db"

    def over(durable: Store) -> FilteredStore:
        fast = Route(store=MemoryStore(), destination=Destination.queue("FAST.>"))
        return FilteredStore([fast, Route(store=durable)])

    with jdbcstore.open(url, cleanup_period=0) as durable:
        transaction = over(cast(Store, Mortal(durable, Fate(2, Died, done=True)))).transaction()
        transaction.queue("FAST.A").add_message(Message("fast"))
        transaction.queue("ORDERS").add_message(Message("slow"))
        with pytest.raises(Died):
            transaction.commit()

    with jdbcstore.open(url) as durable:
        assert bodies(over(durable), "ORDERS") == ["slow"]


def test_a_transaction_manager_s_branches_are_left_to_it(tmp_path: Path) -> None:
    xid = XATransactionId(86, b"\1", b"\2")
    with opened(tmp_path) as store:
        branch = store.xa.start(xid)
        for name in QUEUES:
            branch.queue(name).add_message(Message("new"))
        assert branch.prepare()
    with opened(tmp_path) as store:
        [found] = store.xa.recover()
        assert [str(writes.destination) for writes in found.writes] == [f"queue://{name}" for name in QUEUES]
        store.xa.commit(xid)
        assert [bodies(store, name) for name in QUEUES] == [["new"]] * 3


@pytest.mark.parametrize("dies_at", [NEVER, 3])
def test_an_id_names_one_branch_whatever_store_it_is_in(dies_at: int, tmp_path: Path) -> None:
    """Else who decides one decides the other, or what a refusal has left of it."""
    xid = XATransactionId(86, b"\1", b"\2")

    def prepare(store: Store, *names: str) -> None:
        branch = store.xa.start(xid)
        for name in names:
            branch.queue(name).add_message(Message("new"))
        branch.prepare()

    with opened(tmp_path) as store:
        prepare(store, "B.ORDERS")
    for names in (["A.ORDERS"], ["A.ORDERS", "B.ORDERS"], []):
        with opened(tmp_path, Fate(dies_at, Died, done=True)) as store, pytest.raises(TransactionError):
            prepare(store, *names)
    with opened(tmp_path) as store:
        store.xa.commit(xid)
        assert [bodies(store, name) for name in QUEUES] == [[], ["new"], []]
