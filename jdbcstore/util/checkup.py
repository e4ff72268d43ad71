"""A checkup of a database: its figures, its faults, their causes, and the statements that help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jdbcstore.util.server_view import ServerView

BAD, WARNING = "bad", "warning"
"""Severities: it harms the queues now; it will, if it lasts."""

FIGURES = {
    "dead_rows": "Rows of our tables that are deleted or replaced, and not vacuumed yet.",
    "horizon_transactions": "Transactions that have begun since the oldest visible one.",
    "oldest_transaction_seconds": "The age of the oldest transaction that holds back vacuum or purge.",
    "lock_waits": "Sessions that wait for a lock of another one.",
    "table_bytes": "Bytes of our tables, with their indexes.",
    "history_length": "Transactions whose old versions of rows InnoDB has not purged yet.",
    "wal_bytes": "Bytes of SQLite's WAL file.",
    "reusable_bytes": "Bytes of SQLite's file that are free for new rows.",
    "wal_pages_left": "Pages of the WAL that could not be copied into the database file.",
    "outbox_rows": "Inserted messages that wait in the outbox.",
    "outbox_oldest_seconds": "The time since the oldest of them was inserted.",
    "outbox_refused_rows": "Inserted messages that stay in the outbox with an error.",
}
"""The figures, and what each is; a database has some of them."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits beyond which something is wrong."""

    patience: float = 10.0
    """Seconds for which a transaction may be open, or a session may wait for a lock."""
    dead_rows: int = 20_000
    """Dead rows of a table, besides 40 % of its live rows, at which vacuum begins to matter."""
    unused_bytes: int = 256 * 1024 * 1024
    """Bytes of a table that are unused, and three quarters of it."""
    history: int = 100_000
    """Transactions that purge has left."""
    wal_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Something that is wrong with a database."""

    name: str
    """A few words, always the same for the same thing."""
    severity: str
    """:data:`BAD` or :data:`WARNING`."""
    text: str
    """A sentence with the figures."""
    cause: str | None = None
    """The session, process, slot or setting behind it; None if it is not known."""
    cure: str
    """The statement that helps, or what to do."""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Durability:
    """The fate of acknowledged messages in a crash, or when a node is lost."""

    survives: str
    """A sentence that says which of them survive."""
    risks: tuple[Diagnosis, ...] = ()
    """The settings with which some can be lost."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """The result of one look at a database."""

    figures: Mapping[str, float]
    """Figures by their names in :data:`FIGURES`, as far as the database has them."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """All that is wrong, the worst first."""
    server: ServerView | None = None
    """The database server; None if it is not known."""
    survives: str | None = None
    """:attr:`Durability.survives`; None if the settings of the server are not known."""

    @classmethod
    def of(
        cls,
        figures: Mapping[str, float],
        diagnoses: Iterable[Diagnosis],
        server: ServerView | None = None,
        survives: str | None = None,
    ) -> Checkup:
        """Return a checkup with the diagnoses in order."""
        worst_first = sorted(diagnoses, key=lambda diagnosis: (diagnosis.severity != BAD, diagnosis.name))
        return cls(figures, tuple(worst_first), server, survives)


def in_seconds(seconds: float) -> str:
    """Return a duration for a sentence."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
