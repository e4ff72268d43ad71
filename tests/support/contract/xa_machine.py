"""Random operations with XA, whose branches outlive crashes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from jdbcstore import Destination, Store, XATransactionId
from jdbcstore.testing.machine import (
    PLACES,
    SUBSCRIBERS,
    Step,
    StoreMachine,
    TransactionStep,
    attempt,
    kinds,
    messages,
    names,
    numbers,
    places,
)

XIDS = [XATransactionId(7, bytes([number]), b"b") for number in range(3)]
xids, subscribers = st.sampled_from(XIDS), st.sampled_from(SUBSCRIBERS)
some_steps = st.lists(st.tuples(kinds, places, messages, numbers), max_size=6)


class XAMachine(StoreMachine):
    """Prepares and decides, as a transaction manager does."""

    @rule(steps=some_steps, who=subscribers, by=names, xid=xids)
    def prepare(self, steps: list[Step], who: tuple[str, str], by: str, xid: XATransactionId) -> None:
        writes = self.steps(steps, who, by)
        self.both(lambda store: prepare(store, xid, writes))

    @rule(xid=xids, commits=st.booleans())
    def decide(self, xid: XATransactionId, commits: bool) -> None:
        added = self.prepared_adds(xid) if commits else []
        self.both_adding(lambda store: decide(store, xid, commits), added)

    def prepared_adds(self, xid: XATransactionId) -> list[Destination]:
        """The destination of each message that its commit adds."""
        return [
            writes.destination
            for one in self.model.xa.recover() if one.xid == xid
            for writes in one.writes
            for _ in range(writes.added)
        ]  # fmt: skip

    @rule()
    def in_doubt(self) -> None:
        self.both(lambda store: store.xa.recover())


def prepare(store: Store, xid: XATransactionId, writes: list[TransactionStep]) -> Any:
    """What each write came to, and what the first phase did."""
    for place in PLACES:
        place.on(store)
    branch = store.xa.start(xid)
    return [attempt(write, branch) for _, write in writes], attempt(lambda _: branch.prepare(), None)


def decide(store: Store, xid: XATransactionId, commits: bool) -> None:
    """The second phase."""
    if commits:
        store.xa.commit(xid)
    else:
        store.xa.rollback(xid)
