"""``database-locker``, ``lease-database-locker`` and ``shared-file-locker``."""

from __future__ import annotations

from dataclasses import fields

from jdbcstore.config.fields import find_field
from jdbcstore.config.given import Given, Kind, Note, Section
from jdbcstore.config.locker import (
    DatabaseLockerConfig,
    LeaseDatabaseLockerConfig,
    LockerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.config.reasons import LOCKER
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.data_source import read_data_source

_KINDS: dict[str, type[LockerConfig]] = {
    "database-locker": DatabaseLockerConfig,
    "transact-database-locker": DatabaseLockerConfig,
    "lease-database-locker": LeaseDatabaseLockerConfig,
    "shared-file-locker": SharedFileLockerConfig,
}
_INTERVAL, _KEEP_ALIVE = "lockAcquireSleepInterval", "lockKeepAlivePeriod"
_OF_ADAPTER = ("stopOnError", _KEEP_ALIVE, _INTERVAL)
"""Given to the persistence adapter, which hands them on to its locker."""
_DEFAULT_KEEP_ALIVE = 30_000
_DEFAULT_INTERVAL = 10_000


LOCKING = ("locker", "databaseLocker", "useLock", "useDatabaseLock", "lockDataSource", *_OF_ADAPTER)
"""What a persistence adapter has about its locker."""


def read_locker(document: Document, adapter: Bean, default: str = "database-locker") -> Section | None:
    """The section of a persistence adapter's locker; None where it uses none."""
    if _is_off(document, adapter):
        for name in (*_OF_ADAPTER, "locker", "databaseLocker", "lockDataSource"):
            if name in adapter.values:
                text = "no lock is used here: useLock is false"
                document.note(Kind.IGNORED, adapter.values[name].line, name, text)
        return None
    value = adapter.values.get("locker") or adapter.values.get("databaseLocker")
    bean = (document.referred(value) if value else None) or Bean(default, adapter.line)
    kind = _KINDS.get(bean.kind)
    if kind is None:
        names = ", ".join(_KINDS)
        text = f"{bean.kind} is a locker of your own, in Java: no lock is taken; choose one of {names}"
        document.note(Kind.DANGEROUS, bean.line, bean.kind, text)
        return None
    section: Section = {"type": Given(kind.type, document.place(bean.line, bean.kind))}
    for name in _OF_ADAPTER:
        if name in adapter.values:
            section[name] = document.scalar(name, adapter.values[name])
    for name, inner in bean.values.items():
        _take(document, bean, kind, name, inner, section)
    _take_over(document, adapter, kind, section)
    if kind is LeaseDatabaseLockerConfig:
        _renew_in_time(document, bean, section)
    return section


def _take_over(document: Document, adapter: Bean, kind: type[LockerConfig], section: Section) -> None:
    """What a locker has from its persistence adapter, unless it is given to itself."""
    directory, lock_data_source = adapter.values.get("directory"), adapter.values.get("lockDataSource")
    if kind is SharedFileLockerConfig:
        if directory is not None and "directory" not in section:
            section["directory"] = document.scalar("directory", directory)
    elif lock_data_source is not None and "data_source" not in section:
        section["data_source"] = _data_source(document, "lockDataSource", lock_data_source)


def _is_off(document: Document, adapter: Bean) -> bool:
    for name in ("useLock", "useDatabaseLock"):
        value = adapter.values.get(name)
        if value is not None and document.text(value.line, name, value.text or "").lower() == "false":
            return True
    return False


def _take(
    document: Document, bean: Bean, kind: type[LockerConfig], name: str, value: Value, section: Section
) -> None:
    known = find_field(kind, name)
    if name == "dataSource":
        section["data_source"] = _data_source(document, name, value)
    elif known is not None:
        section[name] = document.scalar(name, value)
    else:
        document.tell(bean, name, value, LOCKER, (one.name for one in fields(kind)))


def _data_source(document: Document, name: str, value: Value) -> Section:
    bean = document.referred(value)
    if bean is None:
        raise document.wrong(value.line, f'a reference such as {name}="#mysql-ds" is needed', name)
    section = read_data_source(document, bean)
    section.pop("pool_size", None)
    return section


def _renew_in_time(document: Document, bean: Bean, section: Section) -> None:
    """ActiveMQ takes a lease that expires before it is renewed, and by default makes one."""
    interval = _milliseconds(section.get(_INTERVAL), _DEFAULT_INTERVAL)
    keep_alive = _milliseconds(section.get(_KEEP_ALIVE), _DEFAULT_KEEP_ALIVE)
    if interval is None or keep_alive is None or 0 < keep_alive < interval:
        return
    instead = interval / 2
    told = (
        f"a lease of {interval:g} ms renewed every {keep_alive:g} ms expires in between, and a second broker"
        f" becomes master: it is renewed every {instead:g} ms; set {_KEEP_ALIVE} below {_INTERVAL}"
    )
    given = section.get(_KEEP_ALIVE)
    place = given.place if isinstance(given, Given) else document.place(bean.line, f"no {_KEEP_ALIVE}")
    document.notes.append(Note(Kind.DANGEROUS, place, told))
    section[_KEEP_ALIVE] = Given(instead, place, theirs=True)


def _milliseconds(given: object, default: float) -> float | None:
    """None for what is no number: that is told when the option is made."""
    if not isinstance(given, Given):
        return default
    try:
        return float(given.value)
    except (TypeError, ValueError):
        return None
