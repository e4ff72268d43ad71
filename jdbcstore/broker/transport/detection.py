"""A connection to a port of several protocols, until its first bytes say which one the client speaks."""

from __future__ import annotations

import asyncio
import logging
from asyncio import BaseTransport, Transport
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from jdbcstore.broker.transport.connection import ClientConnection, ClientProtocol, name_of
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import ConnectorConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProtocolChoice:
    """The protocols of one port."""

    name: str
    """Their names, for the log."""
    detect: Callable[[bytes], ClientProtocol | None]
    """The protocol of a client, by what it has sent so far; None if that is too little."""


class Detecting(Protocol):
    """The connector, as a connection sees it whose protocol is not known."""

    @property
    def config(self) -> ConnectorConfig: ...

    def opened(self, connection: Detection) -> None: ...

    def detected(self, before: Detection, protocol: ClientProtocol) -> ClientConnection: ...

    def closed(self, connection: Detection) -> None: ...


class Detection(asyncio.BufferedProtocol):
    """A connection whose protocol is not known yet; it counts as one, and has a timeout.

    A broker that began with its own greeting could not serve two protocols: the client speaks first.
    """

    def __init__(self, service: Service, connector: Detecting, choice: ProtocolChoice) -> None:
        self.peer = "?"
        self._service = service
        self._connector = connector
        self._choice = choice
        self._read: list[bytes] = []
        self._transport: Transport = None  # type: ignore[assignment]  # from connection_made on
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self.peer = name_of(transport)
        config = self._connector.config
        limits = [config.protocol_detection_time_out, config.connect_attempt_timeout]
        if any(limits):
            self._timer = asyncio.get_running_loop().call_later(min(filter(None, limits)), self._timed_out)
        self._connector.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._service.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read.append(bytes(self._service.read_buffer[:nbytes]))
        protocol = self._choice.detect(b"".join(self._read))
        if protocol is None or self._transport.is_closing():
            return
        self._cancel_timer()
        connection = self._connector.detected(self, protocol)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        pass_on(self._read, connection)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._cancel_timer()
        self._connector.closed(self)

    def refuse(self, reason: str) -> None:  # noqa: ARG002 - in which protocol?
        self.abort()

    def end(self, reason: str) -> None:  # noqa: ARG002 - as above
        self.abort()

    def abort(self) -> None:
        self._transport.abort()

    def _timed_out(self) -> None:
        log.debug("%s has sent too little for its protocol to be recognized", self.peer)
        self.abort()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def pass_on(read: list[bytes], connection: asyncio.BufferedProtocol) -> None:
    """Give a connection what was read before it had its transport."""
    for data in read:
        connection.get_buffer(len(data))[: len(data)] = data  # type: ignore[index]
        connection.buffer_updated(len(data))
