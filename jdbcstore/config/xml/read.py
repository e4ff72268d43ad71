"""The broker of an ``activemq.xml``: its persistence adapter, policies, connectors, limits and plug-ins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

from jdbcstore.config.broker import (
    AUTO,
    AUTO_TLS,
    OPENWIRE,
    OPENWIRE_TLS,
    SCHEMES,
    STOMP,
    STOMP_TLS,
    TLS_SCHEMES,
    WS,
    WSS,
)
from jdbcstore.config.given import Given, Kind, Note, Section, merge
from jdbcstore.config.locker import (
    DefaultIOExceptionHandlerConfig,
    IOExceptionHandlerConfig,
    LeaseLockerIOExceptionHandlerConfig,
)
from jdbcstore.config.users import PluginUsers
from jdbcstore.config.xml.artemis import is_artemis, read_artemis
from jdbcstore.config.xml.artemis_security import read_artemis_users
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.persistence import MEMORY, SQL, read_default, read_persistence
from jdbcstore.config.xml.plugins import read_destinations, read_plugins
from jdbcstore.config.xml.policies import read_policies, read_redelivery, with_redelivery
from jdbcstore.config.xml.security import find_security, read_security, this_file
from jdbcstore.config.xml.virtual import read_virtual
from jdbcstore.errors import ConfigurationError

_HANDLERS: dict[str, type[IOExceptionHandlerConfig]] = {
    "defaultIOExceptionHandler": DefaultIOExceptionHandlerConfig,
    "leaseLockerIOExceptionHandler": LeaseLockerIOExceptionHandlerConfig,
    # Its older name.
    "jDBCIOExceptionHandler": LeaseLockerIOExceptionHandlerConfig,
}
_SCHEMES = {
    **dict.fromkeys((STOMP, "stomp+nio"), STOMP),
    **dict.fromkeys((STOMP_TLS, "stomp+nio+ssl"), STOMP_TLS),
    **dict.fromkeys((OPENWIRE, "nio"), OPENWIRE),
    **dict.fromkeys((OPENWIRE_TLS, "nio+ssl"), OPENWIRE_TLS),
    **dict.fromkeys((AUTO, "auto+nio"), AUTO),
    **dict.fromkeys((AUTO_TLS, "auto+nio+ssl"), AUTO_TLS),
    WS: WS,
    WSS: WSS,
}
_BROKER, _CONNECTOR = "broker", "transportConnector"
_OWN = frozenset(
    (
        *("persistent", "tmpDataDirectory", "populateJMSXUserID", "schedulerSupport"),
        *("maxSchedulerRepeatAllowed", "rejectDurableConsumers"),
        *("offlineDurableSubscriberTimeout", "offlineDurableSubscriberTaskSchedule"),
        *("maxUncommittedCount", "maxInflatedDataSize"),
    )
)
"""Attributes of the broker that are options of jdbcstore's."""
_DIRECTORIES = ("dataDirectory", "dataDirectoryFile")
_STORES_OF_BROKER = {"persistenceAdapter", "persistenceFactory"}
_KNOWN = (
    *_OWN,
    *("persistenceAdapter", "persistenceFactory", "destinationPolicy", "plugins", "ioExceptionHandler"),
    *("brokerName", "transportConnectors", "systemUsage", "sslContext", "messageAuthorizationPolicy"),
    *("destinationInterceptors", "useVirtualTopics", "destinations"),
)
"""The attributes and elements of the broker that are read."""
_URI_OPTIONS = {
    "maximumConnections": "maximumConnections",
    "maxFrameSize": "maxFrameSize",
    "maxDataLength": "maxFrameSize",
    "connectAttemptTimeout": "connectAttemptTimeout",
    "protocolDetectionTimeOut": "protocolDetectionTimeOut",
    "needClientAuth": "needClientAuth",
    "maxInactivityDuration": "maxInactivityDuration",
    "useInactivityMonitor": "useInactivityMonitor",
}
"""Parameters of a connector's URI, after ``transport.`` or ``wireFormat.`` or without a prefix."""
_PROTOCOLS = "auto.protocols"
_OTHER_PROTOCOLS = frozenset(("amqp", "mqtt"))
_OF_ONE = {AUTO: (OPENWIRE, STOMP), AUTO_TLS: (OPENWIRE_TLS, STOMP_TLS)}
"""Protocol of an ``auto`` connector that serves OpenWire or STOMP only."""
_LIMITS = {"memoryUsage": "memoryLimit", "tempUsage": "tempLimit"}
_NO_KEYSTORE = (
    "there is no sslContext with a keyStore; add one, or name a certificate of the connector in TOML, or with"
    " --certificate"
)
_TLS = {
    "keyStore": "certificate",
    "keyStorePassword": "certificatePassword",
    "trustStore": "trustedCertificates",
    "trustStorePassword": "trustedCertificatesPassword",
}
"""Options of each connector with TLS, by the attribute of ``sslContext``."""
_STORES = ("keyStore", "trustStore")


