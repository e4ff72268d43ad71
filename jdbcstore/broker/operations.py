"""The operations of an administrator, for HTTP, Jolokia, the console and the command line.

To add an operation, add a method to a part of :class:`jdbcstore.broker.management.Management`, and a row
here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from jdbcstore.config.users import BROWSE, MANAGE, VIEW
from jdbcstore.errors import (
    DestinationFull,
    DestinationNotFound,
    InvalidDestination,
    InvalidMessage,
    InvalidSelector,
    InvalidSubscription,
    MessageNotFound,
    NotMaster,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    SubscriptionExists,
    SubscriptionInUse,
    SubscriptionNotFound,
    TransactionError,
    TransactionNotFound,
)
from jdbcstore.message.destination import Destination

MAX_BROWSED = 1000
"""The most messages that one request browses or consumes."""
_LARGEST_PAGE = 1000
MOST_CLAIMS = (1 << 63) - 1
"""The largest limit of claims, burst or weight in a request; the store's own limits are lower."""
_PAGE = 100
_KINDS = {"queue": ("queues",), **dict.fromkeys(("destination", "target"), ("queues", "topics"))}
"""The collections of a destination in a path, by its name in the path."""
_NAME = re.compile(r"\{(\w+)\}")


class NotARequest(StoreError, ValueError):
    """A request is malformed, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationOutcome:
    """The outcome of an operation."""

    count: int
    """The number of removed, moved, copied or sent messages."""
    left: int = 0
    """The number of selected messages that stayed, because a consumer or a transaction has them, or the
    original destination of a dead letter is unknown."""
    is_stopped: bool = False
    """Whether an administrator stopped it before its end."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword argument of an operation, and its form in a request."""

    name: str
    reader: str
    """The method of :class:`~jdbcstore.broker.management.requests.Fields` that reads it."""
    key: str | None = None
    """The field of a request; None if it is read from several."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the reader."""
    default: Any = None
    """None for the default of the method."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An administrator's operation: its method, its required role, and its form in requests."""

    name: str
    call: str
    """The method, such as ``queues.move``. Its arguments are the caller (unless it only reads), the values of
    the path and the parameters."""
    role: str
    method: str
    path: str
    """The path under ``/api``. ``{queue}`` and ``{destination}`` are existing destinations. ``{target}`` is a
    destination that need not exist; its name may include the kind. Others are strings."""
    parameters: tuple[Parameter, ...] = ()

    @property
    def part(self) -> str:
        """The part of a management with the method: ``claims`` without a broker."""
        return self.call.partition(".")[0]

    @property
    def only_reads(self) -> bool:
        """Whether it is read-only, and so not audited."""
        return self.method == "GET"

    @property
    def path_names(self) -> list[str]:
        """The names in the path, in the order of the method's arguments."""
        return _NAME.findall(self.path)

    @property
    def routes(self) -> list[tuple[str, bool]]:
        """The paths for a router, and whether each is for a topic.

        A name may contain any character but a slash, which is encoded. Without a pattern, the router would
        not allow braces either.
        """
        kinds = next((_KINDS[name] for name in self.path_names if name in _KINDS), ("",))
        return [(_route(self.path, kind), kind == "topics") for kind in kinds]

    def url(self, *values: Any) -> str:
        """Return the path with these values, encoded."""
        texts = iter(map(_encoded, values))
        return f"/api{_NAME.sub(lambda _: next(texts), self.path)}"


def _route(path: str, kind: str) -> str:
    def of(name: str) -> str:
        return f"{kind}/{{{name}:[^/]+}}" if name in _KINDS else f"{{{name}:[^/]+}}"

    return _NAME.sub(lambda match: of(match[1]), path)


def _encoded(value: Any) -> str:
    if isinstance(value, Destination):
        return f"{'topics' if value.is_topic else 'queues'}/{quote(value.name, safe='')}"
    return quote(str(value), safe="")


