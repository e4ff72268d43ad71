"""The settlement of claims: each by one call at a time, and only as long as it is this process's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import ClaimLost
from jdbcstore.stores.claims.database import ClaimDatabase
from jdbcstore.stores.claims.held import Held, HeldClaims
from jdbcstore.stores.claims.lease import Lease
from jdbcstore.stores.claims.of_ids import fetch

Work = Callable[[Connection, list[int]], None]
"""The work on the messages of claims, in a transaction in which these are locked."""


class Settling:
    """Settles the claims of one queue."""

    def __init__(self, database: ClaimDatabase, held: HeldClaims) -> None:
        self._database = database
        self._sql = database.session.of(ClaimStatements)
        self._held = held

    def settle(self, claims: Sequence[Held], work: Work, *, adds: bool = False) -> None:
        """Remove messages by this work; all or none.

        :raises ClaimLost: some are no longer this process's, or another call is settling them
        """
        self._held.begin(claims)
        try:
            self.run_with(claims, work, adds=adds)
        except BaseException:
            self._held.end(claims)
            raise
        self._held.forget(claims)

    def acknowledge(self, claims: Sequence[Held], sql: Sql, work: Work) -> None:
        """Remove messages by one statement, or by this work if some were moved within the table meanwhile.

        :raises ClaimLost: some are no longer this process's, or another call is settling them
        """
        ids, session = ids_of(claims, self._database.lease)
        values = {"ids": ids, "session": session, "count": len(ids)}
        self._held.begin(claims)
        try:
            try:
                mine = self._database.run(lambda connection: connection.fetch(sql, **values))
                _check(ids, mine)
            except ClaimLost as error:
                self.lose(error, claims)
                raise
            if not mine[0][1]:
                self.run_with(claims, work)
        except BaseException:
            self._held.end(claims)
            raise
        self._held.forget(claims)

    def run_with(self, claims: Sequence[Held], work: Work, *, adds: bool = False) -> None:
        """Do work in a transaction in which the claims are this process's.

        :raises ClaimLost: some are not
        """
        ids, session = ids_of(claims, self._database.lease)

        def run(connection: Connection) -> None:
            with connection.transaction(epoch=self._database.lease.guard if adds else None):
                _check(ids, fetch(connection, self._sql.find_mine, ids, session=session))
                work(connection, ids)

        if ids:
            try:
                self._database.run(run)
            except ClaimLost as error:
                self.lose(error, claims)
                raise

    def lose(self, lost: ClaimLost, claims: Sequence[Held]) -> None:
        """Drop the claims that a settlement found to be lost.

        Their caller drops them. If the database's clock is set back, or the lease was being renewed, they are
        this session's again: then they are returned, as rejected, before the next query that claims messages.
        """
        if self._held.forget(
            [claim for claim in claims if claim.sequence in lost.sequences], are_rejected=True
        ):
            self._database.return_unknown()


def ids_of(claims: Sequence[Held], lease: Lease) -> tuple[list[int], int]:
    """Return the IDs in order, each once; and the session that all of them have.

    :raises ClaimLost: they belong to several sessions, and all but the current one have expired
    """
    sessions = {claim.session for claim in claims}
    if len(sessions) > 1:
        # In any order: another thread's claim of the older one may have been answered last.
        raise ClaimLost(tuple(ids_in_order(claim for claim in claims if claim.session != lease.number)))
    return ids_in_order(claims), next(iter(sessions), 0)


def ids_in_order(claims: Iterable[Held]) -> list[int]:
    """Return the IDs in order, each once."""
    return sorted({claim.sequence for claim in claims})


def _check(ids: list[int], mine: Iterable[Row]) -> None:
    held = {row[0] for row in mine}
    if len(held) != len(ids):
        raise ClaimLost(tuple(id_ for id_ in ids if id_ not in held))
