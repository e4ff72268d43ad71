"""OpenTelemetry in the broker: a span for each send, store, delivery and acknowledgement.

They belong to the trace in the message; a message without a trace gets the trace of its ``send`` span.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, set_span_in_context

from jdbcstore.broker.api import BrokerTransaction, Delivery, Subscription, SubscriptionRequest
from jdbcstore.message.message import Message
from jdbcstore.stores.tracing import begin, carrying, context_of, end, is_traced


class Tracing:
    """The spans of one broker. Every method is called on its loop."""

    def send(
        self, message: Message, connection_id: str, send: Callable[[Message], Future[None]]
    ) -> Future[None]:
        """Send a message, with its ``send`` span, and ``store`` in it if the message is persistent."""
        span, message = _sent(message, connection_id)
        spans = [span]
        if message.persistent:
            inner = set_span_in_context(span, Context())
            spans.insert(0, begin("store", "", message.destination, span_kind=SpanKind.CLIENT, context=inner))
        done = send(message)
        done.add_done_callback(partial(_end, spans))
        return done

    def transaction(self, transaction: BrokerTransaction, connection_id: str) -> BrokerTransaction:
        """Return the transaction with spans."""
        return _TracedTransaction(transaction, connection_id)

    def delivered(self, delivery: Delivery, request: SubscriptionRequest) -> None:
        """Make the span of a delivered message."""
        end(_begin("deliver", "receive", delivery, request))

    def settled(
        self, name: str, deliveries: Sequence[Delivery], request: SubscriptionRequest, done: Future[None]
    ) -> Future[None]:
        """Make the spans of messages that are being acknowledged or rejected, until ``done``."""
        spans = [_begin(name, "settle", delivery, request) for delivery in deliveries]
        done.add_done_callback(partial(_end, spans))
        return done


def _sent(message: Message, connection_id: str) -> tuple[Span, Message]:
    span = begin(
        "send",
        "send",
        message.destination,
        span_kind=SpanKind.SERVER,
        context=context_of(message),
        messages=[message],
        client_id=connection_id,
    )
    return span, message if is_traced(message) else carrying(message, span)


def _begin(name: str, kind: str, delivery: Delivery, request: SubscriptionRequest) -> Span:
    message = delivery.message
    return begin(
        name,
        kind,
        delivery.destination,
        span_kind=SpanKind.SERVER,
        context=context_of(message),
        messages=[message],
        client_id=request.client_id or request.connection_id,
        subscription=request.subscription_name,
    )


def _end(spans: Sequence[Span], done: Future[None]) -> None:
    error = None if done.cancelled() else done.exception()
    for span in spans:
        end(span, error)


class _TracedTransaction:
    """A :class:`jdbcstore.broker.api.BrokerTransaction` with spans until it ends."""

    def __init__(self, transaction: BrokerTransaction, connection_id: str) -> None:
        self._transaction = transaction
        self._connection_id = connection_id
        self._spans: list[Span] = []

    def send(self, message: Message) -> Future[None]:
        span, message = _sent(message, self._connection_id)
        self._spans.append(span)
        return self._transaction.send(message)

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None:
        self._transaction.acknowledge(subscription, deliveries)
        request = subscription.request
        self._spans += [_begin("acknowledge", "settle", delivery, request) for delivery in deliveries]

    def commit(self) -> Future[None]:
        done = self._transaction.commit()
        done.add_done_callback(partial(_end, self._spans))
        return done

    def prepare(self) -> Future[bool]:
        done = self._transaction.prepare()
        done.add_done_callback(lambda _: self._end_all())
        return done

    def rollback(self) -> None:
        self._transaction.rollback()
        self._end_all()

    def _end_all(self) -> None:
        for span in self._spans:
            end(span)
