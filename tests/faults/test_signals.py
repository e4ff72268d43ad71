"""A signal handler runs between any two steps of the main thread: it may raise there, or use the store."""

from __future__ import annotations

import dis
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message, MessageStore, Store
from jdbcstore.errors import StoreClosed, StoreError
from jdbcstore.stores.jdbc.writer.units import WriteUnit
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.faults.effects import WAIT

FOLDER = Path(jdbcstore.__file__).parent
OURS = tuple(
    str(FOLDER / name)
    for name in (
        "database/adapters",
        "database/connection.py",
        "database/session.py",
        "stores/jdbc/queue.py",
        "stores/jdbc/sequence.py",
        "stores/jdbc/writer",
        "util/futures.py",
    )
)


CHECKS = {"RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}
"""Instructions behind which Python runs the handlers of signals that have come."""


class Steps:
    """Has ``signalled`` called at one of the points at which a handler of signals may run, in the package.

    It may raise as a handler does where the code behind the point and the code before it are in the same
    block; other points are left out. So a ``with`` of a lock is here what it is to a signal.
    """

    def __init__(self) -> None:
        self._left, self._signalled = 0, _nothing
        self._last: dict[FrameType, int] = {}
        self._points: dict[CodeType, set[tuple[int, int]]] = {}
        self.reached = False

    @contextmanager
    def at(self, number: int, signalled: Callable[[], None]) -> Iterator[None]:
        """While this lasts, the point of this number is reached, or not."""
        self._left, self._signalled, self.reached = number, signalled, False
        self._last.clear()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)

    def see(self, call: Callable[[], object]) -> None:
        """Run a call: from Python 3.12 on, tracing begins with the next one, and ends with an exception."""
        with self.at(0, _nothing):
            call()

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and self._left > 0:
            last, self._last[frame] = self._last.get(frame, -1), frame.f_lasti
            if (last, frame.f_lasti) in self._points_of(frame.f_code):
                self._left -= 1
            if not self._left:
                self.reached = True
                sys.settrace(None)
                self._signalled()
        return self._trace

    def _points_of(self, code: CodeType) -> set[tuple[int, int]]:
        """The instructions before and behind each point."""
        if code not in self._points:
            blocks = dis._parse_exception_table(code)  # type: ignore[attr-defined]

            def block(offset: int) -> int | None:
                return next((each.target for each in blocks if each.start <= offset < each.end), None)

            self._points[code] = {
                (one.offset, two.offset)
                for one, two in pairwise(dis.get_instructions(code))
                if one.opname in CHECKS and block(one.offset) == block(two.offset)
            }
        return self._points[code]


def _nothing() -> None: ...


CALLS: dict[str, Callable[[MessageStore], Any]] = {
    "add_message": lambda queue: queue.add_message(Message("a")),
    "add_message_async": lambda queue: queue.add_message_async(Message("a")).result(WAIT),
    "message_count": lambda queue: queue.message_count(),
}


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with jdbcstore.open(database.url, cleanup_period=0, pool_size=2) as store:
        yield store
    wait_until(lambda: database.connections() == 0, WAIT, "that close() left no connection")


def in_time(call: Callable[[], Any]) -> Any:
    """What a call on another thread returns; a store that hangs fails the test."""
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(call()), daemon=True)
    thread.start()
    thread.join(WAIT)
    assert ended, "the store hangs"
    return ended[0]


@pytest.mark.backends("sqlite", "postgresql")
def test_interrupted_at_every_point(database: Database, store: Store) -> None:
    """An add that was interrupted was made once or not at all, and all goes on behind it."""
    steps, queue = Steps(), store.queue("Q")
    step = 1 if store.engine.dialect.name == "sqlite" else 5  # type: ignore[attr-defined]
    for what, call in CALLS.items():
        call(queue)
        for number in itertools.count(1, step):
            steps.see(partial(call, queue))
            [(before,)] = database.rows(
                "SELECT COUNT(*) FROM ACTIVEMQ_MSGS"
            )  # queue's own would not be traced
            try:
                with steps.at(number, interrupt):
                    call(queue)
            except KeyboardInterrupt:
                pass
            if not steps.reached:
                break
            # Whoever comes next, of this thread or another, is served; and behind what was left in the queue.
            in_time(lambda: queue.add_message_async(Message("next")).result(WAIT))
            in_time(lambda: queue.add_message(Message("again")))
            added = queue.message_count() - before
            assert added in (2, 3), f"{what} at {number}"
        assert number > 10, what


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("how", CALLS)
def test_closed_by_a_handler_at_many_points(database: Database, how: str) -> None:
    """The handler does not wait for what it has interrupted; the store is closed as soon as that is done."""
    steps, told = Steps(), 0
    for number in itertools.count(1, 4):
        store = jdbcstore.open(database.url, cleanup_period=0, pool_size=2)
        queue = store.queue("Q")
        told += queue.add_message(Message("first")).sequence > 0
        steps.see(partial(CALLS[how], queue))
        told += how != "message_count"
        with steps.at(number, store.close):
            try:
                CALLS[how](queue)
                told += how != "message_count"
            except StoreClosed:
                pass
        if steps.reached:
            wait_until(lambda: database.connections() == 0, WAIT, "that the store is closed")
            with pytest.raises(StoreClosed):
                queue.add_message(Message("late"))
        store.close()
        if not steps.reached:
            break
    assert number > 10
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(told,)]


@pytest.mark.backends("sqlite")
def test_a_wait_that_could_not_end_is_an_error(store: Store) -> None:
    """In a callback, which the writer's own thread calls, and in a handler that has interrupted a write."""
    queue = store.queue("Q")
    errors: list[StoreError] = []

    def wait() -> None:
        try:
            queue.add_message(Message("would wait for itself"))
        except StoreError as error:
            errors.append(error)

    for _ in range(2):
        queue.add_message_async(Message("a")).add_done_callback(lambda _: wait())
    in_time(lambda: queue.add_message_async(Message("b")).result(WAIT))
    committer = store._writes.committer  # type: ignore[attr-defined]
    write = committer.write

    def interrupted(units: list[WriteUnit]) -> object:
        committer.write = write
        wait()
        return write(units)

    committer.write = interrupted
    queue.add_message(Message("c"))
    assert len(errors) >= 2
    assert all("in the middle of a write" in str(error) for error in errors)
    assert queue.message_count() == 4
