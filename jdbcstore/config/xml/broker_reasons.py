"""Attributes of ActiveMQ's ``broker`` that the broker here does not obey, each with what happens instead."""

from __future__ import annotations

from jdbcstore.config.reasons import NO_NETWORKS, ONLY_JMX, by_name

_THREADS = "the broker has one thread for all clients, and its own for the store"
_PLUG_INS = "the plug-ins in this file say what is done with messages"
_AT_ONCE = "the broker serves once it has the lock, and not before"
_MEMORY = "there is one limit for all, memory_limit of [broker]"
_PURGE = "a destination without messages and consumers takes no memory"

NO_EFFECT = by_name({
    ONLY_JMX: (
        "useJmx", "managementContext", "brokerObjectName", "enableStatistics", "populateUserNameInMBeans",
        "mbeanInvocationTimeout", "adminView",
    ),
    _THREADS: (
        "taskRunnerFactory", "persistenceTaskRunnerFactory", "persistenceThreadPriority",
        "taskRunnerPriority", "dedicatedTaskRunner", "virtualThreadTaskRunner", "useDedicatedTaskRunner",
        "regionBroker", "destinationFactory", "brokerContext",
    ),
    _MEMORY: (
        "consumerSystemUsage", "producerSystemUsage", "consumerSystemUsagePortion",
        "producerSystemUsagePortion", "splitSystemUsageForProducersConsumers", "adjustUsageLimits",
    ),
    "the database reports when it is full": (
        "schedulePeriodForDiskUsageCheck", "diskUsageCheckRegrowThreshold",
    ),
    _PURGE: ("schedulePeriodForDestinationPurge", "maxPurgedDestinationsPerSweep"),
    _AT_ONCE: (
        "start", "startAsync", "startException", "restartAllowed", "networkConnectorStartAsync",
        "waitForSlave", "waitForSlaveTimeout", "passiveSlave", "slave",
    ),
    "a broker stops on SIGTERM, and what was confirmed is stored": (
        "useShutdownHook", "shutdownHooks", "useLoggingForShutdownErrors", "systemExitOnShutdown",
        "systemExitOnShutdownExitCode", "preShutdownHooks",
    ),
    "the directory of temporary files is tmpDataDirectory": ("tempDataStore",),
    "it is the directory of a store in files; the persistenceAdapter of this file names its own": (
        "dataDirectory", "dataDirectoryFile",
    ),
    "scheduled messages are in the store": (
        "jobSchedulerStore", "schedulerDirectory", "schedulerDirectoryFile",
    ),
    "each broker has an id of its own for each start": ("brokerId", "useLocalHostBrokerName"),
    "messages are always encoded as by ActiveMQ 5.12 and later": ("storeOpenWireVersion",),
    "temporary destinations end with their connection": (
        "cacheTempDestinations", "timeBeforePurgeTempDestinations", "allowTempAutoCreationOnSend",
    ),
    "a durable subscription is a row, whether its subscriber is there or not": ("keepDurableSubsActive",),
    "an expired message is never delivered": ("enableMessageExpirationOnActiveDurableSubs",),
    "clients that watch advisories get them, others cost nothing": (
        "advisorySupport", "anonymousProducerAdvisorySupport",
    ),
    "clients in the same Java process cannot connect": ("vmConnectorURI",),
    "an error of a message in a transaction always rolls it back": ("rollbackOnlyOnAsyncException",),
    NO_NETWORKS: (
        "monitorConnectionSplits", "useVirtualDestSubs", "useVirtualDestSubsOnCreation",
    ),
    "JMSXUserID is the login, with populateJMSXUserID": ("useAuthenticatedPrincipalForJMSXUserID",),
    "a pair of brokers shares a database and a locker": (
        "shutdownOnMasterFailure", "shutdownOnSlaveFailure",
    ),
})  # fmt: skip
"""Attributes and elements of which clients notice nothing, each with the reason."""

REFUSED = {
    "networkConnectors": (
        "messages would stay here that this broker passes on to others: jdbcstore does not connect brokers to"
        " networks"
    ),
    "networkConnectorURIs": (
        "messages would stay here that this broker passes on to others: jdbcstore does not connect brokers to"
        " networks"
    ),
    "jmsBridgeConnectors": "messages would stay here that this broker passes on: jdbcstore has no bridges",
    "useMirroredQueues": "no queue would be mirrored: a compositeQueue sends copies to a topic",
    "useTempMirroredQueues": "no temporary queue would be mirrored",
    "deleteAllMessagesOnStartup": (
        "messages would stay that this broker deletes when it starts: delete them with jdbcstore purge"
    ),
    "masterConnectorURI": (
        "nothing would be replicated to this slave: name a database that both reach, and a locker"
    ),
}
"""Attributes and elements that decide which messages are kept, each with what would happen."""

UNSUPPORTED = {
    "proxyConnectors": "no client can connect through this broker to another one",
    "transportConnectorURIs": "write each of them as a transportConnector",
    "services": "a service is Java code, which is not run",
}
"""Attributes and elements that are missing, without a change to the messages that are kept."""
