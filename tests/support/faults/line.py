"""The line between a store and its database, which breaks at a chosen point."""

from __future__ import annotations

import enum
import threading
from typing import ClassVar


class Break(enum.Enum):
    """What is lost when the line breaks."""

    STATEMENT = "the statement never arrives"
    ANSWER = "the statement was run, and its answer never arrives"
    BETWEEN = "the statement arrives, and the line is gone while it runs"


class Line:
    """Counts what passes, and breaks at the point that :meth:`arm` chose."""

    breaks: ClassVar[tuple[Break, ...]] = (Break.STATEMENT, Break.ANSWER)
    """The ways in which this line can break."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._break: Break | None = None
        self._left = 0
        self._lasting = False
        self.broke = False
        """It has broken since it was armed."""
        self.down = False
        """Nothing passes until it is mended."""

    @property
    def url(self) -> str:
        """The database, by way of this line."""
        raise NotImplementedError

    def arm(self, how: Break, number: int, *, lasting: bool = False) -> None:
        """Break at the ``number``-th statement or answer from now, counted from 1."""
        with self._lock:
            self._break, self._left, self._lasting, self.broke = how, number, lasting, False

    def mend(self) -> None:
        """Let everything pass again, and stay whole."""
        with self._lock:
            self._break, self.down = None, False

    def close(self) -> None: ...

    def _breaks_at(self, *points: Break) -> Break | None:
        """Whether it breaks here and now, at a point where it can break in these ways."""
        with self._lock:
            if self._break not in points:
                return None
            self._left -= 1
            if self._left:
                return None
            how, self._break = self._break, None
            self.broke, self.down = True, self._lasting
            return how
