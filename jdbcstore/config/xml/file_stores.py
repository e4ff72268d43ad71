"""ActiveMQ's and Artemis's stores in files, which become a journal in front of an SQLite database.

Both are in the directory that the store names. Each setting becomes an option, or a note says why not.
"""

from __future__ import annotations

from pathlib import Path

from jdbcstore.config.data_source import sqlite_url
from jdbcstore.config.given import Given, Kind, Section, put
from jdbcstore.config.routed import DATABASE, JOURNAL
from jdbcstore.config.xml.beans import Bean, Document, Located, Value
from jdbcstore.config.xml.lockers import LOCKING, read_locker

FILES = ("kahaDB", "levelDB", "amqPersistenceAdapter")
"""The elements of ActiveMQ's stores in files."""
_DIRECTORY = {"levelDB": "LevelDB"}
"""Default directories, where they are not activemq-data."""
_ARCHIVE = "data-archive"
_SYNC = "journal.journal_disk_sync_strategy"
_SEGMENT = "journal.journal_log_file_size"
_BATCH = "journal.journal_max_write_batch_size"
_CHECKPOINT = "journal.checkpoint_interval"

TAKEN = {
    "kahaDB": {
        "journalMaxFileLength": _SEGMENT,
        "journalMaxWriteBatchSize": _BATCH,
        "checkpointInterval": _CHECKPOINT,
        "journalDiskSyncStrategy": _SYNC,
        "journalDiskSyncInterval": "journal.journal_disk_sync_interval",
        "enableJournalDiskSyncs": _SYNC,
        "ignoreMissingJournalfiles": "journal.ignore_missing_journalfiles",
        "preallocationStrategy": "journal.preallocation_strategy",
        "preallocationScope": "journal.preallocation_scope",
        "maxFailoverProducersToTrack": "max_producers_to_audit",
        "failoverProducersAuditDepth": "max_audit_depth",
        "concurrentStoreAndDispatchQueues": "broker.concurrent_store_and_dispatch_queues",
    },
    "levelDB": {"logSize": _SEGMENT, "logWriteBufferSize": _BATCH, "sync": _SYNC},
    "amqPersistenceAdapter": {
        "maxFileLength": _SEGMENT,
        "checkpointInterval": _CHECKPOINT,
        "syncOnWrite": _SYNC,
    },
    "broker.xml": {
        "journal-file-size": _SEGMENT,
        "journal-min-files": "journal.journal_log_files",
        "journal-buffer-size": _BATCH,
        "journal-buffer-timeout": "journal.journal_buffer_timeout",
        "journal-datasync": _SYNC,
        "persistence-enabled": "broker.persistent",
        "name": "broker_name",
    },
}
"""The options that settings become, by the element of the store; for Artemis by the file."""
_SYNCED = {"true": "always", "false": "never"}
_VALUES = {
    "journalDiskSyncStrategy": {kind: kind for kind in ("always", "periodic", "never")},
    **dict.fromkeys(("enableJournalDiskSyncs", "sync", "syncOnWrite", "journal-datasync"), _SYNCED),
    "preallocationStrategy": {
        "sparse_file": "sparse_file",
        "zeros": "zeros",
        "chunked_zeros": "zeros",
        "os_kernel_copy": "zeros",
    },
    "preallocationScope": {
        "entire_journal": "entire_journal",
        "entire_journal_async": "entire_journal",
        "none": "none",
    },
}
"""Option values by the values of some settings, in lower case."""
_NANOSECONDS = ("journal-buffer-timeout",)

PLACES = {
    "kahaDB": ("directory", "indexDirectory", "archiveDataLogs", "directoryArchive"),
    "levelDB": ("directory", "failIfLocked"),
    "amqPersistenceAdapter": ("directory", "archiveDataLogs", "directoryArchive", "disableLocking"),
    "broker.xml": ("journal-directory", "bindings-directory", "journal-retention-directory"),
}
"""Further supported settings: places."""

