"""Futures of writes, for threads, callbacks and tasks of an event loop.

A store's thread completes hundreds of them in a burst. If each awaited one woke its loop, the two threads
would take turns at the interpreter; instead, the loop is woken once, after the burst.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Call = Callable[[], object]
End = Callable[[Any, BaseException | None], object]
"""(result, None) or (None, error)."""
_making = threading.Lock()
"""Held briefly, so that a promise is either completed first or waited for first."""


class _Thread(threading.local):
    woken: set[LoopCalls] | None = None
    """The loops that this thread wakes at the end of its burst; None outside of one."""
    loop_calls: LoopCalls | None = None
    """The calls of the loop that ran in this thread last."""


_thread = _Thread()


class LoopCalls:
    """Calls from any thread that an event loop makes, in their order. They must not raise."""

    __slots__ = ("_calls", "_woken", "loop")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Call] = deque()
        self._woken = False

    def add(self, call: Call) -> None:
        self._calls.append(call)  # first, so that a run about to start sees it
        if not self._woken:
            if _thread.woken is None:
                self.wake()
            else:
                _thread.woken.add(self)

    def wake(self) -> None:
        """Schedule the calls in the loop, unless they are."""
        if self._woken:
            return
        self._woken = True
        try:
            self.loop.call_soon_threadsafe(self.run)
        except RuntimeError:
            log.debug("the event loop was closed before the write completed")

    def run(self) -> None:
        """Make the calls, if the loop runs in this thread, else schedule them."""
        if asyncio._get_running_loop() is not self.loop:
            self.wake()
            return
        self._woken = False
        calls = self._calls
        for _ in range(len(calls)):
            calls.popleft()()


class Burst:
    """A block in which this thread completes many futures; event loops are woken at its end.

    The calls of the loop that runs in this thread are made there. Not a generator: each commit has one.
    """

    __slots__ = ("_woken",)

    def __enter__(self) -> None:
        self._woken: set[LoopCalls] | None = None
        if _thread.woken is None:  # otherwise it is part of a longer one
            self._woken = _thread.woken = set()

    def __exit__(self, *_: object) -> None:
        if self._woken is not None:
            _thread.woken = None
            for loop_calls in self._woken:
                loop_calls.run()


class StoreFuture(Future[T]):
    """The result of a write: a ``concurrent.futures.Future`` that can also be awaited, in any event loop.

    A task that is cancelled while it awaits the future cancels it too: a write that has not begun is not
    done, and a begun one is completed nevertheless.
    """

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            loop_calls = _of(asyncio.get_running_loop())
            waiter: asyncio.Future[None] = loop_calls.loop.create_future()
            self.call_when_done(loop_calls, partial(_wake, waiter))
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        if self.cancelled():
            raise asyncio.CancelledError
        return self.result()

    def _outcome(self) -> tuple[Any, BaseException | None]:
        """Return the result, or None and the error, once it is done."""
        try:
            error = self.exception()
        except CancelledError as cancelled:
            error = cancelled
        return (self.result() if error is None else None), error

    def call_when_done(self, loop_calls: LoopCalls, call: End) -> None:
        """Call this with the outcome on an event loop, once it is done; cheaper than a callback."""
        self.add_done_callback(lambda _: loop_calls.add(partial(call, *self._outcome())))

    _done_callbacks: list[Callable[[Any], object]]

    def _invoke_callbacks(self) -> None:
        # The base class catches only Exception: a sys.exit() in a callback would end the store's thread.
        for callback in self._done_callbacks:
            try:
                callback(self)
            except BaseException:
                log.exception("a callback of a write's future failed")


def _of(loop: AbstractEventLoop) -> LoopCalls:
    loop_calls = _thread.loop_calls
    if loop_calls is None or loop_calls.loop is not loop:
        loop_calls = _thread.loop_calls = LoopCalls(loop)
    return loop_calls


def _wake(waiter: asyncio.Future[None], *_outcome: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


class WorkQueue(Protocol[T_contra]):
    """A queue from which work can be withdrawn."""

    def withdraw(self, work: T_contra, /) -> bool:
        """Remove work from the queue; False if it has begun."""


class _Condition(threading.Condition):
    """A condition whose lock is acquired and released by C code, so that no signal handler runs in between.

    Otherwise a thread interrupted there would hold the lock forever, and the writer's thread wait for it.
    """

    @property
    def __enter__(self) -> Callable[[], bool]:
        return self._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._lock.__exit__

    _lock: threading.RLock


class QueuedFuture(StoreFuture[Any]):
    """A future that can be cancelled while its work is queued; the work is then not done.

    Most have their result before anyone asks for it. The condition for waiting threads, which is most of the
    cost of a future, is therefore only created when a thread waits.
    """

    __slots__ = (
        *("_awaited", "_done_callbacks", "_exception", "_made", "_queue"),
        *("_result", "_state", "_waiters", "_work"),
    )

    _state: str
    _made: threading.Condition | None
    _awaited: tuple[LoopCalls, End] | None
    """The call for the first task that awaits it."""

    def __init__(self, queue: WorkQueue[T], work: T) -> None:
        # Replaces the base's: all its methods that use callbacks and waiters have read _condition before.
        self._state = "PENDING"
        self._result = self._exception = self._made = self._awaited = None
        self._queue = queue
        self._work: T | None = work

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        made = self._made
        if made is None:
            # Made before: under the lock, nothing may run that a signal handler could interrupt.
            made = _Condition()
            with _making:
                if self._made is None:
                    self._waiters: list[Any] = []
                    self._done_callbacks = []
                    self._made = made
                made = self._made
        return made

    def call_when_done(self, loop_calls: LoopCalls, call: End) -> None:
        with _making:
            if self._made is None and self._awaited is None and self._state == "PENDING":
                self._awaited = loop_calls, call
                return
        super().call_when_done(loop_calls, call)

    def _notify(self) -> None:
        """Schedule the call for the awaiting task, once this is done."""
        awaited, self._awaited = self._awaited, None
        self._work = None  # it refers to this: messages would stay until a garbage collection
        if awaited is not None:
            loop_calls, call = awaited
            loop_calls.add(partial(call, *self._outcome()))

    def set_result(self, result: Any, /) -> None:
        with _making:
            quick = self._made is None and self._state == "PENDING"
            if quick:
                self._result = result
                self._state = "FINISHED"
        if not quick:
            super().set_result(result)
        self._work = None  # as in _notify, which each write would call
        if self._awaited is not None:
            (loop_calls, call), self._awaited = self._awaited, None
            loop_calls.add(partial(call, result, None))

    def set_exception(self, exception: BaseException | None, /) -> None:
        super().set_exception(exception)
        self._notify()

    def done(self) -> bool:
        return self._state not in ("PENDING", "RUNNING")

    def cancelled(self) -> bool:
        return self._state.startswith("CANCELLED")

    def result(self, timeout: float | None = None) -> Any:
        if self._state == "FINISHED" and self._exception is None:
            return self._result
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self._state == "FINISHED":
            return self._exception
        return super().exception(timeout)

    def cancel(self) -> bool:
        work = self._work
        if work is None:
            return self.cancelled()
        cancelled = self._queue.withdraw(work) and super().cancel()
        if cancelled:
            self._notify()
        return cancelled


class Completion(Protocol[T_contra]):
    """A receiver of the result or error of a write, such as a future."""

    def set_result(self, result: T_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Unsettled(Completion[T_contra], Protocol[T_contra]):
    """A future that is not done, or a cheaper object in its place."""

    def done(self) -> bool: ...


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
    """Return a future that has this result."""
    future: StoreFuture[Any] = StoreFuture()
    future.set_result(result)
    return future
