"""An XML file as beans with properties, whichever of Spring's and XBean's notations it uses.

``<jdbcPersistenceAdapter useLock="false">`` is the bean
``<bean class="org.apache.activemq.store.jdbc.JDBCPersistenceAdapter">`` with a ``<property>``, or with
``p:useLock``; and a bean may be inside another, or elsewhere in the file and referred to as ``#id``.

Entities, and everything outside the file, are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol
from xml.parsers import expat

from jdbcstore.config.fates import ANY, FATES, Fate, element_of, names_of
from jdbcstore.config.fields import camel, find_field, unknown
from jdbcstore.config.given import Given, Kind, Note, Section
from jdbcstore.config.xml.placeholders import Placeholders, Unresolved
from jdbcstore.errors import ConfigurationError

_DEEPEST = 100
_SPRING_P = "http://www.springframework.org/schema/p"
_SAME = (
    *("DefaultIOExceptionHandler", "JournalPersistenceAdapter", "JournalPersistenceAdapterFactory"),
    *("LeaseLockerIOExceptionHandler", "PolicyEntry", "PolicyMap", "RedeliveryPlugin", "Statements"),
    *("SimpleAuthenticationPlugin", "AuthenticationUser", "JaasAuthenticationPlugin", "AuthorizationPlugin"),
    *("AuthorizationEntry", "TempDestinationAuthorizationEntry", "VirtualDestinationInterceptor"),
    *("VirtualTopic", "CompositeQueue", "CompositeTopic", "FilteredDestination"),
)
"""Classes whose element is the class name with a lower-case initial."""
_ELEMENTS = {
    **{name: name[0].lower() + name[1:] for name in _SAME},
    "XBeanBrokerService": "broker",
    "BrokerService": "broker",
    "JDBCPersistenceAdapter": "jdbcPersistenceAdapter",
    "PersistenceAdapterFactoryBean": "journaledJDBC",
    "DefaultDatabaseLocker": "database-locker",
    "TransactDatabaseLocker": "transact-database-locker",
    "LeaseDatabaseLocker": "lease-database-locker",
    "SharedFileLocker": "shared-file-locker",
    "JDBCIOExceptionHandler": "jDBCIOExceptionHandler",
    "KahaDBPersistenceAdapter": "kahaDB",
    "MultiKahaDBPersistenceAdapter": "mKahaDB",
    "FilteredKahaDBPersistenceAdapter": "filteredKahaDB",
    "LevelDBStore": "levelDB",
    "LevelDBPersistenceAdapter": "levelDB",
    "AMQPersistenceAdapter": "amqPersistenceAdapter",
    "DefaultAuthorizationMap": "authorizationMap",
}
"""The elements of ActiveMQ's classes, by the last part of the class's name."""
_SPELLINGS = {
    **{name.lower(): name for name in _ELEMENTS.values() if name[1:2].islower() or name[:2] == "mK"},
    **dict.fromkeys(("journalledjdbc", "journaljdbc", "journalizedjdbc"), "journaledJDBC"),
    "amqpersistenceadapterfactory": "amqPersistenceAdapter",
}
"""Elements as ActiveMQ's schema and Red Hat's guides spell them, by the name in lower case."""
_MISSPELT = {
    "inactiveTimoutBeforeGC": "inactiveTimeoutBeforeGC",
    "advisdoryForFastProducers": "advisoryForFastProducers",
    "advisoryForFastProducer": "advisoryForFastProducers",
    "advisoryForSlowConsumer": "advisoryForSlowConsumers",
    "advisoryForDiscardedMessages": "advisoryForDiscardingMessages",
    "advisoryForDelivered": "advisoryForDelivery",
    "advisoryForFull": "advisoryWhenFull",
    "inactiveTimeoutBeforeGc": "inactiveTimeoutBeforeGC",
    "maxRedeliveries": "maximumRedeliveries",
    "backoffMultiplier": "backOffMultiplier",
    "useExponentialBackoff": "useExponentialBackOff",
    "prioritisedMessages": "prioritizedMessages",
    "initialReconnectDelay": "initialRedeliveryDelay",
    "ignoreMissingJournalFiles": "ignoreMissingJournalfiles",
}
"""Names of attributes as only manuals spell them, or older versions, and as ActiveMQ's classes do."""
_OF_BEAN = frozenset(
    ("id", "name", "class", "parent", "abstract", "scope", "singleton", "lazy-init", "init-method",
     "destroy-method", "depends-on", "autowire", "primary", "factory-bean", "factory-method",
     "dependency-check")
)  # fmt: skip
"""Attributes of ``<bean>`` that are not properties of the bean."""
_CONFIGURERS = ("PropertyPlaceholderConfigurer", "PropertySourcesPlaceholderConfigurer",
                "EncryptablePropertyPlaceholderConfigurer",
                "EncryptablePropertySourcesPlaceholderConfigurer")  # fmt: skip


