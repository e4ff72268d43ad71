"""The persistence adapter: the store's options, its locker and journal; for ``mKahaDB``, several stores."""

from __future__ import annotations

import re
from dataclasses import replace

from jdbcstore.config.fields import find_field
from jdbcstore.config.given import Given, Kind, Section, merge
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.routed import folder_name
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.data_source import read_data_source
from jdbcstore.config.xml.file_stores import FILES, read_archive, read_file_store, read_options
from jdbcstore.config.xml.lockers import LOCKING, read_locker
from jdbcstore.config.xml.replicated import REPLICATED, read_replicated

_JDBC = "jdbcPersistenceAdapter"
_FACTORIES = ("journalPersistenceAdapterFactory", "journaledJDBC")
_JOURNAL = "journalPersistenceAdapter"
_DEFAULT = "kahaDB"
SQL = (_JDBC, *_FACTORIES, _JOURNAL)
"""The elements of a store in a database."""
MEMORY = "memoryPersistenceAdapter"
_SEVERAL, _FILTERED, _STORES = "mKahaDB", "filteredKahaDB", "filteredPersistenceAdapters"

_OPTIONS = (
    *("createTablesOnStartup", "cleanupPeriod", "networkTimeout", "queryTimeout"),
    *("enableAudit", "maxProducersToAudit", "maxAuditDepth", "auditRecoveryDepth"),
)
"""Attributes of the JDBC adapter that are options of the store."""
_DIRECTORIES = ("dataDirectory", "dataDirectoryFile", "directory")
_OF_DATABASE = ("url", "user", "password")
_PATTERNS = ("queue", "topic")


def read_persistence(document: Document, bean: Bean) -> Section:
    """Read the sections of a persistence adapter, in any of its forms."""
    readers = {
        _JDBC: _read_jdbc,
        **dict.fromkeys(_FACTORIES, _read_factory),
        _JOURNAL: _read_journaled,
        **dict.fromkeys(FILES, read_file_store),
        _SEVERAL: _read_several,
        REPLICATED: read_replicated,
    }
    return readers.get(bean.kind, _read_other)(document, bean)


def read_default(document: Document, broker: Bean) -> Section:
    """Read the store of a broker without a persistence adapter: KahaDB, in a folder of the broker's name."""
    parent = _directory(document, broker)
    name = re.sub(r"[^\w.:-]", "_", document.string(broker, "brokerName") or "localhost", flags=re.ASCII)
    bean = Bean(_DEFAULT, broker.line)
    bean.values["directory"] = Value("directory", broker.line, f"{parent}/{name}/KahaDB")
    section = read_persistence(document, bean)
    for part in section.values():
        if isinstance(part, dict):
            part |= {
                key: replace(value, of_default=True)
                for key, value in part.items()
                if isinstance(value, Given)
            }
    return section


def _read_jdbc(document: Document, bean: Bean, directory: str | None = None) -> Section:
    """Read the store in a database; ``directory`` is that of the journal in front of it, if there is one."""
    section: Section = {}
    for name, value in bean.values.items():
        if name in _OPTIONS:
            section[name] = document.scalar(value)
        elif name in ("dataSource", "ds"):
            section |= read_data_source(document, value)
        elif name == "adapter":
            section |= _read_adapter(document, value)
        elif name == "statements":
            section["statements"] = _read_statements(document, value)
        elif name == "transactionIsolation":
            _note_isolation(document, value)
        elif name == "useExternalMessageReferences":
            _note_references(document, value)
        elif name not in (*LOCKING, *_DIRECTORIES):
            document.report(bean, value, _OPTIONS, element=_JDBC)
    locker = read_locker(document, bean)
    if "url" not in section:
        # ActiveMQ's default: an embedded Derby.
        url = f"jdbc:derby:{directory or _directory(document, bean)}/derbydb;create=true"
        section["url"] = Given(url, document.place(bean, "no dataSource"), text=True)
    else:
        _note_directories(document, bean, (locker or {}).get("directory"))
    return {**section, "locker": locker} if locker else section


