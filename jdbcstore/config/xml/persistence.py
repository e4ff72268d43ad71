"""The persistence adapter: the store's options, the locker, the journal."""

from __future__ import annotations

from dataclasses import fields

from jdbcstore.config.fields import find_field, snake
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.reasons import ADAPTER, PERSISTENCE_ADAPTER, STORE
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.data_source import read_data_source
from jdbcstore.config.xml.file_stores import FILES, read_file_store
from jdbcstore.config.xml.lockers import LOCKING, read_locker
from jdbcstore.config.xml.several import SEVERAL, read_several

_JDBC = "jdbcPersistenceAdapter"
_FACTORIES = ("journalPersistenceAdapterFactory", "journaledJDBC")
_JOURNAL = "journalPersistenceAdapter"
SQL = (_JDBC, *_FACTORIES, _JOURNAL)
"""The elements of a store in a database."""

_REPLICATED = "replicatedLevelDB"

_DIRECTORIES = ("dataDirectory", "dataDirectoryFile", "directory")


def read_persistence(document: Document, bean: Bean) -> Section:
    """The sections of a persistence adapter, by whichever element it is written."""
    if bean.kind == _JDBC:
        return _read_jdbc(document, bean)
    if bean.kind in _FACTORIES:
        return _read_factory(document, bean)
    if bean.kind == _JOURNAL:
        return _read_journaled(document, bean)
    if bean.kind in FILES:
        return read_file_store(document, bean)
    if bean.kind == SEVERAL:
        return read_several(document, bean)
    return _read_other(document, bean)


def _read_jdbc(document: Document, bean: Bean, directory: str | None = None) -> Section:
    """With the directory of the journal in front of it, if there is one."""
    section: Section = {}
    for name, value in bean.values.items():
        if name in STORE:
            section[name] = document.scalar(name, value)
        elif name in ("dataSource", "ds"):
            section |= _data_source(document, name, value)
        elif name == "adapter":
            section |= _adapter(document, value)
        elif name == "statements":
            section["statements"] = read_statements(document, value)
        elif name == "transactionIsolation":
            _tell_isolation(document, value)
        elif name == "useExternalMessageReferences":
            _tell_references(document, name, value)
        elif name not in (*LOCKING, *_DIRECTORIES):
            document.tell(bean, name, value, PERSISTENCE_ADAPTER, map(snake, STORE))
    locker = read_locker(document, bean)
    if "url" not in section:
        section["url"] = _embedded_derby(document, bean, directory or _directory(document, bean))
    else:
        _tell_directories(document, bean, (locker or {}).get("directory"))
    return {**section, "locker": locker} if locker else section


def _read_factory(document: Document, bean: Bean) -> Section:
    """A factory makes a journal and the JDBC adapter behind it; most attributes are for the latter."""
    journal: Section = {}
    jdbc = Bean(_JDBC, bean.line)
    for name, value in bean.values.items():
        if name in ("jdbcAdapter", *_DIRECTORIES):
            continue
        if find_field(JournalConfig, name):
            journal[name] = document.scalar(name, value)
        else:
            jdbc.values[name] = value
    inner = bean.values.get("jdbcAdapter")
    found = document.referred(inner) if inner else None
    directory = _directory(document, bean)
    section = _read_jdbc(document, found or jdbc, directory)
    journal["directory"] = Given(f"{directory}/journal", document.place(bean.line, "dataDirectory"))
    return {**section, "journal": journal}


def _read_journaled(document: Document, bean: Bean) -> Section:
    section: Section = {}
    journal: Section = {}
    for name, value in bean.values.items():
        if name in ("longTermPersistence", "persistenceAdapter"):
            found = document.referred(value)
            section |= read_persistence(document, found) if found else {}
        elif find_field(JournalConfig, name):
            journal[name] = document.scalar(name, value)
        elif name == "useExternalMessageReferences":
            _tell_references(document, name, value)
        else:
            document.tell(bean, name, value, PERSISTENCE_ADAPTER, (one.name for one in fields(JournalConfig)))
    if not journal:
        journal["directory"] = Given(f"{_directory(document, bean)}/journal", document.place(bean.line))
    return {**section, "journal": journal}


