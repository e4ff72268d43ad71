"""The broker's event loop: work collected per iteration, blocking calls in threads, futures."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from jdbcstore.broker.turns import at_end_of
from jdbcstore.util.clock import Clock
from jdbcstore.util.futures import Unsettled

T = TypeVar("T")
_READERS = 4
_TRANSFERS = 4


class Promise(Future[None]):
    """The future of a send or a commit, which can report success before any consumer gets the message.

    Callbacks of an ordinary future run in a later iteration of the loop, when consumers may already have been
    served.
    """

    _at_once: Callable[[Future[None]], object] | None = None

    def call_at_once(self, callback: Callable[[Future[None]], object]) -> None:
        """Call back at success, in the middle of the broker's work, so it may only append to an output
        buffer.

        If this fails, is cancelled or is already done, it is an ordinary callback.
        """
        if self.done():
            self.add_done_callback(callback)
        else:
            self._at_once = callback

    def set_result(self, result: None, /) -> None:
        super().set_result(result)
        callback, self._at_once = self._at_once, None
        if callback is not None:
            callback(self)

    def set_exception(self, exception: type | BaseException, /) -> None:
        self._call_later()
        super().set_exception(exception)

    def cancel(self, msg: Any | None = None) -> bool:
        self._call_later()
        return super().cancel(msg)

    def _call_later(self) -> None:
        callback, self._at_once = self._at_once, None
        if callback is not None:
            self.add_done_callback(callback)


class Scheduled(Protocol):
    """A part of the broker with work to do once per iteration of the loop."""

    def turn(self) -> None: ...


class BrokerLoop:
    """The running event loop, shared by the parts of one broker. Every method is called on the loop.

    ``on_defect`` is called with an unexpected error of a callback, which asyncio would only log. ``clock`` is
    the wall clock for the expiration of messages.
    """

    def __init__(self, clock: Clock, on_defect: Callable[[Exception], None]) -> None:
        self.clock = clock
        self.events = events = asyncio.get_running_loop()
        self.create_future = events.create_future
        self.create_task = events.create_task
        self.call_soon = events.call_soon
        self.call_later = events.call_later
        self.on_defect = on_defect
        self.searching = asyncio.Lock()
        """Held while a destination reads without a consumer's request, because thousands of reads would
        occupy all threads."""
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="jdbcstore-broker")
        self._transfers = ThreadPoolExecutor(_TRANSFERS, thread_name_prefix="jdbcstore-transfer")
        self._at_end = at_end_of(events)
        self._scheduled: dict[Scheduled, None] = {}
        self.reading: set[Future[Any]] = set()
        """The running reads of :meth:`run_before_write`."""
        self._done: Future[None] = self.create_future()
        self._done.set_result(None)

    def run(self, function: Callable[[], T]) -> Future[T]:
        """Run a blocking function in a thread."""
        return asyncio.ensure_future(self.events.run_in_executor(self._pool, function), loop=self.events)

    def transfer(self, function: Callable[[], T]) -> Future[T]:
        """Read or write a piece of a large body in a separate pool, so that pages do not wait."""
        return asyncio.ensure_future(self.events.run_in_executor(self._transfers, function), loop=self.events)

    def run_before_write(self, function: Callable[[], T], write: Callable[[Future[T]], None]) -> None:
        """Run a blocking function in a thread, then call ``write`` on the loop; a stopping broker waits for
        it."""
        future = self.run(function)
        self.reading.add(future)
        future.add_done_callback(self.guarded(write))
        future.add_done_callback(self.reading.discard)

    def guarded(self, callback: Callable[[T], None]) -> Callable[[T], None]:
        """Return a callback of a future or a timer whose unexpected errors are passed to ``on_defect``."""

        def call(argument: T) -> None:
            try:
                callback(argument)
            except Exception as defect:
                self.on_defect(defect)

        return call

    def schedule(self, work: Scheduled) -> None:
        """Call ``work.turn()`` once, after the callbacks that are ready now."""
        if not self._scheduled:
            self._at_end(self._turn)
        self._scheduled[work] = None

    def _turn(self) -> None:
        scheduled, self._scheduled = self._scheduled, {}
        for work in scheduled:
            try:
                work.turn()
            except Exception as defect:
                self.on_defect(defect)

    @property
    def is_idle(self) -> bool:
        """Whether no work is scheduled."""
        return not self._scheduled

    def done(self) -> Future[None]:
        """Return a completed future, always the same."""
        return self._done

    def failed(self, error: BaseException) -> Future[Any]:
        """Return a failed future."""
        future: Future[Any] = self.create_future()
        future.set_exception(error)
        return future

    def all_done(self, futures: Sequence[Future[None]]) -> Future[None]:
        """Return a future that completes when all of these complete, or fails with the first error."""
        futures = [future for future in futures if not future.done() or future.exception() is not None]
        if not futures:
            return self._done
        result: Future[None] = self.create_future()
        together = asyncio.gather(*futures, return_exceptions=True)

        def finish(done: Future[list[BaseException | None]]) -> None:
            errors = [error for error in done.result() if isinstance(error, BaseException)]
            complete(result, errors[0] if errors else None)

        together.add_done_callback(finish)
        return result

    def after(self, first: Future[None], begin: Callable[[], Future[None]]) -> Future[None]:
        """Call ``begin`` after ``first``, which never fails; the result completes like the future of
        ``begin``."""
        result: Future[None] = self.create_future()
        first.add_done_callback(lambda _: begin().add_done_callback(partial(pass_on, result)))
        return result

    def close(self) -> None:
        for pool in (self._pool, self._transfers):
            pool.shutdown(wait=False, cancel_futures=True)


def complete(promise: Unsettled[None], error: BaseException | None) -> None:
    """Complete or fail a future, unless its owner has cancelled it."""
    if promise.done():
        return
    if error is not None:
        promise.set_exception(error)
    else:
        promise.set_result(None)


def unheard(done: Future[Any]) -> None:
    """Retrieve the error of a future without waiters, whose errors are logged at their origin."""
    if not done.cancelled():
        done.exception()


def pass_on(result: Future[T], done: Future[T]) -> None:
    """Complete, fail or cancel ``result`` like ``done``."""
    if done.cancelled():
        result.cancel()
        return
    error = done.exception()
    if result.done():
        return
    if error is None:
        result.set_result(done.result())
    else:
        result.set_exception(error)
