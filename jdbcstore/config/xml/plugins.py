"""The plug-ins of a broker that are not about users, and the destinations that there are from the start."""

from __future__ import annotations

from jdbcstore.config.given import Given, Section
from jdbcstore.config.plugins import (
    DiscardingDeadLettersConfig,
    ForcePersistencyModeConfig,
    LoggingConfig,
    StatisticsConfig,
    TimeStampingConfig,
)
from jdbcstore.config.reasons import NO_NETWORKS, by_name
from jdbcstore.config.xml.beans import Bean, Document, Value

_KINDS = {
    kind.type.lower(): kind
    for kind in (
        ForcePersistencyModeConfig,
        TimeStampingConfig,
        DiscardingDeadLettersConfig,
        StatisticsConfig,
        LoggingConfig,
    )
}
_CLASSES = {
    "forcepersistencymodebroker": "forcepersistencymodebrokerplugin",
    "discardingdlqplugin": "discardingdlqbrokerplugin",
    "statisticsbroker": "statisticsbrokerplugin",
}
"""Other elements and classes of the same plug-ins."""
REASONS = by_name({
    NO_NETWORKS: ("processNetworkMessages",),
    "a client has no sessions at the broker": ("logSessionEvents",),
    "the broker in the same file is used": ("adminConnectionContext", "next", "brokerService"),
    "its elements have a pattern each: use dropOnly": ("destFilter",),
})  # fmt: skip
"""Attributes of plug-ins that have no effect."""
_NO_EFFECT = by_name({
    "a message does not tell which brokers it has passed": ("tracebrokerpathplugin",),
    "nothing is sent to other machines": ("multicasttracebrokerplugin", "udptracebrokerplugin"),
    "no picture of connections and destinations is written: see the console": (
        "connectiondotfileplugin", "destinationdotfileplugin",
    ),
    "a virtual topic sends to each consumer's queue what the consumer's selector matches": (
        "virtualselectorcachebrokerplugin", "subqueueselectorcachebrokerplugin",
    ),
    "a change of the file is in effect with the next start": ("runtimeconfigurationplugin",),
})  # fmt: skip
_REFUSED = by_name({
    "the parts of names are between dots here, and clients would use other destinations": (
        "destinationpathseparatorplugin",
    ),
    "messages would stay here that Camel's routes pass on": ("camelroutesbrokerplugin",),
    "clients would not be sent to the brokers that have their destinations": ("partitionbrokerplugin",),
})  # fmt: skip
_DESTINATIONS = "destinationsplugin"


def read_plugins(document: Document, value: Value) -> Section:
    """Read the section of each plug-in that the broker obeys, in order; the others are noted."""
    found: list[Section] = []
    for bean in document.beans(value):
        name = bean.class_name.lower()
        name = _CLASSES.get(name, name)
        kind = _KINDS.get(name)
        if kind is None:
            _report(document, bean, name)
            continue
        section: Section = {"type": Given(kind.type, document.place(bean))}
        for inner in bean.values.values():
            document.take(bean, inner, kind, section, REASONS)
        found.append(section)
    return {"plugins": found} if found else {}


def _report(document: Document, bean: Bean, name: str) -> None:
    """Note what becomes of a plug-in that is not about users."""
    if name in _REFUSED:
        document.refuse(bean, f"{_REFUSED[name]}; remove it")
    elif name in _NO_EFFECT:
        document.ignore(bean, _NO_EFFECT[name])
    elif name == _DESTINATIONS:
        document.ignore(bean, "destinations are known from the store: the file of their names is not written")


def read_destinations(document: Document, value: Value) -> Given:
    """Read the ``destinations`` of a broker: queues and topics that there are from the start."""
    names = []
    for bean in document.beans(value):
        name = bean.values.get("physicalName") or bean.values.get("name")
        if bean.kind not in ("queue", "topic") or name is None:
            document.ignore(bean, "only a queue or a topic with a physicalName is there from the start")
            continue
        names.append(f"{bean.kind}://{document.text(name, name.text)}")
    return Given(", ".join(names), document.place(value))