def read_xml(path: Path, data: bytes, environment: Mapping[str, str]) -> tuple[Section, list[Note]]:
    """Read the options in an ``activemq.xml`` or Artemis's ``broker.xml``, and notes on the rest of it.

    :raises ConfigurationError: the file cannot be read, or does not contain a broker
    """
    document = Document(path, data, environment)
    try:
        if is_artemis(document.root):
            return read_artemis(document), document.notes
        document.define_placeholders()
        return _read_broker(document), document.notes
    except RecursionError:
        text = "its beans refer to each other in a circle; remove one of the references"
        raise document.error(document.root, text, "") from None


def read_plugin_users(path: Path, environment: Mapping[str, str]) -> PluginUsers:
    """Read the users of the security plug-ins in an ``activemq.xml``, and their permissions.

    :raises ConfigurationError: the file cannot be read, or has a plug-in that jdbcstore cannot obey
    """
    try:
        document = Document(path, path.read_bytes(), environment)
    except OSError as error:
        text = f"cannot read {path}: {error.strerror}; name another file"
        raise ConfigurationError(text, option="users_file") from error
    if is_artemis(document.root):
        return read_artemis_users(document, next(document.root.all("core"), document.root))
    document.define_placeholders()
    return read_security(document, _find_broker(document))


def _read_broker(document: Document) -> Section:
    broker = _find_broker(document)
    section: Section = {}
    own: Section = {}
    adapter: Bean | None = None
    policies: list[Section] = []
    redeliveries: list[Section] = []
    for routes in document.root.all("camelContext"):
        document.refuse(routes, "messages would stay here that Camel's routes pass on; remove it")
    tls = _read_tls(document, broker)
    for name, value in broker.values.items():
        match name:
            case "persistenceAdapter" | "persistenceFactory":
                adapter = _find_adapter(document, value)
            case "destinationPolicy":
                policies = [*read_policies(document, value)]
            case "plugins":
                redeliveries = [*read_redelivery(document, value)]
                own |= {**find_security(document, value), **read_plugins(document, value)}
            case "ioExceptionHandler":
                handler = _read_io_handler(document, value)
                section |= {"ioExceptionHandler": handler} if handler else {}
            case "brokerName":
                section["brokerName"] = document.scalar(value)
            case _ if not _read_own(document, value, own, tls):
                _report(document, broker, value)
    policies = with_redelivery(policies, redeliveries)
    section |= {"policies": policies} if policies else {}
    return merge({**section, **_read_store(document, broker, adapter, own)}, {"broker": own} if own else {})


def _read_store(document: Document, broker: Bean, adapter: Bean | None, own: Section) -> Section:
    """Read the store of a broker: its persistence adapter, or ActiveMQ's default."""
    if document.flag(broker, "persistent") is False:
        section = {} if adapter is None or adapter.kind == MEMORY else read_persistence(document, adapter)
        section.pop("stores", None)
        why = "this broker keeps its messages in memory, because persistent is false"
        return {**section, "url": document.no_database(broker.values["persistent"], why)}
    if adapter is not None and adapter.kind == MEMORY:
        own["persistent"] = Given(False, document.place(adapter))
        _report_memory(document, adapter)
        why = f"this broker keeps its messages in memory, because it has a {MEMORY}"
        return {"url": document.no_database(adapter, why)}
    if adapter is not None:
        return read_persistence(document, adapter)
    if broker.kind == _BROKER:
        return read_default(document, broker)
    why = "this part of a broker does not have a persistenceAdapter"
    return {"url": document.no_database(broker, why)}


