"""``mKahaDB``: a store for each of several patterns."""

from __future__ import annotations

from jdbcstore.config.file_stores import REASONS, folder_name
from jdbcstore.config.given import Given, Kind, Section, merge
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.file_stores import FILES, take_archive, take_options
from jdbcstore.config.xml.lockers import LOCKING, read_locker

SEVERAL = "mKahaDB"
_FILTERED = "filteredKahaDB"
_STORES = "filteredPersistenceAdapters"
_OF_DATABASE = ("url", "user", "password")
_PATTERNS = ("queue", "topic")
_LOCKER_OF_ALL = f"the locker of {SEVERAL} is that of each of its stores"


def read_several(document: Document, bean: Bean) -> Section:
    """The sections of all its stores, and what holds for the broker, wherever it was written."""
    directory = bean.values.get("directory")
    parent = document.text(directory.line, "directory", directory.text or "") if directory else None
    parent = parent or f"activemq-data/{SEVERAL}"
    section: Section = {}
    stores: list[Section] = []
    for name, value in bean.values.items():
        if name == _STORES:
            for inner in document.beans(value):
                store, rest = _read_filtered(document, inner, parent)
                stores.append(store)
                section = merge(rest, section)
        elif name not in (*LOCKING, "directory"):
            document.tell(bean, name, value, REASONS[SEVERAL], (_STORES,))
    if not stores:
        text = f"{SEVERAL} has no {_STORES}, and so no store; add a {_FILTERED}"
        raise document.wrong(bean.line, text, SEVERAL)
    locker = read_locker(document, bean, "shared-file-locker")
    if locker and "directory" not in locker:
        locker["directory"] = Given(parent, document.place(bean.line, SEVERAL))
    section |= {"stores": stores}
    return {**section, "locker": locker} if locker else section


def _read_filtered(document: Document, bean: Bean, parent: str) -> tuple[Section, Section]:
    """The section of one store, and what its adapter says that holds for all."""
    store: Section = {}
    adapter = Bean("kahaDB", bean.line)
    for name, value in bean.values.items():
        if name in _PATTERNS:
            _take_pattern(document, name, value, store)
        elif name == "perDestination":
            store["per_destination"] = document.scalar(name, value)
        elif name == "persistenceAdapter":
            adapter = document.referred(value) or adapter
        else:
            document.tell(bean, name, value, {}, (*_PATTERNS, "per_destination", "persistence_adapter"))
    each = store.get("per_destination")
    is_each = isinstance(each, Given) and str(each.value).strip().lower() == "true"
    if adapter.kind in FILES:
        folder = _folder(document, adapter, parent, "" if is_each else _label(store))
        found = _read_files(document, adapter, folder)
    else:
        found = _read_database(document, adapter)
    own = {name: value for name, value in found.items() if name in ("directory", "data_source", "journal")}
    return {**store, **own}, {name: value for name, value in found.items() if name not in own}


def _take_pattern(document: Document, name: str, value: Value, store: Section) -> None:
    given = document.scalar(name, value)
    if given.value == "":
        text = f"it names no {name}: without names, the store has all that no other store has"
        document.note(Kind.IGNORED, value.line, name, text)
    else:
        store[name] = given


def _label(store: Section) -> str:
    """What tells the store's folder from others: as the configuration will name it."""
    given = ((kind, store.get(kind)) for kind in _PATTERNS)
    return " ".join(f"{kind}://{one.value}" for kind, one in given if isinstance(one, Given)) or "others"


def _folder(document: Document, adapter: Bean, parent: str, label: str) -> Given:
    value = adapter.values.get("directory", Value(adapter.line))
    directory = document.text(value.line, "directory", value.text) if value.text else parent
    if label:
        directory = f"{directory}/{folder_name(label)}"
    return Given(directory, document.place(value.line, adapter.kind))


def _read_files(document: Document, adapter: Bean, folder: Given) -> Section:
    section: Section = {"directory": folder, "journal": {}}
    _tell_lockers(document, adapter)
    take_options(document, adapter, section)
    take_archive(document, adapter, str(folder.value), section)
    if "indexDirectory" in adapter.values:
        text = f"the index of a store of {SEVERAL} is in its own directory"
        document.note(Kind.IGNORED, adapter.values["indexDirectory"].line, "indexDirectory", text)
    for name in ("failIfLocked", "disableLocking"):
        if name in adapter.values:
            document.note(Kind.IGNORED, adapter.values[name].line, name, _LOCKER_OF_ALL)
    return section


def _read_database(document: Document, adapter: Bean) -> Section:
    from jdbcstore.config.xml.persistence import read_persistence

    _tell_lockers(document, adapter)
    adapter.values["useLock"] = Value(adapter.line, "false")
    found = read_persistence(document, adapter)
    login = {name: found.pop(name) for name in _OF_DATABASE if name in found}
    return {**found, "data_source": login}


def _tell_lockers(document: Document, adapter: Bean) -> None:
    for name in LOCKING:
        value = adapter.values.pop(name, None)
        if value is not None:
            document.note(Kind.IGNORED, value.line, name, _LOCKER_OF_ALL)
