"""OpenTelemetry: spans of a store's operations, and the trace context that messages carry.

Names and attributes follow the semantic conventions for messaging. The context is in the message's string
properties ``traceparent`` and ``tracestate``, as W3C Trace Context has it: so it outlasts the database, and
an ActiveMQ that reads the message there. Without an SDK, spans are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from opentelemetry.context import Context
from opentelemetry.propagators.textmap import DefaultGetter
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    get_tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from jdbcstore.abc import (
    Cursor,
    DurableSubscription,
    MessageReference,
    MessageStore,
    Outcome,
    Page,
    Reference,
    Store,
    TopicMessageStore,
    Transaction,
    TransactionalStore,
)
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

SYSTEM = "jdbcstore"
"""The value of ``messaging.system``."""
_FORMAT = TraceContextTextMapPropagator()
_GETTER: DefaultGetter = DefaultGetter()
_MOST_LINKS = 128
"""The number of links of a span that an SDK keeps, unless it is configured."""

S = TypeVar("S", bound=Store)


def context_of(message: Message) -> Context:
    """Return the trace context that a message carries, for spans of its processing; or an empty one."""
    try:
        properties = message.properties
    except CorruptMessage:
        return Context()
    carried = {name: str(properties[name]) for name in _FORMAT.fields if name in properties}
    return _FORMAT.extract(carried, Context(), _GETTER) if carried else Context()


def carrying(message: Message, span: Span) -> Message:
    """Return the message with the context of this span, instead of the one that it may carry."""
    carrier: dict[str, str] = {}
    _FORMAT.inject(carrier, set_span_in_context(span, Context()))
    return message.replace(properties={**message.properties, **carrier}) if carrier else message


def is_traced(message: Message) -> bool:
    """Return whether a message carries a context."""
    return bool(context_of(message))


def begin(
    operation: str,
    kind: str,
    destination: Destination | None,
    *,
    span_kind: SpanKind,
    context: Context | None = None,
    messages: Sequence[Message] = (),
    client_id: str | None = None,
    subscription: str | None = None,
) -> Span:
    """Begin a span of an operation on messages, with links to what they carry.

    :param kind: ``messaging.operation.type``; empty if there is none for it
    :param context: its parent; None is the current one
    :param subscription: the name of a durable subscription
    """
    name = "" if destination is None else destination.name
    attributes: dict[str, str | int] = {
        "messaging.system": SYSTEM,
        "messaging.destination.name": name,
        "messaging.operation.name": operation,
    }
    if client_id is not None:
        attributes["messaging.client.id"] = client_id
    if subscription is not None:
        attributes["messaging.destination.subscription.name"] = subscription
    if kind:
        attributes["messaging.operation.type"] = kind
    if len(messages) == 1 and messages[0].message_id is not None:
        attributes["messaging.message.id"] = str(messages[0].message_id)
    elif len(messages) > 1:
        attributes["messaging.batch.message_count"] = len(messages)
    return get_tracer("jdbcstore").start_span(
        f"{operation} {name}".strip(),
        context,
        span_kind,
        attributes,
        links=[*_links(messages[:_MOST_LINKS])],
    )


def _links(messages: Iterable[Message]) -> Iterator[Link]:
    for message in messages:
        carried = get_current_span(context_of(message)).get_span_context()
        if carried.is_valid:
            yield Link(carried)


def end(span: Span, error: BaseException | None = None) -> None:
    """End a span, as failed if there is an error."""
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.set_attribute("error.type", type(error).__qualname__)
    span.end()


@contextmanager
def _during(span: Span) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        end(span, error)
        raise
    end(span)


F = TypeVar("F", bound=StoreFuture[Any])


def _until(span: Span, future: F) -> F:
    """End the span when the future is done."""
    future.add_done_callback(
        lambda done: end(span, None if done.cancelled() else done.exception())  # of a store's thread
    )
    return future


def traced(store: S) -> S:
    """Return the store with a span for each operation on messages.

    It has all methods of the store, as typed, but is not an instance of its class.

    A message that is added carries the context of its ``send`` span, or of its own ``create`` span if
    several are added at once, unless it carries one already. ``receive`` spans link to what messages carry,
    and so do ``acknowledge`` spans to that of messages that are acknowledged as such, not by their sequence.
    """
    return cast(S, _TracedStore(store))


class _Wrapper:
    """Everything that it does not have itself is that of the wrapped object."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


class _TracedStore(_Wrapper):
    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> MessageStore:
        return cast(MessageStore, _TracedMessages(self._wrapped.queue(name, prioritized=prioritized)))

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> TopicMessageStore:
        return cast(TopicMessageStore, _TracedTopic(self._wrapped.topic(name, prioritized=prioritized)))

    def transaction(self) -> Transaction:
        return cast(Transaction, _TracedTransaction(self._wrapped.transaction()))

    def __enter__(self) -> _TracedStore:
        self._wrapped.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._wrapped.__exit__(*exc)


