"""Inserters and movers that are killed and stopped: each committed row is sent once, in order."""

from __future__ import annotations

import pytest

from jdbcstore.message import openwire
from tests.support.claims import inserting
from tests.support.claims.victims import KILLED
from tests.support.databases import Database

pytestmark = [pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"), pytest.mark.slow]

KILLS = 40


def sent(database: Database) -> list[tuple[int, int]]:
    """The numbers of all sessions that have arrived, in order."""
    rows = database.rows("SELECT MSG FROM ACTIVEMQ_MSGS ORDER BY ID")
    bodies = [str(openwire.decode(bytes(blob)).body) for (blob,) in rows]
    return [(int(session), int(number)) for session, number in map(str.split, bodies)]


def wrong(database: Database) -> list[str]:
    arrived = sent(database)
    wanted = {(int(one), int(two)) for one, two in database.rows("SELECT session, number FROM app_sent")}
    found = [f"{row} is lost" for row in sorted(wanted - {*arrived})]
    found += [f"{row} was rolled back" for row in sorted({*arrived} - wanted)]
    found += [f"{row} is sent twice" for row in sorted(wanted) if arrived.count(row) > 1]
    for session in range(inserting.SESSIONS):
        numbers = [number for one, number in arrived if one == session]
        if numbers != sorted(numbers):
            found.append(f"session {session} is out of order: {numbers}")
    return found


@pytest.fixture
def effects_there(database: Database) -> None:
    database.execute(
        "CREATE TABLE app_sent (session INTEGER NOT NULL, number INTEGER NOT NULL,"
        " PRIMARY KEY (session, number))"
    )


@pytest.mark.usefixtures("effects_there")
@pytest.mark.parametrize("brokers", [False, True], ids=["claims", "brokers"])
def test_each_committed_row_is_sent_once_in_order(database: Database, url: str, brokers: bool) -> None:
    ends = inserting.run(url, KILLS, seed=1, brokers=brokers)

    assert ends["drained"] == 1
    assert ends[KILLED] >= KILLS // 2
    assert wrong(database) == []
    assert len(sent(database)) > KILLS
    assert database.rows("SELECT * FROM JDBCSTORE_OUTBOX") == []