def _read_other(document: Document, bean: Bean) -> Section:
    problem = (
        f"{bean.kind} keeps no messages in a database, and jdbcstore reads none of it; name the database"
        " with --url or JDBCSTORE_URL"
    )
    section: Section = {"url": Given(None, document.place(bean.line), problem=problem)}
    locker = read_locker(document, bean) if "locker" in bean.values else None
    for name, value in bean.values.items():
        if locker is None or name not in LOCKING:
            document.note(Kind.IGNORED, value.line, name, f"jdbcstore has nothing of {bean.kind}")
    if bean.kind == _REPLICATED:
        told = (
            "nothing is replicated: name a database that all brokers reach, and a locker that says who is the"
            " master"
        )
        document.note(Kind.DANGEROUS, bean.line, bean.kind, told)
    return {**section, "locker": locker} if locker else section


def _directory(document: Document, bean: Bean) -> str:
    for name in _DIRECTORIES:
        value = bean.values.get(name)
        if value is not None and value.text is not None:
            return document.text(value.line, name, value.text)
    return "activemq-data"


def _data_source(document: Document, name: str, value: Value) -> Section:
    bean = document.referred(value)
    if bean is None:
        raise document.wrong(value.line, f'a reference such as {name}="#mysql-ds" is needed', name)
    return read_data_source(document, bean)


def _tell_directories(document: Document, bean: Bean, of_locker: object) -> None:
    for name in _DIRECTORIES:
        value = bean.values.get(name)
        taken = isinstance(of_locker, Given) and value and of_locker.place == document.place(value.line, name)
        if value is not None and not taken:
            text = "nothing is put there: the messages are in the database of the DataSource"
            document.note(Kind.IGNORED, value.line, name, text)


def _embedded_derby(document: Document, bean: Bean, directory: str) -> Given:
    """What ActiveMQ makes for itself where no DataSource is given."""
    url = f"jdbc:derby:{directory}/derbydb;create=true"
    return Given(url, document.place(bean.line, "no dataSource"), text=True)


def _adapter(document: Document, value: Value) -> Section:
    is_name = value.text is not None and not value.text.startswith("#")
    bean = Bean(value.text or "", value.line) if is_name else document.referred(value)
    if bean is None:
        return {}
    section: Section = {"adapter": Given(bean.kind, document.place(value.line, "adapter"))}
    for name, inner in bean.values.items():
        if name == "statements":
            section["statements"] = read_statements(document, inner)
        elif name == "useExternalMessageReferences":
            _tell_references(document, name, inner)
        else:
            document.tell(bean, name, inner, ADAPTER)
    return section


def read_statements(document: Document, value: Value) -> Section:
    """The attributes of a ``statements`` element as they are, but for placeholders."""
    bean = document.referred(value)
    section: Section = {}
    for name, inner in bean.values.items() if bean else ():
        if inner.elements:
            texts = [document.text(one.line, name, one.text) for one in inner.elements]
            section[name] = Given(texts, document.place(inner.line, name))
        else:
            section[name] = document.scalar(name, inner)
    return section


def _tell_isolation(document: Document, value: Value) -> None:
    text = (value.text or "").strip()
    if text in ("0", "1"):
        told = "READ UNCOMMITTED shows messages that may never be committed: READ COMMITTED is used"
        document.note(Kind.DANGEROUS, value.line, "transactionIsolation", told)
    else:
        told = "READ COMMITTED is used, and nothing the store does needs more"
        document.note(Kind.IGNORED, value.line, "transactionIsolation", told)


def _tell_references(document: Document, name: str, value: Value) -> None:
    if (value.text or "").strip().lower() == "true":
        told = "messages are kept in MSG: an ActiveMQ with this set to true cannot store any"
        document.note(Kind.DANGEROUS, value.line, name, told)
