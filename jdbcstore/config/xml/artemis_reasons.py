"""Settings of Artemis's ``broker.xml`` that the broker here does not obey, each with what happens instead."""

from __future__ import annotations

from collections.abc import Mapping

from jdbcstore.config.reasons import by_name

_THREADS = "the broker has one thread for all clients, and its own for the store"
_TABLES = "messages are read from the store when they are needed, in pages of its own"
_CORE = "clients of Artemis's own protocol cannot connect"
_NO_CLUSTER = "jdbcstore does not connect brokers to clusters"
_EMPTY = "a destination without messages and consumers takes no memory"
_COUNTERS = "the management has the counters"
_MANY = "a queue may have any number of consumers"

Refused = Mapping[str, tuple[tuple[str, ...], str]]
"""By name: the values by which nothing changes, in lower case, and what would happen otherwise."""

CORE = by_name({
    _THREADS: (
        "scheduled-thread-pool-max-size", "thread-pool-max-size", "async-connection-execution-enabled",
        "page-max-concurrent-io", "message-expiry-thread-priority",
    ),
    "a stop lets everything under way be answered": (
        "graceful-shutdown-enabled", "graceful-shutdown-timeout",
    ),
    "a login is verified again after five minutes, or when its file has changed": (
        "security-invalidation-interval", "authentication-cache-size", "authorization-cache-size",
    ),
    "the management is over HTTP: set health of [broker]": (
        "management-address", "management-notification-address", "management-message-rbac",
        "management-rbac-prefix", "view-permission-method-match-pattern", "jmx-management-enabled",
        "jmx-domain", "jmx-use-broker-name", "suppress-session-notifications",
    ),
    _COUNTERS: (
        "message-counter-enabled", "message-counter-sample-period", "message-counter-max-day-history",
        "metrics", "metrics-plugin",
    ),
    _NO_CLUSTER: (
        "cluster-user", "cluster-password", "connectors", "broadcast-groups", "discovery-groups",
        "grouping-handler", "mirror-ack-manager-queue-attempts", "mirror-ack-manager-page-attempts",
        "mirror-ack-manager-retry-delay", "mirror-ack-manager-warn-unacked", "mirror-page-transaction",
    ),
    "the codec of masked passwords is Artemis's own, with its key": ("password-codec", "mask-password"),
    "a connection ends by heart-beats: set max_inactivity_duration of the connector": (
        "connection-ttl-override", "connection-ttl-check-interval",
    ),
    "a change of the file is in effect with the next start": ("configuration-file-refresh-period",),
    "clients of MQTT and AMQP cannot connect": (
        "mqtt-session-scan-interval", "mqtt-session-state-persistence-timeout",
        "mqtt-subscription-persistence-enabled", "amqp-use-core-subscription-naming",
    ),
    "a transaction ends with its connection, and a prepared one is decided with jdbcstore xa": (
        "transaction-timeout", "transaction-timeout-scan-period",
    ),
    "expired messages are looked for every 30 seconds: set expire_messages_period of a policy": (
        "message-expiry-scan-period",
    ),
    _EMPTY: ("address-queue-scan-period",),
    "the store recognises duplicates: set its option enable_audit": ("id-cache-size", "persist-id-cache"),
    "each delivery is counted in memory": (
        "persist-delivery-count-before-delivery", "max-redelivery-records",
    ),
    _TABLES: (
        "paging-directory", "large-messages-directory", "large-message-sync", "page-sync-timeout",
        "read-whole-page", "purge-page-folders",
    ),
    "the database and the disk report when they are full": (
        "max-disk-usage", "min-disk-free", "disk-scan-period", "global-max-messages",
        "global-max-size-percent-of-jvm-max-memory",
    ),
    "the metrics have the memory": (
        "memory-warning-threshold", "memory-measure-interval", "server-dump-interval",
    ),
    "an unexpected error ends the broker, and the next master begins with what is stored": (
        "critical-analyzer", "critical-analyzer-timeout", "critical-analyzer-check-period",
        "critical-analyzer-policy",
    ),
    "wildcards are always those of consumers": ("wild-card-routing-enabled", "literal-match-markers"),
    "protocols are those of the acceptors": ("resolve-protocols",),
    "names of temporary destinations are the broker's": (
        "temporary-queue-namespace", "uuid-namespace", "internal-naming-prefix",
    ),
    "the log is Python's": ("log-delegate-factory-class-name",),
    "the environment has the properties": ("system-property-prefix", "property"),
    "a client without a login is refused where there are users": ("reject-empty-validated-user",),
})  # fmt: skip
"""Elements of ``core`` of which clients notice nothing."""

