"""Gaps of IDs are sets of IDs."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.analytics.streaming.offsets import Gaps, Offset, gaps_between

IDS = st.sets(st.integers(1, 60))


def gaps_of(missing: set[int]) -> Gaps:
    return gaps_between(0, sorted({*range(1, 61)} - missing), 60)


def ids_in(gaps: Gaps) -> set[int]:
    found = [id_ for first, end in gaps.ranges for id_ in range(first, end + 1)]
    assert found == sorted({*found})
    return {*found}


@given(IDS, IDS, st.integers(0, 61))
def test_gaps_are_sets(missing: set[int], some: set[int], cut: int) -> None:
    gaps = gaps_of(missing)
    assert ids_in(gaps) == missing
    assert {id_ for id_ in range(62) if id_ in gaps} == missing
    assert ids_in(gaps.up_to(cut)) == {id_ for id_ in missing if id_ <= cut}
    assert ids_in(gaps.after(cut)) == {id_ for id_ in missing if id_ > cut}
    assert ids_in(gaps.up_to(cut) + gaps.after(cut)) == missing
    assert ids_in(gaps.without(sorted(missing & some))) == missing - some
    spans = [*gaps.spans(3)]
    assert missing <= {id_ for first, end in spans for id_ in range(first, end + 1)}
    assert all(after - end > 3 for (_, end), (after, _) in itertools.pairwise(spans))


@given(st.integers(0, 2**62), IDS, st.lists(st.integers(1, 60)))
def test_offsets_go_through_json(id_: int, missing: set[int], late: list[int]) -> None:
    offset = Offset(id_, gaps_of(missing), tuple(late))
    assert Offset.of(json.loads(json.dumps(offset.facts))) == offset


def test_an_offset_of_an_earlier_version() -> None:
    assert Offset.of({"id": 7}) == Offset(7)
    assert Offset(7).facts == {"id": 7}
