"""Artemis's ``broker.xml``: its store, its acceptors, its addresses with their settings, and its locker.

The tables of a ``database-store`` are not ActiveMQ Classic's, and are not read.
"""

from __future__ import annotations

from jdbcstore.config.data_source import sqlite_url
from jdbcstore.config.fates import ARTEMIS_TABLES, FATES, names_of
from jdbcstore.config.given import Given, Kind, Section, merge, put
from jdbcstore.config.locker import LeaseDatabaseLockerConfig, SharedFileLockerConfig
from jdbcstore.config.plugins import LoggingConfig
from jdbcstore.config.routed import DATABASE
from jdbcstore.config.xml.artemis_acceptors import read_acceptors
from jdbcstore.config.xml.artemis_addresses import read_addresses
from jdbcstore.config.xml.artemis_codec import Codec, unwrapped
from jdbcstore.config.xml.artemis_security import is_secured
from jdbcstore.config.xml.beans import Document, Element
from jdbcstore.config.xml.file_stores import TAKEN, converted, note_old_files
from jdbcstore.config.xml.security import this_file
from jdbcstore.errors import ConfigurationError

_FILE = "broker.xml"
_DIRECTORIES = {"journal-directory": "data/journal", "bindings-directory": "data/bindings"}
_UNITS = {"SECONDS": 1, "MINUTES": 60, "HOURS": 3600, "DAYS": 86400}

_TAKEN = {
    "jdbc-connection-url": "url",
    "jdbc-user": "user",
    "jdbc-password": "password",
    "jdbc-network-timeout": "networkTimeout",
}
_PROPERTIES = {"url": "url", "jdbcUrl": "url", "username": "user", "user": "user", "password": "password"}
_LEASE = {
    "jdbc-lock-expiration": ("lockAcquireSleepInterval", 20_000),
    "jdbc-lock-renew-period": ("lockKeepAlivePeriod", 4_000),
    "jdbc-allowed-time-diff": ("maxAllowableDiffFromDBTime", 250),
}
"""Options of Artemis's lease, with its defaults in milliseconds."""
_DIRECT = {
    "global-max-size": "memoryLimit",
    "populate-validated-user": "populateJMSXUserID",
    "persistence-enabled": "persistent",
    "network-check-list": "networkCheckList",
    "network-check-URL-list": "networkCheckUrls",
    "network-check-period": "networkCheckPeriod",
    "network-check-timeout": "networkCheckTimeout",
    "network-check-ping-command": "networkCheckPingCommand",
    "network-check-ping6-command": "networkCheckPing6Command",
}
"""Elements of ``core`` that are options of the broker."""
_DATABASE = "database-store"
_READ = (
    *("name", "store", "acceptors", "addresses", "queues", "diverts", "address-settings", "ha-policy"),
    *("security-settings", "security-enabled", "broker-plugins", "wildcard-addresses", *_DIRECT),
    *(*TAKEN[_FILE], *names_of(_FILE), *_DIRECTORIES, "journal-retention-directory"),
)
"""Elements of ``core`` that are read."""
_LOGGED = {
    "LOG_ALL_EVENTS": "logAll",
    "LOG_CONNECTION_EVENTS": "logConnectionEvents",
    "LOG_CONSUMER_EVENTS": "logConsumerEvents",
    "LOG_SENDING_EVENTS": "logProducerEvents",
    "LOG_INTERNAL_EVENTS": "logInternalEvents",
}


def is_artemis(root: Element) -> bool:
    """Return whether a file is Artemis's."""
    return any(root.all("database-store", "core"))


def read_artemis(document: Document) -> Section:
    """Read the sections of a ``broker.xml``."""
    core = next(document.root.all("core"), document.root)
    store = next(document.root.all("database-store"), None)
    secrets = _Secrets(document, core)
    section = _read_files(document, core) if store is None else _read_database(document, store, secrets)
    own: Section = {}
    for element in core.children:
        if element.name == "name":
            section["brokerName"] = document.given(element, element.text)
        elif element.name in _DIRECT and element.text:
            own[_DIRECT[element.name]] = document.given(element, element.text)
        elif element.name == "ha-policy":
            _read_availability(document, element)
        elif element.name == "broker-plugins":
            own |= _read_plugins(document, element)
        elif element.name not in _READ:
            _report(document, element)
    own |= _read_serving(document, core, secrets)
    addresses = read_addresses(document, core)
    place = document.place(core)
    if addresses.destinations:
        own["destinations"] = Given(", ".join(addresses.destinations), place)
    own["virtualTopics"] = Given([], place)
    own["compositeDestinations"] = addresses.composites or Given([], place)
    return merge(section, {"broker": own, "policies": addresses.policies})


