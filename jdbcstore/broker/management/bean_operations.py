"""The operations of ActiveMQ's MBeans; most are operations of :mod:`jdbcstore.broker.operations`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.bean_names import DOMAIN, BeanName, escaped
from jdbcstore.broker.management.beans import Attributes, Beans
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.operations import MAX_BROWSED, OPERATIONS
from jdbcstore.config.users import BROWSE, MANAGE, VIEW
from jdbcstore.errors import DestinationNotFound, InvalidMessage, MessageNotFound
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.message.values import Byte, Char, Float, Long, Short, plain

_PREVIEW = 255
"""The most bytes of a body that are shown, as in ActiveMQ."""


@dataclass(frozen=True, slots=True)
class BeanCall:
    """A call of an operation of an MBean."""

    management: Management
    beans: Beans
    name: BeanName
    actor: Actor
    given: Sequence[Any]
    """Its arguments, one for each parameter."""
    new_id: Callable[[], MessageId]
    """Makes the id of a sent message."""

    async def destination(self) -> Destination:
        """Return the queue or topic of the MBean.

        :raises NoSuchBean: it does not exist
        """
        return await self.beans.destination(self.name)


@dataclass(frozen=True, slots=True)
class JavaParameter:
    """A parameter of an operation in Java."""

    kind: str
    name: str
    argument: str = ""
    """The corresponding argument of an operation on messages, or the field of the selection."""
    read: Callable[[Any], Any] = str


@dataclass(frozen=True, slots=True)
class BeanOperation:
    """One signature of an operation of MBeans."""

    name: str
    parameters: tuple[JavaParameter, ...]
    returns: str
    role: str
    call: Callable[[BeanCall], Awaitable[Any]]

    @property
    def signature(self) -> str:
        return f"{self.name}({','.join(parameter.kind for parameter in self.parameters)})"


def _selector(value: Any) -> str | None:
    return str(value) if value else None


def _limit(value: Any) -> int | None:
    """Return a number of messages; for ActiveMQ, 0 and -1 mean no limit."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise InvalidMessage(f"maximumMessages must be a number, not {str(value)[:80]!r}") from None
    return number if number > 0 else None


_S, _I, _MAP = "java.lang.String", "int", "java.util.Map"
_ID = JavaParameter(_S, "messageId", "ids", lambda value: (str(value),))
_SELECTOR = JavaParameter(_S, "selector", "selector", _selector)
_MOST = JavaParameter(_I, "maximumMessages", "limit", _limit)
_TO = JavaParameter(_S, "destinationName", "to", lambda value: Destination.named(str(value)))
_BODY, _NAME = JavaParameter(_S, "body"), JavaParameter(_S, "name")
_HEADERS, _PROPERTIES = JavaParameter(_MAP, "headers"), JavaParameter(_S, "properties")
_COMPOSITE = "javax.management.openmbean.CompositeData"
_COMPOSITES = f"[L{_COMPOSITE};"


def _on_destination(
    name: str, parameters: tuple[JavaParameter, ...], returns: str, operation: str
) -> BeanOperation:
    """Return an operation of :data:`OPERATIONS` on a queue or topic under ActiveMQ's name."""
    row = OPERATIONS[operation]
    named = {parameter.name for parameter in row.parameters}

    async def call(call: BeanCall) -> Any:
        destination = await call.destination()
        values = [
            (parameter.argument, parameter.read(value))
            for parameter, value in zip(parameters, call.given, strict=True)
        ]
        arguments = {name: value for name, value in values if name in named}
        if "choice" in named:
            chosen: dict[str, Any] = {name: value for name, value in values if name not in named}
            arguments["choice"] = MessageChoice(**chosen)
        outcome = await call.management.perform(row, call.actor, destination, **arguments)
        if returns == "void":
            return None
        return outcome.count > 0 if returns == "boolean" else outcome.count

    return BeanOperation(name, parameters, returns, row.role, call)


