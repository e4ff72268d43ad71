"""What notes of claims say, and that each rule can be broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.claims.rules import (
    Held,
    Note,
    accounts,
    beside_pauses,
    excess,
    held,
    is_within,
    most_at_once,
    overtaken,
    read,
    twice,
    unfair,
)


def note(what: str, begun: float, at: float, *ids: int, session: int = 1, believed: float = 0.0) -> Note:
    return Note(what, "Q", begun, at, [*ids], session, believed)


def test_a_claim_is_held_until_its_settlement_begins() -> None:
    notes = [note("taken", 0, 1, 7), note("removing", 1, 2, 7), note("removed", 1, 3, 7)]
    assert held(notes) == [Held("Q", 7, 1, 2)]


def test_a_claim_that_is_not_settled_is_held_as_long_as_its_lease_was_believed() -> None:
    notes = [
        note("taken", 0, 1, 7, believed=5),
        note("taken", 0, 2, 8, believed=9),
        note("returning", 2, 3, 8),
        note("lost", 2, 4, 8),
    ]
    assert held(notes) == [Held("Q", 7, 1, 9), Held("Q", 8, 2, 3)]


def test_a_session_may_take_a_message_again() -> None:
    notes = [
        note("taken", 0, 1, 7, believed=9),
        note("returning", 1, 2, 7),
        note("returned", 1, 3, 7),
        note("taken", 3, 4, 7),
    ]
    assert held(notes) == [Held("Q", 7, 1, 2), Held("Q", 7, 4, 9)]


def test_claims_at_once() -> None:
    claims = [Held("Q", 1, 0, 3), Held("Q", 2, 1, 2), Held("Q", 3, 2, 4), Held("Q", 4, 9, 8)]
    assert most_at_once(iter(claims)) == 2
    assert twice(claims) == []
    assert twice([*claims, Held("Q", 1, 2, 4)]) == [1]


def test_the_order_of_a_key() -> None:
    notes = [
        note("taken", 0, 1, 1),
        note("removing", 1, 2, 1),
        note("taken", 2, 3, 3),
    ]
    assert overtaken(notes, [1, 2, 3]) == [2]
    assert overtaken(notes, [1, 3]) == []
    assert overtaken([notes[0], notes[2]], [1, 3]) == [1]


def test_a_rate() -> None:
    notes = [note("taken", 0.0, 1.0, 1, 2), note("taken", 1.5, 3.0, 3), note("taken", 3.0, 4.0, 4)]
    assert excess(notes, 1.0, 2) == pytest.approx(-1.0)
    assert excess(notes, 0.5, 1) == pytest.approx(1.0)
    assert is_within(notes, 1.0, 2)
    assert not is_within(notes, 0.5, 1)


def test_pauses() -> None:
    notes = [note("taken", 1, 2, 1), note("taken", 2, 4, 2), note("taken", 5, 6, 3)]
    assert beside_pauses(notes, [(2, 3), (4, 7)]) == [3]


def test_what_has_become_of_all() -> None:
    notes = [
        *(note("removing", 0, 1, id_) for id_ in (1, 2, 3, 4)),
        *(note("removed", 0, 2, id_) for id_ in (1, 2, 3)),
        note("removed", 2, 3, 3),
    ]
    assert accounts(notes, added=[1, 2, 3, 4, 5, 6], left=[2, 6]) == [
        "5 is lost",
        "2 was removed, and is there",
        "3 was removed twice",
    ]


def test_shares() -> None:
    weights = {"a": 1, "b": 2}
    assert unfair({"a": 10, "b": 20, "c": 99}, weights, 0.0, 0.0) == []
    assert unfair({"a": 12, "b": 18}, weights, 0.1, 1.0) == []
    assert unfair({"a": 14, "b": 16}, weights, 0.1, 1.0) == [
        "14 of a, and 10 are its share",
        "16 of b, and 20 are its share",
    ]


def test_the_last_note_may_be_torn(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text('["lost", "Q", 2, 3, [1], 1, 0]\n["taken", "Q", 0, 1, [1], 1, 9]\n["ta')
    assert read(tmp_path / "notes") == [note("taken", 0, 1, 1, believed=9), note("lost", 2, 3, 1)]
