"""How much memory messages take: a destination's share of the broker's."""

from __future__ import annotations


class MemoryUsage:
    """Bytes in use, here and in the parent; estimates, for the limits that keep a broker small."""

    __slots__ = ("_high", "_parent", "limit", "used")

    def __init__(self, limit: int, *, high_water_mark: int = 70, parent: MemoryUsage | None = None) -> None:
        self.limit = limit
        self._high = limit * high_water_mark // 100
        self._parent = parent
        self.used = 0

    @property
    def is_high(self) -> bool:
        """Whether cursors should read no further."""
        return self.used >= self._high or (self._parent is not None and self._parent.is_high)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait."""
        return self.used >= self.limit or (self._parent is not None and self._parent.is_full)

    def take(self, size: int) -> None:
        """Use that much more; never refused."""
        self.used += size
        if self._parent is not None:
            self._parent.take(size)

    def release(self, size: int) -> None:
        """Use that much less."""
        self.used -= size
        if self._parent is not None:
            self._parent.release(size)
