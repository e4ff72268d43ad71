"""What passes between a client and the broker: what is under way, what is waited for, how it ends."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from jdbcstore.broker.api import Promise
from jdbcstore.broker.stomp.frames import FrameReader, Version, encode, escape
from jdbcstore.broker.stomp.inflow import SMALL
from jdbcstore.broker.stomp.requests import HeartBeats
from jdbcstore.broker.stomp.service import Service
from jdbcstore.errors import NotAuthorized, ProtocolError, ReplySuppressed, StoreError

log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

END = b"\n"
"""Behind each frame, as from ActiveMQ: some clients wait for it."""
_MOST_UNDER_WAY = 1000
_MOST_UNDER_WAY_BYTES = 8 * 1024 * 1024
"""Sends and acknowledgements of a connection that are not done; beyond that it is not read."""
_LONGEST_END = 10.0
"""Seconds that what is under way has to end before a connection that failed is closed."""


class Link(Protocol):
    """The network, as the session knows it."""

    @property
    def reader(self) -> FrameReader: ...

    @property
    def peer(self) -> str: ...

    @property
    def paused(self) -> bool:
        """Whether the client takes nothing for now."""

    def write(self, data: bytes) -> None:
        """Add to the output, which goes out when the loop comes round."""

    def write_now(self, data: bytes) -> None:
        """The same, at once if there is no other output: for the last answer that a client waits for."""

    def flush(self) -> None:
        """Give the output to the transport."""

    def close(self) -> None:
        """Close the connection once the output is sent."""

    def abort(self) -> None:
        """Close the connection at once."""

    def wake(self) -> None:
        """The session takes frames again."""

    def logged_in(self, heart_beats: HeartBeats) -> None:
        """The client is no stranger any more."""


class Exchange:
    """A connection's answers, in their order as far as the protocol asks for one."""

    def __init__(self, service: Service, link: Link) -> None:
        self.connection_id = service.next_connection_id()
        self.ended = False
        """Nothing is taken from the client any more."""
        self.version = Version.V1_0
        self.link = link
        self.service = service
        self._loop = asyncio.get_running_loop()
        self._waiting = False
        """For an answer of the broker, before which no other frame is taken."""
        self._full = False
        self._under_way = 0
        self._under_way_bytes = 0
        self._last_words: bytes | None = None
        self._failed = False
        self.why_ended: str | None = None
        """The reason for the log, if it is no other than that the client has gone."""

    @property
    def fields(self) -> dict[str, str]:
        """Of a line of the log."""
        return {"connection": self.connection_id, "peer": self.link.peer}

    @property
    def takes_frames(self) -> bool:
        return not (self._waiting or self._full or self.ended)

    def release(self) -> None:
        """Give back to the broker what the client has of it."""
        raise NotImplementedError

    def answer(self, receipt: str | None) -> None:
        """It is done; tell the client if it wants to know."""
        if receipt is not None:
            self.link.write(self._receipt(receipt))

    def track(self, done: Future[None], receipt: str | None, size: int = 0, *, fatal: bool = False) -> None:
        """Answer when it is done; meanwhile the client may say more, within bounds.

        :param fatal: when it fails, nobody knows any more what the client has
        """
        if done.done():
            self._settle(done, receipt, fatal, self.link.write)
            return
        if receipt is not None and isinstance(done, Promise):
            done.at_once = partial(self._answer_at_once, receipt)
        self._under_way += 1
        self._under_way_bytes += size
        inflow = self.service.inflow
        inflow.begin(size)
        too_much = self._under_way_bytes >= (SMALL if inflow.is_over() else _MOST_UNDER_WAY_BYTES)
        if too_much or self._under_way >= _MOST_UNDER_WAY:
            self._full = True
        done.add_done_callback(partial(self._is_done, receipt, size, fatal))

    def wait_for(
        self,
        done: Future[_Answer],
        then: Callable[[_Answer], Any],
        receipt: str | None,
        *,
        fatal: bool = False,
    ) -> None:
        """Take no other frame before this is done."""
        if done.done():
            self._answered(then, receipt, fatal, done)
        else:
            self._waiting = True
            done.add_done_callback(partial(self._wake_for, then, receipt, fatal))

    def fail(self, error: BaseException, receipt: str | None = None, *, fatal: bool = False) -> None:
        """Tell the client what is wrong, as the host decides.

        As in ActiveMQ, the connection goes on, if what follows can be understood; unless it is ``fatal``.
        """
        if self._failed:
            return
        if isinstance(error, StoreError):
            try:
                if not isinstance(error, ProtocolError | NotAuthorized):
                    self.service.on_store_error(error)
            except ReplySuppressed:
                self.ended = self._failed = True
                self.link.abort()
                return
            except StoreError as decided:
                error = decided
            fatal = fatal or getattr(error, "fatal", False)
            text = str(error)
            # Not each of what a client may be told as often as it likes.
            level = logging.INFO if fatal or not isinstance(error, ProtocolError) else logging.DEBUG
            line = "connection %s of %s is told: %s"
            self.service.answers.log(log, level, self.fields, line, self.connection_id, self.link.peer, text)
            self.why_ended = text if fatal else self.why_ended
        else:
            fatal = True
            text = "the broker failed; its log says why"
            log.error("connection %s of %s failed", self.connection_id, self.link.peer, exc_info=error)
        if fatal:
            self._failed = True
            self.end(self._error(text, receipt))
        else:
            self.link.write(self._error(text, receipt))

    def end(self, last_words: bytes) -> None:
        """Take nothing more; close the connection once what is under way is done and answered."""
        first = not self.ended
        self.ended = True
        self._last_words = last_words
        if first:
            self.link.flush()  # what the client was given is consumed, before the rest goes back
            self.release()
        if self._under_way == 0:
            self._say_last_words()
        elif self._failed:
            self._loop.call_later(_LONGEST_END, self._say_last_words)

    def _answer_at_once(self, receipt: str) -> None:
        write = self.link.write if self._under_way > 1 else self.link.write_now
        write(self._receipt(receipt))

    def _is_done(self, receipt: str | None, size: int, fatal: bool, done: Future[None]) -> None:
        self._under_way -= 1
        self._under_way_bytes -= size
        self.service.inflow.end(size)
        write = self.link.write if self._under_way else self.link.write_now
        is_told = isinstance(done, Promise) and done.at_once is None
        self._settle(done, receipt, fatal, None if is_told else write)
        if self._under_way == 0 and self._last_words is not None:
            self._say_last_words()
        elif (
            self._full
            and self._under_way <= _MOST_UNDER_WAY // 2
            and self._under_way_bytes
            <= (SMALL if self.service.inflow.is_over() else _MOST_UNDER_WAY_BYTES) // 2
        ):
            self._full = False
            self.link.wake()

    def _settle(
        self, done: Future[None], receipt: str | None, fatal: bool, write: Callable[[bytes], None] | None
    ) -> None:
        if done.cancelled():
            self.link.abort()
            return
        error = done.exception()
        if error is not None:
            self.fail(error, receipt, fatal=fatal)
        elif receipt is not None and write is not None:
            write(self._receipt(receipt))

    def _wake_for(
        self, then: Callable[[_Answer], Any], receipt: str | None, fatal: bool, done: Future[_Answer]
    ) -> None:
        self._waiting = False
        self._answered(then, receipt, fatal, done)
        self.link.wake()

    def _answered(
        self, then: Callable[[_Answer], Any], receipt: str | None, fatal: bool, done: Future[_Answer]
    ) -> None:
        if done.cancelled():
            if not self.ended:  # else its last words are on their way
                self.link.abort()
            return
        error = done.exception()
        if error is not None:
            self.fail(error, receipt, fatal=fatal)
        elif not self.ended:
            try:
                then(done.result())
            except Exception as failure:
                self.fail(failure, receipt, fatal=fatal)

    def _say_last_words(self) -> None:
        words, self._last_words = self._last_words, None
        if words is not None:
            self.link.write(words)
            self.link.close()

    def _receipt(self, receipt: str) -> bytes:
        return f"RECEIPT\nreceipt-id:{escape(receipt, self.version)}\n\n\0".encode() + END

    def _error(self, text: str, receipt: str | None) -> bytes:
        headers = [("message", text.partition("\n")[0]), ("content-type", "text/plain")]
        if receipt is not None:
            headers.append(("receipt-id", receipt))
        body = text.encode(errors="replace").replace(b"\0", b"?")
        return encode("ERROR", headers, self.version, body) + END
