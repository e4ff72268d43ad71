"""Spring's and XBean's ways to write the same thing, made one: a bean with its properties.

``<jdbcPersistenceAdapter useLock="false">`` is the bean
``<bean class="org.apache.activemq.store.jdbc.JDBCPersistenceAdapter">`` with a ``<property>``, or with
``p:useLock``; and what is written inside another may stand elsewhere, and be referred to as ``#id``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jdbcstore.config.fields import camel, unknown
from jdbcstore.config.given import Given, Kind, Note
from jdbcstore.config.xml.document import Element
from jdbcstore.config.xml.placeholders import Placeholders, Unresolved
from jdbcstore.errors import ConfigurationError

_ELEMENTS = {
    "XBeanBrokerService": "broker",
    "BrokerService": "broker",
    "JDBCPersistenceAdapter": "jdbcPersistenceAdapter",
    "JournalPersistenceAdapterFactory": "journalPersistenceAdapterFactory",
    "PersistenceAdapterFactoryBean": "journaledJDBC",
    "JournalPersistenceAdapter": "journalPersistenceAdapter",
    "Statements": "statements",
    "DefaultDatabaseLocker": "database-locker",
    "TransactDatabaseLocker": "transact-database-locker",
    "LeaseDatabaseLocker": "lease-database-locker",
    "SharedFileLocker": "shared-file-locker",
    "DefaultIOExceptionHandler": "defaultIOExceptionHandler",
    "LeaseLockerIOExceptionHandler": "leaseLockerIOExceptionHandler",
    "JDBCIOExceptionHandler": "jDBCIOExceptionHandler",
    "PolicyMap": "policyMap",
    "PolicyEntry": "policyEntry",
    "RedeliveryPlugin": "redeliveryPlugin",
    "KahaDBPersistenceAdapter": "kahaDB",
    "MultiKahaDBPersistenceAdapter": "mKahaDB",
    "FilteredKahaDBPersistenceAdapter": "filteredKahaDB",
    "LevelDBStore": "levelDB",
    "LevelDBPersistenceAdapter": "levelDB",
    "AMQPersistenceAdapter": "amqPersistenceAdapter",
    "SimpleAuthenticationPlugin": "simpleAuthenticationPlugin",
    "AuthenticationUser": "authenticationUser",
    "JaasAuthenticationPlugin": "jaasAuthenticationPlugin",
    "AuthorizationPlugin": "authorizationPlugin",
    "DefaultAuthorizationMap": "authorizationMap",
    "AuthorizationEntry": "authorizationEntry",
    "TempDestinationAuthorizationEntry": "tempDestinationAuthorizationEntry",
}
"""Of ActiveMQ's classes, by the last part of their names."""

_SPELLINGS = {
    **{name.lower(): name for name in _ELEMENTS.values() if name[1:2].islower() or name[:2] == "mK"},
    **dict.fromkeys(("journalledjdbc", "journaljdbc", "journalizedjdbc"), "journaledJDBC"),
    "amqpersistenceadapterfactory": "amqPersistenceAdapter",
}
"""Elements as ActiveMQ's schema and Red Hat's guides have them, whatever their capitals."""

_OF_BEAN = frozenset(
    ("id", "name", "class", "parent", "abstract", "scope", "singleton", "lazy-init", "init-method",
     "destroy-method", "depends-on", "autowire", "primary", "factory-bean", "factory-method",
     "dependency-check")
)  # fmt: skip
"""Attributes that say how to make a bean, and no property of it."""


@dataclass(slots=True)
class Value:
    """What a property is given: a text, a bean, or a list of either."""

    line: int
    text: str | None = field(default=None, repr=False)  # it may be a password
    elements: list[Element] = field(default_factory=list)


@dataclass(slots=True)
class Bean:
    kind: str
    """The name of its element, or its class where ActiveMQ has no element for that."""
    line: int
    values: dict[str, Value] = field(default_factory=dict)

    @property
    def class_name(self) -> str:
        """The last part of a class's name."""
        return self.kind.rpartition(".")[2]


