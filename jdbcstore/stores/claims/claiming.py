"""The claims of messages that were found free: written while the messages are locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.stores.claims.of_ids import fetch


def still_free(connection: Connection, sql: ClaimStatements, numbers: Mapping[int, int]) -> set[int]:
    """Return the locked messages that are still unclaimed.

    :param numbers: the number of its next claim, by the ID of the message, as it was then
    """
    claimed: dict[int, int] = dict(fetch(connection, sql.find_claims, [*numbers]))
    return {id_ for id_, number in numbers.items() if claimed.get(id_, 0) == number - 1}


def write_claims(
    connection: Connection, sql: ClaimStatements, session: int, counted: Sequence[tuple[int, int, int]]
) -> None:
    """Claim messages for a session: each with its ID, the number of this claim, and its failures."""
    new = [(id_, session, 0, number, failed) for id_, number, failed in counted if number == 1]
    connection.insert_rows(sql.add_claim, new)
    for id_, number, failed in counted:
        if number > 1:  # it was claimed before, or delayed
            values = {"id_": id_, "taken": number, "failed": failed, "session": session}
            if connection.change(sql.take_claim, **values) != 1:
                raise AssertionError(f"the claim of message {id_} changed while it was locked")
