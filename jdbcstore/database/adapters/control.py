"""Requests of a connection to its server: limits, other connections, notifications."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jdbcstore.database.adapters.sql import Row


class ServerControl:
    """The control of the server through one connection's cursor; a vendor's module overrides its parts."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def limit_lock_wait(self, seconds: float) -> None:
        """End a wait for a row lock after this time, as a :attr:`Failure.TRANSIENT` error.

        Does nothing where the server has a fixed limit or none.
        """

    def limit_silence(self, seconds: float) -> None:
        """Have the server close this connection, if it is silent for so long within a transaction.

        That releases its locks. Does nothing where the server does not support it.
        """

    def identify(self) -> Row | None:
        """Return the server's identifier of this connection, unlike that of any other, past or future.

        Its last value identifies the server. Its first one is None if there is a pooler, which gives the
        server's sessions to other clients, too. All is None where another connection can neither see nor
        end it.
        """
        return None

    def has_session(self, session: Row) -> bool:  # noqa: ARG002
        """Return whether this server still has a connection, which may still run its last request.

        Behind a pooler: whether anything that writes has been running since before this was first asked.
        """
        return False

    def end_session(self, session: Row) -> None:
        """Ask the server to end a connection; it may take a while, or be refused by a driver's error."""

    def raise_sequence(self, sequence: str, number: int) -> None:
        """Let a sequence, by its quoted name, give no number up to this one; called by one at a time."""
        raise NotImplementedError

    def read_in_order(self) -> None:
        """Have the planner use indexes in the order of a query, where no hint in the query can."""

    def query_in_turn(self, name: str, text: str, row: Row) -> bool:
        """Run a query in a transaction of its own, once no other connection runs one with this name.

        It sees the writes of its predecessor, and the cursor has its rows. If its turn does not come soon,
        it runs all the same; return whether it came.
        """
        raise NotImplementedError

    def wait_replicated(self) -> None:
        """Wait until commits of other connections that are visible here are as durable as one's own.

        Does nothing where visible writes are durable.
        """

    @contextlib.contextmanager
    def seeing_all(self) -> Iterator[None]:
        """Let reads in the block see all earlier commits of every server of this cluster."""
        yield


class Notifier:
    """Messages to other connections and from them, by channels, where the vendor has any."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def listen(self, channel: str) -> None:
        """Receive messages to a channel from now on."""
        raise NotImplementedError

    def received(self, channel: str, seconds: float) -> list[str]:
        """Return messages to the channel; wait for the first at most so many seconds.

        An empty string is a message without content.
        """
        raise NotImplementedError

    def send(self, channel: str, payload: str) -> None:
        """Send to all connections that listen to the channel."""
        raise NotImplementedError
