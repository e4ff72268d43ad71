"""OpenTelemetry: spans of a store's operations, and the trace context that messages carry.

Names and attributes follow the semantic conventions for messaging. The context is in the message's string
properties ``traceparent`` and ``tracestate``, as W3C Trace Context has it: so it outlasts the database, and
an ActiveMQ that reads the message there. Without an SDK, spans are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
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
    MessageReference,
    Page,
    Reference,
    Store,
    SubscriptionInfo,
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
    """Return the message with the context of this span, in place of its own."""
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
    """Begin a span of an operation on messages, with links to their contexts.

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


T = TypeVar("T")


def _watched(span: Span, do: Callable[[], T]) -> T:
    """Do an operation; end its span with it, or when the future that it returns is done."""
    try:
        result = do()
    except BaseException as error:
        end(span, error)
        raise
    if isinstance(result, StoreFuture):
        result.add_done_callback(
            lambda done: end(span, None if done.cancelled() else done.exception())  # of a store's thread
        )
    else:
        end(span)
    return result


def traced(store: S) -> S:
    """Return the store with a span for each operation on messages.

    It has all methods of the store, as typed, but is not an instance of its class.

    A message that is added carries the context of its ``send`` span, or of its own ``create`` span if
    several are added at once, unless it carries one already. ``receive`` spans link to what messages carry,
    and so do ``acknowledge`` spans to that of messages that are acknowledged as such, not by their sequence.
    """
    return cast(S, _TracedStore(store))


class _Traced:
    """An object of a store, with spans; it delegates everything else to the traced object."""

    def __init__(self, traced: Any) -> None:
        self._traced = traced

    def __getattr__(self, name: str) -> Any:
        return getattr(self._traced, name)


class _TracedStore(_Traced):
    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> _TracedSource:
        return _TracedSource(self._traced.queue(name, prioritized=prioritized))

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> _TracedSource:
        return _TracedSource(self._traced.topic(name, prioritized=prioritized))

    def transaction(self) -> _TracedTransaction:
        return _TracedTransaction(self._traced.transaction())

    def __enter__(self) -> _TracedStore:
        self._traced.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._traced.__exit__(*exc)


class _TracedSource(_Traced):
    """A queue, a topic, or one of its durable subscriptions."""

    def __init__(self, traced: Any) -> None:
        super().__init__(traced)
        self._info: SubscriptionInfo | None = getattr(traced, "info", None)
        self._place: Destination = (self._info or traced).destination

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if name.startswith("add_"):
            return partial(self._add, method)
        if name.startswith("acknowledge"):
            return partial(self._acknowledge, method)
        if name in ("subscribe", "subscription"):
            return lambda *names, **options: _TracedSource(method(*names, **options))
        return method

    def _add(self, add: Callable[..., T], *args: Any, **named: Any) -> T:
        [given] = (*args, *named.values())
        messages = [given] if isinstance(given, Message) else [*given]
        if len(messages) == 1 and not is_traced(messages[0]):
            span = self._begin("send", "send", SpanKind.PRODUCER, messages)
            messages = [carrying(messages[0], span)]
        else:
            messages = [_created(message, self._place) for message in messages]
            span = self._begin("send", "send", SpanKind.CLIENT, messages)
        return _watched(span, partial(add, messages[0] if isinstance(given, Message) else messages))

    def _acknowledge(self, acknowledge: Callable[..., T], *messages: Reference) -> T:
        known = [message for message in messages if isinstance(message, Message)]
        span = self._begin("acknowledge", "settle", SpanKind.CLIENT, known)
        return _watched(span, partial(acknowledge, *messages))

    def recover(self, *limits: Any, **options: Any) -> Page:
        # Its links are known at its end only.
        page: Page = self._traced.recover(*limits, **options)
        if page:
            end(self._begin("receive", "receive", SpanKind.CLIENT, page))
        return page

    def _begin(self, name: str, kind: str, span_kind: SpanKind, messages: Sequence[Message]) -> Span:
        return begin(
            name,
            kind,
            self._place,
            span_kind=span_kind,
            messages=messages,
            subscription=None if self._info is None else self._info.subscription_name,
        )


class _TracedTransaction(_Traced):
    """A traced transaction: its messages get ``create`` spans, and the commit is one ``send`` span."""

    def __init__(self, traced: Transaction) -> None:
        super().__init__(traced)
        self._created: list[tuple[Destination, Message]] = []

    def queue(self, name: str | Destination) -> _TracedWrites:
        return _TracedWrites(self._traced.queue(name), self._created)

    def topic(self, name: str | Destination) -> _TracedWrites:
        return _TracedWrites(self._traced.topic(name), self._created)

    def commit(self) -> list[MessageReference]:
        return _watched(self._commit(), self._traced.commit)

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        return _watched(self._commit(), self._traced.commit_async)

    def _commit(self) -> Span:
        places = {place for place, _ in self._created}
        place = places.pop() if len(places) == 1 else None
        messages = [message for _, message in self._created]
        name, kind = ("send", "send") if messages else ("commit", "settle")
        return begin(name, kind, place, span_kind=SpanKind.CLIENT, messages=messages)

    def __enter__(self) -> _TracedTransaction:
        self._traced.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        leave = partial(self._traced.__exit__, kind, *exc)
        if kind is None:
            _watched(self._commit(), leave)
        else:
            leave()


class _TracedWrites(_Traced):
    def __init__(self, traced: TransactionalStore, created: list[tuple[Destination, Message]]) -> None:
        super().__init__(traced)
        self._created = created

    def add_message(self, message: Message) -> None:
        message = _created(message, self._traced.destination)
        self._traced.add_message(message)
        self._created.append((self._traced.destination, message))


def _created(message: Message, destination: Destination) -> Message:
    """Return the message with a context: its own, or that of a ``create`` span."""
    if is_traced(message):
        return message
    span = begin("create", "create", destination, span_kind=SpanKind.PRODUCER, messages=[message])
    return _watched(span, partial(carrying, message, span))
