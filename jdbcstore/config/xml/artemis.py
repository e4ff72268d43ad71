"""Artemis's ``broker.xml``: its ``database-store``, or its journal in files.

The tables of a ``database-store`` are not ActiveMQ Classic's, and are not read.
"""

from __future__ import annotations

from jdbcstore.config.data_source import sqlite_url
from jdbcstore.config.given import Given, Kind, Section, put
from jdbcstore.config.locker import LeaseDatabaseLockerConfig, SharedFileLockerConfig
from jdbcstore.config.reasons import ARTEMIS_TABLES, DATA_SOURCE, DATABASE_STORE, FILE_STORES, OF_BROKER
from jdbcstore.config.routed import DATABASE
from jdbcstore.config.xml.beans import Document, Element, Value
from jdbcstore.config.xml.file_stores import TAKEN, converted, note_old_files
from jdbcstore.config.xml.security import this_file

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


def is_artemis(root: Element) -> bool:
    """Return whether a file is Artemis's."""
    return any(root.all("database-store", "core"))


def read_artemis(document: Document) -> Section:
    """Read the sections of a ``broker.xml``."""
    section = _read_store(document)
    settings = next(document.root.all("security-settings"), None)
    switches = document.root.all("security-enabled")
    if settings and not any(switch.text.lower() == "false" for switch in switches):
        # They are not supported, so a broker must not start with them.
        put(section, "broker.usersFile", this_file(document, settings))
    return section


def _read_store(document: Document) -> Section:
    core = next(document.root.all("core"), document.root)
    store = next(document.root.all("database-store"), None)
    if store is None:
        return _read_files(document, core)
    section: Section = {}
    for element in store.children:
        _take(document, element, section)
    section["locker"] = _read_lease(document, store)
    text = f"{ARTEMIS_TABLES}; move messages by sending them again, from one broker to the other"
    document.note(Kind.DANGEROUS, store, text)
    for element in core.children:
        if element.name == "mask-password" and element.text == "true":
            problem = "the password is masked, and only Artemis can read it; give JDBCSTORE_PASSWORD"
            section["password"] = Given(None, document.place(element), problem=problem)
        elif element.name == "name":
            section["brokerName"] = document.given(element, element.text)
        elif element.name != "store":
            document.ignore(element, OF_BROKER)
    return section


def _take(document: Document, element: Element, section: Section) -> None:
    if element.name in _TAKEN:
        section[_TAKEN[element.name]] = document.given(element, element.text)
    elif element.name == "data-source-properties":
        for one in element.children:
            _take_property(document, one, section)
    elif element.name in DATABASE_STORE:
        document.ignore(element, DATABASE_STORE[element.name])
    elif element.name not in _LEASE:
        document.note(Kind.UNKNOWN, element, "unknown element of database-store; correct it or remove it")


def _take_property(document: Document, element: Element, section: Section) -> None:
    key, value = element.attributes.get("key", ""), element.attributes.get("value", "")
    if key in _PROPERTIES:
        section[_PROPERTIES[key]] = document.given(Value(key, element.line), value)
    else:
        document.ignore(element, DATA_SOURCE.get(key, "the size of the pool is pool_size"), key)


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
    given = {one.name: document.text(one, one.text) for one in core.children if one.name in _DIRECTORIES}
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
    taken, reasons = TAKEN[_FILE], FILE_STORES[_FILE]
    for element in core.children:
        name = element.name
        if name in taken:
            put(section, taken[name], converted(document, document.given(element, element.text), element))
        elif name == "journal-retention-directory":
            _take_retention(document, element, section)
        elif name not in _DIRECTORIES:
            document.ignore(element, reasons.get(name, OF_BROKER))
    note_old_files(document, core, _FILE, journal)
    return section


def _take_retention(document: Document, element: Element, section: Section) -> None:
    """Take how long, or how many bytes of, files are kept that are no longer needed; by default, all."""
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
