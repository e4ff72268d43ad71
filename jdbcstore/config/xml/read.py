"""Which file this is, and the broker in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jdbcstore.config.given import Given, Kind, Note, Section, merge
from jdbcstore.config.reasons import OF_BROKER
from jdbcstore.config.users import PluginUsers
from jdbcstore.config.xml.artemis import is_artemis, read_artemis
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.broker import read_connectors, read_usage, tell_tls
from jdbcstore.config.xml.document import Element, parse_xml
from jdbcstore.config.xml.io_handler import read_io_handler
from jdbcstore.config.xml.persistence import SQL, read_persistence
from jdbcstore.config.xml.placeholders import Placeholders, Unresolved
from jdbcstore.config.xml.policies import read_policies
from jdbcstore.config.xml.redelivery import read_plugins, with_redelivery
from jdbcstore.config.xml.security import find_security, read_security, this_file
from jdbcstore.errors import ConfigurationError

_CONFIGURERS = ("PropertyPlaceholderConfigurer", "PropertySourcesPlaceholderConfigurer",
                "EncryptablePropertyPlaceholderConfigurer",
                "EncryptablePropertySourcesPlaceholderConfigurer")  # fmt: skip
_FILES = ("location", "locations")


def read_xml(path: Path, data: bytes, environment: Mapping[str, str]) -> tuple[Section, list[Note]]:
    """What an ``activemq.xml`` or Artemis's ``broker.xml`` gives, and notes on the rest of it.

    :raises ConfigurationError: it cannot be read, or has no broker
    """
    document = Document(path, parse_xml(path, data), Placeholders(path.parent, environment))
    try:
        if is_artemis(document.root):
            return read_artemis(document), document.notes
        for element in document.root.all():
            _define_placeholders(document, element)
        return _read_broker(document), document.notes
    except RecursionError:
        text = "beans in it refer to each other in a circle; make one of them stand alone"
        raise document.wrong(document.root.line, text) from None


def _read_broker(document: Document) -> Section:
    broker = _the_broker(document)
    section: Section = {}
    own: Section = {}
    adapter: Bean | None = None
    policies: list[Section] = []
    redeliveries: list[Section] = []
    for name, value in broker.values.items():
        if name in ("persistenceAdapter", "persistenceFactory"):
            adapter = _the_adapter(document, value)
        elif name == "destinationPolicy":
            policies = [*read_policies(document, value)]
        elif name == "plugins":
            redeliveries = read_plugins(document, value)
            own |= find_security(document, value)
        elif name == "ioExceptionHandler":
            handler = read_io_handler(document, value)
            section |= {"ioExceptionHandler": handler} if handler else {}
        elif name == "brokerName":
            section["brokerName"] = document.scalar(name, value)
        elif not _take_of_broker(document, name, value, own):
            document.note(Kind.IGNORED, value.line, name, OF_BROKER)
    policies = with_redelivery(policies, redeliveries)
    section |= {"policies": policies} if policies else {}
    if adapter is not None:
        section |= read_persistence(document, adapter)
    section = merge(section, {"broker": own} if own else {})
    persistent = broker.values.get("persistent")
    if adapter is None or (persistent and _is_false(document, "persistent", persistent)):
        section.pop("stores", None)
        section["url"] = _no_database(document, broker, persistent)
    return section


def _take_of_broker(document: Document, name: str, value: Value, section: Section) -> bool:
    """Whether the broker of jdbcstore has this, too; then it is taken."""
    match name:
        case "persistent" | "tmpDataDirectory" | "populateJMSXUserID":
            section[name] = document.scalar(name, value)
        case "transportConnectors":
            connectors = [*read_connectors(document, value)]
            section |= {"connectors": connectors} if connectors else {}
        case "systemUsage":
            section |= read_usage(document, value)
        case "sslContext":
            tell_tls(document, value)
        case "messageAuthorizationPolicy":
            section["usersFile"] = this_file(document, value)
        case "useAuthenticatedPrincipalForJMSXUserID":
            text = "the name of who has logged in is the login, which populateJMSXUserID puts there"
            document.note(Kind.IGNORED, value.line, name, text)
        case _:
            return False
    return True


def read_plugin_users(path: Path, environment: Mapping[str, str]) -> PluginUsers:
    """Who may log in to the broker of an ``activemq.xml``, and what they may do.

    :raises ConfigurationError: it cannot be read, or has something that jdbcstore cannot obey
    """
    try:
        document = Document(path, parse_xml(path, path.read_bytes()), Placeholders(path.parent, environment))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", option="users_file") from error
    if is_artemis(document.root):
        text = "the security-settings of Artemis are not obeyed; give users of jdbcstore's own with --users"
        raise document.wrong(document.root.line, text, "security-settings")
    for element in document.root.all():
        _define_placeholders(document, element)
    return read_security(document, _the_broker(document))


def _is_false(document: Document, name: str, value: Value) -> bool:
    return document.text(value.line, name, value.text or "").lower() == "false"


def _no_database(document: Document, broker: Bean, persistent: Value | None) -> Given:
    if persistent is not None:
        problem, line = "this broker keeps its messages in memory, for persistent is false", persistent.line
    else:
        problem, line = "this broker has no persistenceAdapter, and keeps its messages in files", broker.line
    return Given(
        None, document.place(line), problem=f"{problem}; name a database with --url or JDBCSTORE_URL"
    )


def _the_broker(document: Document) -> Bean:
    """The one broker of the file, or what stands for it in a file that is a part of one."""
    found = [bean for bean in map(document.bean, document.root.all()) if bean.kind == "broker"]
    if len(found) > 1:
        lines = ", ".join(str(bean.line) for bean in found)
        raise document.wrong(found[1].line, f"there are brokers in lines {lines}; put each into its own file")
    if found:
        return found[0]
    part = Bean("broker", document.root.line)
    for element in document.root.all():
        _add_part(document, part, element)
    if not part.values:
        raise document.wrong(
            document.root.line,
            "there is neither a broker nor a jdbcPersistenceAdapter in it; name another file",
        )
    return part


def _add_part(document: Document, part: Bean, element: Element) -> None:
    if element.name in ("persistenceAdapter", "persistenceFactory", "destinationPolicy"):
        part.values.setdefault(element.name, Value(element.line, elements=element.children))
    elif document.bean(element).kind in SQL:
        part.values.setdefault("persistenceAdapter", Value(element.line, elements=[element]))


def _the_adapter(document: Document, value: Value) -> Bean | None:
    if value.text is not None:
        return document.referred(value)
    beans = [*document.beans(value)]
    sql = [bean for bean in beans if bean.kind in SQL]
    chosen = next(iter([*sql, *beans]), None)
    for bean in beans:
        if bean is not chosen:
            text = "a broker has one persistence adapter; this one is left out"
            document.note(Kind.UNKNOWN, bean.line, bean.kind, text)
    return chosen


def _define_placeholders(document: Document, element: Element) -> None:
    """Read what a Spring element says about placeholders, or other files."""
    if element.name == "import":
        text = "imported files are not read; what the broker refers to has to be in this one"
        document.note(Kind.IGNORED, element.line, "import", text)
    if element.name == "property-placeholder":
        for location in element.attributes.get("location", "").split(","):
            _add_file(document, element.line, location.strip())
        return
    bean = document.bean(element) if element.name == "bean" else None
    if bean is None or bean.class_name not in _CONFIGURERS:
        return
    mode = bean.values.get("systemPropertiesModeName")
    if mode is not None and mode.text == "SYSTEM_PROPERTIES_MODE_OVERRIDE":
        document.placeholders.environment_wins()
    for name in _FILES:
        value = bean.values.get(name)
        if value is not None:
            _add_files(document, value)
    inline = bean.values.get("properties")
    if inline is not None:
        _add_inline(document, inline)


def _add_files(document: Document, value: Value) -> None:
    if value.text is not None:
        for location in value.text.split(","):
            _add_file(document, value.line, location.strip())
    for element in value.elements:
        for one in element.all():
            if one.name == "value" and one.text:
                _add_file(document, one.line, one.text)


def _add_file(document: Document, line: int, location: str) -> None:
    try:
        document.placeholders.add_file(location)
    except Unresolved as error:
        document.note(
            Kind.UNKNOWN, line, "location", f"{error}; its placeholders are taken from the environment"
        )


def _add_inline(document: Document, value: Value) -> None:
    """``<props><prop key="a">b</prop></props>``, or lines of text."""
    import javaproperties

    document.placeholders.add(javaproperties.loads(value.text or ""))
    for element in value.elements:
        for one in element.all():
            if one.name == "prop":
                document.placeholders.add({one.attributes.get("key", ""): one.text})