def message_attributes(message: Message) -> Attributes:
    """Return the attributes of a message for ``browse()``.

    :raises CorruptMessage: its properties or its body cannot be decoded
    """
    by_type: dict[str, dict[str, Any]] = {kind: {} for kind in dict.fromkeys(_PROPERTY_TYPES.values())}
    for name, value in message.properties.items():
        kind = next((java for type_, java in _PROPERTY_TYPES.items() if type(value) is type_), "String")
        by_type[kind][name] = plain(value)
    sent = datetime.fromtimestamp((message.timestamp_ms or 0) / 1000, UTC)
    texts = ", ".join(f"{name}={plain(value)}" for name, value in message.properties.items())
    attributes: Attributes = {
        "JMSMessageID": str(message.message_id),
        "JMSDestination": str(message.destination),
        "JMSTimestamp": sent.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "JMSExpiration": message.expiration_ms,
        "JMSPriority": message.priority,
        "JMSDeliveryMode": "PERSISTENT" if message.persistent else "NON-PERSISTENT",
        "JMSRedelivered": message.redelivery_counter > 0,
        "JMSCorrelationID": message.correlation_id,
        "JMSReplyTo": None if message.reply_to is None else str(message.reply_to),
        "JMSType": message.jms_type,
        "JMSXGroupID": message.group_id,
        "JMSXGroupSeq": message.group_sequence or 0,
        "JMSXUserID": message.user_id,
        "OriginalDestination": (
            None if message.original_destination is None else str(message.original_destination)
        ),
        "PropertiesText": f"{{{texts}}}",
        **{f"{kind}Properties": values for kind, values in by_type.items()},
    }
    if body_in_pieces(message) is not None:
        return {**attributes, "BodyLength": message.body_size}
    body = message.body
    if message.body_type is BodyType.TEXT:
        attributes["Text"] = body
    elif isinstance(body, bytes):
        signed = [byte - 256 if byte > 127 else byte for byte in body[:_PREVIEW]]
        attributes |= {"BodyLength": len(body), "BodyPreview": signed}
    elif message.body_type is BodyType.MAP:
        attributes["ContentMap"] = plain(body)
    return attributes


_PROPERTY_TYPES: dict[type, str] = {
    bool: "Boolean",
    Byte: "Byte",
    Short: "Short",
    int: "Int",
    Long: "Long",
    Float: "Float",
    float: "Double",
    str: "String",
    Char: "String",
}


async def _browse(call: BeanCall) -> Any:
    choice = MessageChoice(selector=_selector(call.given[0]) if call.given else None)
    messages = await call.management.views.browse(await call.destination(), choice, limit=MAX_BROWSED)
    return [message_attributes(message) for message in messages]


async def _get_message(call: BeanCall) -> Any:
    try:
        message = await call.management.views.message(await call.destination(), str(call.given[0]))
    except MessageNotFound:
        return None
    return message_attributes(message)


async def _cursor_size(call: BeanCall) -> Any:
    view = await call.beans.view(call.name)
    return (view.size or 0) - view.in_flight


async def _send(call: BeanCall) -> Any:
    return await _sent(call, {}, call.given[0])


async def _send_with_headers(call: BeanCall) -> Any:
    if not isinstance(call.given[0], dict):
        raise InvalidMessage("headers must be an object of names and values")
    return await _sent(call, call.given[0], call.given[1])


async def _send_with_properties(call: BeanCall) -> Any:
    delimiter = str(call.given[1]) if len(call.given) > 1 else ","
    pairs = (part.partition("=") for part in str(call.given[0]).split(delimiter))
    headers = {key.strip(): value for key, equals, value in pairs if equals}
    return await _sent(call, headers, headers.pop("body", None))