def _view(
    call: str, path: str, *parameters: Parameter, part: str = "views", role: str = VIEW, name: str = ""
) -> Operation:
    return Operation(name or call, f"{part}.{call}", role, "GET", path, parameters)


def _change(call: str, path: str, *parameters: Parameter, method: str = "POST", name: str = "") -> Operation:
    return Operation(name or call.partition(".")[2], call, MANAGE, method, path, parameters)


def _delete(call: str, path: str, name: str = "") -> Operation:
    return _change(call, path, method="DELETE", name=name)


def _number(name: str, default: int | None = None, **limits: int) -> Parameter:
    return Parameter(name, "number", name, limits, default)


def _switch(name: str) -> Parameter:
    return Parameter(name, "switch", name)


def _flag(name: str) -> Parameter:
    return Parameter(name, "flag", name)


_CHOICE = Parameter("choice", "choice")
_TO = Parameter("to", "destination", "to")
_SELECTOR = Parameter("selector", "text", "selector")
_LIMIT = _number("limit", _PAGE, least=1, most=MAX_BROWSED)
_KEY = Parameter("key", "text", "key")
_RATES = (
    *(_number(name, least=1, most=MOST_CLAIMS) for name in ("claims", "burst")),
    Parameter("rate", "decimal", "rate"),
)
_SORTS = (
    *("name", "size", "enqueued", "dequeued", "dispatched", "in_flight", "consumers", "producers", "dead"),
    *("average_wait", "enqueued_per_second", "dispatched_per_second", "dequeued_per_second", "idle"),
    *("ready", "growth_per_second", "utilisation"),
)

