"""``kahaDB``, ``levelDB`` and ``amqPersistenceAdapter``: a journal in front of an SQLite database."""

from __future__ import annotations

from pathlib import Path

from jdbcstore.config.fields import snake
from jdbcstore.config.file_stores import DATABASE, JOURNAL, OLD_FILES, PLACES, REASONS, TAKEN, Option
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.urls import sqlite_url
from jdbcstore.config.xml.beans import Bean, Document, Value
from jdbcstore.config.xml.lockers import LOCKING, read_locker

FILES = ("kahaDB", "levelDB", "amqPersistenceAdapter")
"""The elements of ActiveMQ's stores in files."""

_DIRECTORY = {"levelDB": "LevelDB"}
"""Where each is, if nothing else is said; the others are in activemq-data."""
_ARCHIVE = "data-archive"


def read_file_store(document: Document, bean: Bean) -> Section:
    """The sections of a store in files: where the index and the journal are, the locker, and options."""
    place = document.place(bean.line, bean.kind)
    directory = directory_of(document, bean)
    index = _text(document, bean, "indexDirectory") or directory
    section: Section = {
        "url": Given(sqlite_url(f"{index}/{DATABASE}"), place),
        "journal": {"directory": Given(f"{directory}/{JOURNAL}", place)},
    }
    take_options(document, bean, section)
    take_archive(document, bean, directory, section)
    locker = _locker(document, bean, directory)
    tell_old_files(document, bean.line, bean.kind, directory)
    return {**section, "locker": locker} if locker else section


def take_archive(document: Document, bean: Bean, directory: str, section: Section) -> None:
    """Where full files of the journal go, if they are to be kept."""
    if _text(document, bean, "archiveDataLogs") == "true":
        archive = _text(document, bean, "directoryArchive") or f"{directory}/{_ARCHIVE}"
        put(
            section, "journal.journal_archive_directory", Given(archive, document.place(bean.line, bean.kind))
        )
    elif "directoryArchive" in bean.values:
        text = "nothing is put there: archiveDataLogs is not true"
        document.note(Kind.IGNORED, bean.values["directoryArchive"].line, "directoryArchive", text)


def directory_of(document: Document, bean: Bean) -> str:
    """Where a store in files is."""
    return _text(document, bean, "directory") or _DIRECTORY.get(bean.kind, "activemq-data")


def take_options(document: Document, bean: Bean, section: Section) -> None:
    """Fill a section with what the attributes become, and tell of the others."""
    taken, reasons = TAKEN[bean.kind], REASONS[bean.kind]
    for name, value in bean.values.items():
        if name in taken:
            given = given_for(document, taken[name], document.scalar(name, value), value.line, name)
            put(section, taken[name].path, given)
        elif name not in (*LOCKING, *PLACES[bean.kind]):
            document.tell(bean, name, value, reasons, map(snake, (*taken, *PLACES[bean.kind])))


def given_for(document: Document, option: Option, given: Given, line: int, name: str) -> Given:
    """What a setting gives to its option.

    :raises ConfigurationError: it has no such value
    """
    if given.problem is not None:
        return given
    text = str(given.value).strip().lower()
    if option.values:
        values = dict(option.values)
        if text not in values:
            raise document.wrong(
                line, f"{name} must be one of {', '.join(values)}, not {given.value!r}", name
            )
        return Given(values[text], given.place)
    if option.nanoseconds:
        try:
            return Given(float(text) / 1e9, given.place)
        except ValueError:
            raise document.wrong(line, f"{name} must be nanoseconds, not {given.value!r}", name) from None
    return given


def put(section: Section, path: str, given: Given) -> None:
    """Into the section that the path names; what was given before stays."""
    *inside, name = path.split(".")
    for one in inside:
        section = section.setdefault(one, {})  # type: ignore[assignment]
    section.setdefault(name, given)


def tell_old_files(document: Document, line: int, kind: str, directory: str) -> None:
    """Warn of messages that are in this directory in another format."""
    try:
        found = any(next(Path(directory).glob(pattern), None) for pattern in OLD_FILES[kind])
    except (OSError, ValueError):
        return
    if found:
        text = (
            f"what ActiveMQ has left in {directory} has another format, and is not read: move the messages"
            " by sending them again, from one broker to the other"
        )
        document.note(Kind.DANGEROUS, line, kind, text)


def _locker(document: Document, bean: Bean, directory: str) -> Section | None:
    if _text(document, bean, "disableLocking") == "true":
        bean.values["useLock"] = Value(bean.line, "false")
    locker = read_locker(document, bean, "shared-file-locker")
    kind = (locker or {}).get("type")
    if locker and isinstance(kind, Given) and kind.value == "shared-file-locker":
        if "failIfLocked" in bean.values and "failIfLocked" in PLACES[bean.kind]:
            locker.setdefault("failIfLocked", document.scalar("failIfLocked", bean.values["failIfLocked"]))
        locker.setdefault("directory", Given(directory, document.place(bean.line, bean.kind)))
    return locker


def _text(document: Document, bean: Bean, name: str) -> str | None:
    value = bean.values.get(name)
    if value is None or value.text is None:
        return None
    text = document.text(value.line, name, value.text)
    return text.lower() if text.lower() in ("true", "false") else text
