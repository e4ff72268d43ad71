"""A client's connection: bytes in and out, how fast, and for how long."""

from __future__ import annotations

import asyncio
import logging
from asyncio import BaseTransport, Transport
from collections.abc import Callable
from typing import Protocol, cast

from jdbcstore.broker.stomp.frames import FrameReader, Limits
from jdbcstore.broker.stomp.inflow import SMALL
from jdbcstore.broker.stomp.peers import keep_alive, name_of
from jdbcstore.broker.stomp.requests import HeartBeats
from jdbcstore.broker.stomp.service import Service
from jdbcstore.broker.stomp.session import Session
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import NotAuthorized, ProtocolError

log = logging.getLogger(__name__)

_STRANGERS = Limits(head=32 * 1024, headers=100, body=1024)
"""What somebody may send who has not logged in: a CONNECT."""
_HIGH_WATER = 256 * 1024
"""Bytes of output that the client has not taken, beyond which it is given no more messages."""
_MOST_OUTPUT = 4 * 1024 * 1024
"""Beyond which nothing is read from it either, for that makes answers."""
_TOLERANCE = 2.0
"""How many times the interval a client's heart-beat may take."""
_PUNCTUALITY = 0.9
"""After what part of the interval the broker's own is sent: it must not arrive later than agreed."""
_LINGER = 2.0
"""Seconds that a client has to take its last words."""
_MOST_DISCARDED = 4 * 1024 * 1024
"""Bytes that it may still send meanwhile."""


