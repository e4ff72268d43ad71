"""A STOMP client's connection: input, output, flow control and timeouts."""

from __future__ import annotations

import asyncio
import socket
from asyncio import BaseTransport, Transport
from collections.abc import Callable
from typing import Protocol, cast

from jdbcstore.broker.stomp.frames import FrameReader, Limits
from jdbcstore.broker.stomp.service import SMALL, Service
from jdbcstore.broker.stomp.session import HeartBeats, Session
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import NotAuthorized, ProtocolError

_BEFORE_LOGIN = Limits(head=32 * 1024, headers=100, body=1024)
"""The limits of a client that has not logged in, which may only send CONNECT."""
_HIGH_WATER = 256 * 1024
"""Bytes of output that the client has not read, beyond which no messages are delivered to it."""
_MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of output beyond which nothing is read from it either, because that makes replies."""
_TOLERANCE = 2.0
"""The maximum time between a client's heart-beats, in agreed intervals."""
_PUNCTUALITY = 0.9
"""The time between the broker's heart-beats, in agreed intervals: none must arrive late."""
_LINGER = 2.0
"""Seconds that a client has to read the last frame."""
_MAX_DISCARDED = 4 * 1024 * 1024
"""Bytes that it may still send meanwhile."""


def name_of(transport: BaseTransport) -> str:
    """The address of the peer, for logs."""
    address = transport.get_extra_info("peername")
    return "{}:{}".format(*address[:2]) if isinstance(address, tuple) else str(address or "?")