class _Consumable(_Wrapper):
    """A queue, a topic, or a durable subscription."""

    def __init__(self, wrapped: Any, destination: Destination, subscription: str | None = None) -> None:
        super().__init__(wrapped)
        self._destination, self._subscription = destination, subscription

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        # Its links are known at its end only.
        page = cast(Page, self._wrapped.recover(limit, after))
        if page:
            end(self._begin("receive", "receive", SpanKind.CLIENT, page))
        return page

    def acknowledge(self, *messages: Reference) -> None:
        with _during(self._settle(messages)):
            self._wrapped.acknowledge(*messages)

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        return _until(self._settle(messages), self._wrapped.acknowledge_async(*messages))

    def _settle(self, messages: Sequence[Reference]) -> Span:
        known = [one for one in messages if isinstance(one, Message)]
        return self._begin("acknowledge", "settle", SpanKind.CLIENT, known)

    def _begin(self, name: str, kind: str, span_kind: SpanKind, messages: Sequence[Message]) -> Span:
        return begin(
            name,
            kind,
            self._destination,
            span_kind=span_kind,
            messages=messages,
            subscription=self._subscription,
        )


class _TracedMessages(_Consumable):
    def __init__(self, wrapped: MessageStore) -> None:
        super().__init__(wrapped, wrapped.destination)

    def add_message(self, message: Message) -> MessageReference:
        span, [message] = self._send([message])
        with _during(span):
            return cast(MessageReference, self._wrapped.add_message(message))

    def add_message_async(self, message: Message) -> StoreFuture[MessageReference]:
        span, [message] = self._send([message])
        return _until(span, self._wrapped.add_message_async(message))

    def add_messages(self, messages: Iterable[Message]) -> list[MessageReference]:
        span, created = self._send([*messages])
        with _during(span):
            return cast(list[MessageReference], self._wrapped.add_messages(created))

    def add_messages_async(self, messages: Iterable[Message]) -> StoreFuture[list[MessageReference]]:
        span, created = self._send([*messages])
        return _until(span, self._wrapped.add_messages_async(created))

    def add_each_async(self, messages: Iterable[Message]) -> StoreFuture[list[Outcome]]:
        span, created = self._send([*messages])
        return _until(span, self._wrapped.add_each_async(created))

    def _send(self, messages: list[Message]) -> tuple[Span, list[Message]]:
        if len(messages) == 1 and not is_traced(messages[0]):
            span = self._begin("send", "send", SpanKind.PRODUCER, messages)
            return span, [carrying(messages[0], span)]
        created = [_created(one, self._destination) for one in messages]
        return self._begin("send", "send", SpanKind.CLIENT, created), created


class _TracedTopic(_TracedMessages):
    def subscribe(self, client_id: str, subscription_name: str, **options: Any) -> DurableSubscription:
        return self._of(self._wrapped.subscribe(client_id, subscription_name, **options), subscription_name)

    def subscription(self, client_id: str, subscription_name: str) -> DurableSubscription:
        return self._of(self._wrapped.subscription(client_id, subscription_name), subscription_name)

    def _of(self, made: DurableSubscription, name: str) -> DurableSubscription:
        return cast(DurableSubscription, _Consumable(made, self._destination, name))


class _TracedTransaction(_Wrapper):
    """A traced transaction: its messages get ``create`` spans, and the commit is one ``send`` span."""

    def __init__(self, wrapped: Transaction) -> None:
        super().__init__(wrapped)
        self._created: list[tuple[Destination, Message]] = []

    def queue(self, name: str | Destination) -> TransactionalStore:
        return self._of(self._wrapped.queue(name))

    def topic(self, name: str | Destination) -> TransactionalStore:
        return self._of(self._wrapped.topic(name))

    def _of(self, target: TransactionalStore) -> TransactionalStore:
        return cast(TransactionalStore, _TracedWrites(target, self._created))

    def commit(self) -> list[MessageReference]:
        with _during(self._commit()):
            return cast(list[MessageReference], self._wrapped.commit())

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        return _until(self._commit(), self._wrapped.commit_async())

    def _commit(self) -> Span:
        places = {place for place, _ in self._created}
        place = places.pop() if len(places) == 1 else None
        messages = [message for _, message in self._created]
        name, kind = ("send", "send") if messages else ("commit", "settle")
        return begin(name, kind, place, span_kind=SpanKind.CLIENT, messages=messages)

    def __enter__(self) -> _TracedTransaction:
        self._wrapped.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None:
            self._wrapped.__exit__(kind, *exc)
            return
        with _during(self._commit()):
            self._wrapped.__exit__(kind, *exc)


class _TracedWrites(_Wrapper):
    def __init__(self, wrapped: TransactionalStore, created: list[tuple[Destination, Message]]) -> None:
        super().__init__(wrapped)
        self._created = created

    def add_message(self, message: Message) -> None:
        message = _created(message, self._wrapped.destination)
        self._wrapped.add_message(message)
        self._created.append((self._wrapped.destination, message))


def _created(message: Message, destination: Destination) -> Message:
    """Return the message with a context: the one that it carries, or that of a ``create`` span."""
    if is_traced(message):
        return message
    span = begin("create", "create", destination, span_kind=SpanKind.PRODUCER, messages=[message])
    with _during(span):
        return carrying(message, span)
