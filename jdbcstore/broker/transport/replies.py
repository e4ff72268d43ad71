"""Running commands of clients: the replies to one connection, and the memory of all.

A reply is written when its command is done. Meanwhile the connection accepts more commands, within bounds, or
none if the command delays following ones.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from jdbcstore.broker.loop import Promise
from jdbcstore.broker.notices import Notices
from jdbcstore.broker.transport.output import ClientOutput
from jdbcstore.broker.turns import at_end_of

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

Receipt = Any
"""The id of a client's request for a reply; None without a request."""
SMALL = 64 * 1024
"""Bytes that each client may be sending regardless of other clients."""
_MAX_UNDER_WAY = 1000
_MAX_UNDER_WAY_BYTES = 8 * 1024 * 1024
"""The most pending sends and acknowledgements of a connection; beyond it, the connection is not read."""
_INFLOW_LIMIT = 256 * 1024 * 1024
_TURN = 2.0
"""Seconds without data after which a client loses its turn."""


class Sender(Protocol):
    """A connection's interface for the inflow."""

    @property
    def read_at(self) -> float:
        """The time of the loop at which data was last received."""

    def update_reading(self) -> None:
        """Resume reading if it is allowed again."""


class Inflow:
    """The bytes that all clients together are sending, with a memory limit. Used on the broker's loop only.

    Beyond the limit, clients with large frames are not read, except the client whose turn it is. Its frame
    can complete, which frees its memory. No client is disconnected.
    """

    def __init__(self, notices: Notices, limit: int = _INFLOW_LIMIT) -> None:
        self.limit = limit
        self.held = 0
        """Bytes of incomplete frames."""
        self.under_way = 0
        """Bytes of messages that were passed to the broker and not accepted yet. Connections change it, and
        call :meth:`notify` if it falls while connections are ``waiting``."""
        self.waiting: dict[Sender, None] = {}
        """Connections that are not read."""
        self._notices = notices
        self._large: dict[Sender, None] = {}
        """Connections that have begun a large frame, in the order of their turns."""
        self._loop: AbstractEventLoop | None = None

    def is_over(self) -> bool:
        return self.held + self.under_way > self.limit

    def hold(self, sender: Sender, before: int, now: int) -> None:
        """Change the number of bytes of a connection's incomplete frames."""
        self.held += now - before
        if now > SMALL:
            self._large.setdefault(sender)
        elif before > SMALL:
            self._large.pop(sender, None)
            self.waiting.pop(sender, None)
        if now < before:
            self.notify()

    def may_read(self, sender: Sender, loop: AbstractEventLoop) -> bool:
        """Return whether to read from a connection that holds more than ``SMALL``; otherwise it is notified
        later.
        """
        if not self.is_over():
            return True
        if sender is next(iter(self._large), None) and self.under_way < self.limit:
            return True
        if self._notices.is_news("inflow"):
            log.warning(
                "clients are sending more than %d bytes at the same time; clients with large messages "
                "take turns",
                self.limit,
                extra={"limit": "inflow", "clients": len(self._large)},
            )
        self.waiting[sender] = None
        if self._loop is None:
            self._loop = loop
            loop.call_later(_TURN, self._check_turn)
        return False

    def notify(self) -> None:
        """Make waiting connections check again whether they may be read."""
        if self.waiting:
            waiting, self.waiting = self.waiting, {}
            for sender in waiting:
                sender.update_reading()

    def _check_turn(self) -> None:
        """Give the turn to the next connection if the first does not use it."""
        loop, self._loop = self._loop, None
        first = next(iter(self._large), None)
        if loop is None or first is None or not self.waiting:
            return
        if loop.time() - first.read_at >= _TURN:
            del self._large[first]
            self._large[first] = None
        self.notify()
        if self.waiting and self._loop is None:
            self._loop = loop
            loop.call_later(_TURN, self._check_turn)


class Reply:
    """The reply to a running command; it is completed once, like a promise."""

    __slots__ = ("_replies", "_size", "_stored", "answer", "receipt")

    def __init__(
        self, replies: Replies, answer: bytes | None, receipt: Receipt, size: int, stored: int = 0
    ) -> None:
        self._replies, self._size, self._stored = replies, size, stored
        self.answer, self.receipt = answer, receipt
        replies.under_way += 1
        replies.bytes += size + stored
        replies.inflow.under_way += size
        if replies.under_way >= _MAX_UNDER_WAY or SMALL <= replies.bytes >= replies.byte_limit():
            replies.full = True

    done = staticmethod(bool)
    """Return false, because its command is never cancelled."""

    def set_result(self, _: None, /) -> None:
        """Write the answer, because the command is done."""
        replies, size = self._replies, self._size
        replies.under_way -= 1
        replies.bytes -= size + self._stored
        replies.inflow.under_way -= size
        if replies.ended or replies.full or replies.inflow.waiting:
            replies.at_end(replies.follow_up)
        if self.answer is not None:
            (replies.output.write if replies.under_way else replies.output.write_now)(self.answer)

    def end(self) -> None:
        """Record that the command has ended, and is answered otherwise."""
        self.answer = None
        self.set_result(None)

    def set_exception(self, error: BaseException, /) -> None:
        """Send the error in a separate iteration, because the broker is in the middle of its work."""
        self._replies.loop.call_soon(self._fail, error)

    def _fail(self, error: BaseException) -> None:
        self.end()
        self._replies.fail(error, self.receipt, False)


