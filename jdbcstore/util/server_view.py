"""The server of a store's connections, as it described itself when it was last asked."""

from __future__ import annotations

from dataclasses import dataclass

PRIMARY, STANDBY = "primary", "standby"
"""Roles: a server that takes writes, and one that does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """One server: what it is, and what it is part of."""

    engine: str
    """The name of its engine, such as PostgreSQL or Galera Cluster."""
    version: str = ""
    """The version as the server names it; empty if it is not known."""
    role: str | None = None
    """:data:`PRIMARY` or :data:`STANDBY`; None where there is no such distinction."""
    nodes: int | None = None
    """The nodes of its cluster that are up, this one included; None if they are not known."""
    keeps_sessions: bool = True
    """Whether a connection has one session; a pooler in transaction mode gives transactions others."""
    is_tested: bool = True
    """Whether the tests of jdbcstore run on this engine."""

    def __str__(self) -> str:
        parts = [
            f"{self.engine} {self.version}".rstrip(),
            self.role or "",
            "" if self.nodes is None else f"one of {self.nodes} nodes",
            "" if self.keeps_sessions else "behind a pooler in transaction mode",
            "" if self.is_tested else "an engine that the tests do not run",
        ]
        return ", ".join(filter(None, parts))
