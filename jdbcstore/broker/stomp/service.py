"""What all connections of a broker's STOMP connectors share."""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import socket
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from jdbcstore.broker.api import Broker
from jdbcstore.broker.notices import BoundedLog, Notices
from jdbcstore.broker.process.security import Security
from jdbcstore.broker.stomp.inflow import Inflow
from jdbcstore.errors import NotAuthorized, StoreError
from jdbcstore.util.clock import Clock, SystemClock

log = logging.getLogger(__name__)

_LONGEST_HOST = 64
_READ_BUFFER = 128 * 1024


def answer_with(error: StoreError) -> None:
    """What becomes of a store's error without a host that decides: the client is told."""
    raise error


class Service:
    """The broker as its connectors have it: theirs to share, so that a client id is used once among all.

    :param server: what CONNECTED says as ``server``; None is jdbcstore with its version
    :param populate_user_id: whether messages say in JMSXUserID whose login has sent them
    :param on_store_error: decides about an error of the broker by raising: ``ReplySuppressed`` closes the
        client's connection without an answer, everything else it is told
    """

    def __init__(
        self,
        broker: Broker,
        security: Security,
        *,
        server: str | None = None,
        populate_user_id: bool = False,
        clock: Clock | None = None,
        on_store_error: Callable[[StoreError], None] = answer_with,
    ) -> None:
        self.broker = broker
        self.security = security
        self.server = server or _name_and_version()
        self.populate_user_id = populate_user_id
        self.clock = clock or SystemClock()
        self.on_store_error = on_store_error
        self.read_buffer = memoryview(bytearray(_READ_BUFFER))
        self.notices = Notices()
        self.refusals = BoundedLog("refused logins")
        self.answers = BoundedLog("errors that clients are told of")
        self.comings = BoundedLog("logins and ends of connections", 1000)
        self.subscribing = BoundedLog("subscriptions", 1000)
        self.inflow = Inflow(self.notices)
        self._client_ids: set[str] = set()
        self._noted: set[str] = set()
        host = (socket.gethostname().replace(":", "-") or "localhost")[:_LONGEST_HOST]
        self._prefix = f"ID:{host}-{os.getpid()}-{self.clock.now_ms()}-{secrets.randbelow(10**9)}"
        self._numbers = itertools.count(1)

    def next_connection_id(self) -> str:
        """As ActiveMQ names connections; never given twice, also not by another process."""
        return f"{self._prefix}:{next(self._numbers)}"

    def take_client_id(self, client_id: str) -> None:
        """Keep a client id for one connection.

        :raises NotAuthorized: another has it
        """
        if client_id in self._client_ids:
            raise NotAuthorized(f"a client {client_id!r} is connected already; choose another client-id")
        self._client_ids.add(client_id)

    def note_once(self, text: str) -> None:
        """Log what the clients cannot know, the first time that one of them would have to."""
        if text not in self._noted:
            self._noted.add(text)
            log.warning("%s", text)

    def give_back_client_id(self, client_id: str) -> None:
        self._client_ids.discard(client_id)


def _name_and_version() -> str:
    """Some clients choose the headers that they send by it: they look for ActiveMQ in it."""
    try:
        return f"jdbcstore/{version('jdbcstore')} (ActiveMQ)"
    except PackageNotFoundError:
        return "jdbcstore (ActiveMQ)"
