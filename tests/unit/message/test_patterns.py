"""What wildcards match."""

from __future__ import annotations

import pytest

from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationMap, DestinationPattern, is_wildcard

MATCHES = [
    ("A", "A", True),
    ("A", "A.B", False),
    ("A.*", "A.B", True),
    ("A.*", "A", False),
    ("A.*", "A.B.C", False),
    ("*.B", "A.B", True),
    ("A.*.C", "A.B.C", True),
    ("A.*.C", "A.B.D", False),
    (">", "A", True),
    (">", "A.B.C", True),
    ("A.>", "A", True),
    ("A.>", "A.B", True),
    ("A.>", "A.B.C", True),
    ("A.>", "AB", False),
    ("A.>", "B", False),
    ("A.*.>", "A.B", True),
    ("A.*.>", "A.B.C.D", True),
    ("A.*.>", "A", False),
    (">.>", "A", True),
    ("A.>.>", "A", True),
    ("A.*.>.>", "A.B", True),
    ("A.*.>.>", "A.B.C", True),
    ("A.*.>.>", "A", False),
    ("A.>.B.>", "A.B.B.C", False),
    ("A*", "AB", False),
    ("A*", "A*", True),
]


@pytest.mark.parametrize(("pattern", "name", "expected"), MATCHES)
def test_wildcards(pattern: str, name: str, expected: bool) -> None:
    assert DestinationPattern(Destination.queue(pattern)).matches(Destination.queue(name)) is expected


def test_a_pattern_of_queues_matches_no_topic() -> None:
    assert not DestinationPattern(Destination.queue(">")).matches(Destination.topic("A"))


@pytest.mark.parametrize(
    ("name", "expected"), [("A.*", True), ("A.>", True), (">", True), ("A*", False), ("A.>.B", False)]
)
def test_what_is_a_wildcard(name: str, expected: bool) -> None:
    assert is_wildcard(Destination.topic(name)) is expected


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (">", "A.>", True),
        ("A.>", ">", False),
        ("A.>", "A.*", True),
        ("A.>", "A", True),
        ("A.*", "A.>", False),
        ("A.*", "A.B", True),
        ("A.*.>", "A.>", False),
        ("A.*.>", "A.B.>", True),
        ("A.*", "*.B", False),
        ("*.B", "A.*", False),
        ("A.>.>", "A.>", True),
        ("A.>", "A.>.>", True),
        ("A", "A", True),
    ],
)
def test_a_pattern_covers_others(outer: str, inner: str, expected: bool) -> None:
    outside, inside = (DestinationPattern(Destination.queue(name)) for name in (outer, inner))

    assert outside.covers(inside) is expected


@pytest.mark.parametrize(
    ("one", "another", "expected"),
    [
        ("A.*.C", "A.B.*", True),
        ("A.*.C", "A.B.>", True),
        ("A.*.C", "A.B.D", False),
        ("A", "A.>", True),
        ("A.*", "A.B.C", False),
        ("A.B", "A.B.*", False),
        (">", "A.*", True),
        ("A.>", "B.>", False),
        ("A.B", "A.B", True),
    ],
)
def test_patterns_overlap(one: str, another: str, expected: bool) -> None:
    first, second = (DestinationPattern(Destination.queue(name)) for name in (one, another))

    assert first.overlaps(second) is second.overlaps(first) is expected
    assert not first.overlaps(DestinationPattern(Destination.topic(another)))


@pytest.mark.parametrize(
    ("patterns", "name", "chosen"),
    [
        ([">", "A.>", "A.*", "A.B"], "A.B", "A.B"),
        (["A.B", "A.*", "A.>", ">"], "A.B", "A.B"),
        ([">", "A.>", "A.*"], "A.C", "A.*"),
        ([">", "A.>", "A.*"], "A", "A.>"),
        ([">", "A.>", "A.*"], "A.B.C", "A.>"),
        ([">", "A.>", "A.*"], "B", ">"),
        (["A.*", "*.B"], "A.B", "*.B"),
        (["*.B", "A.*"], "A.B", "*.B"),
        (["A.B.>", "A.*.>", "A.*.C"], "A.B.C", "A.*.C"),
        (["A.>", "B.>"], "C", None),
        (["A,B.>", ">"], "A", "A,B.>"),
        (["A,B.>", ">"], "B.C", "A,B.>"),
        (["A,B.>", ">"], "C", ">"),
        ([">", "A.*"], "A.>", "A.*"),  # a wildcard subscription
    ],
)
def test_the_most_specific_pattern_is_chosen(patterns: list[str], name: str, chosen: str | None) -> None:
    entries = [(Destination.queue(pattern), pattern) for pattern in patterns]

    assert DestinationMap(entries).find(Destination.queue(name)) == chosen
    assert DestinationMap(entries).find(Destination.topic(name)) is None


def test_of_equal_patterns_the_first_is_chosen() -> None:
    pattern = Destination.topic("A.>")

    assert DestinationMap([(pattern, 1), (pattern, 2)]).find(Destination.topic("A.B")) == 1
