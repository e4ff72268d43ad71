"""A scheduler that runs the product's threads one at a time, on a clock that it moves, in a seed's order.

Each thread is a greenlet, and one runs at a time. It changes to another where it would wait: for a lock, an
event, a pause, or the latency of the database and the disk. The next is whoever wakes first; latencies are
random, and so is the order. Nothing else decides: a seed is one history.
"""

from __future__ import annotations

import importlib
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from types import TracebackType
from typing import Any, TypeVar

_greenlets: Any = importlib.import_module("greenlet")

T = TypeVar("T")

FOREVER = float("inf")
EPOCH_MS = 1_750_000_000_000


class Killed(BaseException):
    """The process of this thread was killed."""


class Exhausted(Exception):
    """The simulation does not come to an end."""


_MOST_BLOCKS = 60_000


class Process:
    """A process of the simulated machine: its threads stop together, and it has a clock of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.paused_until = 0.0
        self.cut_until = 0.0
        """Until then it cannot reach the database."""
        self.offset_ms = 0
        """How far its wall clock is ahead."""
        self.epoch = 0
        """The last epoch that it knows to be its own."""
        self.tasks: list[Task] = []
        self.faults: deque[str] = deque()
        """Faults of its next commits."""


class _Runner:
    """A greenlet, used for one task after the other."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.switch = _greenlets.greenlet(self._loop).switch

    def _loop(self) -> None:
        while True:
            task, self.task = self.task, None
            assert task is not None
            task.run()
            task = None
            _now().hand_over()


class Task:
    """One thread of a process. It has what the product uses of ``threading.Thread``."""

    def __init__(
        self,
        target: Callable[..., object],
        args: Iterable[Any] = (),
        *,
        name: str = "",
        daemon: bool = True,
        process: Process | None = None,
    ) -> None:
        self._target, self._args = target, tuple(args)
        self.name, self.daemon = name, daemon
        self.process: Process = process or _now().current.process
        self.token = 0
        """Only the last entry of the schedule counts."""
        self.switch: Callable[[], object] | None = None
        """Goes on with it; None before it is started."""
        self.has_ended = False
        self.error: BaseException | None = None
        self._joining: list[Task] = []
        self.ident = 0

    def start(self) -> None:
        """Let it run, from the next time that the current task waits."""
        scheduler = _now()
        scheduler.count += 1
        self.ident = scheduler.count
        self.process.tasks.append(self)
        runner = _idle.pop() if _idle else _Runner()
        runner.task = self
        self.switch, self._runner = runner.switch, runner
        scheduler.wake(self)

    def run(self) -> None:
        """Run to the end, in the greenlet of a runner."""
        scheduler = _now()
        try:
            if not self.process.is_dead:
                self._target(*self._args)
        except Killed:
            pass
        except BaseException as error:
            self.error = error
            scheduler.failures.append((self, error))
        self.has_ended = True
        for task in self._joining:
            scheduler.wake(task)
        _idle.append(self._runner)

    def is_alive(self) -> bool:
        return self.switch is not None and not self.has_ended

    def join(self, timeout: float | None = None) -> None:
        scheduler = _now()
        end = FOREVER if timeout is None else scheduler.now + timeout
        while self.is_alive() and scheduler.now < end:
            self._joining.append(scheduler.current)
            scheduler.block(end)


_idle: list[_Runner] = []
_active: list[Scheduler] = []
_THREAD = threading.main_thread().ident
"""The thread in which all tasks run."""


def _now() -> Scheduler:
    return _active[-1]


