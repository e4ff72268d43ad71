"""``destinationPolicy``: the policy entries with their cursors and strategies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from jdbcstore.config.fields import find_field
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.policy import (
    DISPATCH_POLICIES,
    DURABLE_CURSORS,
    QUEUE_CURSORS,
    SUBSCRIBER_CURSORS,
    DiscardingDeadLetterStrategy,
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    IndividualDeadLetterStrategy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    PolicyEntry,
    SharedDeadLetterStrategy,
    TimedSubscriptionRecoveryPolicy,
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
    "FixedCountSubscriptionRecoveryPolicy": "fixedCountSubscriptionRecoveryPolicy",
    "FixedSizedSubscriptionRecoveryPolicy": "fixedSizedSubscriptionRecoveryPolicy",
    "LastImageSubscriptionRecoveryPolicy": "lastImageSubscriptionRecoveryPolicy",
    "NoSubscriptionRecoveryPolicy": "noSubscriptionRecoveryPolicy",
    "TimedSubscriptionRecoveryPolicy": "timedSubscriptionRecoveryPolicy",
}


@dataclass(frozen=True)
class _Strategies:
    """What ActiveMQ lets users write in Java, and the few of it that are there."""

    kinds: tuple[Any, ...]
    default: str
    """What is done where it is none of these."""
    reasons: dict[str, str]
    """Why attributes of some have no meaning for others."""


_STRATEGIES = {
    "deadLetterStrategy": _Strategies(
        (SharedDeadLetterStrategy, IndividualDeadLetterStrategy, DiscardingDeadLetterStrategy),
        "one queue ActiveMQ.DLQ",
        {"deadLetterQueue": "the messages are dropped all the same"},
    ),
    "subscriptionRecoveryPolicy": _Strategies(
        (
            FixedCountSubscriptionRecoveryPolicy,
            FixedSizedSubscriptionRecoveryPolicy,
            LastImageSubscriptionRecoveryPolicy,
            NoSubscriptionRecoveryPolicy,
            TimedSubscriptionRecoveryPolicy,
        ),
        "nothing that was sent before",
        {"useSharedBuffer": "each topic has a buffer of its own, in ActiveMQ too"},
    ),
}
TEMPORARY = ("tempQueue", "tempTopic")
_MISSPELT = {"inactiveTimoutBeforeGC": "inactiveTimeoutBeforeGC"}


def read_policies(document: Document, value: Value) -> Iterator[Section]:
    """A section for each policy entry, in their order."""
    for policy_map in document.beans(value):
        for name, inner in policy_map.values.items():
            if name in ("policyEntries", "entries", "policyEntry", "defaultEntry"):
                entries = (_read_entry(document, entry) for entry in document.beans(inner))
                yield from (entry for entry in entries if entry is not None)
            else:
                document.tell(policy_map, name, inner, {}, ("policy_entries", "default_entry"))


def _read_entry(document: Document, bean: Bean) -> Section | None:
    section: Section = {}
    for name in ("queue", "topic"):
        value = bean.values.get(name)
        if value is not None and value.text == "":
            text = (
                f'it names no {name}, so this policy is for none and is left out; {name}=">" is for every one'
            )
            document.note(Kind.UNKNOWN, value.line, name, text)
            return None
    for name, value in bean.values.items():
        option = _MISSPELT.get(name, name)
        if name in _CHOICES:
            _take_choice(document, name, value, section)
        elif name in _STRATEGIES:
            _take_strategy(document, name, value, section)
        elif name == "pendingMessageLimitStrategy":
            _take_limit(document, value, section)
        elif name == "destination":
            take_destination(document, value, section)
        elif name in TEMPORARY:
            document.note(Kind.IGNORED, value.line, name, "temporary destinations have the default policy")
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


def _take_strategy(document: Document, name: str, value: Value, section: Section) -> None:
    strategies = _STRATEGIES[name]
    bean = document.referred(value) or Bean(value.text or "", value.line)
    type_name = _CLASSES.get(bean.class_name, bean.kind)
    kind = next((one for one in strategies.kinds if one.type == type_name), None)
    if kind is None:
        text = f"jdbcstore has no {type_name or 'such thing'}; the default is kept: {strategies.default}"
        document.note(Kind.UNKNOWN, bean.line, name, text)
        return
    strategy: Section = {"type": Given(type_name, document.place(bean.line, type_name))}
    for inner, given in bean.values.items():
        if inner == "deadLetterQueue" and find_field(kind, inner):
            strategy[inner] = _queue_name(document, given)
        elif find_field(kind, inner):
            strategy[inner] = document.scalar(inner, given)
        else:
            document.tell(bean, inner, given, strategies.reasons, (one.name for one in fields(kind)))
    section[name] = strategy


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


def take_destination(document: Document, value: Value, section: Section) -> None:
    """The ``queue`` or ``topic`` that a policy is for, written as an element."""
    bean = document.referred(value)
    name = bean.values.get("physicalName") if bean else None
    if bean is None or name is None or bean.kind not in ("queue", "topic"):
        text = 'write queue="..." or topic="..." at the policyEntry'
        raise document.wrong(value.line, text, "destination")
    section[bean.kind] = document.scalar("physicalName", name)
