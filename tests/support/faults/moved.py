"""A line to a cluster that loses the answer to a commit and leads to another node from then on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from jdbcstore.testing.polling import wait_until
from tests.support.faults.proxy import ProxyLine, _Pair

STORED = "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID"
"""Finds what is stored."""
WAIT = 60.0


class Servers(Protocol):
    """Two servers with the same tables."""

    url: str
    """The database on the first one."""

    @property
    def other_port(self) -> int:
        """The port of the other one."""

    def stored(self) -> list[tuple[object, ...]]:
        """The rows of :data:`STORED` on the first one."""


class MovedLine(ProxyLine):
    """A line that loses the answer to a commit, and leads to the other server from then on."""

    def __init__(self, servers: Servers, *, commits: bytes = rb"INSERT INTO .?ACTIVEMQ_MSGS") -> None:
        self._servers = servers
        self._commits = re.compile(commits)
        self.moves = False
        """At the next commit."""
        self.before_repeat: Callable[[], None] | None = None
        """Called before the next commit after that is passed on."""
        super().__init__(servers.url)

    def _carry_statements(self, pair: _Pair) -> None:
        for data in pair.received(pair.client):
            is_commit = self._commits.search(data) is not None
            if is_commit and self.moves:
                self.moves, pair.mute = False, True
                stored = self._servers.stored()
                pair.send(pair.server, data)
                self._wait_for_more_than(stored)
                self.lead_to(self._servers.other_port)
                continue
            if is_commit and self.before_repeat is not None:
                before, self.before_repeat = self.before_repeat, None
                before()
            pair.send(pair.server, data)

    def _wait_for_more_than(self, stored: list[tuple[object, ...]]) -> None:
        wait_until(lambda: self._servers.stored() != stored, WAIT, "that it is stored")
