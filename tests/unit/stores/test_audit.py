"""The duplicate audit's windows, against a set that forgets nothing."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.stores.shared.audit import DuplicateAudit

DEPTH = 8


@given(st.lists(st.integers(-40, 40) | st.integers(-(2**63), 2**63 - 1)))
def test_a_window_remembers_what_is_in_it(sequences: list[int]) -> None:
    audit = DuplicateAudit(10, DEPTH)
    seen: set[int] = set()

    for sequence in sequences:
        highest = max(seen, default=sequence)
        in_window = sequence >= highest - DEPTH
        assert audit.is_duplicate("p", sequence) == (in_window and sequence in seen)
        if in_window:
            seen.add(sequence)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.booleans())))
def test_what_is_forgotten_may_come_again(steps: list[tuple[str, int, bool]]) -> None:
    audit = DuplicateAudit(10, DEPTH)
    seen: set[tuple[str, int]] = set()

    for producer, sequence, forget in steps:
        if forget:
            audit.forget(producer, sequence)
            seen.discard((producer, sequence))
        else:
            assert audit.is_duplicate(producer, sequence) == ((producer, sequence) in seen)
            seen.add((producer, sequence))


def test_forgetting_what_was_never_seen() -> None:
    audit = DuplicateAudit(10, DEPTH)
    audit.forget("p", 1)
    assert not audit.is_duplicate("p", 100)

    for sequence in (101, 50, 2**70):
        audit.forget("p", sequence)

    assert audit.is_duplicate("p", 100)


def test_a_leap_forgets_what_is_behind_it() -> None:
    audit = DuplicateAudit(10, DEPTH)
    for sequence in range(5):
        assert not audit.is_duplicate("p", sequence)

    assert not audit.is_duplicate("p", 2**62)
    assert not audit.is_duplicate("p", 4)
    assert audit.is_duplicate("p", 2**62)


def test_the_window_s_edge() -> None:
    audit = DuplicateAudit(10, DEPTH)
    audit.is_duplicate("p", 100 - DEPTH)
    audit.is_duplicate("p", 100 - DEPTH - 1)
    audit.is_duplicate("p", 100)

    assert audit.is_duplicate("p", 100 - DEPTH)
    assert not audit.is_duplicate("p", 100 - DEPTH - 1)
    assert not audit.is_duplicate("p", 100 - DEPTH - 1)


def test_only_so_many_producers_are_remembered() -> None:
    audit = DuplicateAudit(3, DEPTH)
    for producer in "abc":
        audit.is_duplicate(producer, 1)
    assert audit.is_duplicate("a", 1)

    assert not audit.is_duplicate("d", 1)

    assert not audit.is_duplicate("b", 1), "the one that was silent longest"
    assert audit.is_duplicate("a", 1)
    assert audit.is_duplicate("d", 1)


@pytest.mark.parametrize("threads", [8])
def test_exactly_one_of_many_threads_is_first(threads: int) -> None:
    audit = DuplicateAudit(10, 10_000)
    firsts: list[int] = []
    start = threading.Barrier(threads)

    def send() -> None:
        start.wait()
        for sequence in range(2_000):
            if not audit.is_duplicate("p", sequence):
                firsts.append(sequence)

    running = [threading.Thread(target=send) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()

    assert sorted(firsts) == list(range(2_000))
