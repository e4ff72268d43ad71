"""The order of what one connection sends, where a commit of its own has to wait."""

from __future__ import annotations

from asyncio import AbstractEventLoop, CancelledError, Future
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from jdbcstore.broker.api import Promise
from jdbcstore.broker.subscription import pass_on


class Step(NamedTuple):
    """Something that a connection does."""

    ready: Callable[[], Future[None] | None]
    """What it has to wait for when its turn has come; None if for nothing."""
    begin: Callable[[BaseException | None], Future[None] | None]
    """Does it, or hears why that cannot be: a CancelledError if what came before it is not done at all.
    What it returns has to be done before the next has its turn."""


class Gates:
    """While a commit waits, its connection's gate is closed: what it sends and commits then waits behind it.

    So its messages are in their order everywhere, and no other connection waits. For the loop alone.
    """

    def __init__(self, loop: AbstractEventLoop, guarded: Callable[..., Callable[..., None]]) -> None:
        self._loop = loop
        self._guarded = guarded
        self._closed: dict[str, deque[Step]] = {}
        self._running: str | None = None
        """The connection whose step it is now."""

    def is_closed(self, connection_id: str) -> bool:
        return connection_id in self._closed

    def send(self, connection_id: str, send: Callable[[], Future[None]]) -> Future[None]:
        """Send something once the gate, which is closed, is open for it."""
        promise = Promise(loop=self._loop)

        def begin(error: BaseException | None) -> None:
            if error is not None:
                promise.cancel()
            elif not promise.done():
                sent = send()
                if isinstance(sent, Promise):
                    sent.at_once = promise.tell
                sent.add_done_callback(partial(pass_on, promise))

        self._closed[connection_id].append(Step(_ready, begin))
        return promise

    def commit(self, connection_id: str, step: Step) -> None:
        """Do this, and close the gate while it has to wait."""
        steps = self._closed.get(connection_id)
        if steps is None:
            self._run(connection_id, deque([step]))
        elif self._running == connection_id:
            steps.appendleft(step)  # that of a composite, whose turn it is
        else:
            steps.append(step)

    def call(self, connection_id: str, callback: Callable[[], None]) -> None:
        """Call back when the gate, which is closed, is open."""
        self._closed[connection_id].append(Step(_ready, lambda _: callback()))

    def _run(self, connection_id: str, steps: deque[Step]) -> None:
        while steps:
            step = steps.popleft()
            ready = step.ready()
            if ready is not None:
                self._closed[connection_id] = steps
                ready.add_done_callback(self._guarded(partial(self._go_on, connection_id, step)))
                return
            if self._is_held(connection_id, steps, step.begin(None)):
                return
        self._closed.pop(connection_id, None)

    def _is_held(self, connection_id: str, steps: deque[Step], begun: Future[None] | None) -> bool:
        """Whether the next has to wait for what has begun; then the gate opens when that is done."""
        if begun is None or begun.done():
            return False
        self._closed[connection_id] = steps
        begun.add_done_callback(self._guarded(lambda _: self._as_one(connection_id, self._run)))
        return True

    def _go_on(self, connection_id: str, step: Step, ready: Future[None]) -> None:
        def go_on(connection_id: str, steps: deque[Step]) -> None:
            error = ready.exception()
            begun = step.begin(error)
            while steps and isinstance(error, CancelledError):
                steps.popleft().begin(error)
            if not self._is_held(connection_id, steps, begun):
                self._run(connection_id, steps)

        self._as_one(connection_id, go_on)

    def _as_one(self, connection_id: str, work: Callable[[str, deque[Step]], None]) -> None:
        """Steps of this connection: what they commit comes at once."""
        self._running = connection_id
        try:
            work(connection_id, self._closed[connection_id])
        finally:
            self._running = None


def _ready() -> None:
    return None
