"""One STOMP client's session: the commands it sends, and the replies to them, without the network.

The connection passes complete frames to the session, which writes encoded frames to its link. CONNECT,
SUBSCRIBE and the deletion of a durable subscription hold up the frames behind them. Sends, acknowledgements
and commits do not: each RECEIPT is written when its own command is durable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import Future
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from jdbcstore.broker.api import Promise, Subscription
from jdbcstore.broker.notices import BoundedLog
from jdbcstore.broker.security import Principal
from jdbcstore.broker.stomp.frames import Frame, FrameReader, Version, encode, escape, required
from jdbcstore.broker.stomp.messages import DestinationNames, MessageFrames, to_message
from jdbcstore.broker.stomp.service import SMALL, Service
from jdbcstore.broker.stomp.subscriptions import AckMode, StompConsumer, Subscriptions, subscription_request
from jdbcstore.broker.stomp.transactions import Transactions
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import NotAuthorized, ProtocolError, ReplySuppressed, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.patterns import DestinationPattern, is_wildcard

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_EOL = b"\n"
"""Written after each frame, as by ActiveMQ: some clients wait for it."""
_MAX_UNDER_WAY = 1000
_MAX_UNDER_WAY_BYTES = 8 * 1024 * 1024
"""Sends and acknowledgements of a connection that are not done; beyond that it is not read."""
_END_TIMEOUT = 10.0
"""Seconds for what is under way to complete before a connection that failed is closed."""
_MAX_DESTINATIONS = 1000
_LONGEST_NAME = 80
_SHORTEST_BEAT_MS = 100
_VIRTUAL = DestinationPattern(Destination.topic("VirtualTopic.>"))
_OF_VIRTUAL = DestinationPattern(Destination.queue("Consumer.*.VirtualTopic.>"))
_NO_GROUPS = (
    "a client sends messages with JMSXGroupID: jdbcstore does not support message groups, and dispatches each"
    " message to any consumer with room"
)
_NO_VIRTUAL_TOPICS = (
    "a client uses VirtualTopic.>: jdbcstore does not support virtual topics, and queues"
    " Consumer.NAME.VirtualTopic.X receive nothing of what is sent to the topic; use durable subscriptions"
)


@dataclass(frozen=True, slots=True)
class HeartBeats:
    """The agreed intervals between heart-beats, in milliseconds; 0 is none."""

    from_client: int = 0
    from_broker: int = 0

    @classmethod
    def parse(cls, text: str | None) -> HeartBeats:
        """The intervals that a client asks for, each at least 100 ms.

        :raises ProtocolError: the header is not two numbers
        """
        if text is None:
            return cls()
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
            raise ProtocolError(
                f"Invalid heart-beat header: {text[:40]!r}; send two numbers of milliseconds", fatal=True
            )
        offered, wanted = (max(int(part), _SHORTEST_BEAT_MS) if int(part) else 0 for part in parts)
        return cls(offered, wanted)

    def __str__(self) -> str:
        return f"{self.from_broker},{self.from_client}"


class Link(Protocol):
    """The connection, as its session sees it."""

    @property
    def reader(self) -> FrameReader: ...

    @property
    def peer(self) -> str:
        """The client's address."""

    @property
    def paused(self) -> bool:
        """Whether the client does not read its socket."""

    def write(self, data: bytes) -> None:
        """Append to the output, which is flushed in the loop's next iteration."""

    def write_now(self, data: bytes) -> None:
        """The same, but at once if there is no other output: for a reply that the client waits for."""

    def flush(self) -> None:
        """Pass the output to the transport."""

    def close(self) -> None:
        """Close the connection once the output is sent."""

    def abort(self) -> None:
        """Close the connection at once."""

    def pump(self) -> None:
        """Pass the frames that have arrived to the session, while it takes them."""

    def logged_in(self, heart_beats: HeartBeats) -> None:
        """The client has logged in: apply the limits and timeouts for clients that have."""


