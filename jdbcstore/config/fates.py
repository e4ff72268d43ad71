"""The fate of each setting that is not an option: no effect, not supported, or a broker that does not start.

A setting of ActiveMQ or Artemis is either a field of a dataclass of this package, or a row here, with the
reason that a note gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jdbcstore.config.given import Kind


class Fate(NamedTuple):
    """The kind of the note on a setting, the reason in it, and the values by which nothing changes."""

    kind: Kind
    reason: str
    harmless: tuple[str, ...]


ARTEMIS_TABLES = (
    "Artemis's tables have another layout and are not read; jdbcstore creates ActiveMQ Classic's beside them"
)
_ONLY_JMX = "only ActiveMQ's JMX shows it"
_NO_NETWORKS = "jdbcstore does not connect brokers to networks"
_NO_CLUSTER = "jdbcstore does not connect brokers to clusters"
_DRIVER_CLASS = "the URL chooses the driver"
_THREADS = "jdbcstore manages its own threads"
_ONE_THREAD = "the broker has one thread for all clients, and its own for the store"
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
_AUDIT = "the store recognises duplicates: set its option enable_audit"
_EMPTY = "a destination without messages and consumers takes no memory"
_FULL = "the database reports when it is full"
_SCHEDULED = "scheduled messages are in the store"
_ADVISORIES = "clients that watch advisories get them, others cost nothing"
_READ_LATER = "messages are read from the store when they are needed, in pages of its own"
_COUNTERS = "the management has the counters"
_MANY = "a queue may have any number of consumers"
_STAYS = "a group stays with its consumer as long as that is there"
_PREFETCH = "the prefetch is the client's, or that of the policy"
_NEXT_START = "a change of the file is in effect with the next start"

_NO_EFFECT: Mapping[str, Mapping[str, str]] = {
    "broker": {
        _ONLY_JMX:
            "useJmx managementContext brokerObjectName enableStatistics populateUserNameInMBeans"
            " mbeanInvocationTimeout adminView",
        _ONE_THREAD:
            "taskRunnerFactory persistenceTaskRunnerFactory persistenceThreadPriority taskRunnerPriority"
            " dedicatedTaskRunner virtualThreadTaskRunner useDedicatedTaskRunner regionBroker"
            " destinationFactory brokerContext",
        "there is one limit for all, memory_limit of [broker]":
            "consumerSystemUsage producerSystemUsage consumerSystemUsagePortion producerSystemUsagePortion"
            " splitSystemUsageForProducersConsumers adjustUsageLimits",
        _FULL: "schedulePeriodForDiskUsageCheck diskUsageCheckRegrowThreshold",
        _EMPTY: "schedulePeriodForDestinationPurge maxPurgedDestinationsPerSweep",
        "the broker serves once it has the lock, and not before":
            "start startAsync startException restartAllowed networkConnectorStartAsync waitForSlave"
            " waitForSlaveTimeout passiveSlave slave",
        "a broker stops on SIGTERM, and what was confirmed is stored":
            "useShutdownHook shutdownHooks useLoggingForShutdownErrors systemExitOnShutdown"
            " systemExitOnShutdownExitCode preShutdownHooks",
        "the directory of temporary files is tmpDataDirectory": "tempDataStore",
        "it is the directory of a store in files; the persistenceAdapter of this file names its own":
            "dataDirectory dataDirectoryFile",
        _SCHEDULED: "jobSchedulerStore schedulerDirectory schedulerDirectoryFile",
        "each broker has an id of its own for each start": "brokerId useLocalHostBrokerName",
        _ENCODING: "storeOpenWireVersion",
        "temporary destinations end with their connection":
            "cacheTempDestinations timeBeforePurgeTempDestinations allowTempAutoCreationOnSend",
        "a durable subscription is a row, whether its subscriber is there or not": "keepDurableSubsActive",
        "an expired message is never delivered": "enableMessageExpirationOnActiveDurableSubs",
        _ADVISORIES: "advisorySupport anonymousProducerAdvisorySupport",
        "clients in the same Java process cannot connect": "vmConnectorURI",
        "an error of a message in a transaction always rolls it back": "rollbackOnlyOnAsyncException",
        _NO_NETWORKS: "monitorConnectionSplits useVirtualDestSubs useVirtualDestSubsOnCreation",
        "JMSXUserID is the login, with populateJMSXUserID": "useAuthenticatedPrincipalForJMSXUserID",
        "a pair of brokers shares a database and a locker": "shutdownOnMasterFailure shutdownOnSlaveFailure",
    },
    "jdbcPersistenceAdapter, JournalConfig, memoryPersistenceAdapter, jdbcstore.toml": {
        "connections are in autocommit mode, which every driver allows": "changeAutoCommitAllowed",
        _PAGES: "maxRows",
        _ENCODING: "wireFormat",
        _SAME_FILE: "brokerName brokerService",
        "the store does not share the memory of a broker": "usageManager",
        _THREADS: "scheduledThreadPoolExecutor taskRunnerFactory useDedicatedTaskRunner",
        "Python's threads do not have priorities": "journalThreadPriority",
        "the thread that writes to the database writes checkpoints too": "maxCheckpointWorkers",
        "a journal is configured by its directory and files": "journal",
    },
    "memoryPersistenceAdapter": {
        "messages are in memory whole, and transactions always atomic":
            "createTransactionStore useExternalMessageReferences",
    },
    "jdbcstore.toml": {
        "a lock is used if there is a section locker": "useLock useDatabaseLock",
        "it belongs in the section locker": "lockKeepAlivePeriod lockAcquireSleepInterval stopOnError",
        "the store always uses READ COMMITTED": "transactionIsolation",
        "messages are always kept in MSG": "useExternalMessageReferences",
        _BATCHES: "batchStatements",
    },
    "adapter": {
        _BATCHES: "batchStatements batchStatments",
        _PAGES: "maxRows",
        "tables are created with InnoDB; existing ones keep their engine": "engineType",
        "tables are created with ENGINE=InnoDB": "typeStatement",
    },
    "database-locker, lease-database-locker, shared-file-locker": {
        _ONLY_JMX: "name",
        "the store in the same file is used": "lockable",
        "an error while waiting for the lock is tried again": "exceptionHandler",
        "the lock table is that of the store's statements": "statements",
        "only the shared-file-locker obeys it, as in ActiveMQ": "failIfLocked",
    },
    "DataSource": {
        _DRIVER_CLASS: "driverClassName driverClass driver",
        "connections are opened when they are needed, up to pool_size":
            "initialSize minIdle maxIdle minimumIdle minPoolSize initialPoolSize maxWait maxWaitMillis"
            " connectionTimeout idleTimeout maxLifetime initialConnections timeBetweenEvictionRunsMillis"
            " minEvictableIdleTimeMillis numTestsPerEvictionRun removeAbandoned removeAbandonedTimeout"
            " removeAbandonedOnBorrow logAbandoned poolName dataSourceName acquireIncrement maxIdleTime",
        "a dead connection is detected when it is used, and replaced":
            "validationQuery validationQueryTimeout testOnBorrow testOnReturn testWhileIdle"
            " connectionTestQuery preferredTestQuery testConnectionOnCheckout",
        "the driver prepares statements as it sees fit":
            "poolPreparedStatements maxOpenPreparedStatements cachePrepStmts prepStmtCacheSize"
            " prepStmtCacheSqlLimit maxStatements useServerPrepStmts",
        "the store sets commit mode and isolation level of its connections":
            "defaultAutoCommit autoCommit defaultTransactionIsolation transactionIsolation defaultReadOnly"
            " relaxAutoCommit accessToUnderlyingConnectionAllowed",
        "it is for the Java driver; put the Python driver's parameters into the URL":
            "connectionProperties connectionInitSqls connectionInitSql driverProperties"
            " connectionAttributes useUnicode characterEncoding driverClassLoader useSSL",
    },
    "PolicyEntry": {
        _NO_NETWORKS: "gcWithNetworkConsumers networkBridgeFilterFactory advancedNetworkStatisticsEnabled",
        _ONLY_JMX: "advancedMessageStatisticsEnabled",
        "name it in messageGroupMapFactoryType": "messageGroupMapFactory",
        "it tunes the memory and threads of ActiveMQ":
            "reduceMemoryFootprint doOptimzeMessageStorage optimizeMessageStoreInFlightLimit"
            " optimizedDispatch useTopicSubscriptionInflightStats",
        "it tunes the cursors and threads of ActiveMQ, which clients do not notice":
            "storeUsageHighWaterMark minimumMessageSize useCache lazyDispatch usePrefetchExtension"
            " gcInactiveDestinations inactiveTimeoutBeforeGC",
        "each subscriber of a topic gets its messages in order": "dispatchPolicy",
        _AUDIT:
            "enableAudit maxProducersToAudit maxAuditDepth maxQueueAuditDepth sendDuplicateFromStoreToDLQ",
    },
    "dispatchPolicy": {
        _NO_NETWORKS: "priorityNetworkDispatchPolicy",
        "each subscriber of a topic gets its messages in order":
            "roundRobinDispatchPolicy strictOrderDispatchPolicy simpleDispatchPolicy priorityDispatchPolicy",
    },
    "discarding": {
        "the messages are dropped":
            "deadLetterQueue enableAudit expiration maxAuditDepth maxProducersToAudit processExpired"
            " processNonPersistent",
    },
    "fixedCountSubscriptionRecoveryPolicy, fixedSizedSubscriptionRecoveryPolicy,"
    " timedSubscriptionRecoveryPolicy, lastImageSubscriptionRecoveryPolicy,"
    " noSubscriptionRecoveryPolicy": {
        "each topic has its own buffer, as in ActiveMQ": "useSharedBuffer",
    },
    "abortSlowConsumerStrategy, abortSlowAckConsumerStrategy": {
        _NO_NETWORKS: "ignoreNetworkConsumers",
        _ONLY_JMX: "name",
        _SAME_FILE: "brokerService",
    },
    "RedeliveryPolicy": {
        "it is for the JMS client, not for the broker": "preDispatchCheck",
    },
    "redeliveryPlugin": {
        "a message without a redelivery policy always becomes a dead letter": "fallbackToDeadLetter",
        "a message that was redelivered too often always becomes a dead letter":
            "sendToDlqIfMaxRetriesExceeded",
    },
    "forcePersistencyModeBrokerPlugin, timeStampingBrokerPlugin, discardingDLQBrokerPlugin,"
    " statisticsBrokerPlugin, loggingBrokerPlugin": {
        _NO_NETWORKS: "processNetworkMessages",
        "a client has no sessions at the broker": "logSessionEvents",
        _SAME_FILE: "adminConnectionContext next brokerService",
        "its elements have a pattern each: use dropOnly": "destFilter",
    },
    "plugins": {
        "a message does not tell which brokers it has passed": "tracebrokerpathplugin",
        "nothing is sent to other machines": "multicasttracebrokerplugin udptracebrokerplugin",
        "no picture of connections and destinations is written: see the console":
            "connectiondotfileplugin destinationdotfileplugin",
        "a virtual topic sends to each consumer's queue what the consumer's selector matches":
            "virtualselectorcachebrokerplugin subqueueselectorcachebrokerplugin",
        _NEXT_START: "runtimeconfigurationplugin",
        "destinations are known from the store: the file of their names is not written": "destinationsplugin",
    },
    "VirtualTopicConfig, CompositeConfig, ForwardConfig": {
        "the copies of a message are written in one transaction": "concurrentSend transactedSend",
        _NO_NETWORKS: "local",
        "a message that one destination cannot take is sent to none": "dropOnResourceLimit",
        "each copy has the destination that it is sent to, and original-destination":
            "setOriginalDestination copyMessage",
    },
    "transportConnector": {
        _NO_NETWORKS: "discoveryUri discoveryAgent auditNetworkProducers",
        "name the brokers in advertise of [broker]":
            "updateClusterClients rebalanceClusterClients updateClusterClientsOnRemove updateClusterFilter"
            " publishedAddressPolicy",
        "a slow connection is throttled, without a report": "enableStatusMonitor",
        "it tunes the threads of ActiveMQ": "disableAsyncDispatch taskRunnerFactory",
        "the log has a line for each connection that fails": "displayStackTrace warnOnRemoteClose",
        _SAME_FILE: "brokerInfo brokerService server",
    },
    "systemUsage": {
        "the log has a line when a limit is reached": "checkLimitsLogLevel",
        "set sendFailIfNoSpace in a policyEntry": "sendFailIfNoSpaceExplicitySet",
        _ONLY_JMX: "name",
        _SAME_FILE: "executor adapter parent tempStore jobSchedulerStore",
        _FULL: "storeUsage",
        _SCHEDULED: "jobSchedulerUsage",
        "set it in a policyEntry": "sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout",
    },
    "limit": {
        _ONLY_JMX: "name",
        "the memory is measured with each message":
            "pollingTime usage usagePortion portion total store percentUsage percentUsageMinDelta executor"
            " parent limiter",
    },
    "sslContext": {
        "a key store tells its type itself: PKCS #12, JKS, or PEM":
            "keyStoreType trustStoreType keyStoreAlgorithm trustStoreAlgorithm",
        "the key has the password of its store": "keyStoreKeyPassword",
        "TLS is that of Python's ssl, 1.2 or later":
            "protocol provider secureRandom secureRandomAlgorithm SSLContext keyManagers",
    },
    "kahaDB": {
        _SAME_FILE: "brokerName brokerService usageManager",
        _SQLITE:
            "indexWriteBatchSize indexCacheSize enableIndexWriteAsync enableIndexDiskSyncs"
            " enableIndexRecoveryFile enableIndexPageCaching indexLFUEvictionFactor useIndexLFRUEviction"
            " archiveCorruptedIndex forceRecoverIndex",
        _SUMS: "checksumJournalFiles checkForCorruptJournalFiles",
        _FREED: "cleanupInterval cleanupOnStop",
        _PINNED: "enableAckCompaction compactAcksAfterNoGC compactAcksIgnoresStoreGrowth",
        _ASYNC: "concurrentStoreAndDispatchTopics maxAsyncJobs",
        _COUNTS: "maxCheckpointMessageAddSize",
        "set lockAcquireSleepInterval and failIfLocked of the locker":
            "failIfDatabaseIsLocked databaseLockedWaitDelay",
        _ONLY_JMX: "enableSubscriptionStatistics",
        "the broker counts deliveries in memory": "rewriteOnRedelivery",
        "prepared transactions are decided with jdbcstore xa":
            "purgeRecoveredXATransactions purgeRecoveredXATransactionStrategy",
        _ENCODING: "storeOpenWireVersion",
        "transactions over several stores are recorded in the stores": "transactionIdTransformer",
        _THREADS: "scheduledThreadPoolExecutor",
    },
    "levelDB, replicatedLevelDB": {
        _SAME_FILE: "brokerName brokerService usageManager",
        _SQLITE:
            "indexFactory indexMaxOpenFiles indexBlockRestartInterval indexWriteBufferSize indexBlockSize"
            " indexCacheSize indexCompression autoCompactionRatio",
        _SUMS: "verifyChecksums paranoidChecks",
        _ASYNC: "flushDelay asyncBufferSize",
        "the journal is not compressed": "logCompression",
        "the journal is in the directory of the store": "logDirectory",
        _ONLY_JMX: "monitorStats",
        _THREADS: "readThreads",
        "opening a store never deletes messages; use jdbcstore purge": "purgeOnStatup",
    },
    "amqPersistenceAdapter": {
        _SAME_FILE: "brokerName brokerService usageManager",
        _SQLITE:
            "persistentIndex indexBinSize indexKeySize indexPageSize indexMaxBinSize indexLoadFactor"
            " referenceStoreAdapter maxReferenceFileLength recoverReferenceStore forceRecoverReferenceStore",
        _ONE_WRITE: "useNio useNIO asyncDataManager",
        _FREED: "cleanupInterval",
        _COUNTS: "maxCheckpointMessageAddSize",
        _THREADS: "taskRunnerFactory readThreadPoolSize",
    },
    "mKahaDB": {
        _SAME_FILE: "brokerName brokerService usageManager",
        "transactions over several stores do not need files":
            "journalMaxFileLength journalMaxWriteBatchSize checkForCorruption journalCleanupInterval"
            " transactionStore localTransactionTimeout",
    },
    "replicatedLevelDB": {
        "the brokers do not connect to each other: they follow a stream, whose servers replicate it": "bind",
        "the journal is in the stream": "logDirectory",
    },
    "filteredKahaDB": {
        "the store of a destination may take any room": "usage",
    },
    "broker.xml": {
        _ONE_WRITE: "journal-type journal-max-io journal-device-block-size",
        "missing directories are always created": "create-journal-dir create-bindings-dir",
        _PINNED: "journal-compact-min-files journal-compact-percentage",
        _ASYNC: "journal-sync-transactional journal-sync-non-transactional",
        "messages are in the journal and in the database, large ones, too":
            "large-messages-directory paging-directory",
        "journal-min-files is the number of files kept ready": "journal-pool-files",
        "a file that cannot be opened is an error at once": "journal-file-open-timeout",
        "each command has its own timeout for the lock": "journal-lock-acquisition-timeout",
        "damaged files are not moved": "journal-max-attic-files",
        "the lock is in the directory of the index": "node-manager-lock-directory",
        "rates are not logged": "log-journal-write-rate",
    },
    "database-store": {
        ARTEMIS_TABLES:
            "bindings-table-name message-table-name large-message-table-name page-store-table-name"
            " node-manager-store-table-name",
        "a send returns when the database has committed; nothing is deferred": "jdbc-journal-sync-period",
        "each command has its own timeout for the lock": "jdbc-lock-acquisition-timeout",
        _PAGES: "jdbc-max-page-size-bytes",
        _DRIVER_CLASS: "jdbc-driver-class-name data-source-class-name",
    },
    "core": {
        _ONE_THREAD:
            "scheduled-thread-pool-max-size thread-pool-max-size async-connection-execution-enabled"
            " page-max-concurrent-io message-expiry-thread-priority",
        "a stop lets everything under way be answered": "graceful-shutdown-enabled graceful-shutdown-timeout",
        "a login is verified again after five minutes, or when its file has changed":
            "security-invalidation-interval authentication-cache-size authorization-cache-size",
        "the management is over HTTP: set health of [broker]":
            "management-address management-notification-address management-message-rbac"
            " management-rbac-prefix view-permission-method-match-pattern jmx-management-enabled jmx-domain"
            " jmx-use-broker-name suppress-session-notifications",
        _COUNTERS:
            "message-counter-enabled message-counter-sample-period message-counter-max-day-history metrics"
            " metrics-plugin",
        _NO_CLUSTER:
            "cluster-user cluster-password connectors broadcast-groups discovery-groups grouping-handler"
            " mirror-ack-manager-queue-attempts mirror-ack-manager-page-attempts"
            " mirror-ack-manager-retry-delay mirror-ack-manager-warn-unacked mirror-page-transaction",
        "the codec of masked passwords is Artemis's own, with its key": "password-codec mask-password",
        "a connection ends by heart-beats: set max_inactivity_duration of the connector":
            "connection-ttl-override connection-ttl-check-interval",
        _NEXT_START: "configuration-file-refresh-period",
        "clients of MQTT and AMQP cannot connect":
            "mqtt-session-scan-interval mqtt-session-state-persistence-timeout"
            " mqtt-subscription-persistence-enabled amqp-use-core-subscription-naming",
        "a transaction ends with its connection, and a prepared one is decided with jdbcstore xa":
            "transaction-timeout transaction-timeout-scan-period",
        "expired messages are looked for every 30 seconds: set expire_messages_period of a policy":
            "message-expiry-scan-period",
        _EMPTY: "address-queue-scan-period",
        _AUDIT: "id-cache-size persist-id-cache",
        "each delivery is counted in memory": "persist-delivery-count-before-delivery max-redelivery-records",
        _READ_LATER:
            "paging-directory large-messages-directory large-message-sync page-sync-timeout read-whole-page"
            " purge-page-folders",
        "the database and the disk report when they are full":
            "max-disk-usage min-disk-free disk-scan-period global-max-messages"
            " global-max-size-percent-of-jvm-max-memory",
        "the metrics have the memory":
            "memory-warning-threshold memory-measure-interval server-dump-interval",
        "an unexpected error ends the broker, and the next master begins with what is stored":
            "critical-analyzer critical-analyzer-timeout critical-analyzer-check-period"
            " critical-analyzer-policy",
        "wildcards are always those of consumers": "wild-card-routing-enabled literal-match-markers",
        "protocols are those of the acceptors": "resolve-protocols",
        "names of temporary destinations are the broker's":
            "temporary-queue-namespace uuid-namespace internal-naming-prefix",
        "the log is Python's": "log-delegate-factory-class-name",
        "the environment has the properties": "system-property-prefix property",
        "a client without a login is refused where there are users": "reject-empty-validated-user",
        "the system chooses the network card": "network-check-NIC",
    },
    "address-setting": {
        _MANY: "default-max-consumers",
        _READ_LATER:
            "max-size-messages page-size-bytes page-max-cache-size max-read-page-messages"
            " max-read-page-bytes prefetch-page-messages prefetch-page-bytes initial-queue-buffer-size",
        _COUNTERS: "message-counter-history-day-limit enable-metrics",
        _NO_CLUSTER: "redistribution-delay",
        _EMPTY:
            "auto-delete-queues auto-delete-created-queues auto-delete-queues-delay"
            " auto-delete-queues-skip-usage-check auto-delete-jms-queues auto-delete-jms-topics"
            " auto-delete-addresses auto-delete-addresses-delay auto-delete-addresses-skip-usage-check",
        "a destination that the file does not have any more stays":
            "config-delete-addresses config-delete-diverts",
        "the caller chooses the size of each page":
            "management-browse-page-size management-message-attribute-size-limit",
        "clients name queues and topics": "default-queue-routing-type default-address-routing-type",
        _PREFETCH: "default-consumer-window-size",
        "a message has the time of its arrival": "enable-ingress-timestamp",
        _AUDIT: "id-cache-size",
        "expired messages are in their queue, which is made when it is needed":
            "auto-create-expiry-resources",
        _STAYS:
            "default-group-rebalance default-group-rebalance-pause-dispatch default-group-buckets"
            " default-group-first-key",
    },
    "queue of core": {
        _MANY: "max-consumers",
        "a queue is durable, and keeps the messages that are persistent": "durable",
        "it belongs to nobody: permissions are in security-settings": "user",
        _STAYS: "group-rebalance group-rebalance-pause-dispatch group-buckets group-first-key",
        "a topic's messages go to its queue": "exclusive consumers-before-dispatch delay-before-dispatch",
    },
    "acceptor": {
        _ONE_THREAD:
            "useEpoll useKQueue useNio nioRemotingThreads remotingThreads useInvm batchDelay directDeliver"
            " useIOUring actorThresholdBytes openwireMaxPacketChunkSize openWireDestinationCacheSize"
            " quietPeriod shutdownTimeout",
        "the system chooses the buffers of sockets":
            "tcpSendBufferSize tcpReceiveBufferSize tcpNoDelay writeBufferLowWaterMark"
            " writeBufferHighWaterMark backlog localAddress localPort tcpKeepAlive",
        "clients of AMQP, MQTT and Artemis's own protocol cannot connect":
            "amqpCredits amqpLowCredits amqpMinCredits amqpMinLargeMessageSize amqpIdleTimeout"
            " amqpDuplicateDetection amqpTreatRejectAsUnmodifiedDeliveryFailed amqpMaxFrameSize"
            " amqpUseModifiedForTransientDeliveryErrors saslMechanisms saslLoginConfigScope producerCredits"
            " producerWindowSize consumerWindowSize confirmationWindowSize subscribeNoLocalQueues"
            " protocolVersion defaultMqttSessionExpiryInterval topicAliasMaximum receiveMaximum"
            " serverKeepAlive maximumPacketSize closeMqttConnectionOnPublishAuthorizationFailure"
            " ackManagerFlushTimeout mirrorMaxPendingAcks pubSubPrefix initialRemoteMaxFrameSize"
            " amqpDrainOnTransientDeliveryErrors amqpLinkQuiesceTimeout"
            " defaultMaximumInFlightPublishMessages allowLinkStealing",
        _ADVISORIES:
            "supportAdvisory suppressInternalManagementObjects openwireUseDuplicateDetectionOnFailover",
        "a client chooses its heart-beats":
            "connectionTtl connectionTTL connectionTtlMin connectionTtlMax heartBeatToConnectionTtlModifier"
            " connection-ttl maxInactivityDurationInitalDelay",
        _PREFETCH: "stompConsumerCredits stompConsumerWindowSize",
        "the header server of CONNECTED is server of [broker]": "disableStompServerHeader",
        "what a proxy writes in front of a connection is not read": "proxyProtocolEnabled",
        _NO_CLUSTER:
            "clusterConnection rebalanceClusterClients updateClusterClients updateClusterClientsOnRemove",
        "each message has an id": "stompEnableMessageId stomp-enable-message-id",
        "/queue/ and /topic/ in names of STOMP are what they are in ActiveMQ":
            "anycastPrefix multicastPrefix",
        "STOMP over WebSocket needs a connector of its own, ws://":
            "httpResponseTime httpServerScanPeriod webSocketEncoderType webSocketCompressionSupported"
            " webSocketMaxFramePayloadLength stompMaxFramePayloadLength httpUpgradeEnabled"
            " httpUpgradeEndpoint",
        "TLS is 1.2 or later, with the ciphers that Python's ssl chooses":
            "enabledProtocols enabledCipherSuites sslProvider trustManagerFactoryPlugin sslAutoReload"
            " sslContext",
        "the name of the client's machine is not looked up": "verifyHost sniHost",
        "it is the name of the acceptor": "name virtualTopicConsumerLruCacheMax brokerName scheme",
    },
}  # fmt: skip
"""Settings of which clients notice nothing, or little."""

ANY = "any element"
_UNSUPPORTED: Mapping[str, Mapping[str, str]] = {
    "broker": {
        "no client can connect through this broker to another one": "proxyConnectors",
        "write each of them as a transportConnector": "transportConnectorURIs",
        "a service is Java code, which is not run": "services",
    },
    "PolicyEntry": {
        "jdbcstore broker does not support it": "strictOrderDispatch",
    },
    "sharedDeadLetterStrategy, individualDeadLetterStrategy": {
        "a message that is rejected on two queues becomes a dead letter twice":
            "enableAudit maxProducersToAudit maxAuditDepth",
    },
    "core": {
        "a connector service is Java code, which is not run": "connector-services",
        "a user may have any number of connections: set maximum_connections": "resource-limit-settings",
    },
    ANY: {
        "only the connection that created a temporary destination consumes it":
            "allowTempDestinationStealing",
        "a second connection with the same client id is refused": "allowLinkStealing",
        "set max_subscriptions of the connector": "maximumConsumersAllowedPerConnection",
        "a connection may have any number of producers": "maximumProducersAllowedPerConnection",
    },
}  # fmt: skip
"""Features that jdbcstore does not have, and users notice, without a change to the messages that are kept."""

_PASSED_ON = "messages would stay here that this broker passes on"
_ALL_KEPT = "messages would be kept that this broker does not keep"
_FOR_OTHERS = "messages would be removed that this broker keeps for others"
_ANY_NUMBER = "an address would have any number of messages on disk"
_ELSEWHERE = "clients would be served here that this broker sends elsewhere"
_REVOKED = "clients with revoked certificates would be let in"
_REFUSED: Mapping[str, Mapping[str, str]] = {
    "broker": {
        f"{_PASSED_ON} to others: {_NO_NETWORKS}": "networkConnectors networkConnectorURIs",
        f"{_PASSED_ON}: jdbcstore has no bridges": "jmsBridgeConnectors",
        "no queue would be mirrored: a compositeQueue sends copies to a topic": "useMirroredQueues",
        "no temporary queue would be mirrored": "useTempMirroredQueues",
        "messages would stay that this broker deletes when it starts: delete them with jdbcstore purge":
            "deleteAllMessagesOnStartup",
        "nothing would be replicated to this slave: name a database that both reach, and a locker":
            "masterConnectorURI",
    },
    "plugins": {
        "the parts of names are between dots here, and clients would use other destinations":
            "destinationpathseparatorplugin",
        "messages would stay here that Camel's routes pass on": "camelroutesbrokerplugin",
        "clients would not be sent to the brokers that have their destinations": "partitionbrokerplugin",
    },
    "sslContext": {
        _REVOKED: "crlPath",
    },
    ANY: {
        "messages would keep the delivery mode, time and expiration of their producers: see the plug-ins"
        " forcePersistencyModeBrokerPlugin and timeStampingBrokerPlugin": "messageInterceptorStrategy",
        "clients would get messages that it withholds": "messageAuthorizationPolicy",
        "clients would be let in that these Java classes refuse": "trustManagers",
    },
    "core": {
        f"{_PASSED_ON}: jdbcstore has no bridges": "bridges",
        "messages would stay where they are: jdbcstore does not federate brokers": "federations",
        "nothing would be mirrored or passed on: jdbcstore does not connect to brokers": "broker-connections",
        f"{_PASSED_ON}: jdbcstore has no clusters": "cluster-connections",
        "interceptors are Java code, which may refuse clients": "remoting-incoming-interceptors",
        "interceptors are Java code, which may withhold messages": "remoting-outgoing-interceptors",
        _ELSEWHERE: "connection-routers",
    },
    "address-setting": {
        _ANY_NUMBER: "page-limit-bytes page-limit-messages page-full-policy",
        "messages would be taken that this broker refuses": "max-size-bytes-reject-threshold",
        _ALL_KEPT:
            "last-value-queue default-last-value-queue default-last-value-key default-ring-size"
            " default-purge-on-no-consumers",
        _FOR_OTHERS: "default-non-destructive",
        "messages without a subscriber would not become dead letters": "send-to-dla-on-no-route",
        "queues would stay that the file does not have": "config-delete-queues",
        "queues with messages would not be deleted": "auto-delete-queues-message-count",
        "expired messages would be in the expiry-address": "expiry-queue-prefix expiry-queue-suffix",
    },
    "queue of core": {
        _ALL_KEPT: "purge-on-no-consumers last-value last-value-key ring-size",
        _FOR_OTHERS: "non-destructive",
        "the queue would get messages that it does not get there": "enabled",
    },
    "acceptor": {
        _REVOKED: "crlPath",
        "users would be those of another domain": "securityDomain",
        "clients would not log in by Kerberos": "kerb5Config",
        _ELSEWHERE: "router",
        "queues would not get copies: name virtual_topics in TOML": "virtualTopicConsumerWildcards",
    },
}  # fmt: skip
"""Settings that decide which messages are kept, or who may read them."""

_HARMLESS = {
    "page-limit-bytes": ("-1", ""), "page-limit-messages": ("-1", ""),
    "default-ring-size": ("-1", ""), "ring-size": ("-1", ""),
    "max-size-bytes-reject-threshold": ("-1", ""), "auto-delete-queues-message-count": ("0", ""),
    "page-full-policy": ("drop", "fail", ""), "config-delete-queues": ("off", ""), "enabled": ("true", ""),
    "expiry-queue-prefix": ("exp.", ""), "expiry-queue-suffix": ("",),
    "default-last-value-key": ("",), "last-value-key": ("",), "enableAudit": (),
}  # fmt: skip
"""Values by which nothing changes, in lower case, where these are not ``false`` and nothing."""


def _fates() -> Iterator[tuple[tuple[str, str], Fate]]:
    kinds = {Kind.IGNORED: _NO_EFFECT, Kind.UNSUPPORTED: _UNSUPPORTED, Kind.REFUSED: _REFUSED}
    for kind, table in kinds.items():
        cure = "; remove it" if kind is Kind.REFUSED else ""
        for elements, reasons in table.items():
            for reason, names in reasons.items():
                for name in names.split():
                    harmless = () if kind is Kind.IGNORED else _HARMLESS.get(name, ("false", ""))
                    fate = Fate(kind, reason + cure, harmless)
                    yield from (((element, name), fate) for element in elements.split(", "))


FATES = dict(_fates())
"""By the element and the name of the setting. An element is that of the file, a kind of bean that may have
any name, or a dataclass of this package by its ``type`` or name."""


def names_of(element: str) -> set[str]:
    """Return the settings of an element that are not options."""
    return {name for owner, name in FATES if owner == element}


def element_of(kind: type) -> str:
    """Return the element of a dataclass."""
    return str(getattr(kind, "type", kind.__name__))
