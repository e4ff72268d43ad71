"""The numbers of shared queues and of the processes that claim from them, for those that only look."""

from __future__ import annotations

from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class ClaimNumbers:
    """The numbers of one queue from which messages were claimed, and not settled yet."""

    queue: str
    claimed: int
    """The claims of all processes that are in force."""
    delayed: int
    """The messages that can be claimed later only."""
    failures: int
    """The claims that were rejected, or left by processes that have died, of messages that are there."""

    def free(self, counts: Mapping[str, int]) -> int | None:
        """Return the messages that are neither claimed nor delayed; None if they are not counted.

        :param counts: the messages of destinations, by their qualified names
        """
        count = counts.get(Destination.queue(self.queue).qualified_name)
        return None if count is None else max(0, count - self.claimed - self.delayed)


@dataclass(frozen=True, slots=True)
class WorkerNumbers:
    """The numbers of one process that claims messages."""

    name: str
    lease_left: float
    """Seconds until its lease ends, unless it is renewed; negative if it has ended."""
    claims: int


def read_claims(session: DatabaseSession) -> tuple[list[ClaimNumbers], list[WorkerNumbers]]:
    """Return the numbers of queues with claims and of processes, by name. Reads all claims, but no queue.

    :raises StoreUnavailable: the database does not answer
    """
    if not session.has_claims:
        return [], []
    sql = session.claim_statements
    queues = [
        ClaimNumbers(Destination.parse(name).name, *map(int, numbers))
        for name, *numbers in session.fetch(sql.find_numbers)
    ]
    workers = [
        WorkerNumbers(name, int(left) / 1000, int(claims))
        for name, left, claims in session.fetch(sql.find_workers)
    ]
    return queues, workers


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
