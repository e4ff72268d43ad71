"""Every statement finds its rows through an index, and a page costs what it holds."""

from __future__ import annotations

from typing import Any

import pytest

from jdbcstore.database.adapters.sql import Sql
from jdbcstore.database.statements.builder import LaneQueries
from jdbcstore.database.statements.rows import RowStatements
from jdbcstore.database.statements.store import LISTED
from jdbcstore.database.statements.xa import XaStatements
from tests.database.plans.conftest import BIG, BY_PRIORITY, OTHER_TOPIC, PREPARED, RARE, TOPIC, Large
from tests.support.plans.readers import SqlitePlans

LIMIT = 100
EMPTY = "queue://EMPTY"
LARGE_TABLES = {"ACTIVEMQ_MSGS", "JDBCSTORE_ACKS"}

WHOLE = {
    "find_all_destinations": "lists what is in the table; runs when a person asks",
    "count_messages of rows": "counts what is in the table; runs when a person asks",
    "find_subscriptions_ahead of rows": "lists what is in the table, once for each copy",
    "find_all_message_ids": "goes down the key and ends at its limit, as the next case shows",
}

VALUES: dict[str, Any] = {
    "container": BIG,
    "after": -1,
    "limit": LIMIT,
    "priority": 0,
    "priority_": 0,
    "up_to": 2**60,
    "size": 64,
    "now_ms": 2**60,
    "msgid_prod": "nobody:1:1",
    "msgid_seq": 1,
    "id_": 500,
    "client_id": "client",
    "sub_name": "half",
    "name_": "sequence",
    "new": 20_000,
    "number_": 20_000,
    "last": 1,
    "blob": b"x",
    "xid_": PREPARED,
    "new_id": 2**60,
    "name": "other",
    "number": 1,
    **{f"id_{number}": 500 + number for number in range(LISTED)},
}


def statements_of(large: Large) -> dict[str, Any]:
    session = large.session
    of_rows = {f"{name} of rows": value for name, value in vars(session.of(RowStatements)).items()}
    return {**vars(session.statements), **vars(session.of(XaStatements)), **of_rows}


def statements(large: Large) -> dict[str, Sql]:
    found: dict[str, Sql] = {}
    for name, value in statements_of(large).items():
        if isinstance(value, LaneQueries):
            for which, sql in zip(("lowest", "other"), value, strict=True):
                assert isinstance(sql, Sql)
                found[f"{name}, {which}"] = sql
        elif isinstance(value, Sql):
            found[name] = value
    assert len(found) > 30
    return found


def row(sql: Sql, **values: Any) -> tuple[Any, ...]:
    return sql.row(**{**VALUES, **values})


def test_no_statement_reads_a_large_table_whole(large: Large) -> None:
    scans = {}
    for name, sql in statements(large).items():
        if sql.text.startswith("INSERT") and " SELECT " not in sql.text:
            continue
        # Of a destination that is most of a table, reading the table whole may be the best plan.
        values: dict[str, Any] = {"container": OTHER_TOPIC if "acknowledged" in name else RARE}
        if "of rows" in name or name == "find_messages_of_size":
            values["up_to"] = 1000
        scanned = large.plans.full_scans(sql, row(sql, **values)) & LARGE_TABLES
        if scanned and name not in WHOLE:
            scans[name] = scanned

    assert scans == {}


PAGES: dict[str, list[dict[str, Any]]] = {
    "find_next_messages": [{}, *({"container": name} for name in (RARE, EMPTY, BY_PRIORITY))],
    "find_ids": [{}, {"container": RARE}, {"container": EMPTY}],
    "find_in_doubt_messages": [{"container": RARE}],
    "find_priorities": [{}, {"container": RARE}, {"container": EMPTY}],
    "find_durable_sub_messages": [{"container": TOPIC, "sub_name": name} for name in ("half", "early")],
    "find_window": [{"container": TOPIC, "sub_name": name} for name in ("half", "early", "many")],
    "find_acknowledged": [{"container": TOPIC, "sub_name": name} for name in ("half", "early", "many")],
    "find_next_messages_by_priority": [
        {"container": BY_PRIORITY, "priority": 4},
        *({"container": RARE, "priority": priority} for priority in (0, 4)),
    ],
    "find_ids_by_priority": [{"container": BY_PRIORITY, "priority": 4}],
    "find_expired_ids": [{"container": name} for name in (RARE, EMPTY)],
    "find_window_by_priority": [{"container": TOPIC, "sub_name": "early"}],
    "find_durable_sub_messages_by_priority": [{"container": TOPIC, "sub_name": "early"}],
    "find_all_message_ids": [{}],
    "find_message_by_id": [{}],
    "find_message_sequence_id": [{}],
    "find_ids_by_name": [{}],
    "find_id_owner": [{}],
    "find_written": [{}],
    "find_journal": [{}],
    "find_last_sequence_id_in_msgs": [{}],
    "last_producer_sequence_id": [{}],
    "find_durable_sub": [{"container": TOPIC}],
    "find_number": [{}],
    "find_flags": [{}],
    "find_flagged": [{}],
    "find_prepared_flags": [{}],
    "find_sizes of rows": [{}],
    "find_names of rows": [{}],
    "find_messages of rows": [{"up_to": 500}],
    "find_here of rows": [{}, *({"container": name} for name in (RARE, EMPTY, TOPIC))],
    "find_marks of rows": [{"container": OTHER_TOPIC}],
    "find_ahead of rows": [{"container": TOPIC, "sub_name": name} for name in ("half", "early", "many")],
    "find_prepared": [{"container": OTHER_TOPIC, "client_id": "client 1", "sub_name": "s"}],
}


COST = {"find_acknowledged": 10, "find_window": 5, "find_flags": 40, "find_prepared_flags": 40}
"""How much may be looked at for each row; 3 where nothing is said."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_costs_what_it_holds(large: Large, name: str) -> None:
    """Wherever it is, and however many messages other destinations have."""
    sql = statements_of(large)[name]
    for after in (-1, large.last // 2, large.last - 300):
        for values in PAGES[name]:
            query = sql.of(values.get("priority", 0)) if isinstance(sql, LaneQueries) else sql
            assert isinstance(query, Sql)
            found, examined = large.plans.examined(query, row(query, after=after, **values))
            assert examined <= COST.get(name, 3) * found + 50, (after, values, found, examined)


def test_a_priority_that_no_message_has_costs_nothing(large: Large) -> None:
    """However many messages of another the queue has."""
    if isinstance(large.plans, SqlitePlans):
        pytest.skip("SQLite knows the values of an index only by their average number")
    lanes = statements_of(large)["find_ids_by_priority"]
    query = lanes.of(9)
    found, examined = large.plans.examined(query, row(query, container=BY_PRIORITY, priority=9))
    assert found == 0
    assert examined <= 50