def _report(document: Document, broker: Bean, value: Value) -> None:
    """Note what becomes of an attribute or element of the broker that is not an option."""
    name = value.name
    if name in _DIRECTORIES and not broker.values.keys() & _STORES_OF_BROKER:
        return  # where the default store is
    if name != "camelContext":  # that is refused wherever it is
        document.report(broker, value, _KNOWN, element=_BROKER)


def _report_memory(document: Document, adapter: Bean) -> None:
    for value in adapter.values.values():
        document.report(adapter, value)


def _read_own(document: Document, value: Value, section: Section, tls: Section) -> bool:
    """Read an option that jdbcstore's broker has too; return whether it has it.

    :param tls: the options of each connector with TLS
    """
    match value.name:
        case name if name in _OWN:
            section[name] = document.scalar(value)
        case "transportConnectors":
            connectors = [*_read_connectors(document, value, tls)]
            section |= {"connectors": connectors} if connectors else {}
        case "systemUsage":
            section |= _read_usage(document, value)
        case "destinations":
            section["destinations"] = read_destinations(document, value)
        case "sslContext":
            pass  # of each connector with TLS
        case "messageAuthorizationPolicy":
            section["usersFile"] = this_file(document, value)
        case _:
            return read_virtual(document, value, section)
    return True


def _find_broker(document: Document) -> Bean:
    """Find the only broker of the file, or the parts of a broker in a file that is included by another."""
    brokers = [bean for bean in map(document.bean, document.root.all()) if bean.kind == _BROKER]
    if len(brokers) > 1:
        lines = ", ".join(str(bean.line) for bean in brokers)
        raise document.error(
            brokers[1], f"there are brokers in lines {lines}; put each into its own file", ""
        )
    if brokers:
        return brokers[0]
    part = Bean(document.root.name, document.root.line)
    for element in document.root.all():
        name, line = element.name, element.line
        if name in ("persistenceAdapter", "persistenceFactory", "destinationPolicy"):
            part.values.setdefault(name, Value(name, line, elements=element.children))
        elif document.bean(element).kind in SQL:
            name = "persistenceAdapter"
            part.values.setdefault(name, Value(name, line, elements=[element]))
    if not part.values:
        text = "there is neither a broker nor a jdbcPersistenceAdapter in it; name another file"
        raise document.error(document.root, text, "")
    return part


def _find_adapter(document: Document, value: Value) -> Bean | None:
    beans = [*document.beans(value)]
    chosen = next(iter([*(bean for bean in beans if bean.kind in SQL), *beans]), None)
    for bean in beans:
        if bean is not chosen:
            document.refuse(bean, "a broker has one persistence adapter, and this one is left out; keep one")
    return chosen


def _read_io_handler(document: Document, value: Value) -> Section | None:
    """Read the section of an I/O exception handler; None for a class that only Java can load."""
    bean = document.resolve(value)
    if bean is None:
        raise document.error(value, "a handler, or a reference to one, is needed; correct it")
    kind = _HANDLERS.get(bean.kind)
    if kind is None:
        text = f"{bean.kind} is a Java class, and the default handler is used; use one of"
        document.note(Kind.UNKNOWN, bean, f"{text} {', '.join(_HANDLERS)}")
        return None
    section: Section = {"type": Given(kind.type, document.place(bean))}
    for inner in bean.values.values():
        document.read_option(bean, inner, kind, section)
    return section


def _read_tls(document: Document, broker: Bean) -> Section:
    """Read the key stores of the ``sslContext``; empty without one."""
    bean = document.resolve(broker.values.get("sslContext"))
    section: Section = {}
    for name, value in bean.values.items() if bean is not None else ():
        if name in _STORES:
            given = document.scalar(value)
            location = re.sub(r"^(file:)?(//)?", "", str(given.value or "")).removeprefix("classpath:")
            section[_TLS[name]] = replace(given, value=str(document.path.parent / location))
        elif name in _TLS:
            section[_TLS[name]] = document.scalar(value)
        else:
            document.report(bean or broker, value, _TLS, element="sslContext")
    return section if "certificate" in section else {}


