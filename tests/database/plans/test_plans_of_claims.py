"""The statements of processes that claim messages find them through an index, in a table of many queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest

from jdbcstore.database.adapters.sql import Sql
from jdbcstore.database.statements.builder import StatementBuilder
from jdbcstore.database.statements.claim_numbers import ClaimNumberStatements
from jdbcstore.database.statements.claims import LANES, ClaimStatements, OfIds
from jdbcstore.database.statements.flow import FlowStatements
from tests.database.plans.conftest import BIG, BY_PRIORITY, RARE, Large
from tests.support.plans.readers import PlanReader

S = TypeVar("S", bound=StatementBuilder)

WHOLE = {"remove_stale": "looks for the message of each claim that is left; once, before the first process"}
IN_ONE = {"claim", "acknowledge", "acknowledge_keyed"}
"""Statements of PostgreSQL's."""
EMPTY = "queue://EMPTY"
IDS = [500, 501]

VALUES: dict[str, Any] = {
    "container": RARE,
    "after": -1,
    "after_": "",
    "limit": 256,
    "session": 1,
    "lease_ms": 1000,
    "lane": 4,
    "mark": 0,
    "marks": [0] * len(LANES),
    "leaps": [1000] * len(LANES),
    **{f"mark_{lane}": 0 for lane in LANES},
    "id_": 500,
    "ids": IDS,
    "count": len(IDS),
    "taken": 1,
    "failed": 0,
    "delay_ms": 0,
    "failures": 0,
    "target": "queue://DEAD",
    "name_": "sequence",
    "epoch": 0,
    "version": 0,
    "until": 0,
    "paused": 0,
    "most": 1,
    "rate": 1,
    "burst": 1,
    "keying": 1,
    "key_most": 1,
    "last": "",
    "credit": 0,
    "weight": 1,
    "number": 32,
    "key_rate": 1,
    "key_burst": 1,
    "drawn": 0,
    "spacing": 0,
    "noted": 0,
    "now": 0,
    "back": 0,
}


FILED = (
    "INSERT INTO JDBCSTORE_KEYED (ID, CONTAINER, NAME, LANE)"
    f" SELECT ID, CONTAINER, {{name}}, 5 FROM ACTIVEMQ_MSGS WHERE CONTAINER = '{BIG}'"
)
NAME = {"mariadb": "CONCAT('k', ID % 50)", "mysql": "CONCAT('k', ID % 50)"}


def made(kind: type[S], large: Large) -> S:
    """Statements of their own: those that stores share have all that other tests have used."""
    session = large.session
    return kind(
        session.tables, session.adapter, session.engine.dialect, ours=session.has_own_tables, hinted=False
    )


@pytest.fixture(scope="module")
def claims(large: Large) -> Iterator[tuple[ClaimStatements, PlanReader]]:
    """On a connection as claims have it; the index of claims is there for this module."""
    session = large.session
    session.prepare_claims()
    session.prepare_flow()
    with closing(session.connect()) as connection:
        connection.control.read_in_order()
        plans = type(large.plans)(connection.cursor)  # type: ignore[call-arg]
        plans.analyze([str(session.tables.messages.name)])
        # As in a queue that has just got many messages: the planner does not know of them.
        connection.cursor.execute(FILED.format(name=NAME.get(session.adapter.name, "'k' || (ID % 50)")))
        yield made(ClaimStatements, large), plans
    session.on_engine(session.tables.claim_index.drop)


def test_no_statement_reads_all_messages(claims: tuple[ClaimStatements, PlanReader], large: Large) -> None:
    statements, plans = claims
    seen, scans = 0, set()
    chains = large.session.adapter.chains_writes
    in_one = {name: getattr(statements, name) for name in IN_ONE if chains}
    of_flow, of_numbers = vars(made(FlowStatements, large)), vars(made(ClaimNumberStatements, large))
    every = [*vars(statements).items(), *in_one.items(), *of_flow.items(), *of_numbers.items()]
    for name, value in every:
        if name in IN_ONE and not chains:
            continue
        parts = value.parts(IDS) if isinstance(value, OfIds) else [(value, {})]
        for sql, some in parts:
            if not isinstance(sql, Sql) or (sql.text.startswith("INSERT") and " SELECT " not in sql.text):
                continue
            seen += 1
            if "ACTIVEMQ_MSGS" in plans.full_scans(sql, sql.row(**{**VALUES, **some})):
                scans.add(name)

    assert seen > 15
    assert scans <= set(WHOLE)


@pytest.mark.parametrize(
    ("name", "container"),
    [
        *itertools.product(["find_strays", "find_lanes"], [BIG, BY_PRIORITY, RARE, EMPTY]),
        # It reads all of its queue: how often that is done depends on how long it takes.
        *itertools.product(["find_expired"], [RARE, EMPTY]),
    ],
)
def test_a_look_costs_what_it_finds(
    claims: tuple[ClaimStatements, PlanReader], large: Large, name: str, container: str
) -> None:
    """An idle process asks every few seconds; there are 45,000 messages, of which 450 have expired."""
    statements, plans = claims
    sql = getattr(statements, name)
    for after in (-1, large.last // 2, large.last):
        row = sql.row(**{**VALUES, "container": container, "after": after})
        found, examined = plans.examined(sql, row)
        assert examined <= 4 * found + 500, (after, found, examined)


def test_a_look_at_numbers_costs_no_more_in_a_long_queue(
    claims: tuple[ClaimStatements, PlanReader], large: Large
) -> None:
    """There are 15,000 messages of 50 keys."""
    _, plans = claims
    sql = made(ClaimNumberStatements, large)
    for name, container, most in (
        ("next_container", BIG, 200),
        ("count_some", BIG, 800),
        ("find_first_free", BIG, 800),
        ("find_numbers", BIG, 200),
        ("find_held", BIG, 200),
        ("find_numbers_of_keys", BIG, 200),
        ("next_key", BIG, 200),
        ("count_of_key", BIG, 800),
    ):
        statement = getattr(sql, name)
        values = {**VALUES, "container": container, "after_": BIG, "name_": "k20", "limit": 200}
        found, examined = plans.examined(statement, statement.row(**values))
        assert examined <= most, (name, found, examined)


def test_a_claim_by_key_costs_no_more_in_a_long_queue(
    claims: tuple[ClaimStatements, PlanReader], large: Large
) -> None:
    """There are 15,000 messages of 50 keys, and each claim runs these."""
    _, plans = claims
    flow = large.session.of(FlowStatements)
    statements = [flow.has_later, flow.find_unfiled, flow.find_of_key, flow.find_held, *flow.names.values()]
    if large.session.adapter.chains_writes:
        statements += flow.claim_next.values()
    for sql in statements:
        for name in ("", "k20"):
            values = {**VALUES, "container": BIG, "after": large.last, "limit": 8, "number": 8, "name_": name}
            found, examined = plans.examined(sql, sql.row(**values))
            assert examined <= 60 * found + 200, (sql.text, found, examined)
    values = {**VALUES, "container": BIG, "after": -1, "limit": 8, "number": 8}
    _, examined = plans.examined(flow.find_unfiled, flow.find_unfiled.row(**values))
    # Of each message it is looked whether it has a key, and only that.
    assert examined <= 20 * 15_000
