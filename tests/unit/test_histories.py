"""The checker of histories: it accepts what may happen, and each of its rules can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.histories.checker import Rules, check
from tests.support.histories.events import (
    Change,
    Delivery,
    Event,
    Fault,
    Held,
    Leave,
    Left,
    Master,
    Outcome,
    Problem,
    Return,
    Subscribe,
    Write,
    from_json,
    to_json,
)
from tests.support.histories.recorder import Recorder, collect

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN
RULES = Rules(alone={"Q"}, exclusive={"C"}, back_within=5)


def send(at: float, name: str, outcome: Outcome = OK, scope: str = "Q", **more: Any) -> Write:
    return Write(at, at + 0.5, "producer", outcome, sends=((scope, name),), **more)


def ack(
    at: float, name: str, outcome: Outcome = OK, scope: str = "Q", client: str = "a", **more: Any
) -> Write:
    return Write(at, at + 0.5, client, outcome, acks=((scope, name),), **more)


def came(
    at: float, name: str, *, again: bool = False, scope: str = "Q", client: str = "a", **more: Any
) -> Delivery:
    return Delivery(at, client, scope, name, again, **more)


def moved(at: float, outcome: Outcome) -> Write:
    return Write(at, at + 0.5, "a", outcome, sends=(("OUT", "m.1"),), acks=(("Q", "p.1"),))


def claimed(at: float, held: int, most: int | None = None, rate: float | None = None, **more: Any) -> Held:
    return Held(at, "a", "C", (f"p.{at}",), held, most, rate, 2 if rate is None else 1, **more)


ALLOWED: dict[str, list[Event]] = {
    "sent, consumed and acknowledged": [send(1, "p.1"), came(2, "p.1"), ack(3, "p.1")],
    "claims within their limits": [
        *(claimed(1, 2, most=2), claimed(1, 9), claimed(2, 1, rate=1.0), claimed(3, 1, rate=1.0)),
        claimed(3, 1, rate=5.0),
        claimed(4, 2, keys=(("k", "p.4", 0), ("l", "p.9", 1)), in_order=True),
    ],
    "sent and left": [send(1, "p.1"), Left("Q", "p.1")],
    "of unknown outcome and not there": [send(1, "p.1", UNKNOWN)],
    "of unknown outcome and there": [send(1, "p.1", UNKNOWN), Left("Q", "p.1")],
    "an acknowledgement of unknown outcome, gone": [send(1, "p.1"), came(2, "p.1"), ack(3, "p.1", UNKNOWN)],
    "an acknowledgement of unknown outcome, not gone": [
        *(send(1, "p.1"), came(2, "p.1"), ack(3, "p.1", UNKNOWN)),
        *(came(5, "p.1", again=True), ack(6, "p.1")),
    ],
    "failed and sent again": [send(1, "p.1", FAILED), send(2, "p.1"), Left("Q", "p.1")],
    "redelivered with a mark": [
        *(send(1, "p.1"), came(2, "p.1"), Leave(2.5, "a")),
        *(came(3, "p.1", again=True, client="b"), ack(4, "p.1", client="b")),
    ],
    "a dead letter": [send(1, "p.1"), came(2, "p.1"), Left("DLQ", "p.1", dead_for="Q")],
    "a redelivery behind others": [
        *(send(1, "p.1"), send(2, "p.2"), came(3, "p.1"), came(4, "p.2")),
        *(came(5, "p.1", again=True), ack(6, "p.1"), ack(6, "p.2")),
    ],
    "a counted redelivery": [
        *(send(1, "p.1"), came(2, "p.1", failures=0), Return(3, "a", "Q", "p.1", OK)),
        *(came(4, "p.1", again=True, failures=1), ack(5, "p.1")),
    ],
    "masters one after the other": [
        *(Master(1, "x", 1), send(2, "p.1", epoch=1), Master(3, "y", 2), send(4, "p.2", epoch=2)),
        *(Left("Q", "p.1"), Left("Q", "p.2"), Change(2.2, "Q", "p.1", 1), Change(4.2, "Q", "p.2", 2)),
    ],
    "a write that began before the next epoch": [
        *(Master(1, "x", 1), Write(2, 4, "p", OK, (("Q", "p.1"),), epoch=1)),
        *(Master(3, "y", 2), Left("Q", "p.1")),
    ],
    "a subscription's share": [
        *(Subscribe(1, "T/s", "T"), send(0, "p.1", scope="T"), send(2, "p.2", scope="T")),
        *(came(3, "p.2", scope="T/s"), ack(4, "p.2", scope="T/s")),
    ],
    "a transaction of unknown outcome, done": [
        *(send(1, "p.1"), came(2, "p.1"), moved(3, UNKNOWN), Left("OUT", "m.1")),
    ],
    "a transaction of unknown outcome, not done": [
        *(send(1, "p.1"), came(2, "p.1"), moved(3, UNKNOWN), Left("Q", "p.1")),
    ],
    "a scheduled message in its time": [send(1, "p.1", due=9), came(9, "p.1"), ack(10, "p.1")],
    "back after a fault": [Fault(1, 2, "kill"), send(4, "p.1"), Left("Q", "p.1")],
}

WRONG: dict[str, tuple[str, list[Event]]] = {
    "confirmed and nowhere": ("lost", [send(1, "p.1")]),
    "consumed, not acknowledged and nowhere": ("lost", [send(1, "p.1", UNKNOWN), came(2, "p.1")]),
    "not in the subscription": ("lost", [Subscribe(1, "T/s", "T"), send(2, "p.1", scope="T")]),
    "delivered after its acknowledgement": (
        "resurrected",
        [send(1, "p.1"), came(2, "p.1"), ack(3, "p.1"), came(9, "p.1", again=True)],
    ),
    "left after its acknowledgement": (
        "resurrected",
        [send(1, "p.1"), came(2, "p.1"), ack(3, "p.1"), Left("Q", "p.1")],
    ),
    "a dead letter after its acknowledgement": (
        "resurrected",
        [send(1, "p.1"), came(2, "p.1"), ack(3, "p.1"), Left("DLQ", "p.1", dead_for="Q")],
    ),
    "never sent": ("phantom", [came(1, "p.1"), ack(2, "p.1")]),
    "failed and there": ("phantom", [send(1, "p.1", FAILED), Left("Q", "p.1")]),
    "again without a mark": (
        "unmarked",
        [send(1, "p.1"), came(2, "p.1"), came(3, "p.1", client="b"), ack(4, "p.1")],
    ),
    "a count that was lost": (
        "count",
        [
            *(send(1, "p.1"), came(2, "p.1"), Return(3, "a", "Q", "p.1", OK)),
            *(came(4, "p.1", again=True, failures=0), ack(5, "p.1")),
        ],
    ),
    "two ids": (
        "renamed",
        [
            *(send(1, "p.1"), came(2, "p.1", message_id="x")),
            *(came(3, "p.1", again=True, message_id="y"), ack(4, "p.1")),
        ],
    ),
    "acknowledged by two": (
        "twice",
        [
            *(send(1, "p.1", scope="C"), came(2, "p.1", scope="C")),
            *(came(2.5, "p.1", scope="C", client="b", again=True), ack(3, "p.1", scope="C")),
            ack(3.1, "p.1", scope="C", client="b"),
        ],
    ),
    "out of order": (
        "order",
        [
            *(send(1, "p.1"), send(2, "p.2"), came(3, "p.2"), came(4, "p.1", client="b")),
            *(ack(5, "p.1"), ack(5, "p.2")),
        ],
    ),
    "an epoch used again": ("epoch", [Master(1, "x", 1), Master(2, "y", 1)]),
    "a write of a deposed master": (
        "fenced",
        [
            *(Master(1, "x", 1), Master(2, "y", 2)),
            *(send(3, "p.1", epoch=1), Left("Q", "p.1")),
        ],
    ),
    "a removal of a deposed master": (
        "fenced",
        [
            *(Master(1, "x", 1), Master(2, "y", 2), send(0, "p.1"), Left("Q", "p.1")),
            Change(3, "Q", "p.1", 1, is_removed=True),
        ],
    ),
    "half a send": (
        "torn",
        [Write(1, 2, "a", UNKNOWN, (("Q", "p.1"), ("OUT", "p.2"))), Left("Q", "p.1")],
    ),
    "sent without its acknowledgement": (
        "torn",
        [send(1, "p.1"), came(2, "p.1"), moved(3, UNKNOWN), Left("OUT", "m.1"), Left("Q", "p.1")],
    ),
    "acknowledged without its send": ("torn", [send(1, "p.1"), came(2, "p.1"), moved(3, UNKNOWN)]),
    "before its time": ("early", [send(1, "p.1", due=9), came(8, "p.1"), ack(10, "p.1")]),
    "stored twice": (
        "repeated",
        [send(1, "p.1"), Left("Q", "p.1"), Change(1, "Q", "p.1", 1), Change(2, "Q", "p.1", 1)],
    ),
    "not back": ("stuck", [Fault(1, 2, "kill"), send(8, "p.1"), Left("Q", "p.1")]),
    "reported": ("problem", [Problem(1, "a client crashed")]),
    "more than the limit": ("limit", [claimed(1, 2, most=2), claimed(2, 3, most=2)]),
    "from a paused queue": ("limit", [claimed(1, 1, is_paused=True)]),
    "more of a key than its limit": (
        "key",
        [claimed(1, 2, keys=(("k", "p.1", 0), ("k", "p.2", 1)), most_of_key=1)],
    ),
    "not the first of a key": ("key", [claimed(1, 1, keys=(("k", "p.1", 1),), in_order=True)]),
    "more than the rate": (
        "rate",
        [claimed(1, 1, rate=1.0), claimed(1.9, 1, rate=1.0), claimed(2.9, 1, rate=1.0)],
    ),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_what_may_happen_is_accepted(what: str) -> None:
    assert check(ALLOWED[what], RULES) == []


@pytest.mark.parametrize("what", WRONG)
def test_each_rule_can_fail(what: str) -> None:
    rule, history = WRONG[what]
    assert {violation.rule for violation in check(history, RULES)} == {rule}


def test_what_is_left_of_a_drained_scope_is_lost() -> None:
    history: list[Event] = [send(1, "p.1"), Left("Q", "p.1")]
    assert [violation.rule for violation in check(history, Rules(is_drained=True))] == ["lost"]


def test_without_the_end_of_a_history_nothing_is_missed() -> None:
    assert check([send(1, "p.1")], Rules(is_complete=False)) == []


def test_events_come_in_any_order() -> None:
    for what, history in ALLOWED.items():
        assert check(history[::-1], RULES) == [], what
    for rule, history in WRONG.values():
        assert {violation.rule for violation in check(reversed(history), RULES)} == {rule}


def test_a_history_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    events: list[Event] = [event for history in ALLOWED.values() for event in history]
    events += [event for _, history in WRONG.values() for event in history]
    with Recorder(tmp_path / "one.history") as recorder:
        for event in events:
            recorder.add(event)
    assert [*collect(tmp_path)] == events == recorder.events


def test_the_last_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    line = to_json(send(1, "p.1"))
    (tmp_path / "one.history").write_text(f"{line}\n{line[:20]}")
    assert [*collect(tmp_path)] == [send(1, "p.1")]


def test_other_lines_are_refused() -> None:
    with pytest.raises(ValueError, match="no event"):
        from_json('{"event": "else"}')
