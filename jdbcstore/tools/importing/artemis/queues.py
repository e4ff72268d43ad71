"""Artemis's queues as queues and durable subscriptions of ours."""

from __future__ import annotations

import re
from typing import NamedTuple

from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.tools.importing.artemis.records import ArtemisQueue

_ANY_WORDS = "#"
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(\.)")
_NO_LOCAL = re.compile(
    r"(?:^|\s+AND\s+)\(?__AMQ_CID\s*<>\s*'(?:[^']|'')*'(?:\s+OR\s+__AMQ_CID\s+IS\s+NULL\))?$"
)
_QUOTED = re.compile(r"('(?:[^']|'')*')")
_NAMES = {
    "AMQDurable": "JMSDeliveryMode",
    "AMQPriority": "JMSPriority",
    "AMQTimestamp": "JMSTimestamp",
    "AMQUserID": "JMSMessageID",
    "AMQExpiration": "JMSExpiration",
    "AMQGroupID": "JMSXGroupID",
}
_NAME = re.compile(r"\b(" + "|".join(_NAMES) + r")\b")
_MODES = {"'DURABLE'": "'PERSISTENT'", "'NON_DURABLE'": "'NON_PERSISTENT'"}


class Target(NamedTuple):
    """The destination or subscription that a queue becomes."""

    destination: Destination
    """A queue, or the topic that is subscribed to, which may be a wildcard."""
    client_id: str = ""
    """Of a durable subscription."""
    name: str = ""
    selector: str | None = None
    note: str = ""
    """A difference to be noted."""

    @property
    def key(self) -> str:
        """The name of the subscription among those of its topic."""
        return f"{self.client_id}:{self.name}"


class NoCounterpart(Exception):
    """A queue cannot be a destination here; the text says why."""


def target_of(queue: ArtemisQueue) -> Target:
    """Return the destination or subscription that a queue becomes.

    :raises NoCounterpart: it has none
    """
    if queue.is_internal or queue.name.startswith("$"):
        raise NoCounterpart("it is a queue of the broker itself")
    selector, note = jms_selector(queue.selector)
    if not queue.is_anycast and not queue.is_configured:
        parts = subscription_of(queue.name)
        if parts is not None:
            topic = _destination(DestinationKind.TOPIC, _pattern(queue.address))
            return Target(topic, *parts, selector, note)
    if queue.is_anycast and queue.name != queue.address:
        note = f"its clients named it {queue.address}::{queue.name}"
    elif not queue.is_anycast:
        note = f"it had the messages of the topic {queue.address}, as {queue.address}::{queue.name}"
    return Target(_destination(DestinationKind.QUEUE, queue.name), note=note)


def topic_of(address: str) -> Destination:
    """Return the topic that a message was sent to.

    :raises NoCounterpart: it cannot be one
    """
    return _destination(DestinationKind.TOPIC, address)


def _destination(kind: DestinationKind, name: str) -> Destination:
    if "," in name:
        raise NoCounterpart("its name has a comma, which separates several destinations here")
    try:
        return Destination(kind, name)
    except InvalidDestination as error:
        raise NoCounterpart(str(error)) from error


def _pattern(address: str) -> str:
    *words, last = address.split(".")
    if _ANY_WORDS in words:
        raise NoCounterpart(
            f"it subscribes to {address}, and a wildcard for several words has to be the last"
        )
    return ".".join([*words, ">" if last == _ANY_WORDS else last])


def subscription_of(name: str) -> tuple[str, str] | None:
    """Return client id and name of a durable subscription, from its queue's name; None if it has none."""
    match = _SEPARATOR.search(name)
    if match is None:
        return None
    client_id, subscription = name[: match.start(1)], name[match.end(1) :]
    if not client_id or not subscription:
        return None
    return _unescaped(client_id), _unescaped(subscription)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([\\.])", r"\1", text)


def jms_selector(selector: str | None) -> tuple[str | None, str]:
    """Return the selector as the client has written it, and a note if that is not the whole of it."""
    if selector is None or not selector.strip():
        return None, ""
    note = ""
    kept = _NO_LOCAL.sub("", selector)
    if kept != selector:
        note = "that it wants no messages of its own connection (noLocal) is not kept"
    parts = _QUOTED.split(kept)
    has_mode = "AMQDurable" in kept
    for at, part in enumerate(parts):
        if at % 2:
            parts[at] = _MODES.get(part, part) if has_mode else part
        else:
            parts[at] = _NAME.sub(lambda match: _NAMES[match[1]], part)
    return "".join(parts).strip() or None, note
