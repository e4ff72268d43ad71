"""The broker's own part: where clients connect, who they are, and what they may use."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from jdbcstore.config.fields import check, option
from jdbcstore.errors import ConfigurationError

STOMP_PORT = 61613
STOMP, STOMP_TLS = "stomp", "stomp+ssl"
LOG_FORMATS = ("text", "json")


class Address(NamedTuple):
    """Where a server listens; port 0 is any that is free."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, option: str) -> Address:
        """``HOST:PORT``, an IPv6 address in brackets.

        :raises ConfigurationError: it is neither
        """
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or port is None or parts.netloc != text or parts.username is not None:
            raise ConfigurationError(
                f"{option} must be HOST:PORT, such as 127.0.0.1:{STOMP_PORT}, not {text!r}", option=option
            )
        return cls(host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """An address for clients, and what one of them may use there."""

    uri: str = f"{STOMP}://127.0.0.1:{STOMP_PORT}"
    """``stomp://HOST:PORT``, or ``stomp+ssl://`` for TLS."""
    name: str | None = None
    maximum_connections: int = option(10_000, at_least=1)
    """Those beyond are refused."""
    max_frame_size: int = option(100 * 1024 * 1024, at_least=1024, size=True)
    """Bytes of a frame's body."""
    max_header_length: int = option(10 * 1024, at_least=64, size=True)
    """Bytes of one header of a frame."""
    max_headers: int = option(1000, at_least=1)
    """Headers of a frame."""
    max_subscriptions: int = option(1000, at_least=1)
    """Of one connection."""
    connect_attempt_timeout: float = option(30.0, at_least=0, milliseconds=True)
    """Until a client must have sent its CONNECT; 0 is for ever."""
    idle_timeout: float = option(0.0, at_least=0, milliseconds=True)
    """How long a client may say nothing and be told nothing; 0 is for ever."""
    virtual_hosts: str | None = None
    """What clients may call the broker in CONNECT, with commas between; None is anything."""
    certificate: str | None = None
    """For TLS: a PEM file with the certificate and those behind it."""
    private_key: str | None = None
    """For TLS: a PEM file with its key; None is the file of the certificate."""
    trusted_certificates: str | None = None
    """For TLS: a PEM file with the authorities of clients' certificates."""
    need_client_auth: bool = False
    """Whether a client must have a certificate of one of these."""

    def __post_init__(self) -> None:
        check(self)
        if self.scheme not in (STOMP, STOMP_TLS):
            raise ConfigurationError(
                f"uri must be {STOMP}://HOST:PORT or {STOMP_TLS}://HOST:PORT, not {self.uri!r}", option="uri"
            )
        Address.parse(self.uri.partition("://")[2], "uri")
        if self.is_tls and self.certificate is None:
            raise ConfigurationError(f"{self.uri} needs a certificate: a PEM file", option="certificate")
        if self.need_client_auth and self.trusted_certificates is None:
            raise ConfigurationError(
                "need_client_auth needs trusted_certificates: a PEM file with the authorities",
                option="trusted_certificates",
            )

    @property
    def address(self) -> Address:
        return Address.parse(self.uri.partition("://")[2], "uri")

    @property
    def scheme(self) -> str:
        return self.uri.partition("://")[0]

    @property
    def is_tls(self) -> bool:
        return self.scheme == STOMP_TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What ``jdbcstore broker`` does beside its store."""

    persistent: bool = True
    """Whether messages outlive the broker; else it keeps them in memory, whatever the URL is."""
    connectors: tuple[ConnectorConfig, ...] = ()
    """Where clients connect; none is one of STOMP on this machine alone."""
    users_file: str | None = None
    """Who may log in, and what they may do; None lets everybody in who reaches the broker."""
    health: str | None = None
    """HOST:PORT of liveness and readiness over HTTP; None serves neither."""
    memory_limit: int = option(64 * 1024 * 1024, at_least=1024 * 1024, size=True)
    """Bytes of messages in memory, of all destinations; ActiveMQ's memoryUsage."""
    temp_limit: int = option(10 * 1024 * 1024 * 1024, at_least=1024 * 1024, size=True)
    """Bytes of messages in temporary files, of all destinations; ActiveMQ's tempUsage."""
    tmp_data_directory: str | None = None
    """Where messages beyond that wait, which are not in the database; None is the system's own."""
    concurrent_store_and_dispatch_queues: bool = False
    """Whether a message of a queue is given out while it is being written."""
    become_slave: bool = False
    """Whether a broker that has lost the lock waits for it again; else it stops."""
    server: str | None = None
    """What clients are told as ``server``; None is jdbcstore with its version, and ActiveMQ behind it."""
    populate_jmsx_user_id: bool = False
    """Whether each message says in JMSXUserID whose login has sent it."""
    answer_as_slave: bool = False
    """Whether a broker that waits takes connections, to answer that it is not the master."""
    log_format: str = option("text", choices=LOG_FORMATS)

    def __post_init__(self) -> None:
        check(self)
        if self.health is not None:
            Address.parse(self.health, "health")

    @property
    def serving(self) -> tuple[ConnectorConfig, ...]:
        """The connectors, or the one that there is without any."""
        return self.connectors or (ConnectorConfig(),)
