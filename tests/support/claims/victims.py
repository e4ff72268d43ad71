"""Processes that are killed, several side by side, forked from one that has everything imported.

Each ends itself by SIGKILL before a statement, or is killed or stopped for a while after a time.
"""

from __future__ import annotations

import gc
import heapq
import mmap
import os
import select
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Engine, event

from jdbcstore.database.adapters.writing import Writing
from jdbcstore.database.connection import Connection

KILLED, DONE, FAILED = "killed", "done", "failed"
"""How a process ends."""
_OURS = (
    *((Connection, name) for name in ("fetch", "fetch_in_turn", "change", "insert_rows", "write")),
    *((Writing, name) for name in ("begin", "commit")),
)
"""What runs a statement."""
_PATIENCE = 60.0
"""Seconds after which even one is killed that is to end itself."""


class Fuse:
    """Ends this process before a statement of the main thread."""

    def __init__(self, statements: int | None, *, is_lit: bool = True) -> None:
        """End it before so many have run, or never; they are counted from when it is lit."""
        self._left = statements
        self.is_lit = is_lit
        for owner, name in _OURS if statements else ():
            setattr(owner, name, self._around(getattr(owner, name)))

    def step(self, *_: Any, **_values: Any) -> None:
        if self._left is None or not self.is_lit or threading.current_thread() is not threading.main_thread():
            return
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*arguments: Any, **values: Any) -> Any:
            self.step()
            return run(*arguments, **values)

        return stepping

    def watch(self, engine: Engine) -> None:
        """Count the application's statements, too, and its commits."""
        event.listen(engine, "before_cursor_execute", self.step)
        event.listen(engine, "commit", self.step)


class Place:
    """What a process does at the moment, which its parent reads after its death."""

    def __init__(self, shared: mmap.mmap, index: int) -> None:
        self._shared = shared
        self._index = index

    def __call__(self, what: str) -> None:
        """Say so, by a letter."""
        self._shared[self._index] = ord(what)


class Fate(NamedTuple):
    """What happens to a process, in seconds of its life."""

    kill: float = _PATIENCE
    stop: float | None = None
    proceed: float = 0.0


class Victim(NamedTuple):
    """A process to be."""

    run: Callable[[Place], None]
    fate: Fate


class Ends(NamedTuple):
    """How processes have ended."""

    ways: Counter[str]
    places: Counter[str]
    """By what those did that were killed."""


class _Alive(NamedTuple):
    number: int
    descriptor: int


class _Living:
    """Those that are alive, and what is to happen to them."""

    def __init__(self, count: int) -> None:
        self._places = mmap.mmap(-1, count)
        self._due: list[tuple[float, int, signal.Signals]] = []
        self._poll = select.poll()
        self.alive: dict[int, _Alive] = {}
        """By process."""
        self.ends = Ends(Counter(), Counter())

    def begin(self, number: int, victim: Victim) -> None:
        fate = victim.fate
        pid = _fork(victim.run, Place(self._places, number))
        self.alive[pid] = _Alive(number, os.pidfd_open(pid))
        self._poll.register(self.alive[pid].descriptor, select.POLLIN)
        due = {signal.SIGKILL: fate.kill}
        if fate.stop is not None:
            due |= {signal.SIGSTOP: fate.stop, signal.SIGCONT: fate.stop + fate.proceed}
        for sent, seconds in due.items():
            heapq.heappush(self._due, (time.monotonic() + seconds, pid, sent))

    def proceed(self) -> None:
        """Wait for the next end, or send what is due."""
        left = max(0.0, self._due[0][0] - time.monotonic()) if self._due else _PATIENCE
        self._poll.poll(left * 1000)
        while self._due and self._due[0][0] <= time.monotonic():
            _, pid, sent = heapq.heappop(self._due)
            if pid in self.alive:
                signal.pidfd_send_signal(self.alive[pid].descriptor, sent)
        for pid in [*self.alive]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._bury(self.alive.pop(pid), os.waitstatus_to_exitcode(status))

    def _bury(self, one: _Alive, code: int) -> None:
        self._poll.unregister(one.descriptor)
        os.close(one.descriptor)
        way = {0: DONE, -signal.SIGKILL: KILLED}.get(code, FAILED)
        self.ends.ways[way] += 1
        if way == KILLED:
            self.ends.places[chr(self._places[one.number])] += 1


def run_all(victims: Iterator[Victim], count: int, beside: int) -> Ends:
    """Run so many processes, some of them at the same time."""
    gc.freeze()
    living = _Living(count)
    for number, victim in enumerate(islice(victims, count)):
        living.begin(number, victim)
        while len(living.alive) >= beside:
            living.proceed()
    while living.alive:
        living.proceed()
    return living.ends


def _fork(run: Callable[[Place], None], place: Place) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    with suppress(BaseException):
        try:
            run(place)
            code = 0
        except BaseException:
            traceback.print_exc()
    os._exit(code)
