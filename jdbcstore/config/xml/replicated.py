"""``replicatedLevelDB``: each broker's own SQLite database, which follows a stream, elected by ZooKeeper."""

from __future__ import annotations

import re

from jdbcstore.config.data_source import sqlite_url
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.routed import DATABASE
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.file_stores import TAKEN, converted, note_old_files
from jdbcstore.config.xml.lockers import LOCKING

REPLICATED = "replicatedLevelDB"
"""The element of the store."""

_DIRECTORY, _ADDRESS, _PATH, _SESSION = "LevelDB", "127.0.0.1:2181", "/default", "2s"
_SESSION_NAMES = ("zkSessionTimeout", "zkSessionTmeout")
"""ActiveMQ's name before 5.11, which its manual still has, was misspelt."""
_IN_MEMORY = ("local_mem", "remote_mem", "quorum_mem")
_ON_DISK = ("local_disk", "remote_disk", "quorum_disk")
_TIMESPAN = re.compile(r"(\d+)\s*(ms|s|m|h|d|)")
_MILLISECONDS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CHECKS = 5
"""Checks of the lock in the time of a session."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_OBEYED = (
    *(
        "directory",
        "failIfLocked",
        "replicas",
        "sync",
        "weight",
        "hostname",
        "zkAddress",
        "zkPath",
        "zkPassword",
    ),
    *_SESSION_NAMES,
)


def read_replicated(document: Document, bean: Bean) -> Section:
    """Read the sections of the store; the servers of the stream are given elsewhere."""
    directory = _given(document, bean, "directory", _DIRECTORY)
    path = _given(document, bean, "zkPath", _PATH)
    name = str(path.value).strip("/")
    journal: Section = {
        "replicated": Given(True, document.place(bean)),
        "streamName": Given(_NOT_IN_A_NAME.sub("-", name) or "default", path.place),
    }
    locker: Section = {
        "type": Given("zookeeper-locker", document.place(bean)),
        "address": _given(document, bean, "zkAddress", _ADDRESS),
        "path": Given(f"/{name}", path.place),
        **_session(document, bean),
    }
    if document.string(bean, "zkPassword"):
        locker["password"] = document.scalar(bean.values["zkPassword"])
    if document.string(bean, "hostname"):
        given = document.scalar(bean.values["hostname"])
        journal["node"] = Given(_NOT_IN_A_NAME.sub("_", str(given.value)), given.place)
    for value in bean.values.values():
        _read_option(document, bean, value, journal, locker)
    note_old_files(document, bean, "levelDB", str(directory.value))
    url = Given(sqlite_url(f"{directory.value}/{DATABASE}"), directory.place)
    return {"url": url, "journal": journal, "locker": locker}


def _read_option(document: Document, bean: Bean, value: Value, journal: Section, locker: Section) -> None:
    """Read an attribute that is an option as it is, or note why it is not supported."""
    name = value.name
    if name in ("replicas", "weight"):
        journal[name] = document.scalar(value)
    elif name == "sync":
        journal[name] = _sync(document, value)
    elif name == "failIfLocked":
        locker[name] = document.scalar(value)
    elif name == "securityToken":
        _note_token(document, value)
    elif name in TAKEN["levelDB"]:
        option = TAKEN["levelDB"][name].partition(".")[2]
        journal[option] = converted(document, document.scalar(value), value)
    elif name in LOCKING:
        document.ignore(value, "the master is elected by ZooKeeper, as by ActiveMQ")
    elif name not in _OBEYED:
        document.report(bean, value, (*_OBEYED, "securityToken"))


def _given(document: Document, bean: Bean, name: str, default: str) -> Given:
    value = bean.values.get(name)
    if value is None or not value.text:
        return Given(default, document.place(bean, f"no {name}"))
    return document.scalar(value)


def _sync(document: Document, value: Value) -> Given:
    """Return a guarantee at least as strong as each of the given ones.

    A quorum of the stream's servers is the only target. It stands in for this broker's own disk and for the
    others'.
    """
    given = document.scalar(value)
    asked = [part.strip().lower() for part in str(given.value).split(",") if part.strip()]
    unknown = [part for part in asked if part not in (*_IN_MEMORY, *_ON_DISK)]
    if unknown or not asked:
        known = ", ".join((*_IN_MEMORY, *_ON_DISK))
        raise document.error(value, f"sync must be some of {known}, with commas, not {given.value!r}")
    is_on_disk = any(part in _ON_DISK for part in asked)
    return Given("quorum_disk" if is_on_disk else "quorum_mem", given.place)


def _session(document: Document, bean: Bean) -> Section:
    """Return the time of a session, and how often the master checks that it has it."""
    values = [bean.values[name] for name in _SESSION_NAMES if name in bean.values]
    value = values[0] if values else Value("zkSessionTimeout", bean.line, _SESSION)
    text = document.text(value, value.text or _SESSION).strip().lower()
    match = _TIMESPAN.fullmatch(text)
    if match is None:
        raise document.error(value, f"{value.name} must be a time such as 2s or 2000, not {text!r}")
    milliseconds = int(match[1]) * _MILLISECONDS[match[2]]
    place = document.place(value) if values else document.place(bean, "no zkSessionTimeout")
    return {
        "sessionTimeout": Given(milliseconds, place, activemq_units=True),
        "lockKeepAlivePeriod": Given(milliseconds / _CHECKS, place, activemq_units=True),
    }


def _note_token(document: Document, value: Value) -> None:
    if value.text:
        text = (
            "the servers of the stream decide who may write to it: give stream_user and stream_password_env"
            " of the journal, or stream_credentials"
        )
        document.note(Kind.DANGEROUS, value, text)
