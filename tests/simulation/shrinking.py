"""The fewest events with which a seed still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(steps: Sequence[T], fails: Callable[[Sequence[T]], bool], most: int = 300) -> list[T]:
    """Leave out steps, first many at once, while what is left fails; at most so many attempts."""
    kept, size = [*steps], max(1, len(steps) // 2)
    while size and most > 0:
        start, before = 0, len(kept)
        while start < len(kept) and most > 0:
            fewer = kept[:start] + kept[start + size :]
            most -= 1
            if fails(fewer):
                kept = fewer
            else:
                start += size
        if len(kept) == before or size > 1:
            size //= 2
    return kept