def _read_connectors(document: Document, value: Value, tls: Section) -> Iterator[Section]:
    """Yield a section for each connector of STOMP and OpenWire."""
    for bean in document.beans(value):
        uri = bean.values.get("uri")
        if uri is None:
            raise document.error(bean, "a transportConnector needs a uri; add one", _CONNECTOR)
        if document.flag(bean, "autoStart") is False:
            text = "it does not listen: ActiveMQ starts it on demand, jdbcstore does not"
            document.note(Kind.UNSUPPORTED, bean.values["autoStart"], text)
            continue
        section = _read_uri(document, uri, tls)
        if section is None:
            continue
        for name, inner in bean.values.items():
            if name == "name":
                section["name"] = document.scalar(inner)
            elif name not in ("uri", "autoStart"):
                document.report(bean, inner, element=_CONNECTOR)
        yield section


def _read_uri(document: Document, uri: Value, tls: Section) -> Section | None:
    """Read the address, and the parameters of the URI; None for another protocol."""
    given = document.scalar(uri)
    if given.problem is not None:
        return {"uri": given}
    address, _, query = str(given.value).partition("?")
    scheme, _, rest = address.partition("://")
    ours = _SCHEMES.get(scheme)
    if ours is None:
        schemes = ", ".join(f"{known}://" for known in SCHEMES)
        text = f"clients of {scheme} cannot connect: jdbcstore supports {schemes} only"
        document.ignore(uri, text)
        return None
    parameters = parse_qsl(query, keep_blank_values=True)
    ours = _only_one(document, uri, ours, dict(parameters).get(_PROTOCOLS, ""))
    section: Section = {"uri": Given(f"{ours}://{rest.rstrip('/')}", given.place, text=True)}
    for key, text in parameters:
        *prefixes, name = key.split(".")
        if key == _PROTOCOLS:
            continue
        if name in _URI_OPTIONS and _OTHER_PROTOCOLS.isdisjoint(prefixes):
            section[_URI_OPTIONS[name]] = Given(text, given.place, text=True, activemq_units=True)
        else:
            document.ignore(uri, "a connector of jdbcstore does not have this option", key)
    if ours in TLS_SCHEMES and not tls:
        document.note(Kind.MISSING, uri, f"{address} is left out: {_NO_KEYSTORE}")
        return None
    return {**section, **tls} if ours in TLS_SCHEMES else section


def _only_one(document: Document, uri: Value, scheme: str, protocols: str) -> str:
    """Return the scheme of a connector whose URI names the protocols that it detects."""
    names = {name.strip() for name in protocols.split(",")} - {""}
    if scheme not in _OF_ONE or not names:
        return scheme
    for name in sorted(names & _OTHER_PROTOCOLS):
        document.ignore(uri, f"clients of {name} cannot connect", _PROTOCOLS)
    openwire, stomp = "default" in names, "stomp" in names
    return scheme if openwire is stomp else _OF_ONE[scheme][stomp]


def _read_usage(document: Document, value: Value) -> Section:
    """Read the options of the broker that ``systemUsage`` sets."""
    section: Section = {}
    for usage in document.beans(value):
        for inner in usage.values.values():
            if inner.name in _LIMITS:
                for bean in document.beans(inner):
                    _read_limit(document, bean, section, _LIMITS[inner.name])
            else:
                document.report(usage, inner, _LIMITS, element="systemUsage", is_harmless=True)
    return section


def _read_limit(document: Document, bean: Bean, section: Section, option: str) -> None:
    for name, value in bean.values.items():
        if name == "limit":
            section[option] = document.scalar(value)
        elif name in ("percentLimit", "percentOfJvmHeap", "percentOfDisk"):
            text = f"jdbcstore does not take a share of a disk or of Java's memory; give {bean.kind} a limit"
            document.ignore(value, text)
        else:
            document.report(bean, value, ("limit",), element="limit", is_harmless=True)
