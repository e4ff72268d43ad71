"""The checker finds each thing that must not be, and nothing in a history that is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.broker_kill.checker import check
from tests.support.broker_kill.history import SCOPES, History, Transaction, scopes_of


def send(history: History, destination: str, *names: str) -> None:
    history.trying(destination, names)
    for name in names:
        history.confirm(destination, name)


def give(
    history: History,
    scope: str,
    name: str,
    broker: int = 1,
    *,
    again: bool = False,
    id_: str = "",
    on: int = 1,
) -> None:
    history.deliver(broker, on, scope, name, id_ or f"ID:{name}", again)


def take(history: History, scope: str, *names: str, broker: int = 1) -> None:
    history.acknowledging(scope, names)
    history.acknowledged(broker, scope, names)


def right() -> History:
    """Three messages each way, one of them twice and saying so, one batch, one move."""
    history = History()
    for destination in ("ORDERS", "NEWS"):
        send(history, destination, f"{destination}.1", f"{destination}.2", f"{destination}.3")
        for scope in scopes_of(destination):
            give(history, scope, f"{destination}.1")
            take(history, scope, f"{destination}.1")
            give(history, scope, f"{destination}.2")
            give(history, scope, f"{destination}.2", 2, again=True, on=2)
            give(history, scope, f"{destination}.3", 2, again=True, on=2)
            take(history, scope, f"{destination}.2", f"{destination}.3", broker=2)
    batch = Transaction("batch", [("ITEMS", "B.1"), ("WORK", "B.2")], "committed")
    history.transactions.append(batch)
    for destination, name in batch.sends:
        send(history, destination, name)
        give(history, destination, name)
        take(history, destination, name)
    send(history, "OUT", "B.2")
    give(history, "OUT", "B.2")
    take(history, "OUT", "B.2")
    return history


def test_nothing_is_found_where_nothing_is() -> None:
    assert check(right(), {}) == []
    assert check(History(), {scope: [] for scope in SCOPES}) == []


def lost(history: History) -> None:
    send(history, "ITEMS", "X.1")


def lost_to_one_subscription(history: History) -> None:
    send(history, "NEWS", "X.1")
    give(history, "first", "X.1")
    take(history, "first", "X.1")


def back(history: History) -> None:
    give(history, "ORDERS", "ORDERS.1", 2, again=True, on=2)


def unmarked(history: History) -> None:
    send(history, "ITEMS", "X.1")
    give(history, "ITEMS", "X.1")
    give(history, "ITEMS", "X.1", 2, on=2)
    take(history, "ITEMS", "X.1", broker=2)


def twice(history: History) -> None:
    send(history, "ITEMS", "X.1")
    give(history, "ITEMS", "X.1")
    give(history, "ITEMS", "X.1", again=True, id_="ID:other")
    take(history, "ITEMS", "X.1")


def out_of_order(history: History) -> None:
    send(history, "ITEMS", "X.1", "X.2")
    give(history, "ITEMS", "X.2")
    give(history, "ITEMS", "X.1")
    take(history, "ITEMS", "X.1", "X.2")


def out_of_order_again(history: History) -> None:
    send(history, "ITEMS", "X.1", "X.2")
    give(history, "ITEMS", "X.2", 2, again=True)
    give(history, "ITEMS", "X.1", 2, again=True)
    take(history, "ITEMS", "X.1", "X.2", broker=2)


def out_of_order_over_connections(history: History) -> None:
    send(history, "OUT", "X.1", "X.2")
    send(history, "WORK", "X.1", "X.2")
    for scope in ("WORK", "OUT"):
        give(history, scope, "X.2", on=7 if scope == "OUT" else 1)
        give(history, scope, "X.1", again=scope == "WORK", on=8)
        take(history, scope, "X.1", "X.2")


def half_a_batch(history: History) -> None:
    history.transactions.append(Transaction("half", [("ITEMS", "X.1"), ("ORDERS", "X.2")], "committing"))
    history.trying("ITEMS", ["X.1"])
    history.trying("ORDERS", ["X.2"])
    give(history, "ITEMS", "X.1")
    take(history, "ITEMS", "X.1")


def an_aborted_batch(history: History) -> None:
    history.transactions.append(Transaction("given up", [("ITEMS", "X.1")], "aborting"))
    give(history, "ITEMS", "X.1")
    take(history, "ITEMS", "X.1")


def taken_and_not_put(history: History) -> None:
    send(history, "WORK", "X.1")
    give(history, "WORK", "X.1")
    take(history, "WORK", "X.1")


def put_and_not_taken(history: History) -> None:
    send(history, "WORK", "X.1")
    give(history, "WORK", "X.1")
    history.trying("OUT", ["X.1"])
    give(history, "OUT", "X.1")
    take(history, "OUT", "X.1")
    give(history, "WORK", "X.1", 2, again=True, on=2)
    history.acknowledging("WORK", ["X.1"])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lost, "X.1 was confirmed and is lost: ITEMS"),
        (lost_to_one_subscription, "X.1 was confirmed and is lost: second"),
        (back, "ORDERS.1 of ORDERS was acknowledged at"),
        (unmarked, "X.1 came again from ITEMS, not marked"),
        (twice, "X.1 is in ITEMS under several ids"),
        (out_of_order, "X.1 came from ITEMS behind X.2"),
        (out_of_order_again, "X.1 came from ITEMS behind X.2"),
        (out_of_order_over_connections, "X.1 came from OUT behind X.2"),
        (half_a_batch, "of half only ['X.1'] came"),
        (an_aborted_batch, "given up was not committed"),
        (taken_and_not_put, "X.1 is neither in WORK nor in OUT"),
        (put_and_not_taken, "X.1 was in OUT at"),
    ],
)
def test_each_wrong_is_found(spoil: Callable[[History], None], said: str) -> None:
    history = right()
    spoil(history)
    found = check(history, {})
    assert any(one.startswith(said) for one in found), found


def test_what_is_left_is_wrong() -> None:
    history = right()
    history.trying("ITEMS", ["X.1"])
    assert check(history, {"ITEMS": ["X.1"]}) == ["X.1 is left in ITEMS though all was consumed"]


def test_what_a_dead_connection_still_showed_is_no_repetition() -> None:
    """A client may read what one broker had sent when the next one has sent it again."""
    history = right()
    send(history, "ITEMS", "X.1")
    give(history, "ITEMS", "X.1", 2, again=True, on=2)
    take(history, "ITEMS", "X.1", broker=2)
    give(history, "ITEMS", "X.1", 1)
    assert check(history, {}) == []


def test_one_that_goes_gives_back_into_the_others_past() -> None:
    history = right()
    send(history, "ITEMS", "X.1", "X.2")
    give(history, "ITEMS", "X.1", on=5)
    give(history, "ITEMS", "X.2", on=6)
    history.leave("ITEMS", 1)
    give(history, "ITEMS", "X.1", on=6, again=True)
    take(history, "ITEMS", "X.1", "X.2")
    assert check(history, {}) == []