def _read_factory(document: Document, bean: Bean) -> Section:
    """Read a factory of a journal and the JDBC adapter under it, which most attributes are for."""
    journal: Section = {}
    jdbc = Bean(_JDBC, bean.line)
    for name, value in bean.values.items():
        if name in ("jdbcAdapter", *_DIRECTORIES):
            continue
        if find_field(JournalConfig, name):
            journal[name] = document.scalar(value)
        else:
            jdbc.values[name] = value
    adapter = document.resolve(bean.values.get("jdbcAdapter"))
    directory = _directory(document, bean)
    section = _read_jdbc(document, adapter or jdbc, directory)
    journal["directory"] = Given(f"{directory}/journal", document.place(bean, "dataDirectory"))
    return {**section, "journal": journal}


def _read_journaled(document: Document, bean: Bean) -> Section:
    section: Section = {}
    journal: Section = {}
    for name, value in bean.values.items():
        if name in ("longTermPersistence", "persistenceAdapter"):
            inner = document.resolve(value)
            section |= read_persistence(document, inner) if inner else {}
        elif name == "useExternalMessageReferences":
            _note_references(document, value)
        else:
            document.read_option(bean, value, JournalConfig, journal)
    if not journal:
        journal["directory"] = Given(f"{_directory(document, bean)}/journal", document.place(bean, ""))
    return {**section, "journal": journal}


def _read_other(document: Document, bean: Bean) -> Section:
    why = f"{bean.kind} does not keep messages in a database, and jdbcstore cannot read it"
    section: Section = {"url": document.no_database(bean, why)}
    locker = read_locker(document, bean) if "locker" in bean.values else None
    for name, value in bean.values.items():
        if locker is None or name not in LOCKING:
            document.ignore(value, f"jdbcstore does not have a store like {bean.kind}")
    return {**section, "locker": locker} if locker else section


def _read_several(document: Document, bean: Bean) -> Section:
    """Read the sections of each store of ``mKahaDB``, and the options of the broker among them."""
    parent = document.string(bean, "directory") or f"activemq-data/{_SEVERAL}"
    section: Section = {}
    stores: list[Section] = []
    for name, value in bean.values.items():
        if name == _STORES:
            for inner in document.beans(value):
                store, rest = _read_filtered(document, inner, parent)
                stores.append(store)
                section = merge(rest, section)
        elif name not in (*LOCKING, "directory"):
            document.report(bean, value, (_STORES,))
    if not stores:
        text = f"{_SEVERAL} does not have {_STORES}, and so no store; add a {_FILTERED}"
        raise document.error(bean, text)
    locker = read_locker(document, bean, "shared-file-locker")
    if locker and "directory" not in locker:
        locker["directory"] = Given(parent, document.place(bean))
    section |= {"stores": stores}
    return {**section, "locker": locker} if locker else section


def _read_filtered(document: Document, bean: Bean, parent: str) -> tuple[Section, Section]:
    """Read the section of one store, and the options of its adapter that are for all stores."""
    store: Section = {}
    adapter = Bean("kahaDB", bean.line)
    for name, value in bean.values.items():
        if name in _PATTERNS:
            _read_pattern(document, value, store)
        elif name == "perDestination":
            store["per_destination"] = document.scalar(value)
        elif name == "persistenceAdapter":
            adapter = document.resolve(value) or adapter
        else:
            known = (*_PATTERNS, "perDestination", "persistenceAdapter")
            document.report(bean, value, known, element=_FILTERED)
    for name in (*LOCKING, *(("failIfLocked", "disableLocking") if adapter.kind in FILES else ())):
        locking = adapter.values.pop(name, None)
        if locking is not None:
            document.ignore(locking, f"the locker of {_SEVERAL} is for all its stores")
    if adapter.kind in FILES:
        label = "" if document.flag(bean, "perDestination") else _label(store)
        section_of_store = _read_files(document, adapter, _folder(document, adapter, parent, label))
    else:
        adapter.values["useLock"] = Value("useLock", adapter.line, "false")
        section_of_store = read_persistence(document, adapter)
        login = {name: section_of_store.pop(name) for name in _OF_DATABASE if name in section_of_store}
        section_of_store = {**section_of_store, "data_source": login}
    for name in ("directory", "data_source", "journal"):
        if name in section_of_store:
            store[name] = section_of_store.pop(name)
    return store, section_of_store