OLD_FILES = {
    "kahaDB": ("db.data", "db-*.log"),
    "levelDB": ("*.log", "*.index"),
    "amqPersistenceAdapter": ("journal/data-*", "data-*"),
    "broker.xml": ("activemq-data-*.amq",),
}
"""Files of ActiveMQ's or Artemis's own store in the directory, by the same names."""
_WAYS = {
    "kahaDB": "jdbcstore import kahadb:FOLDER copies the messages",
    "levelDB": "jdbcstore import leveldb:FOLDER copies the messages",
    "broker.xml": "jdbcstore import artemis:FOLDER copies the messages",
}


def read_file_store(document: Document, bean: Bean) -> Section:
    """Read the sections of a store in files: index, journal, locker and options."""
    place = document.place(bean)
    directory = document.string(bean, "directory") or _DIRECTORY.get(bean.kind, "activemq-data")
    index = document.string(bean, "indexDirectory") or directory
    section: Section = {
        "url": Given(sqlite_url(f"{index}/{DATABASE}"), place),
        "journal": {"directory": Given(f"{directory}/{JOURNAL}", place)},
    }
    read_options(document, bean, section)
    read_archive(document, bean, directory, section)
    locker = _read_locker(document, bean, directory)
    note_old_files(document, bean, bean.kind, directory)
    return {**section, "locker": locker} if locker else section


def read_archive(document: Document, bean: Bean, directory: str, section: Section) -> None:
    """Read the directory of full files of the journal, if they are archived."""
    if document.flag(bean, "archiveDataLogs"):
        archive = document.string(bean, "directoryArchive") or f"{directory}/{_ARCHIVE}"
        put(section, "journal.journal_archive_directory", Given(archive, document.place(bean)))
    elif "directoryArchive" in bean.values:
        document.ignore(bean.values["directoryArchive"], "nothing is archived: archiveDataLogs is not true")


def read_options(document: Document, bean: Bean, section: Section) -> None:
    """Read the attributes that become options, and note the others."""
    taken = TAKEN[bean.kind]
    for name, value in bean.values.items():
        if name in taken:
            put(section, taken[name], converted(document, document.scalar(value), value))
        elif name not in (*LOCKING, *PLACES[bean.kind]):
            document.report(bean, value, (*taken, *PLACES[bean.kind]))


def converted(document: Document, given: Given, at: Located) -> Given:
    """Return the value of an option from that of its setting.

    :raises ConfigurationError: the setting does not have such a value
    """
    if given.problem is not None:
        return given
    text, values = str(given.value).strip().lower(), _VALUES.get(at.name)
    if values is not None:
        if text not in values:
            raise document.error(at, f"{at.name} must be one of {', '.join(values)}, not {given.value!r}")
        return Given(values[text], given.place)
    if at.name in _NANOSECONDS:
        try:
            return Given(float(text) / 1e9, given.place)
        except ValueError:
            raise document.error(at, f"{at.name} must be nanoseconds, not {given.value!r}") from None
    return given


def note_old_files(document: Document, at: Located, kind: str, directory: str) -> None:
    """Warn of messages in this directory that are in ActiveMQ's own format."""
    try:
        has_files = any(next(Path(directory).glob(pattern), None) for pattern in OLD_FILES[kind])
    except (OSError, ValueError):
        return
    if has_files:
        text = f"the files of ActiveMQ in {directory} have another format, and are not read; " + _WAYS.get(
            kind, "move the messages by sending them again, from one broker to the other"
        )
        document.note(Kind.DANGEROUS, at, text, kind)


def _read_locker(document: Document, bean: Bean, directory: str) -> Section | None:
    if document.flag(bean, "disableLocking"):
        bean.values["useLock"] = Value("useLock", bean.line, "false")
    locker = read_locker(document, bean, "shared-file-locker")
    kind = (locker or {}).get("type")
    if locker and isinstance(kind, Given) and kind.value == "shared-file-locker":
        if "failIfLocked" in bean.values and "failIfLocked" in PLACES[bean.kind]:
            locker.setdefault("failIfLocked", document.scalar(bean.values["failIfLocked"]))
        locker.setdefault("directory", Given(directory, document.place(bean)))
    return locker
