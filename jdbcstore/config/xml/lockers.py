"""The locker of a persistence adapter: ``database-locker``, ``lease-database-locker`` and so on."""

from __future__ import annotations

from jdbcstore.config.fields import find_field, snake
from jdbcstore.config.given import Given, Kind, Note, Section
from jdbcstore.config.locker import (
    CustomLockerConfig,
    DatabaseLockerConfig,
    LeaseDatabaseLockerConfig,
    LockerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.config.xml.beans import Bean, Document, Value, is_python
from jdbcstore.config.xml.data_source import read_data_source

_KINDS: dict[str, type[LockerConfig]] = {
    **{kind.type: kind for kind in (DatabaseLockerConfig, LeaseDatabaseLockerConfig, SharedFileLockerConfig)},
    "transact-database-locker": DatabaseLockerConfig,
}
_INTERVAL, _KEEP_ALIVE = "lockAcquireSleepInterval", "lockKeepAlivePeriod"
_DEFAULT_INTERVAL, _DEFAULT_KEEP_ALIVE = 10_000, 30_000
_INHERITED = ("stopOnError", _KEEP_ALIVE, _INTERVAL)
"""Attributes of the persistence adapter that its locker inherits."""
_SWITCHES = ("useLock", "useDatabaseLock")
_OTHERS = (*_INHERITED, "locker", "databaseLocker", "lockDataSource")

LOCKING = (*_SWITCHES, *_OTHERS)
"""Attributes of a persistence adapter about its locker."""


def read_locker(document: Document, adapter: Bean, default: str = "database-locker") -> Section | None:
    """Read the section of a persistence adapter's locker; None if it does not use one."""
    given = adapter.values
    if any(document.flag(adapter, name) is False for name in _SWITCHES):
        for name in _OTHERS:
            if name in given:
                document.ignore(given[name], "no lock is used: useLock is false")
        return None
    value = given.get("locker") or given.get("databaseLocker")
    bean = document.resolve(value) or Bean(default, adapter.line)
    kind = _KINDS.get(bean.kind)
    if kind is None:
        return _read_custom(document, bean)
    section: Section = {"type": Given(kind.type, document.place(bean))}
    section |= {name: document.scalar(given[name]) for name in _INHERITED if name in given}
    for inner in bean.values.values():
        if inner.name == "dataSource":
            section["data_source"] = _data_source(document, inner)
        else:
            document.read_option(bean, inner, kind, section)
    _inherit_place(document, adapter, kind, section)
    if kind is LeaseDatabaseLockerConfig:
        _renew_in_time(document, bean, section)
    return section


def _read_custom(document: Document, bean: Bean) -> Section | None:
    """Read a locker that is a class in Python, ``package.module:Class``; None for one in Java."""
    if not is_python(bean.kind):
        text = (
            f"{bean.class_name} is a Java class, and no lock would be taken; write a class that derives from"
            ' jdbcstore.lockers.AbstractLocker, and name it as class="package.module:Class", or use one of'
        )
        document.refuse(bean, f"{text} {', '.join(_KINDS)}")
        return None
    place = document.place(bean)
    section: Section = {
        "type": Given(CustomLockerConfig.type, place),
        "lockerClass": Given(bean.kind, place),
    }
    options: Section = {}
    for name, value in bean.values.items():
        if find_field(CustomLockerConfig, name):
            section[name] = document.scalar(value)
        else:
            options[snake(name)] = document.scalar(value)
    return {**section, "options": options} if options else section


def _inherit_place(document: Document, adapter: Bean, kind: type[LockerConfig], section: Section) -> None:
    given = adapter.values
    if kind is SharedFileLockerConfig:
        if "directory" in given and "directory" not in section:
            section["directory"] = document.scalar(given["directory"])
    elif "lockDataSource" in given and "data_source" not in section:
        section["data_source"] = _data_source(document, given["lockDataSource"])


def _data_source(document: Document, value: Value) -> Section:
    section = read_data_source(document, value)
    section.pop("pool_size", None)
    return section


def _renew_in_time(document: Document, bean: Bean, section: Section) -> None:
    """Renew a lease in time that, as by ActiveMQ's default, would expire between renewals."""
    interval = _milliseconds(section.get(_INTERVAL), _DEFAULT_INTERVAL)
    keep_alive = _milliseconds(section.get(_KEEP_ALIVE), _DEFAULT_KEEP_ALIVE)
    if interval is None or keep_alive is None or 0 < keep_alive < interval:
        return
    instead = interval / 2
    text = (
        f"a lease of {interval:g} ms renewed every {keep_alive:g} ms expires in between, and a second broker"
        f" becomes master; it is renewed every {instead:g} ms: set {_KEEP_ALIVE} below {_INTERVAL}"
    )
    given = section.get(_KEEP_ALIVE)
    place = given.place if isinstance(given, Given) else document.place(bean, f"no {_KEEP_ALIVE}")
    document.notes.append(Note(Kind.DANGEROUS, place, text))
    section[_KEEP_ALIVE] = Given(instead, place, activemq_units=True)


def _milliseconds(given: object, default: float) -> float | None:
    """Return the milliseconds; None for a value that is not a number, an error when the option is made."""
    if not isinstance(given, Given):
        return default
    try:
        return float(given.value)
    except (TypeError, ValueError):
        return None
