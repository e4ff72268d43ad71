"""Attributes of ActiveMQ and Artemis that jdbcstore ignores, each with the reason that a note gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

ONLY_JMX = "only ActiveMQ's JMX shows it"
NO_NETWORKS = "jdbcstore does not connect brokers to networks"
OF_BROKER = "it configures ActiveMQ's broker, not the store"
DRIVER_CLASS = "the URL chooses the driver"

_THREADS = "jdbcstore manages its own threads"
_SAME_FILE = "the broker in the same file is used"
_BATCHES = "the store always writes in batches"
_PAGES = "the caller chooses the size of each page"
_ENCODING = "messages are always encoded as by ActiveMQ 5.12 and later"
_SQLITE = "the index is an SQLite database, which has its own cache and recovers by itself"
_SUMS = "each record has a checksum, which is verified when the journal is opened"
_FREED = "a checkpoint frees the files of the journal, without a search in between"
_PINNED = "a checkpoint frees every file, so acknowledgements do not keep any"
_ASYNC = "a send returns when its record is on disk; nothing is deferred"
_ONE_WRITE = "records are always written with one write and one sync"
_COUNTS = "it counts messages, and a checkpoint commits by bytes: set max_checkpoint_message_add_size"


def by_name(names: Mapping[T, Iterable[str]]) -> dict[str, T]:
    """Invert a table of names: return each value by each of its names."""
    return {name: value for value, each in names.items() for name in each}


PERSISTENCE_ADAPTER = {
    "changeAutoCommitAllowed": "connections are in autocommit mode, which every driver allows",
    "maxRows": _PAGES,
    "wireFormat": _ENCODING,
    "brokerName": _SAME_FILE,
    "brokerService": _SAME_FILE,
    "usageManager": "the store does not share the memory of a broker",
    "scheduledThreadPoolExecutor": _THREADS,
    "taskRunnerFactory": _THREADS,
    "useDedicatedTaskRunner": _THREADS,
    "journalThreadPriority": "Python's threads do not have priorities",
    "maxCheckpointWorkers": "the thread that writes to the database writes checkpoints too",
    "journal": "a journal is configured by its directory and files",
}

TOML = PERSISTENCE_ADAPTER | by_name({
    "a lock is used if there is a section locker": ("useLock", "useDatabaseLock"),
    "it belongs in the section locker": ("lockKeepAlivePeriod", "lockAcquireSleepInterval", "stopOnError"),
    "the store always uses READ COMMITTED": ("transactionIsolation",),
    "messages are always kept in MSG": ("useExternalMessageReferences",),
    _BATCHES: ("batchStatements",),
})  # fmt: skip
"""Attributes that a user of ActiveMQ may write into jdbcstore.toml."""

ADAPTER = {
    "batchStatements": _BATCHES,
    "batchStatments": _BATCHES,
    "maxRows": _PAGES,
    "engineType": "tables are created with InnoDB; existing ones keep their engine",
    "typeStatement": "tables are created with ENGINE=InnoDB",
}

LOCKER = {
    "name": ONLY_JMX,
    "lockable": "the store in the same file is used",
    "exceptionHandler": "an error while waiting for the lock is tried again",
    "statements": "the lock table is that of the store's statements",
    "failIfLocked": "only the shared-file-locker obeys it, as in ActiveMQ",
}

DATA_SOURCE = by_name({
    DRIVER_CLASS: ("driverClassName", "driverClass", "driver"),
    "connections are opened when they are needed, up to pool_size": (
        "initialSize", "minIdle", "maxIdle", "minimumIdle", "minPoolSize", "initialPoolSize", "maxWait",
        "maxWaitMillis", "connectionTimeout", "idleTimeout", "maxLifetime", "initialConnections",
        "timeBetweenEvictionRunsMillis", "minEvictableIdleTimeMillis", "numTestsPerEvictionRun",
        "removeAbandoned", "removeAbandonedTimeout", "removeAbandonedOnBorrow", "logAbandoned",
        "poolName", "dataSourceName", "acquireIncrement", "maxIdleTime",
    ),
    "a dead connection is detected when it is used, and replaced": (
        "validationQuery", "validationQueryTimeout", "testOnBorrow", "testOnReturn", "testWhileIdle",
        "connectionTestQuery", "preferredTestQuery", "testConnectionOnCheckout",
    ),
    "the driver prepares statements as it sees fit": (
        "poolPreparedStatements", "maxOpenPreparedStatements", "cachePrepStmts", "prepStmtCacheSize",
        "prepStmtCacheSqlLimit", "maxStatements", "useServerPrepStmts",
    ),
    "the store sets commit mode and isolation level of its connections": (
        "defaultAutoCommit", "autoCommit", "defaultTransactionIsolation", "transactionIsolation",
        "defaultReadOnly", "relaxAutoCommit", "accessToUnderlyingConnectionAllowed",
    ),
    "it is for the Java driver; put the Python driver's parameters into the URL": (
        "connectionProperties", "connectionInitSqls", "connectionInitSql", "driverProperties",
        "connectionAttributes", "useUnicode", "characterEncoding", "driverClassLoader", "useSSL",
    ),
})  # fmt: skip

POLICY = by_name({
    NO_NETWORKS: (
        "gcWithNetworkConsumers", "networkBridgeFilterFactory", "advancedNetworkStatisticsEnabled",
    ),
    ONLY_JMX: ("advancedMessageStatisticsEnabled",),
    "name it in messageGroupMapFactoryType": ("messageGroupMapFactory",),
    "it tunes the memory and threads of ActiveMQ": (
        "reduceMemoryFootprint", "doOptimzeMessageStorage", "optimizeMessageStoreInFlightLimit",
        "optimizedDispatch", "useTopicSubscriptionInflightStats",
    ),
})  # fmt: skip

UNSUPPORTED = by_name({
    "only the connection that created a temporary destination consumes it": ("allowTempDestinationStealing",),
    "a second connection with the same client id is refused": ("allowLinkStealing",),
    "set max_subscriptions of the connector": ("maximumConsumersAllowedPerConnection",),
    "a connection may have any number of producers": ("maximumProducersAllowedPerConnection",),
})  # fmt: skip
"""Of any bean: what jdbcstore does not have, and users notice."""

REFUSED = {
    "messageInterceptorStrategy": (
        "messages would keep the delivery mode, time and expiration of their producers: see the plug-ins"
        " forcePersistencyModeBrokerPlugin and timeStampingBrokerPlugin"
    ),
    "messageAuthorizationPolicy": "clients would get messages that it withholds",
    "trustManagers": "clients would be let in that these Java classes refuse",
}
"""Of any bean: what decides which messages are kept, or who may read them."""

VIRTUAL = by_name({
    "the copies of a message are written in one transaction": ("concurrentSend", "transactedSend"),
    NO_NETWORKS: ("local",),
    "a message that one destination cannot take is sent to none": ("dropOnResourceLimit",),
    "each copy has the destination that it is sent to, and original-destination": (
        "setOriginalDestination", "copyMessage",
    ),
})  # fmt: skip

REDELIVERY = {"preDispatchCheck": "it is for the JMS client, not for the broker"}

REDELIVERY_PLUGIN = {
    "fallbackToDeadLetter": "a message without a redelivery policy always becomes a dead letter",
    "sendToDlqIfMaxRetriesExceeded": "a message that was redelivered too often always becomes a dead letter",
}

CONNECTOR = by_name({
    NO_NETWORKS: ("discoveryUri", "discoveryAgent", "auditNetworkProducers"),
    "name the brokers in advertise of [broker]": (
        "updateClusterClients", "rebalanceClusterClients", "updateClusterClientsOnRemove",
        "updateClusterFilter", "publishedAddressPolicy",
    ),
    "a slow connection is throttled, without a report": ("enableStatusMonitor",),
    "it tunes the threads of ActiveMQ": ("disableAsyncDispatch", "taskRunnerFactory"),
    "the log has a line for each connection that fails": ("displayStackTrace", "warnOnRemoteClose"),
    _SAME_FILE: ("brokerInfo", "brokerService", "server"),
})  # fmt: skip

_MEASURES = "the memory is measured with each message"
USAGE = {
    "checkLimitsLogLevel": "the log has a line when a limit is reached",
    "sendFailIfNoSpaceExplicitySet": "set sendFailIfNoSpace in a policyEntry",
    "name": ONLY_JMX,
    **dict.fromkeys(("executor", "adapter", "parent", "tempStore", "jobSchedulerStore"), _SAME_FILE),
    "storeUsage": "the database reports when it is full",
    "jobSchedulerUsage": "scheduled messages are in the store",
    "sendFailIfNoSpace": "set it in a policyEntry",
    "sendFailIfNoSpaceAfterTimeout": "set it in a policyEntry",
}

SSL_CONTEXT = by_name({
    "a key store tells its type itself: PKCS #12, JKS, or PEM": (
        "keyStoreType", "trustStoreType", "keyStoreAlgorithm", "trustStoreAlgorithm",
    ),
    "the key has the password of its store": ("keyStoreKeyPassword",),
    "TLS is that of Python's ssl, 1.2 or later": (
        "protocol", "provider", "secureRandom", "secureRandomAlgorithm", "SSLContext", "keyManagers",
    ),
})  # fmt: skip

LIMIT = {
    "name": ONLY_JMX,
    **dict.fromkeys(("pollingTime", "usage", "usagePortion", "portion", "total", "store"), _MEASURES),
    **dict.fromkeys(("percentUsage", "percentUsageMinDelta", "executor", "parent", "limiter"), _MEASURES),
}

_OF_FILE_STORES = {_SAME_FILE: ("brokerName", "brokerService", "usageManager")}
FILE_STORES = {
    "kahaDB": by_name({
        **_OF_FILE_STORES,
        _SQLITE: (
            "indexWriteBatchSize", "indexCacheSize", "enableIndexWriteAsync", "enableIndexDiskSyncs",
            "enableIndexRecoveryFile", "enableIndexPageCaching", "indexLFUEvictionFactor",
            "useIndexLFRUEviction", "archiveCorruptedIndex", "forceRecoverIndex",
        ),
        _SUMS: ("checksumJournalFiles", "checkForCorruptJournalFiles"),
        _FREED: ("cleanupInterval", "cleanupOnStop"),
        _PINNED: ("enableAckCompaction", "compactAcksAfterNoGC", "compactAcksIgnoresStoreGrowth"),
        _ASYNC: ("concurrentStoreAndDispatchTopics", "maxAsyncJobs"),
        _COUNTS: ("maxCheckpointMessageAddSize",),
        "set lockAcquireSleepInterval and failIfLocked of the locker": (
            "failIfDatabaseIsLocked", "databaseLockedWaitDelay",
        ),
        ONLY_JMX: ("enableSubscriptionStatistics",),
        "the broker counts deliveries in memory": ("rewriteOnRedelivery",),
        "prepared transactions are decided with jdbcstore xa": (
            "purgeRecoveredXATransactions", "purgeRecoveredXATransactionStrategy",
        ),
        _ENCODING: ("storeOpenWireVersion",),
        "transactions over several stores are recorded in the stores": ("transactionIdTransformer",),
        _THREADS: ("scheduledThreadPoolExecutor",),
    }),
    "levelDB": by_name({
        **_OF_FILE_STORES,
        _SQLITE: (
            "indexFactory", "indexMaxOpenFiles", "indexBlockRestartInterval", "indexWriteBufferSize",
            "indexBlockSize", "indexCacheSize", "indexCompression", "autoCompactionRatio",
        ),
        _SUMS: ("verifyChecksums", "paranoidChecks"),
        _ASYNC: ("flushDelay", "asyncBufferSize"),
        "the journal is not compressed": ("logCompression",),
        "the journal is in the directory of the store": ("logDirectory",),
        ONLY_JMX: ("monitorStats",),
        _THREADS: ("readThreads",),
        "opening a store never deletes messages; use jdbcstore purge": ("purgeOnStatup",),
    }),
    "amqPersistenceAdapter": by_name({
        **_OF_FILE_STORES,
        _SQLITE: (
            "persistentIndex", "indexBinSize", "indexKeySize", "indexPageSize", "indexMaxBinSize",
            "indexLoadFactor", "referenceStoreAdapter", "maxReferenceFileLength", "recoverReferenceStore",
            "forceRecoverReferenceStore",
        ),
        _ONE_WRITE: ("useNio", "useNIO", "asyncDataManager"),
        _FREED: ("cleanupInterval",),
        _COUNTS: ("maxCheckpointMessageAddSize",),
        _THREADS: ("taskRunnerFactory", "readThreadPoolSize"),
    }),
    "mKahaDB": by_name({
        **_OF_FILE_STORES,
        "transactions over several stores do not need files": (
            "journalMaxFileLength", "journalMaxWriteBatchSize", "checkForCorruption",
            "journalCleanupInterval", "transactionStore", "localTransactionTimeout",
        ),
    }),
    "broker.xml": by_name({
        _ONE_WRITE: ("journal-type", "journal-max-io", "journal-device-block-size"),
        "missing directories are always created": ("create-journal-dir", "create-bindings-dir"),
        _PINNED: ("journal-compact-min-files", "journal-compact-percentage"),
        _ASYNC: ("journal-sync-transactional", "journal-sync-non-transactional"),
        "messages are in the journal and in the database, large ones, too": (
            "large-messages-directory", "paging-directory",
        ),
        "journal-min-files is the number of files kept ready": ("journal-pool-files",),
        "a file that cannot be opened is an error at once": ("journal-file-open-timeout",),
        "each command has its own timeout for the lock": ("journal-lock-acquisition-timeout",),
        "damaged files are not moved": ("journal-max-attic-files",),
        "the lock is in the directory of the index": ("node-manager-lock-directory",),
        "rates are not logged": ("log-journal-write-rate",),
    }),
}  # fmt: skip
"""By the element of the store; for Artemis by the file."""

ARTEMIS_TABLES = (
    "Artemis's tables have another layout and are not read; jdbcstore creates ActiveMQ Classic's beside them"
)
DATABASE_STORE = by_name({
    ARTEMIS_TABLES: (
        "bindings-table-name", "message-table-name", "large-message-table-name", "page-store-table-name",
        "node-manager-store-table-name",
    ),
    "a send returns when the database has committed; nothing is deferred": ("jdbc-journal-sync-period",),
    "each command has its own timeout for the lock": ("jdbc-lock-acquisition-timeout",),
    _PAGES: ("jdbc-max-page-size-bytes",),
    DRIVER_CLASS: ("jdbc-driver-class-name", "data-source-class-name"),
})  # fmt: skip
