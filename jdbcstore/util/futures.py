"""The futures of writes, for whoever waits: a thread, a callback, or a task of an event loop.

A store's thread completes hundreds of them in a burst. If each that a task awaits woke its loop, the two
threads would take turns at the interpreter; here the loop is woken once, behind the burst.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Call = Callable[[], object]
_making = threading.Lock()
"""Held for a moment: either a promise is fulfilled first, or somebody begins to wait for it."""


class _Thread(threading.local):
    woken: set[Arrivals] | None = None
    """Whom this thread wakes when its burst is over; none outside of one."""
    arrivals: Arrivals | None = None
    """Those of the loop that ran here last."""


_thread = _Thread()


class Arrivals:
    """Calls for a loop, from any thread: made there, in their order. They must not raise."""

    __slots__ = ("_calls", "_woken", "loop")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Call] = deque()
        self._woken = False

    def add(self, call: Call) -> None:
        self._calls.append(call)  # first, so that a run that is about to begin sees it
        if not self._woken:
            if _thread.woken is None:
                self.wake()
            else:
                _thread.woken.add(self)

    def wake(self) -> None:
        """Have the loop make the calls, unless it is about to."""
        if self._woken:
            return
        self._woken = True
        try:
            self.loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            log.debug("the loop was closed before the store was done")

    def _run(self) -> None:
        self._woken = False
        calls = self._calls
        for _ in range(len(calls)):
            calls.popleft()()


@contextmanager
def burst() -> Iterator[None]:
    """A while in which this thread completes many futures: loops are woken at its end."""
    if _thread.woken is not None:
        yield
        return
    woken: set[Arrivals] = set()
    _thread.woken = woken
    try:
        yield
    finally:
        _thread.woken = None
        for arrivals in woken:
            arrivals.wake()


class StoreFuture(Future[T]):
    """The end of a write: as any ``concurrent.futures.Future``, and it can be awaited, on any loop.

    A task that is cancelled while it awaits one cancels it too: what was not begun is then never written, and
    what was is written all the same.
    """

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            arrivals = _of(asyncio.get_running_loop())
            waiter: asyncio.Future[None] = arrivals.loop.create_future()
            self._call_when_done(arrivals, partial(_settle, waiter))
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        if self.cancelled():
            raise asyncio.CancelledError
        return self.result()

    def _call_when_done(self, arrivals: Arrivals, call: Call) -> None:
        self.add_done_callback(lambda _: arrivals.add(call))

    _done_callbacks: list[Callable[[Any], object]]

    def _invoke_callbacks(self) -> None:
        # The base lets pass what is no Exception: a sys.exit() would end the store's thread.
        for callback in self._done_callbacks:
            try:
                callback(self)
            except BaseException:
                log.exception("a callback of a write's future failed")


def _of(loop: AbstractEventLoop) -> Arrivals:
    arrivals = _thread.arrivals
    if arrivals is None or arrivals.loop is not loop:
        arrivals = _thread.arrivals = Arrivals(loop)
    return arrivals


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Withdraws(Protocol[T_contra]):
    """Has work queued."""

    def withdraw(self, work: T_contra, /) -> bool:
        """Take work back; whether it had not begun."""
        ...


class _Condition(threading.Condition):
    """One whose lock is taken and let go by the interpreter itself: no signal comes between two steps.

    Else whoever is interrupted there has it for good, and the writer's thread waits for it.
    """

    @property
    def __enter__(self) -> Callable[[], bool]:
        return self._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._lock.__exit__

    _lock: threading.RLock


class Promise(StoreFuture[Any]):
    """A future that can be cancelled while its work is queued, which is then not done.

    Most have their result before anybody asks for it, and nobody ever waits: what a thread waits by, which is
    most of what a future costs, is made when somebody does.
    """

    __slots__ = (
        *("_awaited", "_done_callbacks", "_exception", "_made", "_queue"),
        *("_result", "_state", "_waiters", "_work"),
    )

    _state: str
    _made: threading.Condition | None
    _awaited: tuple[Arrivals, Call] | None
    """The first task that awaits it."""

    def __init__(self, queue: Withdraws[T], work: T) -> None:
        # In place of the base's: whatever there touches callbacks and waiters has taken _condition before.
        self._state = "PENDING"
        self._result = self._exception = self._made = self._awaited = None
        self._queue = queue
        self._work: T | None = work

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        made = self._made
        if made is None:
            # Made before: under the lock nothing may run that a signal handler could come between.
            made = _Condition()
            with _making:
                if self._made is None:
                    self._waiters: list[Any] = []
                    self._done_callbacks = []
                    self._made = made
                made = self._made
        return made

    def _call_when_done(self, arrivals: Arrivals, call: Call) -> None:
        with _making:
            if self._made is None and self._awaited is None and self._state == "PENDING":
                self._awaited = arrivals, call
                return
        super()._call_when_done(arrivals, call)

    def _tell(self) -> None:
        """Whoever awaits it, now that it is done."""
        awaited, self._awaited = self._awaited, None
        self._work = None  # which refers to this: messages would stay until a cycle is looked for
        if awaited is not None:
            arrivals, call = awaited
            arrivals.add(call)

    def set_result(self, result: Any, /) -> None:
        with _making:
            quick = self._made is None and self._state == "PENDING"
            if quick:
                self._result = result
                self._state = "FINISHED"
        if not quick:
            super().set_result(result)
        self._tell()

    def set_exception(self, exception: BaseException | None, /) -> None:
        super().set_exception(exception)
        self._tell()

    def done(self) -> bool:
        return self._state not in ("PENDING", "RUNNING")

    def cancelled(self) -> bool:
        return self._state.startswith("CANCELLED")

    def result(self, timeout: float | None = None) -> Any:
        if self._state == "FINISHED" and self._exception is None:
            return self._result
        return super().result(timeout)

    def cancel(self) -> bool:
        work = self._work
        if work is None:
            return self.cancelled()
        cancelled = self._queue.withdraw(work) and super().cancel()
        if cancelled:
            self._tell()
        return cancelled


class Completion(Protocol[T_contra]):
    """Takes the result of a write, or its error; a future is one."""

    def set_result(self, result: T_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Waiter(Generic[T]):
    """A future for exactly one waiting thread, at a fraction of the cost."""

    __slots__ = ("_exception", "_lock", "_result")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._result: T | None = None
        self._exception: BaseException | None = None

    def set_result(self, result: T, /) -> None:
        self._result = result
        self._lock.release()

    def set_exception(self, exception: BaseException, /) -> None:
        self._exception = exception
        self._lock.release()

    def result(self) -> T:
        """Wait until it is complete, then return its result or raise its error."""
        self._lock.acquire()
        if self._exception is not None:
            raise self._exception
        return self._result  # type: ignore[return-value]


def done(result: Any) -> StoreFuture[Any]:
    """A future that has this result."""
    future: StoreFuture[Any] = StoreFuture()
    future.set_result(result)
    return future
