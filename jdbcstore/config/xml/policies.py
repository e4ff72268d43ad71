"""Destination policies: the entries of ``destinationPolicy``, joined with those of ``redeliveryPlugin``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, get_args

from jdbcstore.config.fates import FATES
from jdbcstore.config.fields import camel, find_field
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.policy import (
    DeadLetterStrategy,
    PolicyEntry,
    QueryBasedSubscriptionRecoveryPolicy,
    RedeliveryPolicy,
    SlowConsumerStrategy,
    SubscriptionRecoveryPolicy,
)
from jdbcstore.config.xml.beans import Bean, Document, Value, is_python
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationMap

_CHOICES = {
    camel(field.name): choices for field in fields(PolicyEntry) if (choices := field.metadata.get("choices"))
}
"""The cursors that an entry may name, by attribute."""
_CLASSES = {
    "VMPendingQueueMessageStoragePolicy": "vmQueueCursor",
    "FilePendingQueueMessageStoragePolicy": "fileQueueCursor",
    "StorePendingQueueMessageStoragePolicy": "storeCursor",
    "VMPendingDurableSubscriberMessageStoragePolicy": "vmDurableCursor",
    "FilePendingDurableSubscriberMessageStoragePolicy": "fileDurableSubscriberCursor",
    "StorePendingDurableSubscriberMessageStoragePolicy": "storeDurableSubscriberCursor",
    "VMPendingSubscriberMessageStoragePolicy": "vmCursor",
    "FilePendingSubscriberMessageStoragePolicy": "fileCursor",
    "DiscardingDeadLetterStrategy": "discarding",
}
"""Elements of ActiveMQ's classes, where they are not called like the class."""


_STRATEGIES: dict[str, tuple[Any, str]] = {
    "deadLetterStrategy": (DeadLetterStrategy, "one queue ActiveMQ.DLQ"),
    "subscriptionRecoveryPolicy": (SubscriptionRecoveryPolicy, "no earlier messages"),
    "slowConsumerStrategy": (SlowConsumerStrategy, "consumers that do not keep up stay"),
}
"""The strategies that jdbcstore has, and the default in words."""
_TEMPORARY = ("tempQueue", "tempTopic")
_PARSE = {"queue": Destination.queue, "topic": Destination.topic}


def read_policies(document: Document, value: Value) -> Iterator[Section]:
    """Yield a section for each policy entry, in order."""
    for policy_map in document.beans(value):
        for inner in policy_map.values.values():
            if inner.name in ("policyEntries", "entries", "policyEntry", "defaultEntry"):
                entries = (_read_entry(document, entry) for entry in document.beans(inner))
                yield from (entry for entry in entries if entry is not None)
            else:
                document.report(policy_map, inner, ("policyEntries", "defaultEntry"))


def _read_entry(document: Document, bean: Bean) -> Section | None:
    for name in _PARSE:
        value = bean.values.get(name)
        if value is not None and value.text == "":
            text = f'the name of the {name} is empty, so the policy is left out; {name}=">" is for every one'
            document.refuse(value, text)
            return None
    section: Section = {}
    for name, value in bean.values.items():
        if name == "dispatchPolicy":
            _report_dispatch(document, value)
        elif name in _CHOICES:
            _read_choice(document, value, section)
        elif name in _STRATEGIES:
            _read_strategy(document, value, section)
        elif name == "pendingMessageLimitStrategy":
            _read_limit(document, value, section)
        elif name == "messageEvictionStrategy":
            _check_eviction(document, value)
        elif not _read_destination(document, value, section):
            document.read_option(bean, value, PolicyEntry, section)
    return section


def _read_destination(document: Document, value: Value, section: Section) -> bool:
    """Read the ``queue`` or ``topic`` that an entry is for, if it is written as an element."""
    if value.name in _TEMPORARY:
        document.ignore(value, "temporary destinations have the default policy")
    elif value.name == "destination":
        bean = document.resolve(value)
        name = bean.values.get("physicalName") if bean else None
        if bean is None or name is None or bean.kind not in _PARSE:
            raise document.error(value, 'write queue="..." or topic="..." in the policyEntry')
        section[bean.kind] = document.scalar(name)
    else:
        return False
    return True


def _read_choice(document: Document, value: Value, section: Section) -> None:
    """Read the name of a cursor."""
    bean, kind = _chosen(document, value)
    if kind not in _CHOICES[value.name]:
        text = f"{bean.kind or 'this'} is not supported, and the default is used; use one of"
        document.note(Kind.UNKNOWN, bean, f"{text} {', '.join(_CHOICES[value.name])}", value.name)
        return
    section[value.name] = Given(kind, document.place(bean, kind))
    for inner in bean.values.values():
        document.ignore(inner, "the cursor always works like ActiveMQ's default")


def _report_dispatch(document: Document, value: Value) -> None:
    bean, kind = _chosen(document, value)
    fate = FATES.get((value.name, kind))
    if fate is not None:
        document.tell(bean, fate, kind, kind)
    else:
        text = f"{bean.class_name or 'this'} is not supported, and every subscriber would get the messages"
        document.refuse(bean, f"{text}; remove it", kind)


def _read_strategy(document: Document, value: Value, section: Section) -> None:
    kinds, default = _STRATEGIES[value.name]
    bean, name = _chosen(document, value)
    kind = next(
        (kind_of_strategy for kind_of_strategy in get_args(kinds) if kind_of_strategy.type == name), None
    )
    if kind is None:
        text = f"{bean.class_name or 'this'} is not supported, and the default would be used: {default}"
        document.refuse(bean, f"{text}; name another one", value.name)
        return
    strategy: Section = {"type": Given(name, document.place(bean, name))}
    if kind is QueryBasedSubscriptionRecoveryPolicy:
        query = _query(document, bean)
        section |= {} if query is None else {value.name: {**strategy, "query": query}}
        return
    for inner in bean.values.values():
        if inner.name == "deadLetterQueue" and find_field(kind, inner.name):
            strategy[inner.name] = _queue_name(document, inner)
        else:
            document.read_option(bean, inner, kind, strategy)
    section[value.name] = strategy