def _read_serving(document: Document, core: Element, secrets: _Secrets) -> Section:
    """Read the connectors, and where the users are."""
    section: Section = {}
    connectors = [*read_acceptors(document, core, secrets.reveal)]
    if connectors:
        section["connectors"] = connectors
    settings = next(document.root.all("security-settings"), None)
    if settings is not None and is_secured(core):
        section["usersFile"] = this_file(document, settings)
    return section


def _report(document: Document, element: Element) -> None:
    """Note what becomes of an element of ``core`` that is not read."""
    fate = FATES.get(("core", element.name))
    if fate is not None:
        document.tell(element, fate, "x" if element.children else "")
    elif element.name not in (*names_of(_DATABASE), "retention"):
        document.refuse(element, "unknown element of core; correct it or remove it")


class _Secrets:
    """The passwords of a file, which may be masked."""

    def __init__(self, document: Document, core: Element) -> None:
        self._document = document
        texts = {child.name: child.text for child in core.children}
        self._codec = texts.get("password-codec", "")
        self._all_masked = texts.get("mask-password", "").lower() == "true"

    def reveal(self, at: Element, text: str) -> str:
        """Return a password in plain text.

        :raises ConfigurationError: it cannot be decrypted
        """
        masked = unwrapped(text)
        if masked is None and not self._all_masked:
            return text
        try:
            return Codec(self._codec).decode(text if masked is None else masked)
        except ConfigurationError as error:
            raise self._document.error(at, str(error)) from error

    def given(self, at: Element, text: str, name: str | None = None) -> Given:
        """Return a value that may be masked; another source may replace an undecryptable one."""
        given = self._document.given(at, text)
        is_password = name == "password"
        if given.problem is not None or not (unwrapped(text) or (is_password and self._all_masked)):
            return given
        try:
            return Given(self.reveal(at, str(given.value)), given.place, text=True, activemq_units=True)
        except ConfigurationError as error:
            variable = "JDBCSTORE_PASSWORD" if is_password else "JDBCSTORE_USER"
            return Given(None, given.place, problem=f"{error.args[0]}; or give {variable}")


def _read_database(document: Document, store: Element, secrets: _Secrets) -> Section:
    section: Section = {}
    for element in store.children:
        _read_option(document, element, section, secrets)
    section["locker"] = _read_lease(document, store)
    text = f"{ARTEMIS_TABLES}; jdbcstore import artemis:URL copies their messages"
    document.note(Kind.DANGEROUS, store, text)
    return section


def _read_option(document: Document, element: Element, section: Section, secrets: _Secrets) -> None:
    if element.name in _TAKEN:
        name = _TAKEN[element.name]
        section[name] = secrets.given(element, element.text, name)
    elif element.name == "data-source-properties":
        for child in element.children:
            _read_property(document, child, section, secrets)
    elif (fate := FATES.get((_DATABASE, element.name))) is not None:
        document.tell(element, fate, element.text)
    elif element.name not in _LEASE:
        document.note(Kind.UNKNOWN, element, "unknown element of database-store; correct it or remove it")


def _read_property(document: Document, element: Element, section: Section, secrets: _Secrets) -> None:
    key, value = element.attributes.get("key", ""), element.attributes.get("value", "")
    if key in _PROPERTIES:
        at = Element(key, element.line, {}, {})
        section[_PROPERTIES[key]] = secrets.given(at, value, _PROPERTIES[key])
    else:
        fate = FATES.get(("DataSource", key))
        document.ignore(element, fate.reason if fate else "the size of the pool is pool_size", key)


