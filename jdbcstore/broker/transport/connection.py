"""A client's connection in any protocol: its input, flow control, and its end.

Its parts are its :class:`ClientOutput`, the :class:`Replies` to running commands, the :class:`Access` of its
client, and its :class:`Deadlines`. Its session speaks the protocol.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from asyncio import BaseTransport, Future, Transport
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias, cast

from jdbcstore.broker.api import ConnectionInfo
from jdbcstore.broker.notices import BoundedLog
from jdbcstore.broker.security import Principal
from jdbcstore.broker.store_io.outbox import PendingSend
from jdbcstore.broker.transport.access import Access
from jdbcstore.broker.transport.deadlines import Deadlines
from jdbcstore.broker.transport.output import ClientOutput, Packing
from jdbcstore.broker.transport.replies import SMALL, Receipt, Replies, Reply
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import NotAuthorized, ProtocolError, ReplySuppressed, StoreError
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

LONGEST_NAME = 80
"""The most characters of a client's text in the log."""
_LINGER = 2.0
"""Seconds for a client to read the last frame."""
_MAX_DISCARDED = 4 * 1024 * 1024
"""The most bytes that it may still send meanwhile."""
_END_TIMEOUT = 10.0
"""Seconds to wait for running commands before a failed connection is closed, and for a client to read more of
a message before an ending connection is."""


def name_of(transport: BaseTransport) -> str:
    """Return the address of the peer, for logs."""
    address = transport.get_extra_info("peername")
    return "{}:{}".format(*address[:2]) if isinstance(address, tuple) else str(address or "?")


class Connections(Protocol):
    """The connector's interface for its connections."""

    def opened(self, connection: ClientConnection) -> None: ...

    def logged_in(self, connection: ClientConnection) -> None: ...

    def closed(self, connection: ClientConnection) -> None: ...


class FrameSource(Protocol):
    """An incremental parser: ``read`` returns the next complete frame of the fed bytes, or None."""

    @property
    def held(self) -> int:
        """The number of bytes buffered for frames not yet read."""

    def feed(self, data: bytes) -> None: ...

    def read(self) -> Any: ...


class ClientSession(Protocol):
    """The commands of one client in its protocol, and the replies.

    A failed command is answered with an error. The connection then continues, unless the error is fatal,
    because the following input is unreadable, or the client cannot know which of its messages are
    acknowledged.
    """

    heart_beat: ClassVar[bytes]
    """Written when the client would otherwise receive no data for too long."""
    refusal_delay: ClassVar[float]
    """Seconds for a client whose login failed to close the connection itself."""

    @property
    def reader(self) -> FrameSource: ...

    @property
    def sent(self) -> int:
        """The number of messages from the client."""

    def greeting(self) -> bytes:
        """Return the first bytes to write; empty if the client speaks first."""

    def handle(self, frame: Any) -> None:
        """Execute a command; an error is sent to the client."""

    def error_frame(self, error: BaseException, text: str, receipt: Receipt) -> bytes:
        """Return the reply to a failed command, or without a receipt, to another failure.

        :param text: the description for the client
        """

    def pause(self) -> None:
        """Pause deliveries, because the client does not read its socket."""

    def resume(self) -> None: ...

    def release(self) -> None:
        """Return everything that the client holds to the broker."""


SessionFactory: TypeAlias = "Callable[[ClientConnection], ClientSession]"


@dataclass(frozen=True)
class ClientProtocol:
    """A protocol of clients."""

    name: str
    """The name, for the log."""
    _make_connection: Callable[..., ClientConnection]

    def connect(
        self, service: Service, config: ConnectorConfig, connections: Connections
    ) -> ClientConnection:
        """Return a new connection, which then gets the transport."""
        return self._make_connection(service, config, connections, protocol=self.name)