class Scheduler:
    """The tasks of one seed, their clock and their chances. A context manager: while it is entered, the
    product's threads are its tasks."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._random = self.chance.random
        self.now = 1000.0
        """Monotonic seconds."""
        self.count = 0
        self._heap: list[tuple[float, float, int, Task]] = []
        self.failures: list[tuple[Task, BaseException]] = []
        self.switches = self.blocks = 0
        self.machine = Process("controller")
        self.current = Task(lambda: None, process=self.machine)
        self.current.switch = _greenlets.getcurrent().switch
        self.controller = self.current

    def __enter__(self) -> Scheduler:
        _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.remove(self)

    def wake(self, task: Task, at: float | None = None) -> None:
        """Schedule a task, in place of the time that was its last."""
        task.token = token = task.token + 1
        heappush(self._heap, (self.now if at is None else at, self._random(), token, task))

    def block(self, until: float = FOREVER) -> None:
        """Let others run until this time, or until somebody wakes this task, whatever comes first.

        :raises Killed: its process was killed
        """
        task = self.current
        process = task.process
        if process.is_dead:
            raise Killed
        task.token = token = task.token + 1
        if until < FOREVER:
            heappush(self._heap, (until, self._random(), token, task))
        self.blocks += 1
        following = self._next() if self.blocks < _MOST_BLOCKS else self.controller
        if following is not task:
            self.switches += 1
            self.current = following
            following.switch()  # type: ignore[misc]  # what is scheduled was started
        if process.is_dead:
            raise Killed
        if task is self.controller and self.blocks >= _MOST_BLOCKS:
            self.blocks = 0  # it can end the processes
            raise Exhausted

    def sleep(self, seconds: float) -> None:
        """Wait, while others run."""
        end = self.now + seconds if seconds > 0.0 else self.now
        self.block(end)
        while self.now < end:  # woken by something that it had waited for before
            self.block(end)

    def hand_over(self) -> None:
        """Go on with another task; this one has ended."""
        self.switches += 1
        following = self._next()
        self.current = following
        following.switch()  # type: ignore[misc]

    def _next(self) -> Task:
        heap, now = self._heap, self.now
        while heap:
            at, _, token, task = heappop(heap)
            if token != task.token or task.has_ended:
                continue
            if at < now:
                at = now
            process = task.process
            if process.paused_until > at and not process.is_dead:
                heappush(heap, (process.paused_until, self._random(), token, task))
                continue
            self.now = at
            return task
        # Everybody waits for somebody else: the controller finds out what has not ended.
        return self.controller

    def kill(self, process: Process) -> None:
        """End a process: each of its threads, where it waits."""
        process.is_dead = True
        for task in process.tasks:
            if task.is_alive():
                self.wake(task)

    def wait_until(self, is_true: Callable[[], bool], seconds: float, step: float = 0.05) -> bool:
        """Let others run until something is true; return whether it is, within these seconds."""
        end = self.now + seconds
        while not is_true():
            if self.now >= end:
                return False
            self.sleep(step)
        return True


class Lock:
    """As ``threading.Lock``."""

    def __init__(self) -> None:
        self._is_locked = False
        self._waiting: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._is_locked:
            self._is_locked = True
            return True
        if not blocking:
            return False
        scheduler = _now()
        end = FOREVER if timeout < 0 else scheduler.now + timeout
        while self._is_locked:
            if scheduler.now >= end:
                return False
            self._waiting.append(scheduler.current)
            scheduler.block(end)
        self._is_locked = True
        return True

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for task in waiting:
                _now().wake(task)

    def locked(self) -> bool:
        return self._is_locked

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock:
    """As ``threading.RLock``."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: Task | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = _active[-1].current
        if self._owner is not me:
            lock = self._lock
            if lock._is_locked and not lock.acquire(blocking, timeout):
                return False
            lock._is_locked = True
            self._owner = me
        self._count += 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def _is_owned(self) -> bool:
        return self._owner is _now().current

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """As ``threading.Condition``."""

    def __init__(self, lock: Lock | RLock | None = None) -> None:
        self._lock = lock or RLock()
        self._waiting: list[list[Task]] = []
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = _now()
        end = FOREVER if timeout is None else scheduler.now + timeout
        entry = [scheduler.current]
        self._waiting.append(entry)
        count = self._lock._count if isinstance(self._lock, RLock) else 1
        for _ in range(count):
            self._lock.release()
        try:
            while entry and scheduler.now < end:
                scheduler.block(end)
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
            for _ in range(count):
                self._lock.acquire()
        return not entry

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        scheduler = _now()
        end = FOREVER if timeout is None else scheduler.now + timeout
        while not (result := predicate()) and scheduler.now < end:
            self.wait(None if end == FOREVER else end - scheduler.now)
        return result

    def notify(self, n: int = 1) -> None:
        waiting, self._waiting = self._waiting[:n], self._waiting[n:]
        for entry in waiting:
            if entry:
                _now().wake(entry.pop())

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class Event:
    """As ``threading.Event``."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            _now().wake(task)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = _now()
        end = FOREVER if timeout is None else scheduler.now + timeout
        while not self._is_set and scheduler.now < end:
            self._waiting.append(scheduler.current)
            scheduler.block(end)
        return self._is_set


class SimpleQueue:
    """As ``queue.SimpleQueue``."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._filled = Event()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._filled.set()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items and block:
            self._filled.wait(timeout)
        if not self._items:
            raise queue.Empty
        item = self._items.popleft()
        if not self._items:
            self._filled.clear()
        return item

    def empty(self) -> bool:
        return not self._items


