"""The line to the database breaks at each statement and each answer of an XA transaction.

Once, it is not noticed. For good, or when the process is killed, what is found afterwards is all or
nothing, and can be decided.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message, Store, XATransactionId
from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.polling import wait_until
from tests.support.faults.driver import DriverLine
from tests.support.faults.line import Line
from tests.support.faults.proxy import ProxyLine

XID = XATransactionId(86, b"transaction", b"branch")
PREPARED, COMMITTED, UNTOUCHED = "prepared", "committed", "untouched"


def state(store: Store) -> str:
    """Which of three, and nothing between them."""
    queue, subscription = store.queue("Q"), store.topic("T").subscription("client", "reader")
    found = (content(queue), content(store.topic("T")), content(subscription), len(store.xa.recover()))
    left, both = ["b"], ["x", "y"]
    states = {
        UNTOUCHED: (["a", "b"], both, both, 0),
        PREPARED: (left, both, ["y"], 1),
        COMMITTED: ([*left, "new"], [*both, "news"], ["y", "news"], 0),
    }
    [name] = [name for name, expected in states.items() if found == expected] or [str(found)]
    return name


def settles(store: Store, expected: str, where: str) -> None:
    """The server may still be about to commit what arrived before the line broke."""
    wait_until(lambda: state(store) in expected, what=f"{expected} {where}")


def begin(store: Store) -> None:
    """Nothing but four messages, and a subscription that has not read them."""
    for found in store.xa.recover():
        store.xa.rollback(found.xid)
    topic = store.topic("T")
    for info in topic.subscriptions():
        topic.unsubscribe(info.client_id, info.subscription_name)
    for destination in (store.queue("Q"), topic):
        destination.remove_all_messages()
    fill(store.queue("Q"), "a", "b")
    topic.subscribe("client", "reader")
    fill(topic, "x", "y")
    assert state(store) == UNTOUCHED


def prepare(store: Store) -> None:
    transaction = store.xa.start(XID)
    transaction.queue("Q").acknowledge(store.queue("Q").recover()[0])
    transaction.topic("T").acknowledge_subscription("client", "reader", store.topic("T").recover()[0])
    transaction.queue("Q").add_message(Message("new"))
    transaction.topic("T").add_message(Message("news"))
    assert transaction.prepare()


def commit(store: Store) -> None:
    store.xa.commit(XID)


def rollback(store: Store) -> None:
    store.xa.rollback(XID)


PHASES = pytest.mark.parametrize(
    ("phase", "before", "after"),
    [(prepare, UNTOUCHED, PREPARED), (commit, PREPARED, COMMITTED), (rollback, PREPARED, UNTOUCHED)],
    ids=["prepare", "commit", "rollback"],
)
Phase = Callable[[Store], None]


def ready(store: Store, before: str) -> None:
    """Begin anew, with the transaction prepared or not."""
    begin(store)
    if before == PREPARED:
        prepare(store)


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
@PHASES
def test_a_line_that_breaks_once_is_not_noticed(line: Line, phase: Phase, before: str, after: str) -> None:
    with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=180.0) as store:
        for how in line.breaks:
            for number in itertools.count(1):
                ready(store, before)
                line.arm(how, number)
                phase(store)
                line.mend()
                assert state(store) == after, f"at {how} {number}"
                if not line.broke:
                    break
            assert number > 5


@pytest.mark.backends("sqlite", "postgresql")
@PHASES
def test_a_line_that_stays_broken_leaves_all_or_nothing(
    line: Line, url: str, phase: Phase, before: str, after: str
) -> None:
    for how in line.breaks:
        told = set()
        for number in itertools.count(1, 5 if isinstance(line, ProxyLine) else 3):
            with jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.02) as store:
                ready(store, before)
                line.arm(how, number, lasting=True)
                expected = after
                try:
                    phase(store)
                except OutcomeUnknown:
                    expected = f"{before} or {after}"
                except StoreUnavailable:
                    expected = before
                line.mend()
            told.add(expected)
            with jdbcstore.open(url, cleanup_period=0) as again:
                settles(again, expected, f"at {how} {number}")
            if not line.broke:
                break
        assert {before, after} <= told


@pytest.mark.backends("sqlite")
@PHASES
def test_a_process_killed_at_a_statement_leaves_all_or_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch, phase: Phase, before: str, after: str
) -> None:
    found = set()
    with jdbcstore.open(url, cleanup_period=0) as store:
        ready(store, before)
    for number in itertools.count(1):
        child = os.fork()
        if not child:
            _run_killed(url, monkeypatch, phase, number)
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
        with jdbcstore.open(url, cleanup_period=0) as store:
            found.add(state(store))
            assert found <= {before, after}, f"at {number}"
            if os.WIFEXITED(status):
                break
            ready(store, before)
    assert os.WEXITSTATUS(status) == 0
    assert found == {before, after}
    assert number > 5


def _run_killed(url: str, monkeypatch: pytest.MonkeyPatch, phase: Phase, number: int) -> None:
    """In a process of its own, run the phase until its ``number``-th statement has been run."""
    code = 1
    try:
        left, armed = itertools.count(number, -1), False
        run = DriverLine.run

        def kill(line: DriverLine, cursor: Any, statement: Callable[[], object]) -> None:
            run(line, cursor, statement)
            if armed and next(left) == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(DriverLine, "run", kill)
        with jdbcstore.open(DriverLine(url, monkeypatch.setattr).url, cleanup_period=0) as store:
            armed = True
            phase(store)
            armed = False
        code = 0
    finally:
        os._exit(code)