class ClientConnection(asyncio.BufferedProtocol):
    """One client, from its first byte to its last. Used on the broker's loop only.

    :param protocol: the name of the protocol
    :param make_session: makes the session, which gets each frame while frames are accepted
    :param packing: turns frames into the bytes to write; None just joins them
    """

    def __init__(
        self,
        service: Service,
        config: ConnectorConfig,
        connections: Connections,
        *,
        protocol: str,
        make_session: SessionFactory,
        packing: Packing | None = None,
    ) -> None:
        self.protocol = protocol
        self.connection_id = service.next_connection_id()
        self.peer = "?"
        """The client's address."""
        self.local_address: tuple[str, int] | None = None
        """The host and the port that the client has connected to; None if unknown."""
        self.end_reason: str | None = None
        """The reason of its end, for the log; None if the client just disconnected."""
        self.has_left = False
        """Whether the client has ended it, with or without a protocol message."""
        self.service = service
        self.config = config
        self.output = ClientOutput(packing, self._streams)
        self.access = Access(service)
        self.replies = Replies(
            output=self.output,
            inflow=service.inflow,
            fail=self.fail,
            resume=self.pump,
            idle=self._write_last,
            abort=self.abort,
        )
        self.read_at = self.output.written_at
        """The time of the loop at which data was last received."""
        self.reads = True
        """Whether its input is being read."""
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._transport: Transport = None  # type: ignore[assignment]  # from connection_made on
        self._last_frame: bytes | None = None
        self._failed = False
        self._released = False
        self._discarded = 0
        self._peer_has_closed = False
        self._pumping = False
        self._held = 0
        """Bytes of incomplete frames counted by the inflow."""
        self._undecoded = 0
        """Received bytes that were not fed to the reader yet."""
        self.session = session = make_session(self)
        self._reader = session.reader
        self._lane: Callable[[bytes], bytes] | None = None
        self.deadlines = Deadlines(
            config=config, output=self.output, connection=self, heart_beat=session.heart_beat
        )

    @property
    def described(self) -> str:
        """The client, for people: its client id, user, address and connection."""
        known = (("client", self.access.client_id), ("user", self.access.principal_name), ("", self.peer))
        named = [f"{label} {_visible(value)}".strip() for label, value in known if value]
        return ", ".join([*named, f"connection {self.connection_id}"])

    @property
    def age(self) -> float:
        """Seconds since its creation."""
        return time.monotonic() - self._began

    # Events of the transport.

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        if address := transport.get_extra_info("sockname"):
            self.local_address = address[:2]
        if greeting := self.session.greeting():
            self._transport.write(greeting)
        self.output.open(self._transport)
        self.peer = name_of(transport)
        opened = transport.get_extra_info("socket")
        if opened is not None and opened.family in (socket.AF_INET, socket.AF_INET6):
            # This detects a dead machine of a client even without heart-beats.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.deadlines.expect_login()
        self._connections.opened(self)

    def read_with(self, lane: Callable[[bytes], bytes] | None) -> None:
        """Pass arriving frames to the lane first, which returns the remaining bytes."""
        self._lane = lane

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return one buffer for all connections, which is emptied immediately, because allocating a buffer
        would cost more than reading a message."""
        return self.service.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.read_at = self._loop.time()
        if self.output.closed or self.replies.ended:
            self._discard(nbytes)
            return
        data, output = bytes(self.service.read_buffer[:nbytes]), self.output
        if self._lane is not None and not (
            self._held or self.replies.waiting or output.paused or output.is_streaming
        ):
            data = self._lane(data)
        if data:
            self.pump(data)

    def eof_received(self) -> bool:
        """Return whether the connection stays open, because running commands must still be answered."""
        if self.output.closed or self._transport.get_extra_info("sslcontext") is not None:
            return False
        self._peer_closed()
        return True

    def _peer_closed(self) -> None:
        """Close after all commands are answered, because the client sends nothing more."""
        self._peer_has_closed = True
        if self.replies.accepts_frames or (self.access.is_logging_in and not self._reader.held):
            self.finish()

    def _discard(self, nbytes: int) -> None:
        """Count unused input. It is read anyway, because otherwise the operating system would discard the
        last frame."""
        self._discarded += nbytes
        if self._discarded > _MAX_DISCARDED:
            self.abort()

    def pause_writing(self) -> None:
        self.output.pause()
        self.session.pause()

    def resume_writing(self) -> None:
        if not self.output.is_streaming:
            self.session.resume()
        self.output.resume()
        self.pump()

    def _streams(self, is_streaming: bool) -> None:
        """Pause deliveries while a frame is written part by part, because messages would wait in memory."""
        if is_streaming:
            self.session.pause()
        else:
            if not self.output.paused:
                self.session.resume()
            self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self.output.discard()
        self.has_left = self.end_reason is None
        self.end_reason = self.end_reason or (
            "the client closed the connection" if exc is None else f"the connection was lost: {exc}"
        )
        self.deadlines.cancel()
        self.service.inflow.hold(self, self._held, 0)
        self._held = 0
        self._failed = True
        self.replies.end()
        self.release()
        if self.access.principal is not None:
            text = "ended after %.1f seconds and %d messages sent: %s"
            values = (self.age, self.session.sent, self.end_reason)
            self.log(self.service.logins, logging.INFO, text, *values)
        self._connections.closed(self)

    # Flow control.

    def pump(self, data: bytes = b"") -> None:
        """Execute the received frames, while frames are accepted.

        :param data: the bytes that have just arrived
        """
        reader, handle, output, replies = self._reader, self.session.handle, self.output, self.replies
        if data:
            reader.feed(data)
        if self._pumping:
            return
        self._pumping = True
        try:
            while not (replies.waiting or replies.full or replies.ended):
                if (output.paused or output.is_streaming) and output.is_choked:
                    break
                frame = reader.read()
                if frame is None:
                    if self._peer_has_closed:
                        self.finish()
                    break
                handle(frame)
            held = 0 if output.closed else reader.held + self._undecoded
            if held != self._held:
                before, self._held = self._held, held
                self.service.inflow.hold(self, before, held)
        except ProtocolError as error:
            self.fail(error)
        finally:
            self._pumping = False
        if not self.reads or self._held >= SMALL or output.paused or output.is_streaming:
            self.update_reading()

    def send(
        self, message: Message, answer: bytes | None, receipt: Receipt, size: int, stored: int = 0
    ) -> None:
        """Send a message of the client; its answer is written when it is durable, like by
        ``Replies.track``."""
        broker, replies, connection_id = self.service.broker, self.replies, self.connection_id
        receiver = broker.lane_to(message, connection_id)
        if receiver is None:
            done = broker.send(message, connection_id)
            replies.track(done, answer, receipt, size, stored=stored)
        else:
            reply = Reply(replies, answer, receipt, size, stored)
            broker.outbox.add(PendingSend(message, receiver, connection_id, reply, message.memory_size))

    def update_reading(self) -> None:
        """Pause or resume reading, according to running commands and the inflow of all clients."""
        held, output, replies = self._held, self.output, self.replies
        # A little is read even from a waiting client, because its end would otherwise not be noticed.
        takes = not (replies.waiting or replies.full or replies.ended) or held < SMALL
        takes = takes and not output.is_choked
        takes = takes and (held <= SMALL or self.service.inflow.may_read(self, self._loop))
        reads = output.closed or replies.ended or takes
        if reads is self.reads or self._peer_has_closed or self._transport.is_closing():
            return
        self.reads = reads
        if reads:
            self.read_at = self._loop.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # The login.

    def authenticate(
        self, user: str | None, password: str | None, then: Callable[[Principal], None], receipt: Receipt
    ) -> None:
        """Verify a login, and call ``then`` with the user; accept no other frame before."""
        login = self.access.verify(user, password)
        login.add_done_callback(partial(self._log_refused, user or ""))
        self.replies.wait_for(login, then, receipt, fatal=True)

    def logged_in(self, principal: Principal, user: str | None, client_id: str | None) -> None:
        """Apply the limits and timeouts for clients that have logged in.

        :raises ClientIdInUse: another connection has the client id
        """
        self.access.grant(principal, user, client_id)
        self.deadlines.logged_in()
        self._connections.logged_in(self)
        self.service.broker.directory.add(
            ConnectionInfo(
                connection_id=self.connection_id, client_id=client_id, user=user or None, peer=self.peer
            )
        )

    def adopt_id(self, connection_id: str, principal: Principal) -> None:
        """Adopt the client's own id; an earlier connection with this id ends.

        :raises NotAuthorized: the earlier connection belongs to another user, or the id has the form of this
            broker's ids
        """
        self.service.supersede(connection_id, principal, self._superseded)
        self.connection_id = connection_id
        self._released = False

    def _superseded(self) -> None:
        """Return everything to the broker, and close, because the client is back on another connection."""
        self._failed = True
        self.replies.end()
        self.release()
        self.abort("the client has reconnected")

    def release(self) -> None:
        """Return everything that the client holds to the broker, until it logs in again."""
        if self._released:
            return  # another connection owns its ids now
        self._released = True
        self.service.forget(self.connection_id, self._superseded)
        self.session.release()
        self.access.release()
        self.service.broker.disconnected(self.connection_id)

    # The end.

    def refuse(self, reason: str) -> None:
        """Send the client an error, and close the connection."""
        self.fail(NotAuthorized(reason), fatal=True)

    def end(self, reason: str) -> None:
        """Close the connection when all running commands are answered."""
        self.finish(reason=reason)

    def finish(self, last_frame: bytes = b"", *, reason: str | None = None, by_client: bool = False) -> None:
        """Accept no more frames; write the last one and close when all running commands are done and
        answered."""
        self.end_reason = self.end_reason or reason
        first = not self.replies.ended
        self.has_left = by_client or (self.end_reason is None and not self._failed)
        self.replies.end()
        self._last_frame = last_frame
        if first:
            self.output.flush()  # acknowledges written messages, before the rest is returned
            self.release()
        if self.replies.under_way == 0:
            self._write_last()
        elif self._failed or self.output.is_streaming:
            self._loop.call_later(_END_TIMEOUT, self._check_end, self.output.progress)

    def _check_end(self, before: tuple[float, int]) -> None:
        """Close despite running commands, unless the client is still reading a message."""
        if self._last_frame is None:
            return
        progress = self.output.progress
        if not self.output.is_streaming:
            if self._failed:
                self._write_last()
        elif progress != before:
            self._loop.call_later(_END_TIMEOUT, self._check_end, progress)
        else:
            self.abort()

    def fail(self, error: BaseException, receipt: Receipt = None, fatal: bool = False) -> None:
        """Send an error, unless ``on_store_error`` suppresses it. A ``fatal`` error is the last reply."""
        if self._failed:
            return
        if isinstance(error, StoreError):
            try:
                if not isinstance(error, ProtocolError | NotAuthorized):
                    self.service.on_store_error(error)
            except ReplySuppressed:
                self._failed = True
                self.replies.end()
                self.abort()
                return
            except StoreError as decided:
                error = decided
            fatal = fatal or getattr(error, "fatal", False)
            text = str(error)
            # A client can repeat other protocol errors without limit.
            level = logging.INFO if fatal or not isinstance(error, ProtocolError) else logging.DEBUG
            self.log(self.service.errors, level, "is sent an ERROR: %s", text)
            self.end_reason = text if fatal else self.end_reason
        else:
            fatal = True
            text = "the broker failed; see its log"
            log.error("connection %s of %s failed", self.connection_id, self.peer, exc_info=error)
        frame = self.session.error_frame(error, text, receipt)
        if fatal:
            self._failed = True
            self.finish(frame)
        else:
            self.output.write(frame)

    def close(self) -> None:
        """Close the connection when the output is sent."""
        if self.output.closed:
            return
        self.output.close()
        self.deadlines.cancel()
        self._shut_down()
        self.deadlines.call_later(_LINGER, self._transport.abort)

    def abort(self, reason: str | None = None) -> None:
        """Close the connection immediately, for a logged reason."""
        self.end_reason = reason or self.end_reason
        self.output.discard()
        self._transport.abort()

    def _shut_down(self) -> None:
        """End the output, so that the client closes the connection."""
        if self._transport.can_write_eof() and not self._peer_has_closed:
            # Closing with unread input would discard the last frame, so let the client close.
            try:
                self._transport.write_eof()
            except OSError:  # the client has disconnected, but the loop has not noticed yet
                self._transport.abort()
            self.update_reading()
        else:
            self._transport.close()

    def _write_last(self) -> None:
        frame, self._last_frame = self._last_frame, None
        if frame is None:
            return
        self.output.write(frame)
        if frame and self.access.is_refused:
            self.deadlines.call_later(self.session.refusal_delay, self.close)
        else:
            self.close()

    # Log.

    def log(self, lines: BoundedLog, level: int, text: str, *values: object, **fields: str) -> None:
        """Log a line about this connection, with fields for structured logs."""
        client = {"connection": self.connection_id, "peer": self.peer}
        text = f"connection %s of %s {text}"
        lines.log(log, level, {**client, **fields}, text, *client.values(), *values)

    def _log_refused(self, user: str, login: Future[Principal]) -> None:
        if not login.cancelled() and isinstance(error := login.exception(), NotAuthorized):
            short, text = user[:LONGEST_NAME], "failed to log in as %r: %s"
            self.log(self.service.refusals, logging.WARNING, text, short, error, user=short)


def _visible(name: str) -> str:
    """Return a name of a client in one short line, which can be encoded."""
    return "".join(character if character.isprintable() else "?" for character in name[:LONGEST_NAME])
