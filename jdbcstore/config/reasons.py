"""Attributes of ActiveMQ that jdbcstore ignores, each with the reason that a note gives."""

from __future__ import annotations

_THREADS = "jdbcstore manages its own threads"
_SAME_FILE = "the broker in the same file is used"
_BATCHES = "the store always writes in batches"
_PAGES = "the caller chooses the size of each page"
_IN_LOCKER = "it belongs in the section locker"
_LOCKED = "a lock is used if there is a section locker"
_CACHED = "the driver prepares statements as it sees fit"

ONLY_JMX = "only ActiveMQ's JMX shows it"
NO_NETWORKS = "jdbcstore does not connect brokers to networks"
OF_BROKER = "it configures ActiveMQ's broker, not the store"
DRIVER_CLASS = "the URL chooses the driver"

PERSISTENCE_ADAPTER = {
    "changeAutoCommitAllowed": "connections are in autocommit mode, which every driver allows",
    "maxRows": _PAGES,
    "wireFormat": "messages are always encoded as by ActiveMQ 5.12 and later",
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

TOML = {
    **PERSISTENCE_ADAPTER,
    "useLock": _LOCKED,
    "useDatabaseLock": _LOCKED,
    "lockKeepAlivePeriod": _IN_LOCKER,
    "lockAcquireSleepInterval": _IN_LOCKER,
    "stopOnError": _IN_LOCKER,
    "transactionIsolation": "the store always uses READ COMMITTED",
    "useExternalMessageReferences": "messages are always kept in MSG",
    "batchStatements": _BATCHES,
}
"""Attributes that someone who knows ActiveMQ may write into jdbcstore.toml."""

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

DATA_SOURCE = {
    **dict.fromkeys(("driverClassName", "driverClass", "driver"), DRIVER_CLASS),
    **dict.fromkeys(
        ("initialSize", "minIdle", "maxIdle", "minimumIdle", "minPoolSize", "initialPoolSize", "maxWait",
         "maxWaitMillis", "connectionTimeout", "idleTimeout", "maxLifetime", "initialConnections",
         "timeBetweenEvictionRunsMillis", "minEvictableIdleTimeMillis", "numTestsPerEvictionRun",
         "removeAbandoned", "removeAbandonedTimeout", "removeAbandonedOnBorrow", "logAbandoned",
         "poolName", "dataSourceName", "acquireIncrement", "maxIdleTime"),
        "connections are opened when they are needed, up to pool_size",
    ),
    **dict.fromkeys(
        ("validationQuery", "validationQueryTimeout", "testOnBorrow", "testOnReturn", "testWhileIdle",
         "connectionTestQuery", "preferredTestQuery", "testConnectionOnCheckout"),
        "a dead connection is detected when it is used, and replaced",
    ),
    **dict.fromkeys(
        ("poolPreparedStatements", "maxOpenPreparedStatements", "cachePrepStmts", "prepStmtCacheSize",
         "prepStmtCacheSqlLimit", "maxStatements", "useServerPrepStmts"),
        _CACHED,
    ),
    **dict.fromkeys(
        ("defaultAutoCommit", "autoCommit", "defaultTransactionIsolation", "transactionIsolation",
         "defaultReadOnly", "relaxAutoCommit", "accessToUnderlyingConnectionAllowed"),
        "the store sets commit mode and isolation level of its connections",
    ),
    **dict.fromkeys(
        ("connectionProperties", "connectionInitSqls", "connectionInitSql", "driverProperties",
         "connectionAttributes", "useUnicode", "characterEncoding", "driverClassLoader", "useSSL"),
        "it is for the Java driver; put the Python driver's parameters into the URL",
    ),
}  # fmt: skip

POLICY = {
    **dict.fromkeys(
        ("advisoryForConsumed", "advisoryForDelivery", "advisoryForDiscardingMessages",
         "advisoryForFastProducers", "advisoryForSlowConsumers", "advisoryWhenFull",
         "includeBodyForAdvisory", "sendAdvisoryIfNoConsumers"),
        "jdbcstore does not send advisory messages",
    ),
    **dict.fromkeys(("gcWithNetworkConsumers", "networkBridgeFilterFactory"), NO_NETWORKS),
    **dict.fromkeys(
        ("reduceMemoryFootprint", "doOptimzeMessageStorage", "optimizeMessageStoreInFlightLimit",
         "optimizedDispatch", "useTopicSubscriptionInflightStats"),
        "it tunes the memory and threads of ActiveMQ",
    ),
    **dict.fromkeys(
        ("messageGroupMapFactory", "messageGroupMapFactoryType", "messageEvictionStrategy",
         "slowConsumerStrategy"),
        "jdbcstore does not have such a strategy",
    ),
}  # fmt: skip

REDELIVERY = {"preDispatchCheck": "it is for the JMS client, not for the broker"}

REDELIVERY_PLUGIN = {
    "fallbackToDeadLetter": "a message without a redelivery policy always becomes a dead letter",
    "sendToDlqIfMaxRetriesExceeded": "a message that was redelivered too often always becomes a dead letter",
}
