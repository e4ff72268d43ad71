"""The options of the broker: its connectors, limits and users."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from jdbcstore.config.fields import Options, check, option
from jdbcstore.config.plugins import PluginConfig
from jdbcstore.config.users import ROLES
from jdbcstore.config.virtual import DEFAULT_VIRTUAL_TOPICS, CompositeConfig, VirtualTopicConfig
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard

STOMP_PORT = 61613
STOMP, STOMP_TLS = "stomp", "stomp+ssl"
OPENWIRE, OPENWIRE_TLS = "tcp", "ssl"
AUTO, AUTO_TLS = "auto", "auto+ssl"
WS, WSS = "ws", "wss"
SCHEMES = (STOMP, STOMP_TLS, OPENWIRE, OPENWIRE_TLS, AUTO, AUTO_TLS, WS, WSS)
TLS_SCHEMES = (STOMP_TLS, OPENWIRE_TLS, AUTO_TLS, WSS)
_ORIGIN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s]+")
_ADVERTISED = re.compile(r"(tcp|ssl)://[^/?#,\s]+:[0-9]+(\?[^#,\s]*)?")
_PING = re.compile(r"\s*[^%\s](?:[^%]|%(?:[12]\$)?[ds])*")
LOG_FORMATS = ("text", "json")
COLORS = ("gray", "red", "orange", "green", "blue", "purple")

_EXAMPLES = {"health": 8161, "listen": 8162}
"""Ports in errors, by the option."""


class Address(NamedTuple):
    """The ``host`` and ``port`` that a server listens on; port 0 is any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, option: str) -> Address:
        """Parse ``HOST:PORT``, with an IPv6 address in brackets.

        :raises ConfigurationError: the string, the value of ``option``, has another form
        """
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or port is None or parts.netloc != text or parts.username is not None:
            port = _EXAMPLES.get(option, STOMP_PORT)
            raise ConfigurationError(
                f"{option} must be HOST:PORT, such as 127.0.0.1:{port}, port 65535 at most, not {text!r}",
                option=option,
            )
        return cls(host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig(Options):
    """An address for clients, and the limits of a connection; ActiveMQ's ``transportConnector``.

    Durations are seconds, sizes bytes. In ActiveMQ most are parameters of the connector's URI, in camelCase.

    :raises ConfigurationError: the address cannot be used, or a file that TLS needs is not named
    """

    uri: str = f"{STOMP}://127.0.0.1:{STOMP_PORT}"
    """``SCHEME://HOST:PORT``, where port 0 is any free port: ``stomp``, ``tcp`` for OpenWire, ``auto``
    for both, or ``ws`` for STOMP over WebSocket. With TLS: ``stomp+ssl``, ``ssl``, ``auto+ssl`` and
    ``wss``."""
    name: str | None = None
    """The name in logs; None uses the URI."""
    maximum_connections: int = option(10_000, at_least=1)
    """Connections at the same time; further ones are refused. A connection counts from its acceptance,
    before TLS, and uses one file descriptor."""
    max_frame_size: int = option(100 * 1024 * 1024, at_least=1024, size=True)
    """Maximum bytes of a frame's body. Also ActiveMQ's ``maxDataLength``."""
    min_large_message_size: int = option(0, at_least=0, size=True)
    """Minimum bytes of a large body, which is received, stored and delivered in pieces; 0 turns this
    off. ActiveMQ cannot read such a message. Not in ActiveMQ; Artemis's ``minLargeMessageSize``."""
    max_header_length: int = option(10 * 1024, at_least=64, size=True)
    """Maximum bytes of one header."""
    max_headers: int = option(1000, at_least=1)
    """Maximum number of headers in a frame."""
    max_subscriptions: int = option(1000, at_least=1)
    """Maximum number of subscriptions of one connection. Not in ActiveMQ."""
    connect_attempt_timeout: float = option(30.0, at_least=0, milliseconds=True)
    """Seconds until a client must have logged in, and as many before that for the TLS handshake; 0
    means unlimited."""
    protocol_detection_time_out: float = option(30.0, at_least=0, milliseconds=True)
    """For ``auto``: seconds until a client must have sent its first bytes; 0 uses
    ``connect_attempt_timeout``, which limits it in any case."""
    max_inactivity_duration: float = option(30.0, at_least=0, milliseconds=True)
    """For OpenWire: seconds without traffic after which either side treats the connection as dead. The
    shorter of the client's and the broker's value applies; 0 turns this off."""
    use_inactivity_monitor: bool = True
    """For OpenWire: whether the broker sends keep-alives and closes dead connections. A client has its
    own setting."""
    idle_timeout: float = option(0.0, at_least=0, milliseconds=True)
    """Seconds without traffic in either direction after which a connection is closed; 0 turns this off.
    Not in ActiveMQ."""
    virtual_hosts: str | None = None
    """Accepted values of the header ``host`` of CONNECT, separated by commas; None accepts all. Not in
    ActiveMQ."""
    allowed_origins: str | None = None
    """For WebSocket: origins of web pages that may connect, such as ``https://shop.example.com``,
    separated by commas. ``*`` allows all; None allows pages of the broker's own host. Not in ActiveMQ,
    which allows all."""
    certificate: str | None = None
    """For TLS: a PEM file with the certificate and its chain, or a Java key store (PKCS #12 or JKS).
    ActiveMQ's ``keyStore`` of ``sslContext``."""
    private_key: str | None = None
    """For TLS: a PEM file with the private key; None reads it from ``certificate``."""
    certificate_password: str | None = option(None, secret=True)
    """For TLS: the password of the key store, or of the key in the PEM file."""
    trusted_certificates: str | None = None
    """For TLS: a PEM file or key store with the authorities that sign clients' certificates."""
    trusted_certificates_password: str | None = option(None, secret=True)
    """For TLS: the password of that key store."""
    need_client_auth: bool = False
    """For TLS: whether each client must present a certificate signed by a trusted authority."""

    def __post_init__(self) -> None:
        check(self)
        if self.scheme not in SCHEMES:
            schemes = ", ".join(f"{scheme}://HOST:PORT" for scheme in SCHEMES)
            raise ConfigurationError(f"uri must be one of {schemes}, not {self.uri!r}", option="uri")
        Address.parse(self.uri.partition("://")[2], "uri")
        if self.is_tls and self.certificate is None:
            raise ConfigurationError(f"{self.uri} needs a certificate; name a PEM file", option="certificate")
        if self.need_client_auth and self.trusted_certificates is None:
            raise ConfigurationError(
                "need_client_auth needs trusted_certificates; name a PEM file with the authorities",
                option="trusted_certificates",
            )

        for origin in (self.allowed_origins or "*").split(","):
            if origin.strip() not in ("*", "null"):
                _check_origin(origin.strip(), "allowed_origins", ", or * for any")

    @property
    def address(self) -> Address:
        """The host and port of ``uri``."""
        return Address.parse(self.uri.partition("://")[2], "uri")

    @property
    def scheme(self) -> str:
        """The scheme of ``uri``, one of ``SCHEMES``."""
        return self.uri.partition("://")[0]

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme in TLS_SCHEMES


def _check_origin(origin: str, option: str, more: str = "") -> None:
    if not _ORIGIN.fullmatch(origin):
        text = f"{option} has {origin!r}; write https://HOST or https://HOST:PORT, without a path{more}"
        raise ConfigurationError(text, option=option)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(Options):
    """The options of ``jdbcstore broker``, except those of its store; sizes are bytes.

    Unless said otherwise, an option is the attribute of the same name in camelCase of ActiveMQ's ``broker``.
    """

    persistent: bool = True
    """Whether messages survive a restart. Otherwise all are kept in memory, with any URL."""
    connectors: tuple[ConnectorConfig, ...] = ()
    """The addresses for clients, in sections ``[[broker.connectors]]``; without any, STOMP on this
    machine only. ActiveMQ's ``transportConnectors``."""
    users_file: str | None = None
    """The file of users and permissions, or an ``activemq.xml`` with security plug-ins; None gives
    every client all permissions."""
    group_roles: str | None = None
    """Management roles of the groups of ActiveMQ's security plug-ins, such as ``admins=manage,
    operators=view``; None gives none. Not in ActiveMQ."""
    health: str | None = None
    """``HOST:PORT`` of the health checks, metrics, HTTP API and console; None serves none of them. Not
    in ActiveMQ."""
    management_origins: str | None = None
    """Other origins whose pages may use the HTTP API with a user's login, such as
    ``https://hawtio.example.com``, separated by commas. Not in ActiveMQ, which has
    ``jolokia-access.xml``."""
    environment: str | None = None
    """The environment, such as ``production``, which each page of the console and ``jdbcstore top``
    show. Not in ActiveMQ."""
    environment_color: str = option("gray", choices=COLORS)
    """The colour of the environment in the console. Not in ActiveMQ."""
    metrics_destinations: int = option(500, at_least=0)
    """Maximum number of destinations with labels of their own in the metrics; the others are counted
    together. Not in ActiveMQ."""
    tracing: bool = False
    """Whether the broker creates OpenTelemetry spans. Not in ActiveMQ."""
    memory_limit: int = option(64 * 1024 * 1024, at_least=1024 * 1024, size=True)
    """Bytes of messages in memory, for all destinations together; beyond it producers may wait.
    ActiveMQ's ``memoryUsage``."""
    temp_limit: int = option(10 * 1024 * 1024 * 1024, at_least=1024 * 1024, size=True)
    """Bytes of messages in temporary files, for all destinations together; beyond it producers wait.
    ActiveMQ's ``tempUsage``."""
    disk_free_limit: int = option(50 * 1024 * 1024, at_least=0, size=True)
    """Free bytes on the disk of a SQLite file or a journal, below which persistent messages are rejected, so
    that consumers can still remove messages; 0 means no limit. Not in ActiveMQ."""
    tmp_data_directory: str | None = None
    """The directory of these files; None uses the system's temporary directory."""
    concurrent_store_and_dispatch_queues: bool = False
    """Whether a queue delivers a message while it is being written. An attribute of ``kahaDB``."""
    virtual_topics: tuple[VirtualTopicConfig, ...] = DEFAULT_VIRTUAL_TOPICS
    """Topics whose messages are also sent to queues; ``[]`` turns them off. Part of ActiveMQ's
    ``destinationInterceptors``."""
    composite_destinations: tuple[CompositeConfig, ...] = ()
    """Queues and topics whose messages are forwarded to other destinations. Part of ActiveMQ's
    ``destinationInterceptors``."""
    destinations: str | None = None
    """Queues and topics that exist from the start, such as ``queue://ORDERS, topic://PRICES``. A queue
    of a virtual topic then gets messages before its first consumer."""
    plugins: tuple[PluginConfig, ...] = ()
    """ActiveMQ's ``plugins`` except those for users. Each message passes them in this order."""
    max_uncommitted_count: int = option(0, at_least=0)
    """Messages that a transaction may send. One more rolls it back with an error; 0 means unlimited."""
    max_inflated_data_size: int | None = option(100 * 1024 * 1024, at_least=0, size=True)
    """Maximum bytes of a compressed body after it is inflated for a STOMP client; a larger message is
    rejected. None uses the library's limit of 256 MiB."""
    network_check_list: str | None = None
    """Hosts to ping, separated by commas. While neither one of them nor one of the URLs answers, the
    broker does not serve. None checks no host. Not in ActiveMQ; Artemis's ``network-check-list``."""
    network_check_urls: str | None = None
    """URLs whose servers must accept a connection, separated by commas. Artemis's
    ``network-check-URL-list``."""
    network_check_ping_command: str | None = None
    """The command that pings a host, in place of ``ping``; exit code 0 means that it answered. ``%d``
    becomes the timeout in seconds and ``%s`` the host, in this order; ``%1$d`` and ``%2$s`` may be in
    any order. No shell interprets it."""
    network_check_ping6_command: str | None = None
    """The same command for hosts with only IPv6 addresses; None uses ``network_check_ping_command``."""
    network_check_period: float = option(10.0, at_least=0.01, milliseconds=True)
    """Seconds between checks of the network."""
    network_check_timeout: float = option(1.0, at_least=0.01, milliseconds=True)
    """Seconds to wait for an answer."""
    scheduler_support: bool = False
    """Whether ``AMQ_SCHEDULED_DELAY`` and related properties schedule a message. Otherwise they are
    ordinary properties, as in ActiveMQ."""
    max_scheduler_repeat_allowed: int = option(1000, at_least=0)
    """Maximum value of ``AMQ_SCHEDULED_REPEAT``."""
    reject_durable_consumers: bool = False
    """Whether durable subscriptions are refused."""
    offline_durable_subscriber_timeout: float = option(
        0.0, at_least=0, milliseconds=True, negative_is_off=True
    )
    """Seconds without a consumer after which a durable subscription and its pending messages are
    deleted; 0 turns this off. The time starts when the broker starts."""
    offline_durable_subscriber_task_schedule: float = option(
        300.0, at_least=0, milliseconds=True, negative_is_off=True
    )
    """Seconds between searches for such subscriptions; 0 turns them off."""
    become_slave: bool = False
    """Whether a broker that lost the lock waits for it again; otherwise it ends. Not in ActiveMQ."""
    server: str | None = None
    """The header ``server`` of CONNECTED; None sends ``jdbcstore/VERSION (ActiveMQ)``. Some clients
    choose the headers that they send by it. Not in ActiveMQ."""
    populate_jmsx_user_id: bool = False
    """Whether ``JMSXUserID`` of each message is set to the login of its sender."""
    advertise: str | None = None
    """Addresses of all brokers on the store, as JMS clients reach them, separated by commas:
    ``tcp://one:61616,tcp://two:61616``. Clients with ``failover:`` URIs receive them when they connect.
    Not in ActiveMQ, which has ``updateClusterClients``."""
    answer_as_slave: bool = False
    """Whether a slave accepts STOMP connections to reply that it is not the master. Not in ActiveMQ."""
    busy_poll: float = option(0.0, at_least=0, milliseconds=True)
    """Seconds for which the broker looks for further events after each one, instead of sleeping; at most
    0.01, and 0 turns this off. With 0.00025 on PostgreSQL, one producer that waits sent 1.15 to 1.3 times
    as many messages for 1.5 times the CPU, and four 0.98 to 1.16 times for 1.4 times the CPU. An idle
    broker sleeps. Not in ActiveMQ."""
    log_format: str = option("text", choices=LOG_FORMATS)
    """The format of the log on stderr, one line for each event. Not in ActiveMQ."""

    def __post_init__(self) -> None:
        check(self)
        if self.health is not None:
            Address.parse(self.health, "health")
        _ = self.roles_of_groups, self.made_destinations  # which must be valid
        if self.busy_poll > 0.01:
            text = f"busy_poll must be at most 0.01, in seconds, not {self.busy_poll}"
            raise ConfigurationError(text, option="busy_poll")
        for name in ("network_check_ping_command", "network_check_ping6_command"):
            command = getattr(self, name)
            if command is not None and not _PING.fullmatch(command):
                text = f"{name} must be a program and its arguments, as ping -c 1 -w %d %s, not {command!r}"
                raise ConfigurationError(text, option=name)
        for origin in self.origins_of_management:
            _check_origin(origin, "management_origins")
        for address in self._advertised:
            if not _ADVERTISED.fullmatch(address):
                raise ConfigurationError(
                    f"advertise has {address!r}; write tcp://HOST:PORT or ssl://HOST:PORT", option="advertise"
                )

    @property
    def checked_network(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Each machine of ``network_check_list``, and each URL of ``network_check_urls``."""
        hosts, urls = (
            tuple(filter(None, map(str.strip, (given or "").split(","))))
            for given in (self.network_check_list, self.network_check_urls)
        )
        return hosts, urls

    @property
    def made_destinations(self) -> tuple[Destination, ...]:
        """Each queue and topic that ``destinations`` names.

        :raises ConfigurationError: one is not a destination, or has wildcards
        """
        destinations = []
        for text in filter(None, map(str.strip, (self.destinations or "").split(","))):
            try:
                destinations.append(Destination.parse(text))
            except InvalidDestination as error:
                raise ConfigurationError(
                    f"destinations has {text!r}: {error}", option="destinations"
                ) from error
            if is_wildcard(destinations[-1]):
                text = f"destinations has {text}, which has wildcards; write each name"
                raise ConfigurationError(text, option="destinations")
        return tuple(destinations)

    @property
    def origins_of_management(self) -> tuple[str, ...]:
        """Each origin that ``management_origins`` names."""
        return tuple(filter(None, map(str.strip, (self.management_origins or "").split(","))))

    @property
    def roles_of_groups(self) -> dict[str, str]:
        """The role of each group that ``group_roles`` names.

        :raises ConfigurationError: it has another form, or names an unknown role
        """
        roles = {}
        for pair in filter(None, map(str.strip, (self.group_roles or "").split(","))):
            group, _, role = map(str.strip, pair.partition("="))
            if not group or role not in ROLES:
                raise ConfigurationError(
                    f"group_roles has {pair!r}; write GROUP=ROLE, with one of the roles {', '.join(ROLES)}",
                    option="group_roles",
                )
            roles[group] = role
        return roles

    @property
    def _advertised(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in (self.advertise or "").split(",") if part.strip())

    def advertised(self, *, is_tls: bool) -> str:
        """Return the addresses of ``advertise`` with or without TLS, separated by commas."""
        return ",".join(address for address in self._advertised if address.startswith("ssl:") is is_tls)

    @property
    def serving(self) -> tuple[ConnectorConfig, ...]:
        """The configured connectors, or the default one."""
        return self.connectors or (ConnectorConfig(),)