async def _sent(call: BeanCall, headers: Mapping[str, Any], body: Any) -> str:
    """Send a message whose body is a string to the destination of an MBean, and return its id.

    :raises StoreError: it was not sent
    """
    destination, now_ms = await call.destination(), round(datetime.now(UTC).timestamp() * 1000)
    properties = {str(key): value for key, value in headers.items()}
    priority, ttl = properties.pop("JMSPriority", 4), properties.pop("JMSTimeToLive", 0)
    reply_to = properties.pop("JMSReplyTo", None)
    try:
        message = Message(
            _text(body),
            message_id=call.new_id(),
            timestamp_ms=now_ms,
            priority=int(priority),
            expiration_ms=now_ms + int(ttl) if int(ttl) else 0,
            persistent=str(properties.pop("JMSDeliveryMode", "2")).lower() not in ("1", "non_persistent"),
            correlation_id=_text(properties.pop("JMSCorrelationID", None)),
            jms_type=_text(properties.pop("JMSType", None)),
            reply_to=None if reply_to is None else Destination.named(str(reply_to)),
            group_id=_text(properties.pop("JMSXGroupID", None)),
            properties=properties,
        )
    except (TypeError, ValueError) as error:
        raise InvalidMessage(str(error)) from None
    await call.management.destinations.send(call.actor, destination, [message])
    return str(message.message_id)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


async def _reset_all(call: BeanCall) -> Any:
    call.management.destinations.reset_all(call.actor)


def _adding(kind: DestinationKind) -> Callable[[BeanCall], Awaitable[Any]]:
    async def add(call: BeanCall) -> Any:
        await call.management.destinations.create(call.actor, Destination(kind, str(call.given[0])))

    return add


def _deleting(kind: DestinationKind) -> Callable[[BeanCall], Awaitable[Any]]:
    async def delete(call: BeanCall) -> Any:
        try:
            destination = Destination(kind, str(call.given[0]))
            await call.management.destinations.delete(call.actor, destination, keep_subscriptions=True)
        except DestinationNotFound:
            return

    return delete


async def _unsubscribe(call: BeanCall) -> Any:
    await call.management.subscriptions.unsubscribe(call.actor, *map(str, call.given))


async def _destroy(call: BeanCall) -> Any:
    attributes = await call.beans.read(call.name)
    await call.management.subscriptions.unsubscribe(
        call.actor, attributes["ClientId"], attributes["SubscriptionName"]
    )


async def _stop_connection(call: BeanCall) -> Any:
    for client in call.management.views.connections():
        if call.name.keys["connectionName"] == escaped(client.client_id or client.id):
            call.management.broker.drop(call.actor, client.id)


async def _health(call: BeanCall) -> Any:
    return (await call.beans.read(call.name))["CurrentStatus"]


