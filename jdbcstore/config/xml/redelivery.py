"""``redeliveryPlugin``: when rejected messages come again; ActiveMQ has it beside the policy entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from jdbcstore.config.fields import find_field
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.policy import RedeliveryPolicy
from jdbcstore.config.reasons import REDELIVERY, REDELIVERY_PLUGIN
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.policies import TEMPORARY, take_destination
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationMap

_PARSE = {"queue": Destination.queue, "topic": Destination.topic}


def read_plugins(document: Document, value: Value) -> list[Section]:
    """The redelivery policies among a broker's plug-ins, each with its destination unless it is for all."""
    found: list[Section] = []
    for plugin in document.beans(value):
        if plugin.kind == "redeliveryPlugin":
            found += _read_plugin(document, plugin)
    return found


def with_redelivery(policies: list[Section], redeliveries: list[Section]) -> list[Section]:
    """The policies with the redelivery policy that each has in ActiveMQ, where the two are chosen apart.

    What only a redelivery policy names gets a copy of the policy that holds there.
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
    """The section that holds for a destination or pattern, or for all others (None)."""

    def __init__(self, sections: list[Section]) -> None:
        self.names: dict[Destination | None, Section] = {}
        """Each destination as the section named it."""
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
        found = None if destination is None else self._by_destination.find(destination)
        return self._others if found is None else found


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


def _read_plugin(document: Document, plugin: Bean) -> Iterator[Section]:
    for name, value in plugin.values.items():
        if name == "redeliveryPolicyMap":
            policy_map = document.referred(value) or Bean("redeliveryPolicyMap", value.line)
            for inner in policy_map.values.values():
                yield from (_read_policy(document, bean) for bean in document.beans(inner))
        elif (value.text or "").lower() != "true":
            document.tell(plugin, name, value, REDELIVERY_PLUGIN)


def _read_policy(document: Document, bean: Bean) -> Section:
    section: Section = {}
    for name, value in bean.values.items():
        if name in _PARSE or find_field(RedeliveryPolicy, name):
            section[name] = document.scalar(name, value)
        elif name == "destination":
            take_destination(document, value, section)
        elif name in TEMPORARY:
            document.note(Kind.IGNORED, value.line, name, "temporary destinations have the default policy")
        else:
            document.tell(bean, name, value, REDELIVERY, (one.name for one in fields(RedeliveryPolicy)))
    return section
