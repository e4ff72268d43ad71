"""What one STOMP client says, and what becomes of it: the protocol without the network."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import Future
from collections.abc import Callable
from functools import partial

from jdbcstore.broker.api import Subscription
from jdbcstore.broker.process.security import Principal
from jdbcstore.broker.stomp.consumer import StompConsumer
from jdbcstore.broker.stomp.destinations import DestinationNames
from jdbcstore.broker.stomp.exchange import END, Exchange, Link
from jdbcstore.broker.stomp.frames import Frame, Version, encode
from jdbcstore.broker.stomp.messages import MessageFrames, to_message
from jdbcstore.broker.stomp.requests import (
    HeartBeats,
    ack_mode,
    check_host,
    choose_version,
    required,
    subscription_request,
)
from jdbcstore.broker.stomp.service import Service
from jdbcstore.broker.stomp.subscriptions import Subscriptions
from jdbcstore.broker.stomp.transactions import Transactions
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import NotAuthorized, ProtocolError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.patterns import DestinationPattern, is_wildcard

log = logging.getLogger(__name__)

_MOST_DESTINATIONS = 1000
_LONGEST_NAME = 80
_VIRTUAL = DestinationPattern(Destination.topic("VirtualTopic.>"))
_OF_VIRTUAL = DestinationPattern(Destination.queue("Consumer.*.VirtualTopic.>"))
_NO_GROUPS = (
    "a client sends messages with JMSXGroupID, and jdbcstore does not keep a group with one consumer:"
    " each message goes to whoever has room"
)
_NO_VIRTUAL_TOPICS = (
    "a client uses VirtualTopic.>, and jdbcstore has no virtual topics: queues Consumer.NAME.VirtualTopic.X"
    " get nothing of what is sent to the topic; consume it by durable subscriptions"
)


class Session(Exchange):
    """The state of a connection. Frames are given to :meth:`handle` while :attr:`takes_frames`."""

    def __init__(self, service: Service, config: ConnectorConfig, link: Link) -> None:
        super().__init__(service, link)
        self._broker = service.broker
        self._config = config
        self._principal: Principal | None = None
        self._client_id: str | None = None
        self._began = time.monotonic()
        self._user_id: str | None = None
        """What its messages say of who sent them."""
        self._names = DestinationNames(self.connection_id)
        self._frames = MessageFrames(self._names, self.version)
        self._writable: set[Destination] = set()
        self._producer = ProducerId(self.connection_id, -1, 1)
        self._sent = 0
        self._subscriptions = Subscriptions(self.connection_id, config.max_subscriptions)
        self._written: list[StompConsumer] = []
        self._transactions = Transactions(self._broker, self.connection_id)
        self._login: Future[Principal] | None = None
        self._opening: Future[Subscription] | None = None

    @property
    def is_logging_in(self) -> bool:
        """Whether the client waits until it is let in."""
        return self._login is not None and not self._login.done()

    def handle(self, frame: Frame) -> None:
        """Do what a frame says; what is wrong with it is told to the client."""
        receipt, transaction = frame.headers.get("receipt"), frame.headers.get("transaction")
        command = None
        try:
            command = _COMMANDS.get(frame.command) or _find_command(frame.command)
            if self._principal is None and command is not Session._connect:
                raise ProtocolError("Not connected. Begin with CONNECT", fatal=True)
            command(self, frame, receipt)
        except Exception as error:
            if transaction is not None and command in _TRANSACTED:
                self._transactions.doom(transaction, error)
            self.fail(error, receipt)

    # What the network tells.

    def pause(self) -> None:
        """The client takes nothing for now."""
        for consumer in self._subscriptions:
            consumer.pause()

    def resume(self) -> None:
        for consumer in [*self._subscriptions]:
            consumer.resume()

    def given(self) -> None:
        """The output is with the transport."""
        written, self._written = self._written, []
        for consumer in written:
            done = consumer.given()
            if done is not None:
                self.track(done, None, fatal=True)

    def closed(self) -> None:
        """The connection is gone."""
        self.ended = self._failed = True
        self.release()
        if self._principal is not None:
            self.service.comings.log(
                *(log, logging.INFO, self.fields),
                "connection %s of %s has ended after %.1f seconds and %d messages sent: %s",
                *(self.connection_id, self.link.peer, time.monotonic() - self._began, self._sent),
                self.why_ended,
            )

    def release(self) -> None:
        client_id, self._client_id = self._client_id, None
        if client_id is not None:
            self.service.give_back_client_id(client_id)
        if self._login is not None:  # nobody is verified for a connection that is gone
            self._login.cancel()
        self._transactions.rollback_all()
        for consumer in self._subscriptions.take_all():
            consumer.close()
        if self._opening is not None:  # whatever becomes of it
            self._opening.add_done_callback(_close_late)
            self._opening = None
        self._broker.disconnected(self.connection_id)

    # What consumers want.

    @property
    def paused(self) -> bool:
        return self.link.paused

    def write(self, data: bytes) -> None:
        self.link.write(data)

    def written(self, consumer: StompConsumer) -> None:
        self._written.append(consumer)

    def forget(self, consumer: StompConsumer, error: Exception) -> None:
        self._subscriptions.remove(consumer)
        self.fail(error)

    # What the client says.

    def _connect(self, frame: Frame, receipt: str | None) -> None:
        if self._principal is not None:
            raise ProtocolError("Already connected.")
        headers = frame.headers
        self.version = choose_version(headers)
        check_host(headers, self._config.virtual_hosts)
        heart_beats = HeartBeats.parse(headers.get("heart-beat"))
        login: Future[Principal]
        login = self._login = asyncio.ensure_future(
            self.service.security.login(headers.get("login"), headers.get("passcode"))
        )
        login.add_done_callback(partial(self._tell_refused, headers.get("login", "")))
        self.wait_for(login, partial(self._logged_in, headers, heart_beats), receipt, fatal=True)

    def _tell_refused(self, user: str, login: Future[Principal]) -> None:
        if not login.cancelled() and isinstance(error := login.exception(), NotAuthorized):
            self.service.refusals.log(
                *(log, logging.WARNING, {**self.fields, "user": user[:_LONGEST_NAME]}),
                "connection %s of %s: the login of %r is refused: %s",
                *(self.connection_id, self.link.peer, user[:_LONGEST_NAME], error),
            )

    def _logged_in(self, headers: dict[str, str], heart_beats: HeartBeats, principal: Principal) -> None:
        client_id = headers.get("client-id")
        if client_id is not None:
            self.service.take_client_id(client_id)
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
        if request is not None:  # so has ActiveMQ answered since before the specification
            answer += [("response-id", request), ("receipt-id", request)]
        self.link.write(encode("CONNECTED", answer, self.version) + END)
        self.link.logged_in(heart_beats)
        self.service.comings.log(
            *(log, logging.INFO, {**self.fields, "user": principal.name}),
            "connection %s of %s: %r is logged in, STOMP %s, client-id %r",
            *(self.connection_id, self.link.peer, principal.name, self.version, client_id),
        )

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
            self.service.note_once(_NO_GROUPS)
        if name is None:
            done = self._broker.send(message, self.connection_id)
        else:
            done = self._transactions.send(name, message)
        self.track(done, receipt, len(frame.body))

    def _check_may_write(self, destination: Destination) -> None:
        if self._principal is None or not self._principal.may_write(destination):
            raise NotAuthorized(f"{self._who} may not send to {destination}; ask who runs the broker")
        self._check_may_create(self._principal, destination)
        if destination.is_topic and any(_VIRTUAL.matches(member) for member in destination.members):
            self.service.note_once(_NO_VIRTUAL_TOPICS)
        if len(self._writable) < _MOST_DESTINATIONS:
            self._writable.add(destination)

    def _check_may_create(self, principal: Principal, destination: Destination) -> None:
        for member in destination.members:
            if not (is_wildcard(member) or principal.may_create(member) or self._broker.knows(member)):
                raise NotAuthorized(
                    f"{self._who} may not create {member}, and the broker has nothing there; ask who runs it"
                )

    def _subscribe(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        required(headers, "destination", "SUBSCRIBE")
        subscription_id = headers.get("id")
        if subscription_id is None and self.version is not Version.V1_0:
            raise ProtocolError("SUBSCRIBE needs an id; add the header")
        prefix = self._subscriptions.next_prefix()
        request = subscription_request(
            headers, self._names, self.version, self.connection_id, self._client_id
        )
        if self._principal is None or not self._principal.may_read(request.destination):
            raise NotAuthorized(f"{self._who} may not consume from {request.destination}")
        self._check_may_create(self._principal, request.destination)
        if any(_OF_VIRTUAL.matches(member) for member in request.destination.members):
            self.service.note_once(_NO_VIRTUAL_TOPICS)
        consumer = StompConsumer(
            self, request, ack_mode(headers), subscription_id, self._frames, self.version, prefix
        )
        self._opening = self._broker.subscribe(request, consumer)
        self.wait_for(self._opening, partial(self._subscribed, consumer, receipt), receipt)

    def _subscribed(self, consumer: StompConsumer, receipt: str | None, subscription: Subscription) -> None:
        self._opening = None
        consumer.open(subscription)
        self._subscriptions.add(consumer)
        self._tell_subscription(consumer, "subscribes to")
        self.answer(receipt)

    def _unsubscribe(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        consumer = self._unsubscribed(headers)
        name = headers.get("activemq.subscriptionName")
        if name is not None:
            if self._client_id is None:
                raise ProtocolError("a durable subscription belongs to a client; give a client-id in CONNECT")
            done = self._broker.unsubscribe(self._client_id, name)
            self.wait_for(done, lambda _: self._ended_durable(name, receipt), receipt)
            return
        if consumer is None:
            raise ProtocolError("No subscription matched. UNSUBSCRIBE with the id of one")
        self.link.flush()  # so that what it has been given is consumed
        consumer.close()
        self._subscriptions.remove(consumer)
        self._tell_subscription(consumer, "unsubscribes from")
        self.answer(receipt)

    def _tell_subscription(self, consumer: StompConsumer, does: str) -> None:
        request, how = consumer.request, ""
        if request.subscription_name is not None:
            how += f", durable as {request.subscription_name[:_LONGEST_NAME]}"
        if request.selector is not None:
            how += ", with a selector"
        if request.browser:
            how += ", to browse"
        name = request.subscription_name or consumer.subscription_id or ""
        self.service.subscribing.log(
            *(log, logging.INFO),
            {**self.fields, "destination": str(request.destination), "subscription": name[:_LONGEST_NAME]},
            "connection %s of %s %s %s, ack %s%s",
            *(self.connection_id, self.link.peer, does, request.destination, consumer.mode.value, how),
        )

    def _ended_durable(self, name: str, receipt: str | None) -> None:
        self.service.subscribing.log(
            *(log, logging.INFO, {**self.fields, "subscription": name[:_LONGEST_NAME]}),
            "connection %s of %s deletes the durable subscription %s of %s",
            *(self.connection_id, self.link.peer, name[:_LONGEST_NAME], self._client_id),
        )
        self.answer(receipt)

    def _unsubscribed(self, headers: dict[str, str]) -> StompConsumer | None:
        subscription_id = headers.get("id")
        if subscription_id is not None:
            return self._subscriptions.with_id(subscription_id)
        if self.version is not Version.V1_0:
            raise ProtocolError("UNSUBSCRIBE needs the id of the subscription; add the header")
        destination = self._names.destination(required(headers, "destination", "UNSUBSCRIBE without an id"))
        return self._subscriptions.of(destination)

    def _ack(self, frame: Frame, receipt: str | None) -> None:
        name = frame.headers.get("transaction")
        if name is not None:
            self._transactions.check(name)
        consumer, key = self._subscriptions.acknowledged(frame, self.version, name)
        taken = consumer.take(key)
        if name is not None:
            self._transactions.acknowledge(name, consumer, taken)
            self.answer(receipt)
            return
        done = consumer.subscription.acknowledge([delivery for _, delivery in taken])
        self.track(done, receipt, fatal=True)

    def _nack(self, frame: Frame, receipt: str | None) -> None:
        if self.version is Version.V1_0:
            raise ProtocolError("NACK is of STOMP 1.1 and 1.2; accept one of these in CONNECT")
        if "transaction" in frame.headers:
            raise ProtocolError("a NACK cannot be transacted; send it without a transaction")
        consumer, key = self._subscriptions.acknowledged(frame, self.version)
        done = consumer.subscription.reject([consumer.take_one(key)])
        self.track(done, receipt, fatal=True)

    def _begin(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.begin(required(frame.headers, "transaction", "BEGIN"))
        self.answer(receipt)

    def _commit(self, frame: Frame, receipt: str | None) -> None:
        done = self._transactions.commit(required(frame.headers, "transaction", "COMMIT"))
        self.track(done, receipt, fatal=True)

    def _abort(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.rollback(required(frame.headers, "transaction", "ABORT"))
        self.answer(receipt)

    def _disconnect(self, frame: Frame, receipt: str | None) -> None:  # noqa: ARG002
        self.why_ended = "DISCONNECT"
        self.end(b"" if receipt is None else self._receipt(receipt))

    @property
    def _who(self) -> str:
        name = "" if self._principal is None else self._principal.name
        return repr(name) if name else "a client without a login"


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
"""What may be a part of a transaction: if one of them is refused, all of it is."""


def _find_command(text: str) -> Callable[[Session, Frame, str | None], None]:
    """As in ActiveMQ, a command only has to begin with its name; and two names may be short."""
    for name in (*_COMMANDS, "UNSUB", "SUB"):
        if text.startswith(name):
            return _COMMANDS.get(name) or _COMMANDS[f"{name}SCRIBE"]
    raise ProtocolError(f"Unknown STOMP action: {text[:20]}", fatal=True)


def _close_late(opening: Future[Subscription]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