class Located(Protocol):
    """Something in the file that has a name and a line."""

    @property
    def name(self) -> str: ...
    @property
    def line(self) -> int: ...


@dataclass(slots=True, repr=False)
class Element:
    """An element by its local name; the prefix is the author's choice."""

    name: str
    line: int
    attributes: dict[str, str]
    properties: dict[str, str]
    """Spring's ``p:name`` attributes."""
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, *names: str) -> Iterator[Element]:
        """Yield this element and all its descendants: those of these names, if any are given."""
        if not names or self.name in names:
            yield self
        for child in self.children:
            yield from child.all(*names)


@dataclass(slots=True)
class Value:
    """The value of a property: a string, a reference ``#id``, or elements."""

    name: str
    line: int
    text: str | None = field(default=None, repr=False)  # it may be a password
    elements: list[Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Return all elements of a name in the value."""
        return (match for element in self.elements for match in element.all(name))


@dataclass(slots=True)
class Bean:
    """A bean and its properties."""

    kind: str
    """The name of its element, or its class if ActiveMQ does not have an element for it."""
    line: int
    values: dict[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kind

    @property
    def class_name(self) -> str:
        """The last part of the class's name."""
        return self.kind.rpartition(".")[2]


class Document:
    """A configuration file in XML: its beans, its placeholders, and notes on its contents."""

    def __init__(self, path: Path, data: bytes, environment: Mapping[str, str]) -> None:
        self.path = path
        self.root = parse_xml(path, data)
        self.placeholders = Placeholders(path.parent, environment)
        self.notes: list[Note] = []
        self._by_id = {
            element.attributes[key]: element
            for element in self.root.all()
            for key in ("name", "id")
            if key in element.attributes and (key == "id" or element.name == "bean")
        }

    def has(self, name: str) -> bool:
        """Return whether a bean of this file has the id."""
        return name in self._by_id

    def place(self, at: Located, name: str | None = None) -> str:
        """Return the file and line of something; its own name is added unless another, or "", is given."""
        name = at.name if name is None else name
        return f"{self.path}:{at.line}" + (f", {name}" if name else "")

    def note(self, kind: Kind, at: Located, text: str, name: str | None = None) -> None:
        self.notes.append(Note(kind, self.place(at, name), text))

    def ignore(self, at: Located, text: str, name: str | None = None) -> None:
        """Add a note that something has no effect."""
        self.note(Kind.IGNORED, at, text, name)

    def refuse(self, at: Located, text: str, name: str | None = None) -> None:
        """Add a note because of which the broker does not start."""
        self.note(Kind.REFUSED, at, text, name)

    def tell(self, at: Located, fate: Fate, value: str, name: str | None = None) -> None:
        """Note the fate of a setting, unless nothing changes by its value."""
        if value.strip().lower() not in fate.harmless:
            self.note(fate.kind, at, fate.reason, name)

    def error(self, at: Located, text: str, name: str | None = None) -> ConfigurationError:
        """Return an error about something in this file, to be raised."""
        return ConfigurationError(text, place=self.place(at, name))

    def bean(self, element: Element) -> Bean:
        """Return the bean of an element, with the properties of its Spring parent."""
        attributes = element.attributes
        is_bean = element.name == "bean"
        if is_bean:
            class_name = attributes.get("class", "")
            result = Bean(_ELEMENTS.get(class_name.rpartition(".")[2], class_name), element.line)
            if "parent" in attributes:
                parent = self.bean(self._find(attributes["parent"], element.line))
                result.kind, result.values = result.kind or parent.kind, dict(parent.values)
        else:
            result = Bean(_SPELLINGS.get(element.name.lower(), element.name), element.line)
        own = {name: text for name, text in attributes.items() if not is_bean or name not in _OF_BEAN}
        for name, text in {**own, **element.properties}.items():
            if name.endswith("-ref"):
                name = name.removesuffix("-ref")
                result.values[name] = Value(name, element.line, f"#{text}")
            elif name != "id":
                result.values[name] = Value(name, element.line, text)
        for child in element.children:
            self._add_child(result, child)
        return result

    def _add_child(self, bean: Bean, child: Element) -> None:
        if child.name in ("property", "constructor-arg"):
            value = self._property(child)
            bean.values[value.name] = value
        elif child.attributes or not (child.children or child.text):
            # The bean itself, without an element of the property's name around it.
            bean.values.setdefault(child.name, Value(child.name, child.line)).elements.append(child)
        else:
            bean.values[child.name] = Value(child.name, child.line, child.text or None, child.children)

    def _property(self, element: Element) -> Value:
        attributes = element.attributes
        name = attributes.get("name", "") if element.name == "property" else element.name
        if "ref" in attributes:
            return Value(name, element.line, f"#{attributes['ref']}")
        if "value" in attributes:
            return Value(name, element.line, attributes["value"])
        if [child.name for child in element.children] == ["value"]:
            return Value(name, element.children[0].line, element.children[0].text)
        return Value(name, element.line, element.text or None, element.children)

    def resolve(self, value: Value | None) -> Bean | None:
        """Return the bean that a property contains or refers to; None if it is a plain string, or absent.

        :raises ConfigurationError: no bean has the id that is referred to
        """
        if value is None:
            return None
        if value.text is not None and value.text.startswith("#"):
            return self.bean(self._find(value.text[1:], value.line))
        for element in value.elements:
            if element.name == "ref":
                name = element.attributes.get("bean") or element.attributes.get("local", "")
                return self.bean(self._find(name, element.line))
            return self.bean(element)
        return None

    def beans(self, value: Value | None) -> Iterator[Bean]:
        """Yield the beans of a list that a property contains or refers to, or its one bean."""
        if value is None:
            return
        parts = [Value(value.name, value.line, text) for text in (value.text or "").replace(",", " ").split()]
        for element in value.elements:
            for inner in element.children if element.name == "list" else [element]:
                parts.append(Value(value.name, inner.line, elements=[inner]))
        for part in parts:
            bean = self.resolve(part)
            # An element without content, such as <plugins/>, is an empty list.
            if bean is not None and (bean.values or bean.kind != value.name):
                yield bean

    def _find(self, name: str, line: int) -> Element:
        try:
            return self._by_id[name]
        except KeyError:
            text = f"no bean in this file has the id {name!r}; define it here, or correct the reference"
            raise ConfigurationError(text, place=f"{self.path}:{line}") from None

    def given(self, at: Located, text: str) -> Given:
        """Return a string with its placeholders resolved, in ActiveMQ's unit."""
        try:
            return Given(self.placeholders.fill(text), self.place(at), text=True, activemq_units=True)
        except Unresolved as error:
            return Given(None, self.place(at), problem=str(error))

    def no_database(self, at: Located, why: str) -> Given:
        """Return a placeholder for the URL of a database; an error if no other source names one."""
        problem = f"{why}; name a database with --url or JDBCSTORE_URL"
        return Given(None, self.place(at, ""), problem=problem)

    def text(self, at: Located, text: str | None) -> str:
        """Return a string with its placeholders resolved; "" for None.

        :raises ConfigurationError: a placeholder is not defined
        """
        given = self.given(at, text or "")
        if given.problem is not None:
            raise ConfigurationError(given.problem, place=given.place)
        return str(given.value)

    def string(self, bean: Bean, name: str) -> str | None:
        """Return a property that is a string; None if it is absent or an element.

        :raises ConfigurationError: a placeholder is not defined
        """
        value = bean.values.get(name)
        return None if value is None or value.text is None else self.text(value, value.text)

    def flag(self, bean: Bean, name: str) -> bool | None:
        """Return a property that is true or false; None if it is neither."""
        return {"true": True, "false": False}.get((self.string(bean, name) or "").lower())

    def scalar(self, value: Value) -> Given:
        """Return a property that must be a string.

        :raises ConfigurationError: it is an element
        """
        if value.text is None:
            raise self.error(value, "must be a string, not an element; write it as an attribute")
        return self.given(value, value.text)

    def read_option(self, bean: Bean, value: Value, kind: type, section: Section) -> None:
        """Put a property into the section if the dataclass has such an option, else note why not.

        A name that only ActiveMQ's manuals spell so, or in other capitals, is taken for the right one.
        """
        element, name = element_of(kind), value.name
        known = {camel(field.name) for field in fields(kind)} | names_of(element)
        if find_field(kind, name) is None:
            name = self._spelling(value, known)
        if find_field(kind, name):
            section[name] = self.scalar(value)
        else:
            self.report(bean, value, known, element=element, name=name)

    def _spelling(self, value: Value, known: Iterable[str]) -> str:
        """Return the right spelling of a name, with a note that it is taken for that; else the name."""
        by_capitals = {name.lower(): name for name in known}
        right = _MISSPELT.get(value.name) or by_capitals.get(value.name.lower(), value.name)
        if right not in by_capitals.values():
            return value.name
        if right != value.name:
            self.ignore(value, f"it is taken for {right}, as ActiveMQ's classes spell it")
        return right

    def report(
        self,
        bean: Bean,
        value: Value,
        known: Iterable[str] = (),
        *,
        element: str | None = None,
        name: str | None = None,
        is_harmless: bool = False,
    ) -> None:
        """Note the fate of a property, or that it is unknown.

        An unknown setting may decide anything, and ActiveMQ does not start with it either.

        :param element: the element of the table of fates; None is that of the bean
        :param name: the name of the property there; None for the value's own
        :param is_harmless: whether nothing of this bean decides which messages are kept, or who may read them
        """
        element, name = element or bean.kind, name or value.name
        fate = FATES.get((element, name)) or FATES.get((ANY, name))
        if fate is None:
            text = unknown("attribute", name, {*known, *names_of(element)}, f" of {bean.kind}")
            self.note(Kind.UNKNOWN if is_harmless else Kind.REFUSED, value, text)
        else:
            self.tell(value, fate, value.text or next(("x" for _ in self.beans(value)), ""))

    def define_placeholders(self) -> None:
        """Read the properties that the file, or the files that it names, define for placeholders."""
        for element in self.root.all():
            if element.name == "import":
                text = "imported files are not read; copy the beans that the broker refers to into this file"
                self.ignore(element, text)
            elif element.name == "property-placeholder":
                self._add_files(element, element.attributes.get("location", ""))
            elif element.name == "bean" and (bean := self.bean(element)).class_name in _CONFIGURERS:
                self._configure(bean)

    def _configure(self, bean: Bean) -> None:
        mode = bean.values.get("systemPropertiesModeName")
        if mode is not None and mode.text == "SYSTEM_PROPERTIES_MODE_OVERRIDE":
            self.placeholders.environment_wins = True
        for name in ("location", "locations"):
            value = bean.values.get(name)
            if value is not None:
                self._add_files(value, value.text or "")
                for element in value.all("value"):
                    self._add_files(element, element.text)
        inline = bean.values.get("properties")
        if inline is not None:
            # Lines of text, or <props><prop key="a">b</prop></props>.
            self.placeholders.add_lines(inline.text or "")
            for element in inline.all("prop"):
                self.placeholders.properties.update({element.attributes.get("key", ""): element.text})

    def _add_files(self, at: Located, locations: str) -> None:
        for location in filter(None, map(str.strip, locations.split(","))):
            try:
                self.placeholders.add_file(location)
            except Unresolved as error:
                text = f"{error}; its placeholders are taken from the environment"
                self.note(Kind.UNKNOWN, at, text, "location")


def is_python(class_name: str) -> bool:
    """Return whether a class is one in Python, ``package.module:Class``, which no Java class is called."""
    module, colon, name = class_name.partition(":")
    return bool(colon) and all(map(str.isidentifier, (*module.split("."), name)))


def parse_xml(path: Path, data: bytes) -> Element:
    """Parse a document, and return its root.

    :raises ConfigurationError: it is not well-formed, declares entities, or is nested too deep
    """
    builder = _Builder(path)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        text = f"{expat.ErrorString(error.code)}; correct the XML"
        raise ConfigurationError(text, place=f"{path}:{error.lineno}") from error
    except (ValueError, LookupError) as error:
        if isinstance(error, ConfigurationError):
            raise
        text = f"the encoding is not supported: {error}; save the file as UTF-8"
        raise ConfigurationError(text, place=str(path)) from error
    return builder.outside.children[0]


class _Builder:
    """Builds the elements from the parser's events. It never opens another file, and refuses entities.

    Old files name Spring's DTD, which the parser does not read.
    """

    def __init__(self, path: Path) -> None:
        self.outside = Element("", 0, {}, {})
        """An element around the root."""
        self._path = path
        self._open = [self.outside]
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text

    def _error(self, text: str) -> ConfigurationError:
        return ConfigurationError(text, place=f"{self._path}:{self.parser.CurrentLineNumber}")

    def _refuse_entity(self, *_: object) -> None:
        raise self._error("entities are not read; write their text in their place")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > _DEEPEST:
            raise self._error(f"elements are nested deeper than {_DEEPEST}; name a configuration file")
        by_space: dict[str, dict[str, str]] = {}
        for key, value in attributes.items():
            space, _, local = key.rpartition(" ")
            by_space.setdefault(space, {})[local] = value
        line = self.parser.CurrentLineNumber
        element = Element(name.rpartition(" ")[2], line, by_space.get("", {}), by_space.get(_SPRING_P, {}))
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, _name: str) -> None:
        element = self._open.pop()
        element.text = element.text.strip()

    def _add_text(self, content: str) -> None:
        self._open[-1].text += content
