"""ActiveMQ's attributes that become an option here, and why each of the others does not."""

from __future__ import annotations

STORE = (
    "createTablesOnStartup",
    "enableAudit",
    "maxProducersToAudit",
    "maxAuditDepth",
    "auditRecoveryDepth",
    "cleanupPeriod",
    "networkTimeout",
    "queryTimeout",
)
"""Of the persistence adapter, which are options of the store."""

PERSISTENCE_ADAPTER = {
    "changeAutoCommitAllowed": "connections are in autocommit mode, which every driver allows",
    "maxRows": "pages are as long as their reader asks for",
    "wireFormat": "messages are encoded as ActiveMQ 5.12 and later do, whatever is set",
    "brokerName": "the broker in the same file is meant",
    "brokerService": "the broker in the same file is meant",
    "usageManager": "jdbcstore has no broker whose memory it could share",
    "scheduledThreadPoolExecutor": "jdbcstore has its own threads",
    "taskRunnerFactory": "jdbcstore has its own threads",
    "useDedicatedTaskRunner": "jdbcstore has its own threads",
    "journalThreadPriority": "Python's threads have no priorities",
    "maxCheckpointWorkers": "a checkpoint is written by the one thread that writes to the database",
    "journal": "a journal is configured by its directory and files",
}

TOML = {
    **PERSISTENCE_ADAPTER,
    "useLock": "a lock is used if there is a section locker",
    "useDatabaseLock": "a lock is used if there is a section locker",
    "lockKeepAlivePeriod": "it belongs into the section locker",
    "lockAcquireSleepInterval": "it belongs into the section locker",
    "stopOnError": "it belongs into the section locker",
    "transactionIsolation": "the store reads what is committed, and needs no more",
    "useExternalMessageReferences": "messages are always kept in MSG",
    "batchStatements": "the store always writes in batches",
}
"""Options that someone may write into jdbcstore.toml, for ActiveMQ has them."""

ADAPTER = {
    "batchStatements": "the store always writes in batches",
    "batchStatments": "the store always writes in batches",
    "maxRows": PERSISTENCE_ADAPTER["maxRows"],
    "engineType": "tables are made as InnoDB; existing ones keep their engine",
    "typeStatement": "tables are made with ENGINE=InnoDB",
}

LOCKER = {
    "name": "it is only shown by ActiveMQ's JMX",
    "lockable": "the store of the same file is meant",
    "exceptionHandler": "an error while waiting for the lock is tried again",
    "statements": "the lock is in the lock table of the store's own statements",
    "failIfLocked": "only the shared-file-locker obeys it, in ActiveMQ too",
}

DRIVER_CLASS = "the URL says which driver is used"

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
        "a dead connection is noticed when it is used, and replaced",
    ),
    **dict.fromkeys(
        ("poolPreparedStatements", "maxOpenPreparedStatements", "cachePrepStmts", "prepStmtCacheSize",
         "prepStmtCacheSqlLimit", "maxStatements", "useServerPrepStmts"),
        "the driver prepares what pays",
    ),
    **dict.fromkeys(
        ("defaultAutoCommit", "autoCommit", "defaultTransactionIsolation", "transactionIsolation",
         "defaultReadOnly", "relaxAutoCommit", "accessToUnderlyingConnectionAllowed"),
        "the store sets how its connections commit and what they see",
    ),
    **dict.fromkeys(
        ("connectionProperties", "connectionInitSqls", "connectionInitSql", "driverProperties",
         "connectionAttributes", "useUnicode", "characterEncoding", "driverClassLoader", "useSSL"),
        "they are the Java driver's; what the Python driver knows can stand in the URL",
    ),
}  # fmt: skip

POLICY = {
    **dict.fromkeys(
        ("advisoryForConsumed", "advisoryForDelivery", "advisoryForDiscardingMessages",
         "advisoryForFastProducers", "advisoryForSlowConsumers", "advisoryWhenFull",
         "includeBodyForAdvisory", "sendAdvisoryIfNoConsumers"),
        "jdbcstore sends no advisory messages",
    ),
    **dict.fromkeys(
        ("gcWithNetworkConsumers", "networkBridgeFilterFactory"),
        "jdbcstore has no networks of brokers",
    ),
    **dict.fromkeys(
        ("reduceMemoryFootprint", "doOptimzeMessageStorage", "optimizeMessageStoreInFlightLimit",
         "optimizedDispatch", "useTopicSubscriptionInflightStats"),
        "it tunes ActiveMQ's own memory and threads",
    ),
    **dict.fromkeys(
        ("messageGroupMapFactory", "messageGroupMapFactoryType", "messageEvictionStrategy",
         "slowConsumerStrategy"),
        "it is a strategy of ActiveMQ's broker that jdbcstore has no counterpart of",
    ),
}  # fmt: skip

REDELIVERY = {"preDispatchCheck": "it is the JMS client's, and the broker has no use for it"}

REDELIVERY_PLUGIN = {
    "fallbackToDeadLetter": "what no redelivery policy is for becomes a dead letter",
    "sendToDlqIfMaxRetriesExceeded": "what has been redelivered too often becomes a dead letter",
}

OF_BROKER = "it is the broker's own business, and no part of the store"