class Session:
    """The protocol state of one connection. To be used on the broker's loop only.

    Frames are passed to :meth:`handle` while :attr:`takes_frames`. A command that fails is answered with an
    ERROR. As in ActiveMQ the session then goes on, unless the error is fatal: what follows cannot be
    understood, or the client cannot know which of its messages are acknowledged.
    """

    def __init__(self, service: Service, config: ConnectorConfig, link: Link) -> None:
        self.connection_id = service.next_connection_id()
        self.version = Version.V1_0
        self.link = link
        self.service = service
        self.ended = False
        """Whether no more frames are taken."""
        self.end_reason: str | None = None
        """Why it has ended, for the log; None if the client has just disconnected."""
        self._broker = service.broker
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()

        self._login: Future[Principal] | None = None
        self._principal: Principal | None = None
        self._client_id: str | None = None
        self._user_id: str | None = None
        """The JMSXUserID of its messages."""
        self._names = DestinationNames(self.connection_id)
        self._frames = MessageFrames(self._names, self.version)
        self._writable: set[Destination] = set()
        """Destinations that it has been found to be authorized to send to."""
        self._producer = ProducerId(self.connection_id, -1, 1)
        self._sent = 0
        self._subscriptions = Subscriptions(self.connection_id, config.max_subscriptions)
        self._subscribing: Future[Subscription] | None = None
        self._written: list[StompConsumer] = []
        """Consumers with deliveries that are acknowledged when the output is flushed."""
        self._transactions = Transactions(self._broker, self.connection_id)

        self._waiting = False
        """Whether a command holds up the frames behind it."""
        self._full = False
        """Whether too much is under way."""
        self._under_way = 0
        self._under_way_bytes = 0
        self._last_frame: bytes | None = None
        self._failed = False

    @property
    def takes_frames(self) -> bool:
        return not (self._waiting or self._full or self.ended)

    @property
    def is_logging_in(self) -> bool:
        return self._login is not None and not self._login.done()

    def handle(self, frame: Frame) -> None:
        """Execute a command; an error is sent to the client."""
        receipt, transaction = frame.headers.get("receipt"), frame.headers.get("transaction")
        command = None
        try:
            command = _COMMANDS.get(frame.command) or _find_command(frame.command)
            if self._principal is None and command is not Session._connect:
                raise ProtocolError("Not connected. Begin with CONNECT", fatal=True)
            command(self, frame, receipt)
        except Exception as error:
            if transaction is not None and command in _TRANSACTED:
                self._transactions.fail(transaction, error)
            self.fail(error, receipt)

    # Events of the network.

    def pause(self) -> None:
        """The client does not read its socket: deliver no more messages for now."""
        for consumer in self._subscriptions:
            consumer.pause()

    def resume(self) -> None:
        for consumer in [*self._subscriptions]:
            consumer.resume()

    def flushed(self) -> None:
        """The output has been passed to the transport."""
        if self._written:
            written = [*self._written]
            self._written.clear()
            for consumer in written:
                done = consumer.flushed()
                if done is not None:
                    self._track(done, None, fatal=True)

    def closed(self) -> None:
        """The connection has been closed, by either side."""
        self.ended = self._failed = True
        self._release()
        if self._principal is not None:
            seconds = time.monotonic() - self._began
            text = "has ended after %.1f seconds and %d messages sent: %s"
            self._log(self.service.logins, logging.INFO, text, seconds, self._sent, self.end_reason)

    def end(self, last_frame: bytes) -> None:
        """Take no more frames; write the last and close once everything under way is done and answered."""
        first = not self.ended
        self.ended = True
        self._last_frame = last_frame
        if first:
            self.link.flush()  # acknowledges what has been written, before the rest is returned
            self._release()
        if self._under_way == 0:
            self._write_last()
        elif self._failed:
            self._loop.call_later(_END_TIMEOUT, self._write_last)

    def fail(self, error: BaseException, receipt: str | None = None, *, fatal: bool = False) -> None:
        """Send an ERROR, unless ``on_store_error`` suppresses it; one that is ``fatal`` ends the session."""
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
            # A client can repeat other protocol errors as often as it likes.
            level = logging.INFO if fatal or not isinstance(error, ProtocolError) else logging.DEBUG
            self._log(self.service.errors, level, "is sent an ERROR: %s", text)
            self.end_reason = text if fatal else self.end_reason
        else:
            fatal = True
            text = "the broker failed; its log says why"
            log.error("connection %s of %s failed", self.connection_id, self.link.peer, exc_info=error)
        if fatal:
            self._failed = True
            self.end(self._error(text, receipt))
        else:
            self.link.write(self._error(text, receipt))

    def _release(self) -> None:
        """Return to the broker everything that the client holds of it."""
        client_id, self._client_id = self._client_id, None
        if client_id is not None:
            self.service.release_client_id(client_id)
        if self._login is not None:  # so that its password is not verified in vain
            self._login.cancel()
        self._transactions.rollback_all()
        for consumer in self._subscriptions.remove_all():
            consumer.close()
        if self._subscribing is not None:
            self._subscribing.add_done_callback(_close_late)
            self._subscribing = None
        self._broker.disconnected(self.connection_id)

    # Replies.

    def _answer(self, receipt: str | None) -> None:
        if receipt is not None:
            self.link.write(self._receipt(receipt))

    def _track(self, done: Future[None], receipt: str | None, size: int = 0, *, fatal: bool = False) -> None:
        """Answer when a command is done; the client may send more meanwhile, within bounds.

        :param fatal: whether its failure ends the session
        """
        if done.done():
            self._settle(done, receipt, fatal, self.link.write)
            return
        if receipt is not None and isinstance(done, Promise):
            done.at_once = partial(self._answer_at_once, receipt)
        self._under_way += 1
        self._under_way_bytes += size
        self.service.inflow.under_way += size
        if self._under_way >= _MAX_UNDER_WAY or (
            self._under_way_bytes >= SMALL and self._under_way_bytes >= self._byte_limit()
        ):
            self._full = True
        done.add_done_callback(partial(self._done, receipt, size, fatal))

    def _byte_limit(self) -> int:
        return SMALL if self.service.inflow.is_over() else _MAX_UNDER_WAY_BYTES

    def _answer_at_once(self, receipt: str) -> None:
        write = self.link.write if self._under_way > 1 else self.link.write_now
        write(self._receipt(receipt))

    def _done(self, receipt: str | None, size: int, fatal: bool, done: Future[None]) -> None:
        self._under_way -= 1
        self._under_way_bytes -= size
        inflow = self.service.inflow
        inflow.under_way -= size
        if inflow.waiting:
            inflow.notify()
        write = self.link.write if self._under_way else self.link.write_now
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
            self.link.pump()

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

    def _wait_for(
        self,
        done: Future[_Result],
        then: Callable[[_Result], Any],
        receipt: str | None,
        *,
        fatal: bool = False,
    ) -> None:
        """Call ``then`` with the result; take no other frame before."""

        def resume(done: Future[_Result]) -> None:
            self._waiting = False
            self._finish(then, receipt, fatal, done)
            self.link.pump()

        if done.done():
            self._finish(then, receipt, fatal, done)
        else:
            self._waiting = True
            done.add_done_callback(resume)

    def _finish(
        self, then: Callable[[_Result], Any], receipt: str | None, fatal: bool, done: Future[_Result]
    ) -> None:
        if done.cancelled():
            if not self.ended:  # otherwise its last frame is being sent
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

    def _write_last(self) -> None:
        frame, self._last_frame = self._last_frame, None
        if frame is not None:
            self.link.write(frame)
            self.link.close()

    def _receipt(self, receipt: str) -> bytes:
        return f"RECEIPT\nreceipt-id:{escape(receipt, self.version)}\n\n\0".encode() + _EOL

    def _error(self, text: str, receipt: str | None) -> bytes:
        headers = [("message", text.partition("\n")[0]), ("content-type", "text/plain")]
        if receipt is not None:
            headers.append(("receipt-id", receipt))
        body = text.encode(errors="replace").replace(b"\0", b"?")
        return encode("ERROR", headers, self.version, body) + _EOL

    # Commands.

    def _connect(self, frame: Frame, receipt: str | None) -> None:
        if self._principal is not None:
            raise ProtocolError("Already connected.")
        headers = frame.headers
        self.version = _choose_version(headers)
        _check_host(headers, self._config.virtual_hosts)
        heart_beats = HeartBeats.parse(headers.get("heart-beat"))
        login: Future[Principal]
        login = self._login = asyncio.ensure_future(
            self.service.security.login(headers.get("login"), headers.get("passcode"))
        )
        login.add_done_callback(partial(self._log_refused, headers.get("login", "")))
        self._wait_for(login, partial(self._logged_in, headers, heart_beats), receipt, fatal=True)

    def _logged_in(self, headers: dict[str, str], heart_beats: HeartBeats, principal: Principal) -> None:
        client_id = headers.get("client-id")
        if client_id is not None:
            self.service.acquire_client_id(client_id)
            self._client_id = client_id
        self._principal = principal
        if self.service.populate_user_id:
            self._user_id = headers.get("login") or None
        self._frames = MessageFrames(self._names, self.version)
        self.link.reader.version = self.version
        answer = [
            ("version", self.version.value),
            ("session", client_id or self.connection_id),
            ("heart-beat", str(heart_beats)),
            ("server", self.service.server),
        ]
        request = headers.get("request-id", headers.get("receipt"))
        if request is not None:  # ActiveMQ's reply from before the specification
            answer += [("response-id", request), ("receipt-id", request)]
        self.link.write(encode("CONNECTED", answer, self.version) + _EOL)
        self.link.logged_in(heart_beats)
        text = "is logged in as %r, STOMP %s, client-id %r"
        values = (principal.name, self.version, client_id)
        self._log(self.service.logins, logging.INFO, text, *values, user=principal.name)

    def _send(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        destination = self._names.destination(required(headers, "destination", "SEND"))
        del headers["destination"]
        if destination not in self._writable:
            self._check_may_write(destination)
        headers.pop("receipt", None)
        name = headers.pop("transaction", None)
        self._sent += 1
        message_id = MessageId(self._producer, self._sent)
        message = to_message(
            frame, destination, message_id, self.service.clock.now_ms(), self._names, self._user_id
        )
        if message.group_id is not None:
            self.service.warn_once(_NO_GROUPS)
        if name is None:
            done = self._broker.send(message, self.connection_id)
        else:
            done = self._transactions.send(name, message)
        self._track(done, receipt, len(frame.body))

    def _subscribe(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        required(headers, "destination", "SUBSCRIBE")
        subscription_id = headers.get("id")
        if subscription_id is None and self.version is not Version.V1_0:
            raise ProtocolError("SUBSCRIBE needs the header id; add it")
        prefix = self._subscriptions.next_prefix()
        request = subscription_request(
            headers, self._names, self.version, self.connection_id, self._client_id
        )
        if self._principal is None or not self._principal.may_read(request.destination):
            raise NotAuthorized(f"{self._user} is not authorized to consume from {request.destination}")
        self._check_may_create(self._principal, request.destination)
        if any(_OF_VIRTUAL.matches(member) for member in request.destination.members):
            self.service.warn_once(_NO_VIRTUAL_TOPICS)
        mode = AckMode(headers.get("ack", AckMode.AUTO))
        consumer = StompConsumer(
            *(self.link, request, mode, subscription_id, self._frames, self.version, prefix),
            on_written=self._written.append,
            on_end=self._subscription_ended,
        )
        self._subscribing = self._broker.subscribe(request, consumer)
        self._wait_for(self._subscribing, partial(self._subscribed, consumer, receipt), receipt)

    def _subscribed(self, consumer: StompConsumer, receipt: str | None, subscription: Subscription) -> None:
        self._subscribing = None
        consumer.open(subscription)
        self._subscriptions.add(consumer)
        self._log_subscription(consumer, "subscribes to")
        self._answer(receipt)

    def _subscription_ended(self, consumer: StompConsumer, error: Exception) -> None:
        self._subscriptions.remove(consumer)
        self.fail(error)

    def _unsubscribe(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        consumer = self._subscription_named(headers)
        name = headers.get("activemq.subscriptionName")
        if name is not None:
            if self._client_id is None:
                raise ProtocolError("a durable subscription belongs to a client id; set client-id in CONNECT")
            done = self._broker.unsubscribe(self._client_id, name)
            self._wait_for(done, lambda _: self._unsubscribed(name, receipt), receipt)
            return
        if consumer is None:
            raise ProtocolError("No subscription matched. UNSUBSCRIBE with the id of one")
        self.link.flush()  # acknowledges what has been written to it
        consumer.close()
        self._subscriptions.remove(consumer)
        self._log_subscription(consumer, "unsubscribes from")
        self._answer(receipt)

    def _subscription_named(self, headers: dict[str, str]) -> StompConsumer | None:
        subscription_id = headers.get("id")
        if subscription_id is not None:
            return self._subscriptions.with_id(subscription_id)
        if self.version is not Version.V1_0:
            raise ProtocolError("UNSUBSCRIBE needs the header id, that of the subscription; add it")
        destination = self._names.destination(required(headers, "destination", "UNSUBSCRIBE without an id"))
        return self._subscriptions.of(destination)

    def _unsubscribed(self, name: str, receipt: str | None) -> None:
        short, text = name[:_LONGEST_NAME], "deletes the durable subscription %s of %s"
        values = (short, self._client_id)
        self._log(self.service.subscribing, logging.INFO, text, *values, subscription=short)
        self._answer(receipt)

    def _ack(self, frame: Frame, receipt: str | None) -> None:
        name = frame.headers.get("transaction")
        if name is not None:
            self._transactions.check(name)
        consumer, key = self._subscriptions.acknowledged(frame, self.version, name)
        acked = consumer.take(key)
        if name is not None:
            self._transactions.acknowledge(name, consumer, acked)
            self._answer(receipt)
            return
        done = consumer.subscription.acknowledge([delivery for _, delivery in acked])
        self._track(done, receipt, fatal=True)

    def _nack(self, frame: Frame, receipt: str | None) -> None:
        if self.version is Version.V1_0:
            raise ProtocolError("NACK needs STOMP 1.1 or 1.2; accept one of these in CONNECT")
        if "transaction" in frame.headers:
            raise ProtocolError("a NACK cannot be transacted; send it without a transaction")
        consumer, key = self._subscriptions.acknowledged(frame, self.version)
        done = consumer.subscription.reject([consumer.take_one(key)])
        self._track(done, receipt, fatal=True)

    def _begin(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.begin(required(frame.headers, "transaction", "BEGIN"))
        self._answer(receipt)

    def _commit(self, frame: Frame, receipt: str | None) -> None:
        done = self._transactions.commit(required(frame.headers, "transaction", "COMMIT"))
        self._track(done, receipt, fatal=True)

    def _abort(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.rollback(required(frame.headers, "transaction", "ABORT"))
        self._answer(receipt)

    def _disconnect(self, frame: Frame, receipt: str | None) -> None:  # noqa: ARG002
        self.end_reason = "DISCONNECT"
        self.end(b"" if receipt is None else self._receipt(receipt))

    # Authorization.

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
        if destination.is_topic and any(_VIRTUAL.matches(member) for member in destination.members):
            self.service.warn_once(_NO_VIRTUAL_TOPICS)
        if len(self._writable) < _MAX_DESTINATIONS:
            self._writable.add(destination)

    def _check_may_create(self, principal: Principal, destination: Destination) -> None:
        for member in destination.members:
            if not (is_wildcard(member) or principal.may_create(member) or self._broker.knows(member)):
                raise NotAuthorized(
                    f"{self._user} is not authorized to create {member}, which does not exist;"
                    " ask the broker's administrator"
                )

    # Log.

    def _log(self, lines: BoundedLog, level: int, text: str, *values: object, **fields: str) -> None:
        """Log a line about this connection, with fields for structured logs."""
        fields = {"connection": self.connection_id, "peer": self.link.peer, **fields}
        lines.log(
            log, level, fields, f"connection %s of %s {text}", *(self.connection_id, self.link.peer), *values
        )

    def _log_refused(self, user: str, login: Future[Principal]) -> None:
        if not login.cancelled() and isinstance(error := login.exception(), NotAuthorized):
            short = user[:_LONGEST_NAME]
            self._log(
                self.service.refusals,
                logging.WARNING,
                "is refused the login %r: %s",
                short,
                error,
                user=short,
            )

    def _log_subscription(self, consumer: StompConsumer, does: str) -> None:
        request, how = consumer.request, ""
        if request.subscription_name is not None:
            how += f", durable as {request.subscription_name[:_LONGEST_NAME]}"
        if request.selector is not None:
            how += ", with a selector"
        if request.browser:
            how += ", as a browser"
        self._log(
            *(self.service.subscribing, logging.INFO, "%s %s, ack %s%s"),
            *(does, request.destination, consumer.mode.value, how),
            destination=str(request.destination),
            subscription=(request.subscription_name or consumer.subscription_id or "")[:_LONGEST_NAME],
        )


_COMMANDS: dict[str, Callable[[Session, Frame, str | None], None]] = {
    "CONNECT": Session._connect,
    "STOMP": Session._connect,
    "SEND": Session._send,
    "SUBSCRIBE": Session._subscribe,
    "UNSUBSCRIBE": Session._unsubscribe,
    "ACK": Session._ack,
    "NACK": Session._nack,
    "BEGIN": Session._begin,
    "COMMIT": Session._commit,
    "ABORT": Session._abort,
    "DISCONNECT": Session._disconnect,
}

_TRANSACTED = (Session._send, Session._ack)
"""Commands that may be part of a transaction: if one is refused, the transaction cannot be committed."""


def _find_command(text: str) -> Callable[[Session, Frame, str | None], None]:
    """As in ActiveMQ, a command only has to begin with its name, and two names have a short form."""
    for name in (*_COMMANDS, "UNSUB", "SUB"):
        if text.startswith(name):
            return _COMMANDS.get(name) or _COMMANDS[f"{name}SCRIBE"]
    raise ProtocolError(f"Unknown STOMP action: {text[:20]}", fatal=True)


def _choose_version(headers: Mapping[str, str]) -> Version:
    """The highest version that client and broker support."""
    accepted = headers.get("accept-version", "1.0").split(",")
    known = [version for version in Version if version.value in (text.strip() for text in accepted)]
    if not known:
        raise ProtocolError(
            f"Invalid Protocol version [{','.join(accepted)[:40]}]; accept 1.0, 1.1 or 1.2", fatal=True
        )
    return max(known)


def _check_host(headers: Mapping[str, str], virtual_hosts: str | None) -> None:
    """Refuse a client that asks for a host that this connector does not serve."""
    if virtual_hosts is None:
        return
    host = headers.get("host", "")
    if host not in (name.strip() for name in virtual_hosts.split(",")):
        raise ProtocolError(
            f"this broker does not serve the host {host[:80]!r}; set host in CONNECT to one that it serves",
            fatal=True,
        )


def _close_late(subscribing: Future[Subscription]) -> None:
    """Close a subscription that was accepted after its connection had ended."""
    if not subscribing.cancelled() and subscribing.exception() is None:
        subscribing.result().close()