REFUSED_CORE: Mapping[str, str] = {
    "bridges": "messages would stay here that this broker passes on: jdbcstore has no bridges",
    "federations": "messages would stay where they are: jdbcstore does not federate brokers",
    "broker-connections": "nothing would be mirrored or passed on: jdbcstore does not connect to brokers",
    "cluster-connections": "messages would stay here that this broker passes on: jdbcstore has no clusters",
    "remoting-incoming-interceptors": "interceptors are Java code, which may refuse clients",
    "remoting-outgoing-interceptors": "interceptors are Java code, which may withhold messages",
    "connection-routers": "clients would be served here that this broker sends elsewhere",
}
"""Elements of ``core`` that decide where messages go, or who gets them."""

UNSUPPORTED_CORE = {
    "connector-services": "a connector service is Java code, which is not run",
    "resource-limit-settings": "a user may have any number of connections: set maximum_connections",
}

ADDRESS_SETTINGS = by_name({
    _MANY: ("default-max-consumers",),
    _TABLES: (
        "max-size-messages", "page-size-bytes", "page-max-cache-size", "max-read-page-messages",
        "max-read-page-bytes",
        "prefetch-page-messages", "prefetch-page-bytes", "initial-queue-buffer-size",
    ),
    _COUNTERS: ("message-counter-history-day-limit", "enable-metrics"),
    _NO_CLUSTER: ("redistribution-delay",),
    _EMPTY: (
        "auto-delete-queues", "auto-delete-created-queues", "auto-delete-queues-delay",
        "auto-delete-queues-skip-usage-check", "auto-delete-jms-queues", "auto-delete-jms-topics",
        "auto-delete-addresses", "auto-delete-addresses-delay", "auto-delete-addresses-skip-usage-check",
    ),
    "a destination that the file does not have any more stays": (
        "config-delete-addresses", "config-delete-diverts",
    ),
    "the caller chooses the size of each page": (
        "management-browse-page-size", "management-message-attribute-size-limit",
    ),
    "clients name queues and topics": ("default-queue-routing-type", "default-address-routing-type"),
    "the prefetch is the client's, or that of the policy": ("default-consumer-window-size",),
    "a message has the time of its arrival": ("enable-ingress-timestamp",),
    "the store recognises duplicates: set its option enable_audit": ("id-cache-size",),
    "expired messages are in their queue, which is made when it is needed": (
        "auto-create-expiry-resources",
    ),
    "a group stays with its consumer as long as that is there": (
        "default-group-rebalance", "default-group-rebalance-pause-dispatch", "default-group-buckets",
        "default-group-first-key",
    ),
})  # fmt: skip
"""Elements of an address-setting of which clients notice little."""

_ALL_KEPT = "messages would be kept that this broker does not keep"
NEVER = ("-1", "0", "")
REFUSED_SETTINGS: Refused = {
    "page-limit-bytes": (("-1", ""), "an address would have any number of messages on disk"),
    "page-limit-messages": (("-1", ""), "an address would have any number of messages on disk"),
    "page-full-policy": (("", "drop", "fail"), "unknown policy"),
    "max-size-bytes-reject-threshold": (("-1", ""), "messages would be taken that this broker refuses"),
    "last-value-queue": (("false", ""), _ALL_KEPT),
    "default-last-value-queue": (("false", ""), _ALL_KEPT),
    "default-last-value-key": (("",), _ALL_KEPT),
    "default-non-destructive": (("false", ""), "messages would be removed that this broker keeps for others"),
    "default-ring-size": (("-1", ""), _ALL_KEPT),
    "default-purge-on-no-consumers": (("false", ""), _ALL_KEPT),
    "send-to-dla-on-no-route": (("false", ""), "messages without a subscriber would not become dead letters"),
    "config-delete-queues": (("off", ""), "queues would stay that the file does not have"),
    "auto-delete-queues-message-count": (("0", ""), "queues with messages would not be deleted"),
    "expiry-queue-prefix": (("exp.", ""), "expired messages would be in the expiry-address"),
    "expiry-queue-suffix": (("",), "expired messages would be in the expiry-address"),
}
"""Elements of an address-setting that decide which messages are kept."""

QUEUES = by_name({
    _MANY: ("max-consumers",),
    "a queue is durable, and keeps the messages that are persistent": ("durable",),
    "it belongs to nobody: permissions are in security-settings": ("user",),
    "a group stays with its consumer as long as that is there": (
        "group-rebalance", "group-rebalance-pause-dispatch", "group-buckets", "group-first-key",
    ),
    "a topic's messages go to its queue": ("exclusive", "consumers-before-dispatch", "delay-before-dispatch"),
})  # fmt: skip
REFUSED_QUEUES: Refused = {
    "purge-on-no-consumers": (("false", ""), _ALL_KEPT),
    "last-value": (("false", ""), _ALL_KEPT),
    "last-value-key": (("",), _ALL_KEPT),
    "non-destructive": (("false", ""), "messages would be removed that this broker keeps for others"),
    "ring-size": (("-1", ""), _ALL_KEPT),
    "enabled": (("true", ""), "the queue would get messages that it does not get there"),
}
"""Attributes of a queue that decide which messages are kept."""