OPERATIONS = {
    operation.name: operation
    for operation in (
        _view("broker", "/broker"),
        _view(
            "listed",
            "/destinations",
            Parameter("kind", "one_of", "kind", {"choices": ("queue", "topic")}),
            Parameter("search", "text", "search"),
            Parameter("where", "text", "where"),
            Parameter("sort", "one_of", "sort", {"choices": _SORTS}),
            Parameter("order", "one_of", "order", {"choices": ("asc", "desc")}),
            _number("offset", least=0),
            _number("limit", _PAGE, least=1, most=_LARGEST_PAGE),
            _switch("ages"),
            name="destinations",
        ),
        _view("destination", "/{destination}"),
        _view("connections", "/connections"),
        _view("subscriptions", "/subscriptions", _switch("pending")),
        _view("transactions", "/transactions"),
        _view("lock", "/lock"),
        _view("lock_history", "/lock/history"),
        _view("journal", "/journal"),
        _view("streams", "/streams"),
        _view("store", "/store"),
        _view("checkup", "/checkup"),
        _view("operations", "/operations"),
        _view("configuration", "/configuration", part="inside", role=BROWSE),
        _view("users", "/users", part="inside", role=BROWSE),
        _view("log", "/log", Parameter("search", "text", "search"), _LIMIT, part="inside", role=BROWSE),
        _view("alarms", "/alarms", part="watch"),
        _view(
            "listed",
            "/scheduled",
            _number("offset", least=0),
            _number("limit", _PAGE, least=1, most=_LARGEST_PAGE),
            part="scheduled",
            name="scheduled",
        ),
        _view("browse", "/{queue}/messages", Parameter("choice", "selected"), _LIMIT, role=BROWSE),
        _view("message", "/{queue}/messages/{message}", role=BROWSE),
        _view(
            "page",
            "/{queue}/pages",
            Parameter("choice", "selected", limits={"by_origin": True}),
            Parameter("after", "cursor", "after"),
            _LIMIT,
            role=BROWSE,
        ),
        _change("destinations.create", "/{target}", method="PUT"),
        _delete("scheduled.cancel", "/scheduled/{job}", name="cancel_scheduled"),
        _change("scheduled.send_now", "/scheduled/{job}/send", name="send_scheduled"),
        _change("destinations.send", "/{target}/messages", Parameter("messages", "messages")),
        _change("destinations.purge", "/{destination}/purge", _flag("expired")),
        _change("destinations.reset", "/{destination}/reset-counters"),
        _change("destinations.reset_all", "/reset-counters"),
        _delete("destinations.delete", "/{destination}"),
        _change("queues.remove", "/{queue}/remove", _CHOICE),
        _change("queues.move", "/{queue}/move", _CHOICE, _TO),
        _change("queues.copy", "/{queue}/copy", _CHOICE, _TO),
        _change("queues.retry", "/{queue}/retry", _CHOICE),
        _change(
            "queues.change",
            "/{queue}/change",
            _CHOICE,
            _number("priority", least=0, most=9),
            Parameter("expiration_ms", "expiration", "ttl_ms"),
        ),
        _change("queues.stop", "/operations/{run}/stop", name="stop_operation"),
        _change("queues.pause", "/{queue}/pause"),
        _change("queues.resume", "/{queue}/resume"),
        _change("holds.consume", "/{queue}/consume", _CHOICE),
        _change(
            "holds.consume_subscription",
            "/subscriptions/{client}/{subscription}/consume",
            _number("limit", least=1),
        ),
        _change("holds.acknowledge", "/consumed/{token}/acknowledge"),
        _change(
            "subscriptions.subscribe",
            "/subscriptions/{client}/{subscription}",
            Parameter("topic", "destination", "topic"),
            _SELECTOR,
            _flag("retroactive"),
        ),
        _delete("subscriptions.unsubscribe", "/subscriptions/{client}/{subscription}"),
        _change(
            "subscriptions.purge", "/subscriptions/{client}/{subscription}/purge", name="purge_subscription"
        ),
        _change("watch.silence", "/alarms/{alarm}/silence"),
        _delete("broker.drop", "/connections/{connection}"),
        _change("broker.commit", "/transactions/{xid}/commit"),
        _change("broker.roll_back", "/transactions/{xid}/roll-back"),
        _change("broker.cleanup", "/cleanup"),
        _change("broker.checkpoint", "/checkpoint"),
        _change("broker.hand_over", "/hand-over"),
        _view("numbers", "/claims", Parameter("keyed", "text", "queue"), part="claims", name="claims"),
        _view("held", "/{queue}/claims", _LIMIT, part="claims", name="held"),
        _change("claims.pause", "/{queue}/claims/pause", _KEY, name="pause_claims"),
        _change("claims.resume", "/{queue}/claims/resume", _KEY, name="resume_claims"),
        _change(
            "claims.limit",
            "/{queue}/claims/limit",
            _KEY,
            *_RATES,
            _number("weight", least=1, most=MOST_CLAIMS),
            name="limit_claims",
        ),
        _change(
            "claims.share",
            "/{queue}/claims/share",
            Parameter("keys", "one_of", "keys", {"choices": ("shared", "in order")}),
            *_RATES,
            name="share_claims",
        ),
        _change("claims.purge", "/{queue}/claims/purge", name="purge_free"),
        _change("claims.release_message", "/{queue}/claims/{sequence}/release"),
        _change("claims.release_worker", "/workers/{worker}/release"),
    )
}
"""The operations by name."""

STATUS: tuple[tuple[type[StoreError], int], ...] = (
    *(
        (kind, 404)
        for kind in (DestinationNotFound, MessageNotFound, SubscriptionNotFound, TransactionNotFound)
    ),
    *((kind, 409) for kind in (SubscriptionExists, SubscriptionInUse)),
    *((kind, 400) for kind in (InvalidDestination, InvalidMessage, InvalidSelector, InvalidSubscription)),
    (TransactionError, 400),
    *((kind, 503) for kind in (DestinationFull, NotMaster, StoreClosed, StoreUnavailable)),
)
"""The HTTP status of each error of operations."""


def status_of(error: StoreError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, NotARequest):
        return 400
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def kind_of(error: StoreError) -> str | None:
    """Return the name that distinguishes errors of the same status: a class of :mod:`jdbcstore.errors`."""
    if isinstance(error, NotARequest):
        return None
    return next((kind.__name__ for kind, _ in STATUS if isinstance(error, kind)), None)
