"""The plug-ins of a broker that are not about users, and the destinations that there are from the start."""

from __future__ import annotations

from jdbcstore.config.fates import FATES
from jdbcstore.config.given import Given, Section
from jdbcstore.config.plugins import (
    DiscardingDeadLettersConfig,
    ForcePersistencyModeConfig,
    LoggingConfig,
    StatisticsConfig,
    TimeStampingConfig,
)
from jdbcstore.config.xml.beans import Document, Value

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


def read_plugins(document: Document, value: Value) -> Section:
    """Read the section of each plug-in that the broker obeys, in order; the others are noted."""
    sections: list[Section] = []
    for bean in document.beans(value):
        name = bean.class_name.lower()
        name = _CLASSES.get(name, name)
        kind = _KINDS.get(name)
        if kind is None:
            fate = FATES.get(("plugins", name))  # another may be about users
            if fate is not None:
                document.tell(bean, fate, name)
            continue
        section: Section = {"type": Given(kind.type, document.place(bean))}
        for inner in bean.values.values():
            document.read_option(bean, inner, kind, section)
        sections.append(section)
    return {"plugins": sections} if sections else {}


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
