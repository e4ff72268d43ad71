"""A gate, through which threads pass to work, and behind which none works while it is closed."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator


class Gate:
    """A gate that is open. A thread that is inside may enter again, also while it is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()
        self._closed = False

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Run the block inside the gate, once it is open."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._closed or me in self._inside)
            self._inside[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[me] -= 1
                if not self._inside[me]:
                    del self._inside[me]
                    self._changed.notify_all()

    def close(self, seconds: float) -> bool:
        """Close the gate, and wait up to ``seconds`` for other threads' work; return whether it has ended."""
        me = threading.get_ident()
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: self._inside.keys() <= {me}, seconds)

    def open(self) -> None:
        """Let threads in."""
        with self._changed:
            self._closed = False
            self._changed.notify_all()