class SimulatedThreading:
    """The module ``threading``, for the product's modules."""

    Lock, RLock, Condition, Event, Thread = Lock, RLock, Condition, Event, Task
    local, TIMEOUT_MAX = threading.local, threading.TIMEOUT_MAX
    main_thread = staticmethod(threading.main_thread)

    @staticmethod
    def current_thread() -> Task:
        return _now().current

    @staticmethod
    def get_ident() -> int:
        return _now().current.ident


class SimulatedTime:
    """The module ``time``, for the product's modules."""

    perf_counter, perf_counter_ns = time.perf_counter, time.perf_counter_ns

    @staticmethod
    def monotonic() -> float:
        # A thread of a test before, which ends some seconds later, may be in a module of the product.
        return _now().now if threading.get_ident() == _THREAD else time.monotonic()

    @staticmethod
    def time() -> float:
        return SimulatedTime.time_ns() / 1e9

    @staticmethod
    def time_ns() -> int:
        scheduler = _now()
        return (EPOCH_MS + round(scheduler.now * 1000) + scheduler.current.process.offset_ms) * 1_000_000

    @staticmethod
    def sleep(seconds: float) -> None:
        _now().sleep(seconds)


class SimulatedRandom:
    """The modules ``random`` and ``secrets``, for the product's modules."""

    @staticmethod
    def uniform(low: float, high: float) -> float:
        return _now().chance.uniform(low, high)

    @staticmethod
    def token_hex(size: int) -> str:
        return _now().chance.randbytes(size).hex()

    @staticmethod
    def randbits(bits: int) -> int:
        return _now().chance.getrandbits(bits)


class SimulatedSystem:
    """What the product asks of the modules ``os`` and ``socket`` to name a producer."""

    @staticmethod
    def getpid() -> int:
        return 4711

    @staticmethod
    def gethostname() -> str:
        return "simulated"


class ProcessClock:
    """The clock of a process, as :class:`jdbcstore.util.clock.Clock` promises."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return EPOCH_MS + round(_now().now * 1000) + self._process.offset_ms

    def monotonic(self) -> float:
        return _now().now


REPLACED: dict[str, Any] = {
    "threading": SimulatedThreading,
    "time": SimulatedTime,
    "random": SimulatedRandom,
    "secrets": SimulatedRandom,
    "SimpleQueue": SimpleQueue,
}
"""By name in a module, what takes the place of what the product imports under it."""
_ORIGINALS = {"threading": threading, "time": time, "SimpleQueue": queue.SimpleQueue}


def replacements(modules: Iterable[Any]) -> list[tuple[Any, str, Any]]:
    """Return what is to be replaced in these modules: module, name and simulated value."""
    import secrets

    originals: dict[str, Any] = {**_ORIGINALS, "random": random, "secrets": secrets}
    return [
        (module, name, simulated)
        for module in modules
        for name, simulated in REPLACED.items()
        if vars(module).get(name) is originals[name]
    ]


def current() -> Scheduler:
    """Return the scheduler that is running."""
    return _now()


def current_process() -> Process:
    """Return the process of the running task."""
    return _now().current.process