def _query(document: Document, bean: Bean) -> Given | None:
    """Read the query of a recovery policy, a class in Python; None for one in Java."""
    value = bean.values.get("query", Value("query", bean.line))
    name = value.text or ""
    if document.has(name.removeprefix("#")) or value.elements:
        name = (document.resolve(value) or bean).kind
    if is_python(name):
        return Given(name, document.place(value))
    text = (
        f"{name} is a Java class, and new subscribers would get no earlier messages; write a class with the"
    )
    document.refuse(
        value, f'{text} methods execute and validate_update, and name it as "package.module:Class"'
    )
    return None


def _chosen(document: Document, value: Value) -> tuple[Bean, str]:
    """Return the bean of a cursor or strategy, and the name of its element."""
    bean = document.resolve(value) or Bean(value.text or "", value.line)
    name = bean.class_name
    return bean, _CLASSES.get(name, bean.kind if name == bean.kind else name[:1].lower() + name[1:])


def _queue_name(document: Document, value: Value) -> Given:
    """Read the name of a queue: ``queue://X``, ``X``, or a ``queue`` element."""
    bean = document.resolve(value)
    name = bean.values.get("physicalName") if bean else None
    given = document.scalar(replace(name or value, name=value.name))
    if given.problem is not None:
        return given
    return Given(str(given.value).removeprefix("queue://"), given.place, text=True)


def _read_limit(document: Document, value: Value, section: Section) -> None:
    bean = document.resolve(value)
    limit = bean.values.get("limit") if bean else None
    if bean and limit and bean.kind.lower().endswith("constantpendingmessagelimitstrategy"):
        section["pendingMessageLimit"] = document.scalar(limit)
        return
    if bean and bean.kind.lower().endswith("prefetchratependingmessagelimitstrategy"):
        given = bean.values.get("multiplier")
        rate = Given(0.5, document.place(bean)) if given is None else document.scalar(given)
        section["pendingMessageLimitMultiplier"] = rate
        return
    name = bean.class_name if bean else "this"
    text = f"{name} is not supported, and a slow subscriber would have any number of messages"
    document.refuse(value, f"{text}; use a constantPendingMessageLimitStrategy")


def _check_eviction(document: Document, value: Value) -> None:
    """Refuse a strategy by which other messages than the oldest are dropped."""
    bean, kind = _chosen(document, value)
    if kind == "oldestMessageEvictionStrategy":
        document.ignore(value, "the oldest message is dropped first")
    else:
        text = f"{bean.class_name or 'this'} is not supported: the oldest message would be dropped first"
        document.refuse(value, f"{text}; remove it")


def read_redelivery(document: Document, value: Value) -> Iterator[Section]:
    """Yield the redelivery policies among a broker's plug-ins, with their destinations."""
    for plugin in document.beans(value):
        for inner in plugin.values.values() if plugin.kind == "redeliveryPlugin" else ():
            if inner.name == "redeliveryPolicyMap":
                policy_map = document.resolve(inner) or Bean(inner.name, inner.line)
                for entries in policy_map.values.values():
                    yield from (_read_redelivery(document, bean) for bean in document.beans(entries))
            elif (inner.text or "").lower() != "true":
                document.report(plugin, inner)


def _read_redelivery(document: Document, bean: Bean) -> Section:
    section: Section = {}
    for name, value in bean.values.items():
        if name in _PARSE:
            section[name] = document.scalar(value)
        elif not _read_destination(document, value, section):
            document.read_option(bean, value, RedeliveryPolicy, section)
    return section


def with_redelivery(policies: list[Section], redeliveries: list[Section]) -> list[Section]:
    """Return the policies, each with the redelivery policy of its destinations, separate in ActiveMQ.

    A destination that only a redelivery policy names gets a copy of the policy that matches it.
    """
    if not redeliveries:
        return policies
    choose, choose_redelivery = _Chooser(policies), _Chooser(redeliveries)
    joined: list[Section] = []
    for destination, where in (choose.names | choose_redelivery.names).items():
        redelivery = choose_redelivery.find(destination)
        section = {**where, **(choose.find(destination) or {})}
        joined.append(section if redelivery is None else {**section, "redeliveryPolicy": redelivery})
    return joined


class _Chooser:
    """Finds the section that matches a destination or pattern, or all others (None)."""

    def __init__(self, sections: list[Section]) -> None:
        self.names: dict[Destination | None, Section] = {}
        """Each destination, and the options that name it."""
        self._others: Section | None = None
        entries = []
        for section in sections:
            rest = {name: value for name, value in section.items() if name not in _PARSE}
            named = [*_destinations(section)]
            for destination, where in named:
                self.names.setdefault(destination, where)
                entries.append((destination, rest))
            if not named:
                self.names.setdefault(None, {})
                self._others = self._others or rest
        self._by_destination = DestinationMap(entries)

    def find(self, destination: Destination | None) -> Section | None:
        policy = None if destination is None else self._by_destination.find(destination)
        return self._others if policy is None else policy


def _destinations(section: Section) -> Iterator[tuple[Destination, Section]]:
    for name, parse in _PARSE.items():
        given = section.get(name)
        if isinstance(given, Given):
            try:
                members = parse(str(given.value)).members
            except InvalidDestination as error:
                raise ConfigurationError(str(error), option=name, place=given.place) from error
            for member in members:
                yield member, {name: replace(given, value=member.name)}