class Replies:
    """The running commands of one connection. Used on the broker's loop only.

    :param fail: called with an error, the receipt of its command, and whether it ends the connection
    :param resume: called when more commands are accepted again
    :param idle: called when no command is running any more
    :param abort: closes the connection immediately
    """

    def __init__(
        self,
        *,
        output: ClientOutput,
        inflow: Inflow,
        fail: Callable[[BaseException, Receipt, bool], None],
        resume: Callable[[], None],
        idle: Callable[[], None],
        abort: Callable[[], None],
    ) -> None:
        self.waiting = False
        """Whether a command delays following ones."""
        self.full = False
        """Whether too many commands are running."""
        self.ended = False
        """Whether no more commands are accepted."""
        self.under_way = 0
        """The number of running commands."""
        self.bytes = 0
        """The bytes of running commands."""
        self.output = output
        self.inflow = inflow
        self.fail = fail
        self._resume = resume
        self._idle = idle
        self._abort = abort
        self.loop = asyncio.get_running_loop()
        self.at_end = at_end_of(self.loop)

    @property
    def accepts_frames(self) -> bool:
        """Whether the next command is accepted now."""
        return not (self.waiting or self.full or self.ended)

    def end(self) -> None:
        """Accept no more commands; running ones are still answered."""
        self.ended = True

    def track(
        self,
        done: Future[None],
        answer: bytes | None,
        receipt: Receipt = None,
        size: int = 0,
        *,
        stored: int = 0,
        fatal: bool = False,
    ) -> None:
        """Write the answer when a command is done; the client may send more meanwhile, within bounds.

        :param receipt: the id for the error if the command fails
        :param size: bytes of the command
        :param stored: bytes of its body that are already in the store, which are also bounded
        :param fatal: whether its failure ends the connection
        """
        if done.done():
            self._answer_end(done, answer, receipt, fatal)
            return
        finish = partial(self._done, Reply(self, answer, receipt, size, stored), fatal)
        if isinstance(done, Promise):
            done.call_at_once(finish)
        else:
            done.add_done_callback(finish)

    def wait_for(
        self,
        done: Future[_Result],
        then: Callable[[_Result], Any],
        receipt: Receipt = None,
        *,
        fatal: bool = False,
    ) -> None:
        """Call ``then`` with the result; accept no other command before.

        It is not called after the connection stops accepting commands.
        """
        if done.done():
            self._finish(then, receipt, fatal, done)
        else:
            self.waiting = True
            done.add_done_callback(partial(self._go_on, then, receipt, fatal))

    def byte_limit(self) -> int:
        """Return the bytes of running commands from which on no more commands are accepted."""
        return SMALL if self.inflow.is_over() else _MAX_UNDER_WAY_BYTES

    def _done(self, reply: Reply, fatal: bool, done: Future[None]) -> None:
        if done.cancelled() or done.exception() is not None:
            reply.end()
            self._answer_end(done, None, reply.receipt, fatal)
        else:
            reply.set_result(None)

    def follow_up(self) -> None:
        """Continue when fewer commands are running; the broker is not in the middle of its work."""
        if self.inflow.waiting:
            self.inflow.notify()
        if self.under_way == 0 and self.ended:
            self._idle()
        elif self.full and self.under_way <= _MAX_UNDER_WAY // 2 and self.bytes <= self.byte_limit() // 2:
            self.full = False
            self._resume()

    def _answer_end(
        self,
        done: Future[None],
        answer: bytes | None,
        receipt: Receipt,
        fatal: bool,
    ) -> None:
        try:
            error = done.exception()
        except asyncio.CancelledError:
            self._abort()
            return
        if error is not None:
            self.fail(error, receipt, fatal)
        elif answer is not None:
            self.output.write(answer)

    def _go_on(
        self, then: Callable[[_Result], Any], receipt: Receipt, fatal: bool, done: Future[_Result]
    ) -> None:
        self.waiting = False
        self._finish(then, receipt, fatal, done)
        self._resume()

    def _finish(
        self, then: Callable[[_Result], Any], receipt: Receipt, fatal: bool, done: Future[_Result]
    ) -> None:
        if done.cancelled():
            if not self.ended:  # otherwise its last frame is being sent
                self._abort()
            return
        error = done.exception()
        if error is not None:
            self.fail(error, receipt, fatal)
        elif not self.ended:
            try:
                then(done.result())
            except Exception as failure:
                self.fail(failure, receipt, fatal)