_SENDING = (
    BeanOperation("sendTextMessage", (_BODY,), _S, MANAGE, _send),
    BeanOperation("sendTextMessage", (_HEADERS, _BODY), _S, MANAGE, _send_with_headers),
    BeanOperation("sendTextMessageWithProperties", (_PROPERTIES,), _S, MANAGE, _send_with_properties),
    BeanOperation(
        "sendTextMessageWithProperties",
        (_PROPERTIES, JavaParameter(_S, "delimiter")),
        _S,
        MANAGE,
        _send_with_properties,
    ),
    _on_destination("resetStatistics", (), "void", "reset"),
)
_OF_QUEUES = (
    BeanOperation("browse", (), _COMPOSITES, BROWSE, _browse),
    BeanOperation("browse", (_SELECTOR,), _COMPOSITES, BROWSE, _browse),
    BeanOperation("browseMessages", (), "java.util.List", BROWSE, _browse),
    BeanOperation("browseMessages", (_SELECTOR,), "java.util.List", BROWSE, _browse),
    BeanOperation("getMessage", (_ID,), _COMPOSITE, BROWSE, _get_message),
    _on_destination("purge", (), "void", "purge"),
    _on_destination("removeMessage", (_ID,), "boolean", "remove"),
    _on_destination("removeMatchingMessages", (_SELECTOR,), _I, "remove"),
    _on_destination("removeMatchingMessages", (_SELECTOR, _MOST), _I, "remove"),
    _on_destination("moveMessageTo", (_ID, _TO), "boolean", "move"),
    _on_destination("moveMatchingMessagesTo", (_SELECTOR, _TO), _I, "move"),
    _on_destination("moveMatchingMessagesTo", (_SELECTOR, _TO, _MOST), _I, "move"),
    _on_destination("copyMessageTo", (_ID, _TO), "boolean", "copy"),
    _on_destination("copyMatchingMessagesTo", (_SELECTOR, _TO), _I, "copy"),
    _on_destination("copyMatchingMessagesTo", (_SELECTOR, _TO, _MOST), _I, "copy"),
    _on_destination("retryMessage", (_ID,), "boolean", "retry"),
    _on_destination("retryMessages", (), _I, "retry"),
    _on_destination("pause", (), "void", "pause"),
    _on_destination("resume", (), "void", "resume"),
    BeanOperation("cursorSize", (), _I, VIEW, _cursor_size),
    *_SENDING,
)
_SUBSCRIBER = JavaParameter(_S, "clientId"), JavaParameter(_S, "subscriberName")
_OF_BROKER = (
    BeanOperation("addQueue", (_NAME,), "void", MANAGE, _adding(DestinationKind.QUEUE)),
    BeanOperation("addTopic", (_NAME,), "void", MANAGE, _adding(DestinationKind.TOPIC)),
    BeanOperation("removeQueue", (_NAME,), "void", MANAGE, _deleting(DestinationKind.QUEUE)),
    BeanOperation("removeTopic", (_NAME,), "void", MANAGE, _deleting(DestinationKind.TOPIC)),
    BeanOperation("destroyDurableSubscriber", _SUBSCRIBER, "void", MANAGE, _unsubscribe),
    BeanOperation("resetStatistics", (), "void", MANAGE, _reset_all),
)
_OF_HEALTH = (BeanOperation("healthStatus", (), _S, VIEW, _health),)
_OF_DURABLES = (BeanOperation("destroy", (), "void", MANAGE, _destroy),)
_OF_CONNECTIONS = (BeanOperation("stop", (), "void", MANAGE, _stop_connection),)


def operations_of(name: BeanName) -> tuple[BeanOperation, ...]:
    """Return the operations of an MBean, which need not exist."""
    keys = name.keys
    if len(keys) == 2:
        return _OF_BROKER
    if keys.get("service") == "Health":
        return _OF_HEALTH
    if "endpoint" in keys:
        return _OF_DURABLES if keys.get("consumerId", "").startswith("Durable(") else ()
    if "connectionName" in keys:
        return _OF_CONNECTIONS
    if "destinationName" in keys:
        return _SENDING if keys.get("destinationType") == "Topic" else _OF_QUEUES
    return ()


def described(attributes: Attributes, operations: tuple[BeanOperation, ...]) -> dict[str, Any]:
    """Describe an MBean for ``list``. All MBeans of a kind share the result, so do not change it."""
    return _described(tuple((name, _java_type(value)) for name, value in attributes.items()), operations)


@lru_cache(maxsize=128)
def _described(
    attributes: tuple[tuple[str, str], ...], operations: tuple[BeanOperation, ...]
) -> dict[str, Any]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for operation in operations:
        arguments = [
            {"name": parameter.name, "type": parameter.kind, "desc": ""} for parameter in operation.parameters
        ]
        by_name.setdefault(operation.name, []).append(
            {"args": arguments, "ret": operation.returns, "desc": operation.name}
        )
    return {
        "class": DOMAIN,
        "desc": "Information on the management interface of the MBean",
        "attr": {name: {"rw": False, "type": kind, "desc": name} for name, kind in attributes},
        "op": {
            name: signatures[0] if len(signatures) == 1 else signatures
            for name, signatures in by_name.items()
        },
    }


def _java_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {int: "long", float: "double", dict: "java.util.Map", list: "[Ljavax.management.ObjectName;"}
    return kinds.get(type(value), _S)
