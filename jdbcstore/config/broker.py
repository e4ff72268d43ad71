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
    """``stomp://HOST:PORT``, ``tcp://HOST:PORT`` for OpenWire, ``auto://HOST:PORT`` for both, or
    ``ws://HOST:PORT`` for STOMP over WebSocket; ``stomp+ssl``, ``ssl``, ``auto+ssl`` and ``wss`` for TLS."""
    name: str | None = None
    """A name for logs; None is the URI."""
    maximum_connections: int = option(10_000, at_least=1)
    """Connections accepted at a time; further ones are refused."""
    max_frame_size: int = option(100 * 1024 * 1024, at_least=1024, size=True)
    """Bytes of a frame's body. Also ActiveMQ's ``maxDataLength``."""
    min_large_message_size: int = option(0, at_least=0, size=True)
    """Bytes of a body from which on it is received, kept and delivered in pieces, and never in memory whole;
    0 is never. No ActiveMQ can read such a message. Not in ActiveMQ; Artemis's ``minLargeMessageSize``."""
    max_header_length: int = option(10 * 1024, at_least=64, size=True)
    """Bytes of one header of a frame."""
    max_headers: int = option(1000, at_least=1)
    """Headers of a frame."""
    max_subscriptions: int = option(1000, at_least=1)
    """Subscriptions of a connection. Not in ActiveMQ."""
    connect_attempt_timeout: float = option(30.0, at_least=0, milliseconds=True)
    """Seconds within which a client must send its CONNECT frame; 0 means unlimited."""
    protocol_detection_time_out: float = option(30.0, at_least=0, milliseconds=True)
    """For ``auto``: seconds within which a client must send enough for its protocol to be recognized; 0 is
    ``connect_attempt_timeout``, which also limits it."""
    max_inactivity_duration: float = option(30.0, at_least=0, milliseconds=True)
    """For OpenWire: seconds without traffic after which a connection counts as dead, on both sides; a client
    with less has its own; 0 is never."""
    use_inactivity_monitor: bool = True
    """For OpenWire: whether the broker sends keep-alives and closes dead connections. If not, a client does
    the same still."""
    idle_timeout: float = option(0.0, at_least=0, milliseconds=True)
    """Seconds without traffic in either direction after which a connection is closed; 0 is never. Not in
    ActiveMQ."""
    virtual_hosts: str | None = None
    """Values of CONNECT's ``host`` that are accepted, separated by commas; None is any. Not in ActiveMQ."""
    allowed_origins: str | None = None
    """For WebSocket: the origins of web pages that may connect, such as ``https://shop.example.com``,
    separated by commas; ``*`` is any, None the broker's own host only. Not in ActiveMQ, where it is any."""
    certificate: str | None = None
    """For TLS: a PEM file with the certificate and its chain, or a key store of Java's, PKCS #12 or JKS. In
    ActiveMQ ``keyStore`` of ``sslContext``."""
    private_key: str | None = None
    """For TLS: a PEM file with the private key; None is the file of the certificate."""
    certificate_password: str | None = option(None, secret=True)
    """For TLS: the password of a key store, or of the key in a PEM file."""
    trusted_certificates: str | None = None
    """For TLS: a PEM file, or a key store, with the authorities that sign clients' certificates."""
    trusted_certificates_password: str | None = option(None, secret=True)
    """For TLS: the password of that key store."""
    need_client_auth: bool = False
    """For TLS: whether a client must have a certificate signed by one of them."""

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
    """Whether messages survive a restart; else they are kept in memory, whatever the URL is."""
    connectors: tuple[ConnectorConfig, ...] = ()
    """The addresses for clients; without any, STOMP on this machine only. ActiveMQ's
    ``transportConnectors``."""
    users_file: str | None = None
    """The file with users and their permissions; None lets every client in. ActiveMQ's security plug-ins."""
    group_roles: str | None = None
    """The roles in the management that groups of ActiveMQ's plug-ins have, such as
    ``admins=manage, operators=view``; None is none. Not in ActiveMQ."""
    health: str | None = None
    """HOST:PORT of liveness, readiness and management over HTTP; None serves none. Not in ActiveMQ."""
    management_origins: str | None = None
    """The origins of other pages, such as ``https://hawtio.example.com``, separated by commas, that may ask
    the management with the login of a user; None is none. Not in ActiveMQ, whose ``jolokia-access.xml`` has
    it."""
    environment: str | None = None
    """A word for its use, such as ``production``, shown on each page of the console and by ``top``. Not in
    ActiveMQ."""
    environment_color: str = option("gray", choices=COLORS)
    """The colour of that. Not in ActiveMQ."""
    metrics_destinations: int = option(500, at_least=0)
    """Destinations that have labels of their own in the metrics; the others are one. Not in ActiveMQ."""
    tracing: bool = False
    """Whether it makes spans of OpenTelemetry. Not in ActiveMQ."""
    memory_limit: int = option(64 * 1024 * 1024, at_least=1024 * 1024, size=True)
    """Bytes of messages in memory, of all destinations; ActiveMQ's ``memoryUsage``."""
    temp_limit: int = option(10 * 1024 * 1024 * 1024, at_least=1024 * 1024, size=True)
    """Bytes of messages in temporary files, of all destinations; ActiveMQ's ``tempUsage``."""
    tmp_data_directory: str | None = None
    """The directory of these files; None is the system's temporary directory."""
    concurrent_store_and_dispatch_queues: bool = False
    """Whether a queue's message is dispatched while it is being written. An attribute of ``kahaDB``."""
    virtual_topics: tuple[VirtualTopicConfig, ...] = DEFAULT_VIRTUAL_TOPICS
    """The topics whose messages are also sent to queues; ``[]`` for none. ActiveMQ's
    ``destinationInterceptors``, as the next."""
    composite_destinations: tuple[CompositeConfig, ...] = ()
    """The queues and topics whose messages are sent to others."""
    destinations: str | None = None
    """Queues and topics that there are from the start, such as ``queue://ORDERS, topic://PRICES``."""
    plugins: tuple[PluginConfig, ...] = ()
    """ActiveMQ's ``plugins`` that are not about users, in the order in which each message passes them."""
    max_uncommitted_count: int = option(0, at_least=0)
    """Messages that a transaction may send before it is committed; with one more it is rolled back, and the
    client gets an error. 0 means unlimited."""
    max_inflated_data_size: int | None = option(100 * 1024 * 1024, at_least=0, size=True)
    """Bytes that a compressed body may have when it is inflated for a STOMP client; a message with more is
    rejected. None is the library's limit of 256 MiB."""
    network_check_list: str | None = None
    """Machines that are asked by ``ping``, separated by commas: while none of them answers, and no URL, the
    broker does not serve. None asks none. Not in ActiveMQ; Artemis's option of that name, as the next."""
    network_check_urls: str | None = None
    """URLs of which the servers have to accept a connection, separated by commas."""
    network_check_ping_command: str | None = None
    """The command that asks a machine, instead of ``ping``: it answers if that ends with 0. Of ``%d`` and
    ``%s`` the first becomes the seconds for an answer, the second the machine; ``%1$d`` and ``%2$s`` may be
    anywhere. No shell reads it."""
    network_check_ping6_command: str | None = None
    """The same for machines that have only addresses of IPv6; None is the other one."""
    network_check_period: float = option(10.0, at_least=0.01, milliseconds=True)
    """Seconds between two of these checks."""
    network_check_timeout: float = option(1.0, at_least=0.01, milliseconds=True)
    """Seconds for an answer."""
    scheduler_support: bool = False
    """Whether messages with ``AMQ_SCHEDULED_DELAY`` and the like are sent later; else these are properties
    like others, as in ActiveMQ."""
    max_scheduler_repeat_allowed: int = option(1000, at_least=0)
    """The most repetitions that ``AMQ_SCHEDULED_REPEAT`` may ask for."""
    reject_durable_consumers: bool = False
    """Whether clients may not have durable subscriptions."""
    offline_durable_subscriber_timeout: float = option(
        0.0, at_least=0, milliseconds=True, negative_is_off=True
    )
    """Seconds without a consumer after which a durable subscription is deleted, with what is pending for it,
    counted from the start of the broker at the earliest; 0 never."""
    offline_durable_subscriber_task_schedule: float = option(
        300.0, at_least=0, milliseconds=True, negative_is_off=True
    )
    """Seconds between two searches for such subscriptions; 0 never."""
    become_slave: bool = False
    """Whether a broker that has lost the lock waits for it again; else it stops. Not in ActiveMQ."""
    server: str | None = None
    """The header ``server`` of CONNECTED; None is jdbcstore/VERSION with ActiveMQ after it. Not in
    ActiveMQ."""
    populate_jmsx_user_id: bool = False
    """Whether each message gets the login of its sender as JMSXUserID."""
    advertise: str | None = None
    """The addresses of all brokers on the store as JMS clients name them, separated by commas: those on
    ``failover:`` are sent them when they connect. Not in ActiveMQ, whose ``updateClusterClients`` does it in
    a network of brokers."""
    answer_as_slave: bool = False
    """Whether a slave accepts connections, to reply that it is not the master. Not in ActiveMQ."""
    log_format: str = option("text", choices=LOG_FORMATS)
    """The format of the log on stderr. Not in ActiveMQ."""

    def __post_init__(self) -> None:
        check(self)
        if self.health is not None:
            Address.parse(self.health, "health")
        _ = self.roles_of_groups, self.made_destinations  # which must be valid
        for name in ("network_check_ping_command", "network_check_ping6_command"):
            command = getattr(self, name)
            if command is not None and not _PING.fullmatch(command):
                text = f"{name} must be a program and its arguments, as ping -c 1 -w %d %s, not {command!r}"
                raise ConfigurationError(text, option=name)
        for origin in self.origins_of_management:
            _check_origin(origin, "management_origins")
        for one in self._advertised:
            if not _ADVERTISED.fullmatch(one):
                raise ConfigurationError(
                    f"advertise has {one!r}; write tcp://HOST:PORT or ssl://HOST:PORT", option="advertise"
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
        found = []
        for text in filter(None, map(str.strip, (self.destinations or "").split(","))):
            try:
                found.append(Destination.parse(text))
            except InvalidDestination as error:
                raise ConfigurationError(
                    f"destinations has {text!r}: {error}", option="destinations"
                ) from error
            if is_wildcard(found[-1]):
                text = f"destinations has {text}, which has wildcards; write each name"
                raise ConfigurationError(text, option="destinations")
        return tuple(found)

    @property
    def origins_of_management(self) -> tuple[str, ...]:
        """Each origin that ``management_origins`` names."""
        return tuple(filter(None, map(str.strip, (self.management_origins or "").split(","))))

    @property
    def roles_of_groups(self) -> dict[str, str]:
        """The role of each group that ``group_roles`` names.

        :raises ConfigurationError: it has another form, or names an unknown role
        """
        found = {}
        for one in filter(None, map(str.strip, (self.group_roles or "").split(","))):
            group, _, role = map(str.strip, one.partition("="))
            if not group or role not in ROLES:
                raise ConfigurationError(
                    f"group_roles has {one!r}; write GROUP=ROLE, with one of the roles {', '.join(ROLES)}",
                    option="group_roles",
                )
            found[group] = role
        return found

    @property
    def _advertised(self) -> tuple[str, ...]:
        return tuple(one.strip() for one in (self.advertise or "").split(",") if one.strip())

    def advertised(self, *, is_tls: bool) -> str:
        """Return the addresses of ``advertise`` with or without TLS, separated by commas."""
        return ",".join(one for one in self._advertised if one.startswith("ssl:") is is_tls)

    @property
    def serving(self) -> tuple[ConnectorConfig, ...]:
        """The configured connectors, or the default one."""
        return self.connectors or (ConnectorConfig(),)
