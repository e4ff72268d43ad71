"""Virtual topics and composite destinations: the ``destinationInterceptors`` of a broker."""

from __future__ import annotations

from collections.abc import Iterator

from jdbcstore.config.given import Given, Section
from jdbcstore.config.virtual import CompositeConfig, ForwardConfig, VirtualTopicConfig
from jdbcstore.config.xml.beans import Bean, Document, Value

_COMPOSITES = {"compositeQueue": "queue", "compositeTopic": "topic"}
_KINDS = ("virtualTopic", *_COMPOSITES)


def read_virtual(document: Document, value: Value, section: Section) -> bool:
    """Read a property of the broker about virtual destinations; return whether it is one."""
    given = (value.text or "").lower()
    if value.name == "destinationInterceptors":
        section |= _read_interceptors(document, value)
    elif value.name == "useVirtualTopics":
        if given == "false":
            section.setdefault("virtualTopics", Given([], document.place(value)))
    else:
        return False
    return True


def _read_interceptors(document: Document, value: Value) -> Section:
    """Read the broker's options in ``destinationInterceptors``, which replace ActiveMQ's default."""
    topics: list[Section] = []
    composites: list[Section] = []
    for bean in _virtual_destinations(document, value):
        if bean.kind == "virtualTopic":
            topics.append(_read_topic(document, bean))
        elif bean.kind in _COMPOSITES:
            composites.append(_read_composite(document, bean))
        else:
            text = f"{bean.kind or 'this'} is not supported, and no copies would be made"
            document.refuse(bean, f"{text}; use one of {', '.join(_KINDS)}")
    nothing = Given([], document.place(value))
    return {"virtualTopics": topics or nothing, "compositeDestinations": composites or nothing}


def _virtual_destinations(document: Document, value: Value) -> Iterator[Bean]:
    for interceptor in document.beans(value):
        if interceptor.kind != "virtualDestinationInterceptor":
            text = f"{interceptor.class_name} is not supported, and no copies would be made; remove it"
            document.refuse(interceptor, text)
            continue
        for inner in interceptor.values.values():
            if inner.name == "virtualDestinations":
                yield from document.beans(inner)
            else:
                document.report(interceptor, inner, ("virtualDestinations",))


def _read_topic(document: Document, bean: Bean) -> Section:
    section: Section = {}
    for inner in bean.values.values():
        document.read_option(bean, inner, VirtualTopicConfig, section)
    return section


def _read_composite(document: Document, bean: Bean) -> Section:
    section: Section = {}
    for inner in bean.values.values():
        if inner.name == "name":
            section[_COMPOSITES[bean.kind]] = document.scalar(inner)
        elif inner.name == "forwardTo":
            forwards = [_read_forward(document, bean) for bean in document.beans(inner)]
            section |= {"forwardTo": forwards} if forwards else {}
        else:
            document.read_option(bean, inner, CompositeConfig, section)
    return section


def _read_forward(document: Document, bean: Bean) -> Section:
    if bean.kind in ("queue", "topic"):
        name = bean.values.get("physicalName") or bean.values.get("name")
        if name is None:
            raise document.error(bean, "a destination in forwardTo needs a physicalName; add one")
        return {bean.kind: document.scalar(name)}
    section: Section = {}
    for inner in bean.values.values():
        inside = document.resolve(inner) if inner.name == "destination" else None
        if inside is not None:
            section |= _read_forward(document, inside)
        else:
            document.read_option(bean, inner, ForwardConfig, section)
    return section
