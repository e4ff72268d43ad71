"""A client's connection in any protocol: input, output, flow control, timeouts, login and replies."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from asyncio import BaseTransport, Future, Transport
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar, cast

from jdbcstore.broker.api import ConnectionInfo, Subscription
from jdbcstore.broker.loop import Promise
from jdbcstore.broker.notices import BoundedLog
from jdbcstore.broker.security import Principal
from jdbcstore.broker.transport.service import SMALL, Service
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import NotAuthorized, ProtocolError, ReplySuppressed, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

Receipt = Any
"""What a client asks a reply by; None if it does not ask for one."""
LONGEST_NAME = 80
"""Characters of a client's text in the log."""
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
_MAX_UNDER_WAY = 1000
_MAX_UNDER_WAY_BYTES = 8 * 1024 * 1024
"""Sends and acknowledgements of a connection that are not done; beyond that it is not read."""
_END_TIMEOUT = 10.0
"""Seconds for what is under way to complete before a connection that failed is closed."""
_MAX_DESTINATIONS = 1000


def name_of(transport: BaseTransport) -> str:
    """The address of the peer, for logs."""
    address = transport.get_extra_info("peername")
    return "{}:{}".format(*address[:2]) if isinstance(address, tuple) else str(address or "?")


class Connections(Protocol):
    """The connector, as its connections see it."""

    def opened(self, connection: ClientConnection) -> None: ...

    def logged_in(self, connection: ClientConnection) -> None: ...

    def closed(self, connection: ClientConnection) -> None: ...


class Reader(Protocol):
    """An incremental parser: ``read`` returns the next complete frame of what it was fed, or None."""

    @property
    def held(self) -> int:
        """The number of bytes buffered for frames not yet read."""

    def feed(self, data: bytes) -> None: ...

    def read(self) -> Any: ...


