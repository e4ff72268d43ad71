"""Offsets of a stream: the ID up to which it has read, and the gaps in which a message may appear yet."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

Range = tuple[int, int]
"""IDs from the first to the second, both inclusive."""


class Gaps:
    """A set of IDs, as ascending ranges."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self.ranges = tuple(ranges)
        self._firsts = [first for first, _ in self.ranges]

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaps) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"Gaps({[*self.ranges]})"

    def __contains__(self, id_: int) -> bool:
        place = bisect_right(self._firsts, id_) - 1
        return place >= 0 and id_ <= self.ranges[place][1]

    def __add__(self, later: Gaps) -> Gaps:
        """Return the union; all of ``later`` is higher."""
        return Gaps([*self.ranges, *later.ranges])

    def up_to(self, last: int) -> Gaps:
        return Gaps((first, min(end, last)) for first, end in self.ranges if first <= last)

    def after(self, id_: int) -> Gaps:
        return Gaps((max(first, id_ + 1), end) for first, end in self.ranges if end > id_)

    def without(self, ids: Iterable[int]) -> Gaps:
        """Return the gaps without these ascending IDs, each of which is in the set."""
        left: list[Range] = []
        pending = iter(self.ranges)
        first, end = next(pending, (0, -1))
        for id_ in ids:
            while id_ > end:
                left += [(first, end)]
                first, end = next(pending)
            left += [(first, id_ - 1)]
            first = id_ + 1
        left += [(first, end), *pending]
        return Gaps((first, end) for first, end in left if first <= end)

    def spans(self, distance: int) -> Iterator[Range]:
        """Yield ranges that cover the set, and that join gaps up to ``distance`` apart."""
        span: Range | None = None
        for first, end in self.ranges:
            if span is not None and first - span[1] <= distance:
                span = span[0], end
                continue
            if span is not None:
                yield span
            span = first, end
        if span is not None:
            yield span


NO_GAPS = Gaps()


def gaps_between(after: int, ids: Sequence[int], up_to: int) -> Gaps:
    """Return the IDs after ``after``, up to ``up_to``, that are not among these ascending ones."""
    starts, ends = [after, *ids], [*ids, up_to + 1]
    pairs = zip(starts, ends, strict=True)
    return Gaps((start + 1, end - 1) for start, end in pairs if end - start > 1)


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of a batch: it includes all IDs up to ``id`` that are not in the gaps."""

    id: int
    gaps: Gaps = NO_GAPS
    """IDs up to ``id`` that were not there, in which a message may be committed yet."""
    late: tuple[int, ...] = ()
    """IDs that this batch reads from the gaps of the previous one."""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Parse the offset as Spark stores it, in JSON; earlier versions stored ``id`` only."""
        gaps = ((first, end) for first, end in facts.get("gaps", ()))
        return cls(int(facts["id"]), Gaps(gaps), tuple(facts.get("late", ())))

    @property
    def facts(self) -> dict[str, Any]:
        """The offset for JSON."""
        gaps = {"gaps": [[*each] for each in self.gaps.ranges]} if self.gaps else {}
        late = {"late": [*self.late]} if self.late else {}
        return {"id": self.id, **gaps, **late}