def _read_pattern(document: Document, value: Value, store: Section) -> None:
    given = document.scalar(value)
    if given.value == "":
        text = f"the name of the {value.name} is empty; without a name, the store has all other destinations"
        document.ignore(value, text)
    else:
        store[value.name] = given


def _label(store: Section) -> str:
    """Return the name of the store's folder: that of the store in the configuration."""
    given = ((kind, store.get(kind)) for kind in _PATTERNS)
    return (
        " ".join(f"{kind}://{value.value}" for kind, value in given if isinstance(value, Given)) or "others"
    )


def _folder(document: Document, adapter: Bean, parent: str, label: str) -> Given:
    value = adapter.values.get("directory", Value("directory", adapter.line))
    directory = document.text(value, value.text) or parent
    if label:
        directory = f"{directory}/{folder_name(label)}"
    return Given(directory, document.place(value, adapter.kind))


def _read_files(document: Document, adapter: Bean, folder: Given) -> Section:
    section: Section = {"directory": folder, "journal": {}}
    read_options(document, adapter, section)
    read_archive(document, adapter, str(folder.value), section)
    if "indexDirectory" in adapter.values:
        text = f"the index of a store of {_SEVERAL} is in the directory of the store"
        document.ignore(adapter.values["indexDirectory"], text)
    return section


def _directory(document: Document, bean: Bean) -> str:
    directories = (document.string(bean, name) for name in _DIRECTORIES)
    return next((directory for directory in directories if directory is not None), "activemq-data")


def _note_directories(document: Document, bean: Bean, of_locker: object) -> None:
    for name in _DIRECTORIES:
        value = bean.values.get(name)
        taken = isinstance(of_locker, Given) and value and of_locker.place == document.place(value)
        if value is not None and not taken:
            document.ignore(value, "the directory is not used: messages are in the DataSource's database")


def _read_adapter(document: Document, value: Value) -> Section:
    is_name = value.text is not None and not value.text.startswith("#")
    bean = Bean(value.text or "", value.line) if is_name else document.resolve(value)
    if bean is None:
        return {}
    section: Section = {"adapter": Given(bean.kind, document.place(value))}
    for inner in bean.values.values():
        if inner.name == "statements":
            section["statements"] = _read_statements(document, inner)
        elif inner.name == "useExternalMessageReferences":
            _note_references(document, inner)
        else:
            document.report(bean, inner, element="adapter")
    return section


def _read_statements(document: Document, value: Value) -> Section:
    """Read the attributes of a ``statements`` element, with their placeholders resolved."""
    bean = document.resolve(value)
    section: Section = {}
    for name, inner in bean.values.items() if bean else ():
        if inner.elements:
            texts = [document.text(element, element.text) for element in inner.elements]
            section[name] = Given(texts, document.place(inner))
        else:
            section[name] = document.scalar(inner)
    return section


def _note_isolation(document: Document, value: Value) -> None:
    if (value.text or "").strip() in ("0", "1"):
        text = "READ COMMITTED is used: READ UNCOMMITTED shows messages that may never be committed"
        document.note(Kind.DANGEROUS, value, text)
    else:
        document.ignore(value, "READ COMMITTED is used, which is all that the store needs")


def _note_references(document: Document, value: Value) -> None:
    if (value.text or "").strip().lower() == "true":
        text = "messages are kept in MSG: with true, ActiveMQ cannot store any in this database"
        document.note(Kind.DANGEROUS, value, text)
