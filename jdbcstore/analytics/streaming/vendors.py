"""What each vendor tells a reader about those who are writing."""

from __future__ import annotations

from dataclasses import dataclass

_MAY_NOT_WRITE = "SET SESSION TRANSACTION READ ONLY"


@dataclass(frozen=True, slots=True)
class Writers:
    """One vendor's way to say who is writing; zero where it has none."""

    read_only: str
    """Run by each connection first: it cannot write."""
    begun: str = "0"
    """An expression: every transaction that has begun has a lower number."""
    unfinished: str = "0"
    """Every transaction with a lower number is over."""
    uncommitted: str = ""
    """After this, the next statement sees rows that are not committed."""
    is_file: bool = False
    """The database is a file, which tasks look for from directories of their own."""


_MYSQL = Writers(_MAY_NOT_WRITE, uncommitted="SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")

WRITERS = {
    "sqlite": Writers("PRAGMA query_only = 1", is_file=True),
    "postgresql": Writers(
        "SET default_transaction_read_only = on",
        begun="CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)",
        unfinished="CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)",
    ),
    "mariadb": _MYSQL,
    "mysql": _MYSQL,
}
"""By the name of the store's adapter, as in :data:`jdbcstore.analytics.vendors.VENDORS`."""