class Document:
    """One file: its beans, by reference too, its placeholders, and notes on what was found in it."""

    def __init__(self, path: Path, root: Element, placeholders: Placeholders) -> None:
        self.path = path
        self.root = root
        self.placeholders = placeholders
        self.notes: list[Note] = []
        self._by_id = {
            element.attributes[key]: element
            for element in root.all()
            for key in ("name", "id")
            if key in element.attributes and (key == "id" or element.name == "bean")
        }

    def place(self, line: int, name: str = "") -> str:
        return f"{self.path}:{line}" + (f", {name}" if name else "")

    def note(self, kind: Kind, line: int, name: str, text: str) -> None:
        self.notes.append(Note(kind, self.place(line, name), text))

    def wrong(self, line: int, text: str, name: str = "") -> ConfigurationError:
        return ConfigurationError(text, place=self.place(line, name))

    def bean(self, element: Element) -> Bean:
        """What an element makes; the properties of its Spring parent are its own."""
        attributes = element.attributes
        if element.name != "bean":
            found = Bean(_SPELLINGS.get(element.name.lower(), element.name), element.line)
        else:
            class_name = attributes.get("class", "")
            kind = _ELEMENTS.get(class_name.rpartition(".")[2], class_name)
            found = Bean(kind, element.line)
            if "parent" in attributes:
                parent = self.bean(self._find(attributes["parent"], element.line))
                found.kind, found.values = found.kind or parent.kind, dict(parent.values)
        is_bean = element.name == "bean"
        own = {name: text for name, text in attributes.items() if not is_bean or name not in _OF_BEAN}
        for name, text in {**own, **element.properties}.items():
            if name.endswith("-ref"):
                found.values[name.removesuffix("-ref")] = Value(element.line, f"#{text}")
            elif name != "id":
                found.values[name] = Value(element.line, text)
        for child in element.children:
            self._add_child(found, child)
        return found

    def _add_child(self, bean: Bean, child: Element) -> None:
        if child.name == "property":
            bean.values[child.attributes.get("name", "")] = self._property(child)
        elif child.name == "constructor-arg":
            bean.values[child.name] = self._property(child)
        elif child.attributes or not (child.children or child.text):
            # Written without the property's own element around it.
            bean.values.setdefault(child.name, Value(child.line)).elements.append(child)
        else:
            bean.values[child.name] = Value(child.line, child.text or None, child.children)

    def _property(self, element: Element) -> Value:
        attributes = element.attributes
        if "ref" in attributes:
            return Value(element.line, f"#{attributes['ref']}")
        if "value" in attributes:
            return Value(element.line, attributes["value"])
        [*values] = [child for child in element.children if child.name == "value"]
        if len(values) == 1 and len(element.children) == 1:
            return Value(values[0].line, values[0].text)
        return Value(element.line, element.text or None, element.children)

    def referred(self, value: Value) -> Bean | None:
        """The bean that a property is, written inside it or elsewhere."""
        if value.text is not None and value.text.startswith("#"):
            return self.bean(self._find(value.text[1:], value.line))
        for element in value.elements:
            if element.name == "ref":
                name = element.attributes.get("bean") or element.attributes.get("local", "")
                return self.bean(self._find(name, element.line))
            return self.bean(element)
        return None

    def beans(self, value: Value | None) -> Iterator[Bean]:
        """Each bean of a list."""
        for element in value.elements if value else ():
            inner = element.children if element.name == "list" else [element]
            yield from map(self.bean, inner)

    def _find(self, name: str, line: int) -> Element:
        try:
            return self._by_id[name]
        except KeyError:
            text = f"no bean of this file has the id {name!r}; define it here, or correct the reference"
            raise self.wrong(line, text) from None

    def given(self, line: int, name: str, text: str) -> Given:
        """A property's text, its placeholders filled in: in ActiveMQ's unit."""
        place = self.place(line, name)
        try:
            return Given(self.placeholders.fill(text), place, text=True, theirs=True)
        except Unresolved as error:
            return Given(None, place, problem=str(error))

    def text(self, line: int, name: str, text: str) -> str:
        """The same, where the text must be had.

        :raises ConfigurationError: a placeholder that nobody defines
        """
        given = self.given(line, name, text)
        if given.problem is not None:
            raise ConfigurationError(given.problem, place=given.place)
        return str(given.value)

    def scalar(self, name: str, value: Value) -> Given:
        """A property that can only be a text.

        :raises ConfigurationError: it is an element
        """
        if value.text is None:
            raise self.wrong(value.line, "a text is needed, not an element", name)
        return self.given(value.line, name, value.text)

    def tell(
        self, bean: Bean, name: str, value: Value, reasons: Mapping[str, str], taken: Iterable[str] = ()
    ) -> None:
        """Note why a property is not taken over: its reason, or that nobody knows it."""
        reason = reasons.get(name)
        if reason is not None:
            self.note(Kind.IGNORED, value.line, name, reason)
        else:
            text = unknown("attribute", name, {*map(camel, taken), *reasons}, f" of {bean.kind}")
            self.note(Kind.UNKNOWN, value.line, name, text)