class ClientConnection(asyncio.BufferedProtocol):
    """One client, from its first byte to its last. To be used on the broker's loop only.

    A subclass speaks a protocol. Frames are passed to its :meth:`handle` while :attr:`takes_frames`. A
    command that fails is answered with an error; the connection then goes on, unless the error is fatal: what
    follows cannot be understood, or the client cannot know which of its messages are acknowledged.
    """

    protocol: ClassVar[str]
    """The name of the protocol, for the log."""
    heart_beat: ClassVar[bytes]
    """Written when the client would otherwise hear nothing for too long."""
    refusal_delay: ClassVar[float] = 0.0
    """Seconds that a client whose login is refused has to close the connection itself."""
    reader: Reader

    def __init__(self, service: Service, config: ConnectorConfig, connections: Connections) -> None:
        self.connection_id = service.next_connection_id()
        self.peer = "?"
        """The client's address."""
        self.paused = False
        """Whether the client does not read its socket."""
        self.ended = False
        """Whether no more frames are taken."""
        self.end_reason: str | None = None
        """Why it has ended, for the log; None if the client has just disconnected."""
        self._service = service
        self._broker = service.broker
        self._config = config
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._sent = 0

        self._login: Future[Principal] | None = None
        self._principal: Principal | None = None
        self._client_id: str | None = None
        self._user_id: str | None = None
        """The JMSXUserID of its messages."""
        self._writable: set[Destination] = set()
        """Destinations that it has been found to be authorized to send to."""
        self._subscribing: Future[Subscription] | None = None

        self._waiting = False
        """Whether a command holds up the frames behind it."""
        self._full = False
        """Whether too much is under way."""
        self._under_way = 0
        self._under_way_bytes = 0
        self._last_frame: bytes | None = None
        self._failed = False

        self._transport: Transport = None  # type: ignore[assignment]  # from connection_made on
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
        self._timers: dict[Callable[..., None], asyncio.TimerHandle] = {}
        """By what each calls."""

    @property
    def principal_name(self) -> str:
        """The name of its user; empty before the login, and without one."""
        return "" if self._principal is None else self._principal.name

    @property
    def client_id(self) -> str | None:
        """The client id of JMS."""
        return self._client_id

    @property
    def age(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._began

    @property
    def sends_to(self) -> Collection[Destination]:
        """The destinations that it has sent to."""
        return self._writable

    # What a protocol does.

    def handle(self, frame: Any) -> None:
        """Execute a command; an error is sent to the client."""
        raise NotImplementedError

    def _receipt(self, receipt: Receipt) -> bytes:
        """The reply to a command that is done."""
        raise NotImplementedError

    def _error(self, error: BaseException, text: str, receipt: Receipt) -> bytes:
        """The reply to a command that has failed; without a receipt, to what has failed otherwise.

        :param text: what the client may know of the error
        """
        raise NotImplementedError

    def _release(self) -> None:
        """Return to the broker everything that the client holds of it."""
        client_id, self._client_id = self._client_id, None
        if client_id is not None:
            self._service.release_client_id(client_id)
        if self._login is not None:  # so that its password is not verified in vain
            self._login.cancel()
        if self._subscribing is not None:
            self._subscribing.add_done_callback(_close_late)
            self._subscribing = None
        self._broker.disconnected(self.connection_id)

    @property
    def takes_frames(self) -> bool:
        return not (self._waiting or self._full or self.ended)

    # Events of the transport.

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.peer = name_of(transport)
        opened = transport.get_extra_info("socket")
        if opened is not None and opened.family in (socket.AF_INET, socket.AF_INET6):
            # A client whose machine has gone is noticed, also without heart-beats.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._config.connect_attempt_timeout:
            self._call_later(self._config.connect_attempt_timeout, self._login_timed_out)
        self._connections.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """One buffer for all connections, because it is emptied at once: allocating one would cost more than
        reading a message."""
        return self._service.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.read_at = self._loop.time()
        if self._closing or self.ended:
            self._discard(nbytes)
            return
        self.reader.feed(bytes(self._service.read_buffer[:nbytes]))
        self.pump()

    def eof_received(self) -> bool:
        """Whether the connection stays open: what is under way is still to be answered."""
        if self._closing or self._transport.get_extra_info("sslcontext") is not None:
            return False
        self._peer_closed()
        return True

    def _peer_closed(self) -> None:
        """The client sends nothing more: close once what it has sent is answered."""
        self._peer_has_closed = True
        is_logging_in = self._login is not None and not self._login.done()
        if self.takes_frames or (is_logging_in and not self.reader.held):
            self.finish(b"")

    def _discard(self, nbytes: int) -> None:
        """Count input that is not used. It is read, though: otherwise the operating system would discard
        the last frame."""
        self._discarded += nbytes
        if self._discarded > _MAX_DISCARDED:
            self.abort()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self.end_reason = self.end_reason or (
            "the client closed the connection" if exc is None else f"the connection was lost: {exc}"
        )
        self._output.clear()
        self._cancel_timers()
        self._service.inflow.hold(self, self._held, 0)
        self._held = 0
        self.ended = self._failed = True
        self._release()
        if self._principal is not None:
            seconds = time.monotonic() - self._began
            text = "has ended after %.1f seconds and %d messages sent: %s"
            self._log(self._service.logins, logging.INFO, text, seconds, self._sent, self.end_reason)
        self._connections.closed(self)

    # Output.

    def write(self, data: bytes) -> None:
        """Append to the output, which is flushed in the loop's next iteration."""
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
        """The same, but at once if there is no other output: for a reply that the client waits for."""
        if self._flushing:
            self.write(data)
        else:
            self._write(self._packed([data]))

    def flush(self) -> None:
        """Pass the output to the transport."""
        self._pass_output()

    def close(self) -> None:
        """Close the connection once the output is sent."""
        if self._closing:
            return
        self._pass_output()
        self._closing = True
        self._cancel_timers()
        self._shut_down()
        self._call_later(_LINGER, self._transport.abort)

    def _shut_down(self) -> None:
        """End the output, and have the client close the connection."""
        if self._transport.can_write_eof() and not self._peer_has_closed:
            # Closing with unread input would discard the last frame: let the client close.
            try:
                self._transport.write_eof()
            except OSError:  # the client has disconnected, and the loop has not noticed yet
                self._transport.abort()
            self.update_reading()
        else:
            self._transport.close()

    def abort(self, reason: str | None = None) -> None:
        """Close the connection at once, for a reason that is logged."""
        self.end_reason = reason or self.end_reason
        self._closing = True
        self._output.clear()
        self._transport.abort()

    def _flush_soon(self) -> None:
        self._flushing = False
        self.flush()

    def _pass_output(self) -> None:
        if self._output:
            output, self._output, self._output_size = self._output, [], 0
            self._write(self._packed(output))

    def _packed(self, frames: list[bytes]) -> bytes:
        """Frames as they are written."""
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _write(self, data: bytes) -> None:
        if not self._closing:
            self._written_at = self._loop.time()
            self._transport.write(data)

    # Flow control.

    def pump(self) -> None:
        """Execute the frames that have arrived, while they are taken."""
        if self._pumping:
            return
        self._pumping = True
        reader = self.reader
        try:
            while self.takes_frames and not self.is_choked:
                frame = reader.read()
                if frame is None:
                    if self._peer_has_closed:
                        self.finish(b"")
                    break
                self.handle(frame)
            self._count_held()
        except ProtocolError as error:
            self.fail(error)
        finally:
            self._pumping = False
        self.update_reading()

    @property
    def is_choked(self) -> bool:
        """Whether the client reads its replies so slowly that it may not cause more."""
        return self.paused and self._transport.get_write_buffer_size() + self._output_size > _MAX_OUTPUT

    def update_reading(self) -> None:
        """Pause or resume reading, as what is under way and the inflow of all clients demand."""
        held = self._held
        # A little is read from a client that has to wait, too: its end would not be noticed otherwise.
        takes = (self.takes_frames or held < SMALL) and not self.is_choked
        takes = takes and (held <= SMALL or self._service.inflow.may_read(self, self._loop))
        reads = self._closing or self.ended or takes
        if reads is self._reading or self._peer_has_closed or self._transport.is_closing():
            return
        self._reading = reads
        if reads:
            self.read_at = self._loop.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _count_held(self) -> None:
        held = 0 if self._closing else self._buffered()
        if held != self._held:
            before, self._held = self._held, held
            self._service.inflow.hold(self, before, held)

    def _buffered(self) -> int:
        """The number of bytes of frames that are not complete."""
        return self.reader.held

    # The end.

    def refuse(self, reason: str) -> None:
        """Send the client an error, and close the connection."""
        self.fail(NotAuthorized(reason), fatal=True)

    def end(self) -> None:
        """Close the connection once everything under way is answered."""
        self.end_reason = self.end_reason or "the broker is stopping"
        self.finish(b"")

    def finish(self, last_frame: bytes) -> None:
        """Take no more frames; write the last and close once everything under way is done and answered."""
        first = not self.ended
        self.ended = True
        self._last_frame = last_frame
        if first:
            self.flush()  # acknowledges what has been written, before the rest is returned
            self._release()
        if self._under_way == 0:
            self._write_last()
        elif self._failed:
            self._loop.call_later(_END_TIMEOUT, self._write_last)

    def fail(self, error: BaseException, receipt: Receipt = None, *, fatal: bool = False) -> None:
        """Send an error, unless ``on_store_error`` suppresses it. One that is ``fatal`` is the last reply."""
        if self._failed:
            return
        if isinstance(error, StoreError):
            try:
                if not isinstance(error, ProtocolError | NotAuthorized):
                    self._service.on_store_error(error)
            except ReplySuppressed:
                self.ended = self._failed = True
                self.abort()
                return
            except StoreError as decided:
                error = decided
            fatal = fatal or getattr(error, "fatal", False)
            text = str(error)
            # A client can repeat other protocol errors as often as it likes.
            level = logging.INFO if fatal or not isinstance(error, ProtocolError) else logging.DEBUG
            self._log(self._service.errors, level, "is sent an ERROR: %s", text)
            self.end_reason = text if fatal else self.end_reason
        else:
            fatal = True
            text = "the broker failed; its log says why"
            log.error("connection %s of %s failed", self.connection_id, self.peer, exc_info=error)
        if fatal:
            self._failed = True
            self.finish(self._error(error, text, receipt))
        else:
            self.write(self._error(error, text, receipt))

    # Replies.

    def _answer(self, receipt: Receipt) -> None:
        if receipt is not None:
            self.write(self._receipt(receipt))

    def _track(self, done: Future[None], receipt: Receipt, size: int = 0, *, fatal: bool = False) -> None:
        """Answer when a command is done; the client may send more meanwhile, within bounds.

        :param fatal: whether its failure ends the connection
        """
        if done.done():
            self._settle(done, receipt, fatal, self.write)
            return
        if receipt is not None and isinstance(done, Promise):
            done.at_once = partial(self._answer_at_once, receipt)
        self._under_way += 1
        self._under_way_bytes += size
        self._service.inflow.under_way += size
        if self._under_way >= _MAX_UNDER_WAY or (
            self._under_way_bytes >= SMALL and self._under_way_bytes >= self._byte_limit()
        ):
            self._full = True
        done.add_done_callback(partial(self._done, receipt, size, fatal))

    def _byte_limit(self) -> int:
        return SMALL if self._service.inflow.is_over() else _MAX_UNDER_WAY_BYTES

    def _answer_at_once(self, receipt: Receipt) -> None:
        write = self.write if self._under_way > 1 else self.write_now
        write(self._receipt(receipt))

    def _done(self, receipt: Receipt, size: int, fatal: bool, done: Future[None]) -> None:
        self._under_way -= 1
        self._under_way_bytes -= size
        inflow = self._service.inflow
        inflow.under_way -= size
        if inflow.waiting:
            inflow.notify()
        write = self.write if self._under_way else self.write_now
        is_answered = isinstance(done, Promise) and done.at_once is None
        self._settle(done, receipt, fatal, None if is_answered else write)
        if self._under_way == 0 and self._last_frame is not None:
            self._write_last()
        elif (
            self._full
            and self._under_way <= _MAX_UNDER_WAY // 2
            and self._under_way_bytes <= self._byte_limit() // 2
        ):
            self._full = False
            self.pump()

    def _settle(
        self, done: Future[None], receipt: Receipt, fatal: bool, write: Callable[[bytes], None] | None
    ) -> None:
        if done.cancelled():
            self.abort()
            return
        error = done.exception()
        if error is not None:
            self.fail(error, receipt, fatal=fatal)
        elif receipt is not None and write is not None:
            write(self._receipt(receipt))

    def _wait_for(
        self,
        done: Future[_Result],
        then: Callable[[_Result], Any],
        receipt: Receipt,
        *,
        fatal: bool = False,
    ) -> None:
        """Call ``then`` with the result; take no other frame before."""

        def resume(done: Future[_Result]) -> None:
            self._waiting = False
            self._finish(then, receipt, fatal, done)
            self.pump()

        if done.done():
            self._finish(then, receipt, fatal, done)
        else:
            self._waiting = True
            done.add_done_callback(resume)

    def _finish(
        self, then: Callable[[_Result], Any], receipt: Receipt, fatal: bool, done: Future[_Result]
    ) -> None:
        if done.cancelled():
            if not self.ended:  # otherwise its last frame is being sent
                self.abort()
            return
        error = done.exception()
        if error is not None:
            self.fail(error, receipt, fatal=fatal)
        elif not self.ended:
            try:
                then(done.result())
            except Exception as failure:
                self.fail(failure, receipt, fatal=fatal)

    def _write_last(self) -> None:
        frame, self._last_frame = self._last_frame, None
        if frame is not None:
            self.write(frame)
            if frame and self._login is not None and self._principal is None:
                self._call_later(self.refusal_delay, self.close)
            else:
                self.close()

    # Login and authorization.

    def _authenticate(
        self,
        user: str | None,
        password: str | None,
        then: Callable[[Principal], None],
        receipt: Receipt,
    ) -> None:
        """Verify a login; take no other frame before."""
        login = self._login = asyncio.ensure_future(self._service.security.login(user, password))
        login.add_done_callback(partial(self._log_refused, user or ""))
        self._wait_for(login, then, receipt, fatal=True)

    def _logged_in(self, principal: Principal, user: str | None, client_id: str | None) -> None:
        """The client has logged in: apply the limits and timeouts for clients that have.

        :raises NotAuthorized: another connection has the client id
        """
        if client_id is not None:
            self._service.acquire_client_id(client_id)
            self._client_id = client_id
        self._principal = principal
        if self._service.populate_user_id:
            self._user_id = user or None
        self._cancel_timers()
        self._connections.logged_in(self)
        self._broker.directory.add(
            ConnectionInfo(
                connection_id=self.connection_id, client_id=client_id, user=user or None, peer=self.peer
            )
        )
        if self._config.idle_timeout:
            self._check_idle()

    @property
    def _user(self) -> str:
        name = "" if self._principal is None else self._principal.name
        return repr(name) if name else "a client without a login"

    def _check_may_write(self, destination: Destination) -> None:
        if self._principal is None or not self._principal.may_write(destination):
            raise NotAuthorized(
                f"{self._user} is not authorized to send to {destination}; ask the broker's administrator"
            )
        self._check_may_create(self._principal, destination)
        if len(self._writable) < _MAX_DESTINATIONS:
            self._writable.add(destination)

    def _check_may_create(self, principal: Principal, destination: Destination) -> None:
        for member in destination.members:
            if not (is_wildcard(member) or principal.may_create(member) or self._broker.knows(member)):
                raise NotAuthorized(
                    f"{self._user} is not authorized to create {member}, which does not exist;"
                    " ask the broker's administrator"
                )

    def _check_may_read(self, destination: Destination) -> None:
        if self._principal is None or not self._principal.may_read(destination):
            raise NotAuthorized(f"{self._user} is not authorized to consume from {destination}")
        self._check_may_create(self._principal, destination)

    def _check_may_delete(self, destination: Destination) -> None:
        principal = self._principal
        rights = (Principal.may_read, Principal.may_write, Principal.may_create)
        if principal is None or not all(may(principal, destination) for may in rights):
            raise NotAuthorized(f"{self._user} is not authorized to delete {destination}")

    # Timeouts.

    def _call_later(self, delay: float, what: Callable[..., None], *arguments: float) -> None:
        self._timers[what] = self._loop.call_later(delay, what, *arguments)

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _login_timed_out(self) -> None:
        seconds = self._config.connect_attempt_timeout
        self.fail(ProtocolError(f"the client did not log in within {seconds:g} seconds", fatal=True))

    def _start_heart_beats(self, from_client: float, from_broker: float, delay: float = 0.0) -> None:
        """Expect heart-beats of the client, and send some, at these intervals in seconds; 0 is none.

        The client sends its first one up to ``delay`` seconds later.
        """
        if from_client:
            allowed = from_client * _TOLERANCE
            self._call_later(delay + allowed, self._check_heart_beat, allowed)
        if from_broker:
            self._send_heart_beat(from_broker * _PUNCTUALITY)

    def _check_idle(self) -> None:
        allowed = self._config.idle_timeout
        idle = self._loop.time() - max(self.read_at, self._written_at)
        if idle < allowed:
            self._call_later(allowed - idle, self._check_idle)
            return
        self.end_reason = f"idle for {idle:.1f} seconds"
        self.end()

    def _check_heart_beat(self, allowed: float) -> None:
        silent = self._loop.time() - self.read_at if self._reading else 0.0
        if silent < allowed:
            self._call_later(allowed - silent, self._check_heart_beat, allowed)
            return
        self.end_reason = f"no heart-beat for {silent:.1f} seconds"
        self.abort()

    def _send_heart_beat(self, interval: float) -> None:
        silent = self._loop.time() - self._written_at
        if silent >= interval and not self.paused:
            self.write(self.heart_beat)
        delay = interval - silent if silent < interval else interval
        self._call_later(delay, self._send_heart_beat, interval)

    # Log.

    def _log(self, lines: BoundedLog, level: int, text: str, *values: object, **fields: str) -> None:
        """Log a line about this connection, with fields for structured logs."""
        client = {"connection": self.connection_id, "peer": self.peer}
        text = f"connection %s of %s {text}"
        lines.log(log, level, {**client, **fields}, text, *client.values(), *values)

    def _log_refused(self, user: str, login: Future[Principal]) -> None:
        if not login.cancelled() and isinstance(error := login.exception(), NotAuthorized):
            short, text = user[:LONGEST_NAME], "is refused the login %r: %s"
            self._log(self._service.refusals, logging.WARNING, text, short, error, user=short)


def _close_late(subscribing: Future[Subscription]) -> None:
    """Close a subscription that was accepted after its connection had ended."""
    if not subscribing.cancelled() and subscribing.exception() is None:
        subscribing.result().close()
