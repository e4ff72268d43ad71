"""The author's side of the suite: how a case opens its store, and what that store cannot do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from jdbcstore.abc import Store
from jdbcstore.testing.tables import RawTables
from jdbcstore.util.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Features that a store may lack. Cases that need one are skipped, with the reason."""

    durable: bool = True
    """Stored messages are there when the store is opened again."""
    shared: bool = True
    """Several stores may be open on the same database at once."""
    snapshots: bool = True
    """A statement sees one moment of the database, however long it takes."""
    one_writer: bool = True
    """All destinations share their sequences, and a transaction over several is written at once."""
    xa: bool = True
    """XA transactions can be prepared."""
    options: frozenset[str] | None = None
    """The fields of :class:`jdbcstore.StoreConfig` that the store has; ``None``: all."""


class OpenStore(Protocol):
    """Opens a store on the database of a case; it is closed at the end of the case."""

    def __call__(self, *, clock: Clock | None = None, **options: Any) -> Store:
        """Return an open store. All stores of a case share one database, which is empty at the first call.

        ``options`` are fields of :class:`jdbcstore.StoreConfig`. Cleanup does not run in the background
        unless ``cleanup_period`` is among them.
        """


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The stores of one case, on a database that was empty when the case began."""

    open: OpenStore
    """Opens a store: after a close as a restart does, otherwise as a second process does."""
    capabilities: Capabilities = Capabilities()
    """The features that the stores have."""
    tables: RawTables | None = None
    """The tables, if they are those of a JdbcStore; without them, cases that look into tables are skipped."""
    empty: Callable[[], None] | None = None
    """Empties the database under an open store; without it, random operations are not tried."""
    examples: int = 20
    """The number of sequences of random operations that are tried."""
