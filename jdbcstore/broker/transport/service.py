"""State shared by all connections of a broker: client ids, limits on memory, throttled logs."""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import socket
from collections.abc import Callable

from jdbcstore import __version__
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.notices import BoundedLog, Notices
from jdbcstore.broker.security import Principal, Security
from jdbcstore.broker.transport.replies import Inflow
from jdbcstore.config.broker import BrokerConfig
from jdbcstore.errors import ClientIdInUse, NotAuthorized, StoreError
from jdbcstore.util.clock import Clock, SystemClock

log = logging.getLogger(__name__)

_LONGEST_HOST = 64
_READ_BUFFER = 128 * 1024


def reply_with(error: StoreError) -> None:
    """Send every error to the client: the default of ``on_store_error``."""
    raise error


class Service:
    """The broker, its security and the limits, shared by the connections of all its connectors.

    :param name: the name of the broker, for JMS clients
    :param on_store_error: decides about an error of the broker by raising: ``ReplySuppressed`` closes the
        client's connection without a reply; any other error is sent to the client
    """

    def __init__(
        self,
        broker: Engine,
        security: Security,
        *,
        name: str = "localhost",
        config: BrokerConfig | None = None,
        clock: Clock | None = None,
        on_store_error: Callable[[StoreError], None] = reply_with,
    ) -> None:
        self.broker = broker
        self.security = security
        self.name = name
        self.config = config or BrokerConfig()
        self.server = self.config.server or _name_and_version()
        self.max_inflated = self.config.max_inflated_data_size
        self.clock = clock or SystemClock()
        self.on_store_error = on_store_error
        self.read_buffer = memoryview(bytearray(_READ_BUFFER))
        self.notices = Notices()
        self.refusals = BoundedLog("rejected logins")
        self.errors = BoundedLog("errors sent to clients")
        self.logins = BoundedLog("logins and closed connections", 1000)
        self.subscribing = BoundedLog("subscriptions", 1000)
        self.inflow = Inflow(self.notices)
        self.client_ids: set[str] = set()
        """The client ids in use."""
        self._named: dict[str, tuple[str, Callable[[], None]]] = {}
        """The user of each connection with a client-chosen id, and the function that ends the connection."""
        host = (socket.gethostname().replace(":", "-") or "localhost")[:_LONGEST_HOST]
        self.broker_id = f"ID:{host}-{os.getpid()}-{self.clock.now_ms()}-{secrets.randbelow(10**9)}"
        """The prefix of its connection ids; unique among all processes."""
        self._numbers = itertools.count(1)

    def serve(self, broker: Engine) -> None:
        """Pass new connections to another broker from now on."""
        self.broker = broker

    def next_connection_id(self) -> str:
        """Return a connection id in ActiveMQ's form; unique among all processes."""
        return f"{self.broker_id}:{next(self._numbers)}"

    def acquire_client_id(self, client_id: str) -> None:
        """Reserve a client id for one connection.

        :raises ClientIdInUse: another connection has it
        """
        if client_id in self.client_ids:
            raise ClientIdInUse(f"a client {client_id!r} is already connected; choose another client-id")
        self.client_ids.add(client_id)

    def supersede(self, connection_id: str, principal: Principal, end: Callable[[], None]) -> None:
        """Give a connection a client-chosen id; an earlier connection with this id ends.

        Clients that reconnect keep their id, and may be back before the end of the old connection is noticed.

        :param end: returns everything of this connection to the broker and closes it, once it is superseded
        :raises NotAuthorized: the earlier connection belongs to another user, or the id has the form of this
            broker's ids
        """
        # The names of a STOMP client's temporary destinations contain the prefix.
        if connection_id.startswith(self.broker_id):
            raise NotAuthorized(
                f"the id {connection_id[:80]!r} is reserved for the broker; choose another one"
            )
        former = self._named.get(connection_id)
        if former is not None:
            user, end_former = former
            if user != principal.name:
                raise NotAuthorized(f"another user's connection has the id {connection_id[:80]!r}")
            end_former()
        self._named[connection_id] = principal.name, end

    def forget(self, connection_id: str, end: Callable[[], None]) -> None:
        """Forget an ended connection, which :meth:`supersede` got with the same function."""
        if self._named.get(connection_id, ("", None))[1] == end:
            del self._named[connection_id]


def _name_and_version() -> str:
    """Return the server header. It contains "ActiveMQ", because some clients choose their headers by that."""
    return f"jdbcstore/{__version__} (ActiveMQ)"