ACCEPTORS = by_name({
    _THREADS: (
        "useEpoll", "useKQueue", "useNio", "nioRemotingThreads", "remotingThreads", "useInvm", "batchDelay",
        "directDeliver", "useIOUring", "actorThresholdBytes", "openwireMaxPacketChunkSize",
        "openWireDestinationCacheSize", "quietPeriod", "shutdownTimeout",
    ),
    "the system chooses the buffers of sockets": (
        "tcpSendBufferSize", "tcpReceiveBufferSize", "tcpNoDelay", "writeBufferLowWaterMark",
        "writeBufferHighWaterMark", "backlog", "localAddress", "localPort", "tcpKeepAlive",
    ),
    "clients of AMQP, MQTT and Artemis's own protocol cannot connect": (
        "amqpCredits", "amqpLowCredits", "amqpMinCredits", "amqpMinLargeMessageSize", "amqpIdleTimeout",
        "amqpDuplicateDetection", "amqpTreatRejectAsUnmodifiedDeliveryFailed", "amqpMaxFrameSize",
        "amqpUseModifiedForTransientDeliveryErrors", "saslMechanisms", "saslLoginConfigScope",
        "producerCredits", "producerWindowSize", "consumerWindowSize", "confirmationWindowSize",
        "subscribeNoLocalQueues", "protocolVersion", "defaultMqttSessionExpiryInterval",
        "topicAliasMaximum", "receiveMaximum", "serverKeepAlive", "maximumPacketSize",
        "closeMqttConnectionOnPublishAuthorizationFailure", "ackManagerFlushTimeout", "mirrorMaxPendingAcks",
        "pubSubPrefix", "initialRemoteMaxFrameSize", "amqpDrainOnTransientDeliveryErrors",
        "amqpLinkQuiesceTimeout", "defaultMaximumInFlightPublishMessages", "allowLinkStealing",
    ),
    "clients that watch advisories get them, others cost nothing": (
        "supportAdvisory", "suppressInternalManagementObjects", "openwireUseDuplicateDetectionOnFailover",
    ),
    "a client chooses its heart-beats": (
        "connectionTtl", "connectionTTL", "connectionTtlMin", "connectionTtlMax",
        "heartBeatToConnectionTtlModifier", "connection-ttl", "maxInactivityDurationInitalDelay",
    ),
    "the prefetch is the client's, or that of the policy": (
        "stompConsumerCredits", "stompConsumerWindowSize",
    ),
    "the header server of CONNECTED is server of [broker]": ("disableStompServerHeader",),
    "what a proxy writes in front of a connection is not read": ("proxyProtocolEnabled",),
    _NO_CLUSTER: (
        "clusterConnection", "rebalanceClusterClients", "updateClusterClients",
        "updateClusterClientsOnRemove",
    ),
    "each message has an id": ("stompEnableMessageId", "stomp-enable-message-id"),
    "/queue/ and /topic/ in names of STOMP are what they are in ActiveMQ": (
        "anycastPrefix", "multicastPrefix",
    ),
    "STOMP over WebSocket needs a connector of its own, ws://": (
        "httpResponseTime", "httpServerScanPeriod",
        "webSocketEncoderType", "webSocketCompressionSupported", "webSocketMaxFramePayloadLength",
        "stompMaxFramePayloadLength", "httpUpgradeEnabled", "httpUpgradeEndpoint",
    ),
    "TLS is 1.2 or later, with the ciphers that Python's ssl chooses": (
        "enabledProtocols", "enabledCipherSuites", "sslProvider", "trustManagerFactoryPlugin",
        "sslAutoReload", "sslContext",
    ),
    "the name of the client's machine is not looked up": ("verifyHost", "sniHost"),
    "it is the name of the acceptor": ("name", "virtualTopicConsumerLruCacheMax", "brokerName", "scheme"),
})  # fmt: skip
"""Parameters of an acceptor of which clients notice little."""
REFUSED_ACCEPTORS = {
    "crlPath": "clients with revoked certificates would be let in",
    "securityDomain": "users would be those of another domain",
    "kerb5Config": "clients would not log in by Kerberos",
    "router": "clients would be served here that this broker sends elsewhere",
    "virtualTopicConsumerWildcards": "queues would not get copies: name virtual_topics in TOML",
}
"""Parameters of an acceptor that decide who may read messages."""