def _read_lease(document: Document, store: Element) -> Section:
    place = document.place(store)
    section: Section = {"type": Given(LeaseDatabaseLockerConfig.type, place)}
    given = {element.name: element for element in store.children}
    for name, (option, default) in _LEASE.items():
        element = given.get(name)
        if element is None:
            section[option] = Given(default, f"{place}: Artemis's default", activemq_units=True)
        else:
            section[option] = document.given(element, element.text)
    return section


def _read_files(document: Document, core: Element) -> Section:
    """Read a journal and an SQLite database, in the directories of Artemis's journal and of its bindings."""
    given = {
        child.name: document.text(child, child.text) for child in core.children if child.name in _DIRECTORIES
    }
    journal, index = {**_DIRECTORIES, **given}.values()
    place = document.place(core)
    section: Section = {
        "url": Given(sqlite_url(f"{index}/{DATABASE}"), place),
        "locker": {
            "type": Given(SharedFileLockerConfig.type, place),
            "directory": Given(index, place),
        },
        "journal": {"directory": Given(journal, place)},
    }
    taken = TAKEN[_FILE]
    for element in core.children:
        name = element.name
        if name in taken and name not in (*_DIRECT, "name"):
            put(section, taken[name], converted(document, document.given(element, element.text), element))
        elif name == "journal-retention-directory":
            _read_retention(document, element, section)
        elif (fate := FATES.get((_FILE, name))) is not None:
            document.tell(element, fate, element.text)
    note_old_files(document, core, _FILE, journal)
    return section


def _read_retention(document: Document, element: Element, section: Section) -> None:
    """Read how long, or how many bytes of, files are kept that are no longer needed; by default, all."""
    given = element.attributes
    if not {"period", "storage-limit"} & {*given}:
        directory = document.given(element, element.text or "data/retention")
        put(section, "journal.journal_archive_directory", directory)
        return
    if element.text:
        text = "files kept for a limited time stay in journal-directory; journal_archive_directory moves them"
        document.ignore(element, text)
    unit = given.get("unit", "DAYS").upper()
    if unit not in _UNITS:
        raise document.error(element, f"unit must be one of {', '.join(_UNITS)}, not {given['unit']!r}")
    if "period" in given:
        try:
            seconds = float(given["period"]) * _UNITS[unit]
        except ValueError:
            raise document.error(element, f"period must be a number, not {given['period']!r}") from None
        put(section, "journal.journal_retention", Given(seconds, document.place(element)))
    if "storage-limit" in given:
        limit = document.given(element, given["storage-limit"])
        put(section, "journal.journal_retention_size", limit)


def _read_availability(document: Document, element: Element) -> None:
    """Note what an ``ha-policy`` asks for: brokers on one store take turns by its locker."""
    for policy in element.children:
        if policy.name in ("replication", "colocated"):
            text = "nothing would be replicated: brokers share a database, or a directory, and its locker"
            document.refuse(policy, f"{text}; write shared-store")
        elif policy.name == "shared-store":
            for role in policy.children:
                _read_role(document, role)


def _read_role(document: Document, role: Element) -> None:
    if role.name == "colocated":
        document.refuse(role, "a backup in the same process would not be there; start it by itself")
        return
    for option in role.children:
        if option.name == "scale-down":
            document.refuse(option, "messages would stay here that this backup passes on; remove it")
        else:
            document.ignore(option, "a broker that stops releases the lock, and any that waits takes it")


def _read_plugins(document: Document, element: Element) -> Section:
    """Read the plug-in that logs events; any other may do what it likes."""
    sections: list[Section] = []
    for plugin in element.children:
        name = plugin.attributes.get("class-name", "").rpartition(".")[2]
        if name != "LoggingActiveMQServerPlugin":
            text = f"the plug-in {name} is Java code, which may refuse clients, or change messages"
            document.refuse(plugin, f"{text}; remove it", "broker-plugin")
            continue
        section: Section = {"type": Given(LoggingConfig.type, document.place(plugin))}
        section["logConnectionEvents"] = Given(False, document.place(plugin))
        for child in plugin.children:
            key = child.attributes.get("key", "")
            if key in _LOGGED:
                section[_LOGGED[key]] = document.given(child, child.attributes.get("value", ""))
            else:
                document.ignore(child, "there are no such events here", key)
        sections.append(section)
    return {"plugins": sections} if sections else {}
