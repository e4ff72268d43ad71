"""The numbers of shared queues that have settings, for those that only look."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.database.session import DatabaseSession
from jdbcstore.message.destination import Destination
from jdbcstore.stores.claims.flow import FlowSettings, read_all


@dataclass(frozen=True, slots=True)
class FlowNumbers:
    """The numbers of one queue that has settings."""

    queue: str
    settings: FlowSettings
    claimed: int
    """The claims of all processes that are in force."""
    waiting_keys: int | None
    """The keys that have messages which nobody has claimed; None if keys are ignored."""


def read_numbers(session: DatabaseSession) -> list[FlowNumbers]:
    """Return the numbers of all queues that have settings, by name. Reads the keys of all their messages.

    :raises StoreUnavailable: the database does not answer
    """
    if not session.has_own_tables:
        return []
    sql, found = session.flow_statements, []
    for name, settings in sorted(read_all(session).items()):
        here = {"container": name}
        [(_, claimed)] = session.fetch(sql.count, **here)
        waiting = session.fetch(sql.count_waiting, **here)[0][0] if settings.keys else None
        found.append(FlowNumbers(Destination.parse(name).name, settings, claimed, waiting))
    return found
