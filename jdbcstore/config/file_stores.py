"""ActiveMQ's and Artemis's stores in files: what each setting becomes, and why others have no meaning here.

In their place is a journal in front of an SQLite database, in the directory that they name.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

NEVER, ALWAYS, PERIODIC = "never", "always", "periodic"
DATABASE = "jdbcstore.db"
"""The file that such a directory gets for the messages that have left the journal."""
JOURNAL = "journal"
"""The folder that it gets for the journal."""


_STEM = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def folder_name(name: str) -> str:
    """A folder for what has this name: readable, its own on every file system, and always the same."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{_UNSAFE.sub('_', name)[:_STEM].strip('._') or 'others'}-{digest}"


@dataclass(frozen=True, slots=True)
class Option:
    """What a setting becomes."""

    path: str
    """The option, behind the section that it is in."""
    values: tuple[tuple[str, Any], ...] = ()
    """What each of its values is here; in lower case."""
    nanoseconds: bool = False


def _journal(name: str, values: dict[str, Any] | None = None, *, nanoseconds: bool = False) -> Option:
    return Option(f"journal.{name}", tuple((values or {}).items()), nanoseconds)


_SYNCS = {ALWAYS: ALWAYS, PERIODIC: PERIODIC, NEVER: NEVER}
_SYNCED = _journal("journal_disk_sync_strategy", {"true": ALWAYS, "false": NEVER})
_SEGMENT = _journal("journal_log_file_size")
_BATCH = _journal("journal_max_write_batch_size")

TAKEN: dict[str, dict[str, Option]] = {
    "kahaDB": {
        "journalMaxFileLength": _SEGMENT,
        "journalMaxWriteBatchSize": _BATCH,
        "checkpointInterval": _journal("checkpoint_interval"),
        "journalDiskSyncStrategy": _journal("journal_disk_sync_strategy", _SYNCS),
        "journalDiskSyncInterval": _journal("journal_disk_sync_interval"),
        "enableJournalDiskSyncs": _SYNCED,
        "ignoreMissingJournalfiles": _journal("ignore_missing_journalfiles"),
        "preallocationStrategy": _journal(
            "preallocation_strategy",
            {
                "sparse_file": "sparse_file",
                **dict.fromkeys(("zeros", "chunked_zeros", "os_kernel_copy"), "zeros"),
            },
        ),
        "preallocationScope": _journal(
            "preallocation_scope",
            {**dict.fromkeys(("entire_journal", "entire_journal_async"), "entire_journal"), "none": "none"},
        ),
        "maxFailoverProducersToTrack": Option("max_producers_to_audit"),
        "failoverProducersAuditDepth": Option("max_audit_depth"),
        "concurrentStoreAndDispatchQueues": Option("broker.concurrent_store_and_dispatch_queues"),
    },
    "levelDB": {
        "logSize": _SEGMENT,
        "logWriteBufferSize": _BATCH,
        "sync": _SYNCED,
    },
    "amqPersistenceAdapter": {
        "maxFileLength": _SEGMENT,
        "checkpointInterval": _journal("checkpoint_interval"),
        "syncOnWrite": _SYNCED,
    },
    "broker.xml": {
        "journal-file-size": _SEGMENT,
        "journal-min-files": _journal("journal_log_files"),
        "journal-buffer-size": _BATCH,
        "journal-buffer-timeout": _journal("journal_buffer_timeout", nanoseconds=True),
        "journal-datasync": _SYNCED,
        "persistence-enabled": Option("broker.persistent"),
        "name": Option("broker_name"),
    },
}
"""By the element of the store, and for Artemis by the file."""

PLACES = {
    "kahaDB": ("directory", "indexDirectory", "archiveDataLogs", "directoryArchive"),
    "levelDB": ("directory", "failIfLocked"),
    "amqPersistenceAdapter": ("directory", "archiveDataLogs", "directoryArchive", "disableLocking"),
    "broker.xml": ("journal-directory", "bindings-directory", "journal-retention-directory"),
}
"""What else is obeyed: where something is put."""

_SQLITE = "the index is an SQLite database, which has its own cache and recovers itself"
_SUMS = "each record has a checksum, and all that are needed are looked at when the journal is opened"
_FREED = "a checkpoint frees the files of the journal, and nothing is looked for meanwhile"
_PINNED = "a checkpoint frees every file, so no acknowledgement keeps one"
_ASYNC = "a send returns when its record is on the disk, and nothing is put off"
_WHOLE = "messages are kept whole, in the journal and in the database"
_ONE_WRITE = "records are written with one write and one sync, whatever the system has besides"
_MADE = "directories are made where they are missing"
_COUNTS = "it counts messages, and a checkpoint commits by bytes: set max_checkpoint_message_add_size"
_JMX = "it is only shown by ActiveMQ's JMX"
_SHARED = "the broker in the same file is meant"
_THREADS = "jdbcstore has its own threads"
_LOCK = "give it to the locker: lockAcquireSleepInterval, failIfLocked"