class Connections(Protocol):
    """The connector, as its connections know it."""

    def opened(self, connection: Connection) -> None: ...

    def logged_in(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One client, from accepting it to its end."""

    def __init__(self, service: Service, config: ConnectorConfig, connections: Connections) -> None:
        self.reader = FrameReader(_STRANGERS)
        self.peer = "?"
        self.paused = False
        self._service = service
        self._config = config
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._session: Session = None  # type: ignore[assignment]  # from connection_made on
        self._transport: Transport = None  # type: ignore[assignment]
        self._output: list[bytes] = []
        self._output_size = 0
        self._flushing = False
        self._closing = False
        self._discarded = 0
        self._peer_is_done = False
        self._pumping = False
        self._reading = True
        self._held = 0
        self._read_at = self._written_at = self._loop.time()
        self._timers: list[asyncio.TimerHandle] = []

    # What asyncio tells.

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.peer = name_of(transport)
        keep_alive(transport)
        self._session = Session(self._service, self._config, self)
        if self._config.connect_attempt_timeout:
            self._later(self._config.connect_attempt_timeout, self._was_too_slow)
        self._connections.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """One for all connections, for it is emptied at once; a new one each time would cost more to
        allocate than a message to read."""
        return self._service.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read_at = self._loop.time()
        if self._closing or self._session.ended:
            # Read all the same: what is left unread would make the last words get lost.
            self._discarded += nbytes
            if self._discarded > _MOST_DISCARDED:
                self.abort()
            return
        self.reader.feed(bytes(self._service.read_buffer[:nbytes]))
        self._pump()

    def eof_received(self) -> bool:
        """Whether the connection stays for now: what is under way is still to be answered."""
        if self._closing or self._transport.get_extra_info("sslcontext") is not None:
            return False
        self._peer_is_done = True
        session = self._session
        if session.takes_frames or (session.is_logging_in and not self.reader.held):
            session.end(b"")
        return True

    def pause_writing(self) -> None:
        self.paused = True
        self._session.pause()

    def resume_writing(self) -> None:
        self.paused = False
        self._session.resume()
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._session.why_ended = self._session.why_ended or (
            "the client has gone" if exc is None else f"the connection is lost: {exc}"
        )
        self._output.clear()
        self._cancel_timers()
        self._service.inflow.hold(self, self._held, 0)
        self._held = 0
        self._session.closed()
        self._connections.closed(self)

    # What the session wants.

    def write(self, data: bytes) -> None:
        if self._closing:
            return
        self._output.append(data)
        self._output_size += len(data)
        if self._output_size > _HIGH_WATER:
            self._give_output()  # which tells how much the client does not take
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_soon)

    def write_now(self, data: bytes) -> None:
        if self._flushing:
            self.write(data)
        else:
            self._give(data)

    def flush(self) -> None:
        self._give_output()
        self._session.given()

    def close(self) -> None:
        if self._closing:
            return
        self._give_output()
        self._closing = True
        self._cancel_timers()
        if self._transport.can_write_eof() and not self._peer_is_done:
            # Its last words would get lost if it closed with something unread: the client is to close.
            try:
                self._transport.write_eof()
            except OSError:  # the client is gone, and the loop has not seen it yet
                self._transport.abort()
            self._update_reading()
        else:
            self._transport.close()
        self._later(_LINGER, self._transport.abort)

    def abort(self) -> None:
        self._closing = True
        self._output.clear()
        self._transport.abort()

    def wake(self) -> None:
        self._pump()

    def logged_in(self, heart_beats: HeartBeats) -> None:
        self._cancel_timers()
        config = self._config
        self.reader.limits = Limits(
            line=config.max_header_length, headers=config.max_headers, body=config.max_frame_size
        )
        self._connections.logged_in(self)
        if config.idle_timeout:
            self._expect_traffic()
        if heart_beats.from_client:
            self._expect_life(heart_beats.from_client / 1000 * _TOLERANCE)
        if heart_beats.from_broker:
            self._give_life(heart_beats.from_broker / 1000 * _PUNCTUALITY)

    # What the connector wants.

    def refuse(self, why: str) -> None:
        """Tell the client that there is no place for it."""
        self._session.fail(NotAuthorized(why), fatal=True)

    def end(self) -> None:
        """Close the connection once what is under way is done."""
        self._session.why_ended = self._session.why_ended or "the broker stops"
        self._session.end(b"")

    # How fast.

    def _pump(self) -> None:
        """Give the session what has arrived, as long as it takes it."""
        if self._pumping:
            return
        self._pumping = True
        session, reader = self._session, self.reader
        try:
            while session.takes_frames and not self._is_choked:
                frame = reader.read()
                if frame is None:
                    if self._peer_is_done:
                        session.end(b"")
                    break
                session.handle(frame)
            self._count_held()
        except ProtocolError as error:
            session.fail(error)
        finally:
            self._pumping = False
        self._update_reading()

    @property
    def _is_choked(self) -> bool:
        """Whether the client takes its answers so slowly that it is not asked for more questions."""
        return self.paused and self._transport.get_write_buffer_size() + self._output_size > _MOST_OUTPUT

    def _update_reading(self) -> None:
        session = self._session
        # A little is read of a client that has to wait, too: its end would not be seen otherwise.
        takes = (session.takes_frames or self._held < SMALL) and not self._is_choked
        takes = takes and self._service.inflow.may_read(self, self._held, self._loop)
        reads = self._closing or session.ended or takes
        if reads is self._reading or self._peer_is_done or self._transport.is_closing():
            return
        self._reading = reads
        if reads:
            self._read_at = self._loop.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _count_held(self) -> None:
        held = 0 if self._closing else self.reader.held
        if held != self._held:
            before, self._held = self._held, held
            self._service.inflow.hold(self, before, held)

    @property
    def read_at(self) -> float:
        return self._read_at

    def look_again(self) -> None:
        self._update_reading()

    def _flush_soon(self) -> None:
        self._flushing = False
        self.flush()

    def _give_output(self) -> None:
        if self._output:
            output, self._output, self._output_size = self._output, [], 0
            self._give(output[0] if len(output) == 1 else b"".join(output))

    def _give(self, data: bytes) -> None:
        if not self._closing:
            self._written_at = self._loop.time()
            self._transport.write(data)

    # For how long.

    def _later(self, delay: float, what: Callable[..., None], *arguments: float) -> None:
        self._timers.append(self._loop.call_later(delay, what, *arguments))

    def _cancel_timers(self) -> None:
        timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()

    def _was_too_slow(self) -> None:
        seconds = self._config.connect_attempt_timeout
        self._session.fail(ProtocolError(f"the client did not log in within {seconds:g} seconds", fatal=True))

    def _expect_traffic(self) -> None:
        allowed = self._config.idle_timeout
        idle = self._loop.time() - max(self._read_at, self._written_at)
        if idle < allowed:
            self._replace_timer(allowed - idle, self._expect_traffic)
            return
        self._session.why_ended = f"it was idle for {idle:.1f} seconds"
        self.end()

    def _expect_life(self, allowed: float) -> None:
        silent = self._loop.time() - self._read_at if self._reading else 0.0
        if silent < allowed:
            self._replace_timer(allowed - silent, self._expect_life, allowed)
            return
        self._session.why_ended = f"there was no heart-beat for {silent:.1f} seconds"
        self.abort()

    def _give_life(self, interval: float) -> None:
        silent = self._loop.time() - self._written_at
        if silent >= interval and not self.paused:
            self.write(b"\n")
        self._replace_timer(interval - silent if silent < interval else interval, self._give_life, interval)

    def _replace_timer(self, delay: float, what: Callable[..., None], *arguments: float) -> None:
        now = self._loop.time()
        self._timers = [timer for timer in self._timers if timer.when() > now]
        self._later(delay, what, *arguments)
