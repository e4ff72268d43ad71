"""``destinationPolicy``: the policy entries with their cursors and dead letter strategies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from jdbcstore.config.fields import find_field
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.policy import (
    DISPATCH_POLICIES,
    DURABLE_CURSORS,
    QUEUE_CURSORS,
    SUBSCRIBER_CURSORS,
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    PolicyEntry,
    SharedDeadLetterStrategy,
)
from jdbcstore.config.reasons import POLICY
from jdbcstore.config.xml.beans import Bean, Document, Value

_CHOICES = {
    "pendingQueuePolicy": QUEUE_CURSORS,
    "pendingDurableSubscriberPolicy": DURABLE_CURSORS,
    "pendingSubscriberPolicy": SUBSCRIBER_CURSORS,
    "dispatchPolicy": DISPATCH_POLICIES,
}
_CLASSES = {
    "VMPendingQueueMessageStoragePolicy": "vmQueueCursor",
    "FilePendingQueueMessageStoragePolicy": "fileQueueCursor",
    "StorePendingQueueMessageStoragePolicy": "storeCursor",
    "VMPendingDurableSubscriberMessageStoragePolicy": "vmDurableCursor",
    "FilePendingDurableSubscriberMessageStoragePolicy": "fileDurableSubscriberCursor",
    "StorePendingDurableSubscriberMessageStoragePolicy": "storeDurableSubscriberCursor",
    "VMPendingSubscriberMessageStoragePolicy": "vmCursor",
    "FilePendingSubscriberMessageStoragePolicy": "fileCursor",
    "RoundRobinDispatchPolicy": "roundRobinDispatchPolicy",
    "StrictOrderDispatchPolicy": "strictOrderDispatchPolicy",
    "SimpleDispatchPolicy": "simpleDispatchPolicy",
    "PriorityDispatchPolicy": "priorityDispatchPolicy",
    "SharedDeadLetterStrategy": "sharedDeadLetterStrategy",
    "IndividualDeadLetterStrategy": "individualDeadLetterStrategy",
    "DiscardingDeadLetterStrategy": "discarding",
}
_STRATEGIES = {
    kind.type: kind
    for kind in (SharedDeadLetterStrategy, IndividualDeadLetterStrategy, DiscardingDeadLetterStrategy)
}
_MISSPELT = {"inactiveTimoutBeforeGC": "inactiveTimeoutBeforeGC"}
_STRATEGY_ATTRIBUTES = {"deadLetterQueue": "the messages are dropped all the same"}


def read_policies(document: Document, value: Value) -> Iterator[Section]:
    """A section for each policy entry, in their order."""
    for policy_map in document.beans(value):
        for name, inner in policy_map.values.items():
            if name in ("policyEntries", "entries", "policyEntry", "defaultEntry"):
                yield from (_read_entry(document, entry) for entry in document.beans(inner))
            else:
                document.tell(policy_map, name, inner, {}, ("policy_entries", "default_entry"))


def _read_entry(document: Document, bean: Bean) -> Section:
    section: Section = {}
    for name, value in bean.values.items():
        option = _MISSPELT.get(name, name)
        if name in _CHOICES:
            _take_choice(document, name, value, section)
        elif name == "deadLetterStrategy":
            _take_strategy(document, value, section)
        elif name == "pendingMessageLimitStrategy":
            _take_limit(document, value, section)
        elif name == "destination":
            _take_destination(document, value, section)
        elif name in ("tempQueue", "tempTopic"):
            document.note(Kind.IGNORED, value.line, name, "temporary destinations are never stored")
        elif find_field(PolicyEntry, option):
            section[option] = document.scalar(name, value)
        else:
            document.tell(bean, name, value, POLICY, (one.name for one in fields(PolicyEntry)))
    return section


def _take_choice(document: Document, name: str, value: Value, section: Section) -> None:
    """A cursor or dispatch policy: which one, for most have no attributes."""
    bean = document.referred(value) or Bean(value.text or "", value.line)
    kind = _CLASSES.get(bean.class_name, bean.kind)
    if kind not in _CHOICES[name]:
        known = ", ".join(_CHOICES[name])
        text = f"jdbcstore has no {kind or 'such thing'}, and keeps its default; it knows {known}"
        document.note(Kind.UNKNOWN, bean.line, name, text)
        return
    section[name] = Given(kind, document.place(bean.line, kind))
    for inner, given in bean.values.items():
        document.tell(bean, inner, given, {inner: "the cursor always works as by ActiveMQ's default"})


def _take_strategy(document: Document, value: Value, section: Section) -> None:
    bean = document.referred(value) or Bean(value.text or "", value.line)
    name = _CLASSES.get(bean.class_name, bean.kind)
    kind = _STRATEGIES.get(name)
    if kind is None:
        text = f"{name} is a strategy of your own, in Java; the default is kept: one queue ActiveMQ.DLQ"
        document.note(Kind.UNKNOWN, bean.line, "deadLetterStrategy", text)
        return
    strategy: Section = {"type": Given(name, document.place(bean.line, name))}
    for inner, given in bean.values.items():
        if inner == "deadLetterQueue" and find_field(kind, inner):
            strategy[inner] = _queue_name(document, given)
        elif find_field(kind, inner):
            strategy[inner] = document.scalar(inner, given)
        else:
            document.tell(bean, inner, given, _STRATEGY_ATTRIBUTES, (one.name for one in fields(kind)))
    section["deadLetterStrategy"] = strategy


def _queue_name(document: Document, value: Value) -> Given:
    """``queue://X``, ``X``, or a ``queue`` element."""
    bean = document.referred(value)
    name = bean.values.get("physicalName") if bean else value
    given = document.scalar("deadLetterQueue", name or value)
    if given.problem is not None:
        return given
    return Given(str(given.value).removeprefix("queue://"), given.place, text=True)


def _take_limit(document: Document, value: Value, section: Section) -> None:
    bean = document.referred(value)
    limit = bean.values.get("limit") if bean else None
    if (
        bean is not None
        and limit is not None
        and bean.kind.lower().endswith("constantpendingmessagelimitstrategy")
    ):
        section["pendingMessageLimit"] = document.scalar("limit", limit)
        return
    text = "jdbcstore knows the constantPendingMessageLimitStrategy alone, and sets no limit"
    document.note(Kind.IGNORED, value.line, "pendingMessageLimitStrategy", text)


def _take_destination(document: Document, value: Value, section: Section) -> None:
    bean = document.referred(value)
    name = bean.values.get("physicalName") if bean else None
    if bean is None or name is None or bean.kind not in ("queue", "topic"):
        text = 'write queue="..." or topic="..." at the policyEntry'
        raise document.wrong(value.line, text, "destination")
    section[bean.kind] = document.scalar("physicalName", name)
