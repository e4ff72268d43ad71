"""What the processes have said, in order, and waiting for more of it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Said(NamedTuple):
    """That somebody knew a message to be stored; ``when`` by the monotonic clock."""

    when: float
    who: str
    epoch: int


class History:
    """Filled by the threads that read what the processes write."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._epochs: dict[str, int] = defaultdict(int)
        """Each process's own, 0 while it is not the master."""
        self._heard: dict[str, float] = defaultdict(lambda: float("-inf"))
        self._last: Said | None = None
        self.first: dict[int, Said] = {}
        """Each epoch's first message that was known to be stored."""
        self.masters: list[Said] = []
        self._events: list[tuple[float, str, str]] = []
        """What was said but for messages."""
        self.claims: dict[str, set[int]] = defaultdict(set)
        """The epochs in which a message was about to be acknowledged."""
        self.names: dict[str, set[str]] = defaultdict(set)
        """The messages by what was said of them: added, acked, refused."""

    def record(self, who: str, line: str) -> None:
        """A line that begins with the monotonic clock."""
        moment, verb, *rest = line.split()
        when = float(moment)
        with self._changed:
            if verb in ("tried", "added"):
                self._heard[who] = when
            if verb not in ("added", "acking", "acked"):
                self._events.append((when, who, " ".join([verb, *rest])))
            if verb in ("born", "lost"):
                self._epochs[who] = 0
            elif verb == "master":
                self._epochs[who] = int(rest[0])
                self.masters.append(Said(when, who, int(rest[0])))
            elif verb == "acking":
                self.claims[rest[0]].add(self._epochs[who])
            elif verb in ("added", "acked", "refused"):
                self.names[verb].add(rest[0])
            if verb == "added":
                self._last = Said(when, who, self._epochs[who])
                self.first.setdefault(self._epochs[who], self._last)
            self._changed.notify_all()

    def epoch_of(self, who: str) -> int:
        """That of the mastership which this process has begun last, 0 if it is none, or has ended."""
        with self._changed:
            return self._epochs[who]

    def events(self, since: float, until: float) -> list[str]:
        """What was said in this time, but for messages, with the seconds since its begin."""
        with self._changed:
            return [
                f"{when - since:.2f} s, {who}: {what}"
                for when, who, what in self._events
                if since <= when <= until
            ]

    def wait_for(self, found: Callable[[], T | None], timeout: float, what: str) -> T:
        """What ``found`` returns, once that is anything.

        :raises AssertionError: it is nothing for ``timeout`` seconds
        """
        end = time.monotonic() + timeout
        with self._changed:
            while (answer := found()) is None:
                if not self._changed.wait(end - time.monotonic()):
                    raise AssertionError(f"{what} is still waited for after {timeout:g} seconds")
        return answer

    def wait_stored(self, moment: float, timeout: float) -> Said:
        """Wait until somebody has stored a message after this moment."""
        return self.wait_for(
            lambda: self._last if self._last is not None and self._last.when > moment else None,
            timeout,
            "a master",
        )

    def wait_heard(self, who: str, moment: float, timeout: float) -> None:
        """Wait until a process has tried to be the master, or has been it, after this moment."""
        self.wait_for(lambda: self._heard[who] > moment or None, timeout, who)

    def wait_followed(self, epoch: int, timeout: float) -> Said:
        """Wait until somebody has stored a message in a later epoch; the first who did."""
        return self.wait_for(
            lambda: next((said for number, said in self.first.items() if number > epoch), None),
            timeout,
            "another master",
        )
