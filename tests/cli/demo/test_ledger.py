"""The judgement over the demo: it can go against the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore.cli.demo.ledger import Counts, DemoOutcome, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger


def send(ledger: Ledger, *names: str) -> None:
    for name in names:
        ledger.sending(name, acknowledged=None)
        ledger.acknowledged(name)


def test_once_each(ledger: Ledger) -> None:
    send(ledger, "a", "b")
    ledger.received([("a", 0, True), ("b", 0, True)])

    outcome = ledger.outcome(left_in_store=0)

    assert outcome == DemoOutcome(2, 0, 2, 2, 0, 0, 0, 0, 0, 0)
    assert outcome.kept_the_promise


def test_again_and_marked(ledger: Ledger) -> None:
    ledger.sending("a", acknowledged=None)
    ledger.resending("a")
    ledger.sending("b", acknowledged="a")
    ledger.acknowledged("b")
    ledger.received([("a", 0, True), ("b", 0, True), ("a", 1, True), ("a", 2, True)])

    outcome = ledger.outcome(left_in_store=0)

    assert (outcome.retried, outcome.redelivered, outcome.received) == (1, 2, 2)
    assert outcome.kept_the_promise


def test_marked_the_first_time_it_came(ledger: Ledger) -> None:
    send(ledger, "a")
    ledger.received([("a", 1, True)])

    assert ledger.outcome(left_in_store=0).kept_the_promise


@pytest.mark.parametrize(
    ("deliveries", "left", "wrong"),
    [
        ([("a", 0, True)], 0, "lost"),
        ([("a", 0, True), ("b", 0, True), ("a", 0, True)], 0, "unmarked"),
        ([("a", 1, True), ("b", 0, True), ("a", 0, True)], 0, "unmarked"),
        ([("a", 0, True), ("b", 0, False)], 0, "damaged"),
        ([("a", 0, True), ("b", 0, True), ("c", 0, True)], 0, "unknown"),
        ([("a", 0, True), ("b", 0, True)], 1, "left_in_store"),
    ],
)
def test_what_breaks_the_promise(
    ledger: Ledger, deliveries: list[tuple[str, int, bool]], left: int, wrong: str
) -> None:
    send(ledger, "a", "b")
    ledger.received(deliveries)

    outcome = ledger.outcome(left_in_store=left)

    assert getattr(outcome, wrong) == 1
    assert not outcome.kept_the_promise


def test_a_message_without_acknowledgement_breaks_it_too(ledger: Ledger) -> None:
    ledger.sending("a", acknowledged=None)
    ledger.received([("a", 0, True)])

    assert not ledger.outcome(left_in_store=0).kept_the_promise


def test_progress(ledger: Ledger) -> None:
    assert ledger.counts() == Counts(0, 0, 0)

    send(ledger, "a", "b")
    ledger.sending("c", acknowledged=None)
    ledger.received([("a", 0, True), ("a", 1, True)])

    assert ledger.counts() == Counts(sent=3, acknowledged=2, received=1)