REASONS: dict[str, dict[str, str]] = {
    "kahaDB": {
        **dict.fromkeys(
            ("indexWriteBatchSize", "indexCacheSize", "enableIndexWriteAsync", "enableIndexDiskSyncs",
             "enableIndexRecoveryFile", "enableIndexPageCaching", "indexLFUEvictionFactor",
             "useIndexLFRUEviction", "archiveCorruptedIndex", "forceRecoverIndex"),
            _SQLITE,
        ),
        **dict.fromkeys(("checksumJournalFiles", "checkForCorruptJournalFiles"), _SUMS),
        **dict.fromkeys(("cleanupInterval", "cleanupOnStop"), _FREED),
        **dict.fromkeys(
            ("enableAckCompaction", "compactAcksAfterNoGC", "compactAcksIgnoresStoreGrowth"), _PINNED
        ),
        **dict.fromkeys(("concurrentStoreAndDispatchTopics", "maxAsyncJobs"), _ASYNC),
        "maxCheckpointMessageAddSize": _COUNTS,
        **dict.fromkeys(("failIfDatabaseIsLocked", "databaseLockedWaitDelay"), _LOCK),
        "enableSubscriptionStatistics": _JMX,
        "rewriteOnRedelivery": "the broker counts deliveries, and says so without writing",
        "purgeRecoveredXATransactions": "prepared transactions are decided with jdbcstore xa",
        "purgeRecoveredXATransactionStrategy": "prepared transactions are decided with jdbcstore xa",
        "storeOpenWireVersion": "messages are encoded as ActiveMQ 5.12 and later do, whatever is set",
        "transactionIdTransformer": "transactions over several stores are jdbcstore's own",
        **dict.fromkeys(("brokerName", "brokerService", "usageManager"), _SHARED),
        "scheduledThreadPoolExecutor": _THREADS,
    },
    "levelDB": {
        **dict.fromkeys(
            ("indexFactory", "indexMaxOpenFiles", "indexBlockRestartInterval", "indexWriteBufferSize",
             "indexBlockSize", "indexCacheSize", "indexCompression", "autoCompactionRatio"),
            _SQLITE,
        ),
        **dict.fromkeys(("verifyChecksums", "paranoidChecks"), _SUMS),
        **dict.fromkeys(("flushDelay", "asyncBufferSize"), _ASYNC),
        "logCompression": "the journal is not compressed",
        "logDirectory": "the journal is in the directory of the store",
        "monitorStats": _JMX,
        "readThreads": _THREADS,
        "purgeOnStatup": "nothing is removed when a store opens; use jdbcstore purge",
        **dict.fromkeys(("brokerName", "brokerService", "usageManager"), _SHARED),
    },
    "amqPersistenceAdapter": {
        **dict.fromkeys(
            ("persistentIndex", "indexBinSize", "indexKeySize", "indexPageSize", "indexMaxBinSize",
             "indexLoadFactor", "referenceStoreAdapter", "maxReferenceFileLength", "recoverReferenceStore",
             "forceRecoverReferenceStore"),
            _SQLITE,
        ),
        **dict.fromkeys(("useNio", "useNIO", "asyncDataManager"), _ONE_WRITE),
        "cleanupInterval": _FREED,
        "maxCheckpointMessageAddSize": _COUNTS,
        **dict.fromkeys(("taskRunnerFactory", "readThreadPoolSize"), _THREADS),
        **dict.fromkeys(("brokerName", "brokerService", "usageManager"), _SHARED),
    },
    "mKahaDB": {
        **dict.fromkeys(
            ("journalMaxFileLength", "journalMaxWriteBatchSize", "checkForCorruption",
             "journalCleanupInterval", "transactionStore", "localTransactionTimeout"),
            "transactions over several stores need no files of their own",
        ),
        **dict.fromkeys(("brokerName", "brokerService", "usageManager"), _SHARED),
    },
    "broker.xml": {
        **dict.fromkeys(("journal-type", "journal-max-io", "journal-device-block-size"), _ONE_WRITE),
        **dict.fromkeys(("create-journal-dir", "create-bindings-dir"), _MADE),
        **dict.fromkeys(("journal-compact-min-files", "journal-compact-percentage"), _PINNED),
        **dict.fromkeys(("journal-sync-transactional", "journal-sync-non-transactional"), _ASYNC),
        **dict.fromkeys(("large-messages-directory", "paging-directory"), _WHOLE),
        "journal-pool-files": "as many files as journal-min-files says are kept ready",
        "journal-file-open-timeout": "a file that cannot be opened is an error at once",
        "journal-lock-acquisition-timeout": "who waits for the lock waits as its command says",
        "journal-max-attic-files": "files that are damaged stay where they are",
        "node-manager-lock-directory": "the lock is in the directory of the index",
        "log-journal-write-rate": "the log does not tell rates",
    },
}  # fmt: skip
"""Of the same, those that are read and left out."""

OLD_FILES = {
    "kahaDB": ("db.data", "db-*.log"),
    "levelDB": ("*.log", "*.index"),
    "amqPersistenceAdapter": ("journal/data-*", "data-*"),
    "broker.xml": ("activemq-data-*.amq",),
}
"""What the store that was configured has in its directory, once it has run there."""
