"""What wildcards match."""

from __future__ import annotations

import pytest

from jdbcstore.destination import Destination
from jdbcstore.patterns import DestinationPattern, is_wildcard

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