class Connections(Protocol):
    """The connector, as its connections see it."""

    def opened(self, connection: Connection) -> None: ...

    def logged_in(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """The connection of one client, from its first byte to its last."""

    def __init__(self, service: Service, config: ConnectorConfig, connections: Connections) -> None:
        self.reader = FrameReader(_BEFORE_LOGIN)
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
        self._peer_has_closed = False
        self._pumping = False
        self._reading = True
        self._held = 0
        self.read_at = self._written_at = self._loop.time()
        self._timers: list[asyncio.TimerHandle] = []

    # Events of the transport.

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.peer = name_of(transport)
        opened = transport.get_extra_info("socket")
        if opened is not None and opened.family in (socket.AF_INET, socket.AF_INET6):
            # A client whose machine has gone is noticed, also without heart-beats.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._session = Session(self._service, self._config, self)
        if self._config.connect_attempt_timeout:
            self._call_later(self._config.connect_attempt_timeout, self._login_timed_out)
        self._connections.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """One buffer for all connections, because it is emptied at once: allocating one would cost more than
        reading a message."""
        return self._service.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.read_at = self._loop.time()
        if self._closing or self._session.ended:
            # Unread input would make the operating system discard the last frame.
            self._discarded += nbytes
            if self._discarded > _MAX_DISCARDED:
                self.abort()
            return
        self.reader.feed(bytes(self._service.read_buffer[:nbytes]))
        self.pump()

    def eof_received(self) -> bool:
        """Whether the connection stays open: what is under way is still to be answered."""
        if self._closing or self._transport.get_extra_info("sslcontext") is not None:
            return False
        self._peer_has_closed = True
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
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._session.end_reason = self._session.end_reason or (
            "the client closed the connection" if exc is None else f"the connection was lost: {exc}"
        )
        self._output.clear()
        self._cancel_timers()
        self._service.inflow.hold(self, self._held, 0)
        self._held = 0
        self._session.closed()
        self._connections.closed(self)

    # Link of the session.

    def write(self, data: bytes) -> None:
        if self._closing:
            return
        self._output.append(data)
        self._output_size += len(data)
        if self._output_size > _HIGH_WATER:
            self._pass_output()  # the transport then pauses writing if the client does not read
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_soon)

    def write_now(self, data: bytes) -> None:
        if self._flushing:
            self.write(data)
        else:
            self._write(data)

    def flush(self) -> None:
        self._pass_output()
        self._session.flushed()

    def close(self) -> None:
        if self._closing:
            return
        self._pass_output()
        self._closing = True
        self._cancel_timers()
        if self._transport.can_write_eof() and not self._peer_has_closed:
            # Closing with unread input would discard the last frame: let the client close.
            try:
                self._transport.write_eof()
            except OSError:  # the client has disconnected, and the loop has not noticed yet
                self._transport.abort()
            self.update_reading()
        else:
            self._transport.close()
        self._call_later(_LINGER, self._transport.abort)

    def abort(self) -> None:
        self._closing = True
        self._output.clear()
        self._transport.abort()

    def logged_in(self, heart_beats: HeartBeats) -> None:
        self._cancel_timers()
        config = self._config
        self.reader.limits = Limits(
            line=config.max_header_length, headers=config.max_headers, body=config.max_frame_size
        )
        self._connections.logged_in(self)
        if config.idle_timeout:
            self._check_idle()
        if heart_beats.from_client:
            self._check_heart_beat(heart_beats.from_client / 1000 * _TOLERANCE)
        if heart_beats.from_broker:
            self._send_heart_beat(heart_beats.from_broker / 1000 * _PUNCTUALITY)

    # For the connector.

    def refuse(self, reason: str) -> None:
        """Send the client an ERROR, and close the connection."""
        self._session.fail(NotAuthorized(reason), fatal=True)

    def end(self) -> None:
        """Close the connection once everything under way is answered."""
        self._session.end_reason = self._session.end_reason or "the broker is stopping"
        self._session.end(b"")

    # Flow control.

    def pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        session, reader = self._session, self.reader
        try:
            while session.takes_frames and not self._is_choked:
                frame = reader.read()
                if frame is None:
                    if self._peer_has_closed:
                        session.end(b"")
                    break
                session.handle(frame)
            self._count_held()
        except ProtocolError as error:
            session.fail(error)
        finally:
            self._pumping = False
        self.update_reading()

    @property
    def _is_choked(self) -> bool:
        """Whether the client reads its replies so slowly that it may not cause more."""
        return self.paused and self._transport.get_write_buffer_size() + self._output_size > _MAX_OUTPUT

    def update_reading(self) -> None:
        """Pause or resume reading, as the session and the inflow of all clients demand."""
        session, held = self._session, self._held
        # A little is read from a client that has to wait, too: its end would not be noticed otherwise.
        takes = (session.takes_frames or held < SMALL) and not self._is_choked
        takes = takes and (held <= SMALL or self._service.inflow.may_read(self, self._loop))
        reads = self._closing or session.ended or takes
        if reads is self._reading or self._peer_has_closed or self._transport.is_closing():
            return
        self._reading = reads
        if reads:
            self.read_at = self._loop.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _count_held(self) -> None:
        held = 0 if self._closing else self.reader.held
        if held != self._held:
            before, self._held = self._held, held
            self._service.inflow.hold(self, before, held)

    def _flush_soon(self) -> None:
        self._flushing = False
        self.flush()

    def _pass_output(self) -> None:
        if self._output:
            output, self._output, self._output_size = self._output, [], 0
            self._write(output[0] if len(output) == 1 else b"".join(output))

    def _write(self, data: bytes) -> None:
        if not self._closing:
            self._written_at = self._loop.time()
            self._transport.write(data)

    # Timeouts.

    def _call_later(self, delay: float, what: Callable[..., None], *arguments: float) -> None:
        self._timers.append(self._loop.call_later(delay, what, *arguments))

    def _cancel_timers(self) -> None:
        timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()

    def _login_timed_out(self) -> None:
        seconds = self._config.connect_attempt_timeout
        self._session.fail(ProtocolError(f"the client did not log in within {seconds:g} seconds", fatal=True))

    def _check_idle(self) -> None:
        allowed = self._config.idle_timeout
        idle = self._loop.time() - max(self.read_at, self._written_at)
        if idle < allowed:
            self._replace_timer(allowed - idle, self._check_idle)
            return
        self._session.end_reason = f"idle for {idle:.1f} seconds"
        self.end()

    def _check_heart_beat(self, allowed: float) -> None:
        silent = self._loop.time() - self.read_at if self._reading else 0.0
        if silent < allowed:
            self._replace_timer(allowed - silent, self._check_heart_beat, allowed)
            return
        self._session.end_reason = f"no heart-beat for {silent:.1f} seconds"
        self.abort()

    def _send_heart_beat(self, interval: float) -> None:
        silent = self._loop.time() - self._written_at
        if silent >= interval and not self.paused:
            self.write(b"\n")
        delay = interval - silent if silent < interval else interval
        self._replace_timer(delay, self._send_heart_beat, interval)

    def _replace_timer(self, delay: float, what: Callable[..., None], *arguments: float) -> None:
        now = self._loop.time()
        self._timers = [timer for timer in self._timers if timer.when() > now]
        self._call_later(delay, what, *arguments)
