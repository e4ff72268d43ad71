"""The checkup of a store's database: its indexes, and its state as the vendor shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

from sqlalchemy import Table
from sqlalchemy.schema import CreateIndex

from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import Present, inspect_tables
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.outbox import OutboxStatements
from jdbcstore.util.checkup import (
    BAD,
    WARNING,
    Checkup,
    Diagnosis,
    Durability,
    Thresholds,
    in_seconds,
)

_LONGEST = 5.0
"""Seconds after which the server ends a statement of a checkup, where it can."""


def examine(session: DatabaseSession, thresholds: Thresholds | None = None) -> Checkup:
    """Look once at the state of the database, on a connection of its own; no row is written.

    Where one process writes at a time, it waits for the others, at most :attr:`Thresholds.patience`.

    :raises StoreUnavailable: the database does not answer
    :raises StoreError: it refuses a statement
    """
    tables = session.tables
    of_claims = (tables.claims, tables.claim_sessions, *tables.of_flow)
    every = (*tables.known, *of_claims, *tables.of_outbox, tables.history, *tables.routing)
    present = session.on_engine(lambda engine: inspect_tables(engine, session.adapter, every))
    names = [str(table.name) for table in present.columns]
    with closing(session.connect()) as connection, session.translated():
        connection.limit_query(_LONGEST)
        health = session.adapter.health(
            connection.cursor, names, str(tables.lock.name), thresholds or Thresholds()
        )
        diagnoses = [*health.diagnose()]
        durability = health.durability()
        figures = dict(health.figures)
        if tables.outbox in present.columns:
            figures |= _figures_of_outbox(session, connection)
            diagnoses += _diagnose_outbox(session, figures, thresholds or Thresholds())
    if durability is not None:
        diagnoses += durability.risks
    diagnoses += _missing_indexes(session, present)
    survives = None if durability is None else durability.survives
    return Checkup.of(figures, diagnoses, session.adapter.server, survives)


def _figures_of_outbox(session: DatabaseSession, connection: Connection) -> dict[str, float]:
    [(waiting, refused, age_ms)] = connection.fetch(session.of(OutboxStatements).count)
    oldest = 0.0 if age_ms is None else max(0.0, int(age_ms) / 1000)
    return {"outbox_rows": waiting, "outbox_oldest_seconds": oldest, "outbox_refused_rows": refused}


def _diagnose_outbox(
    session: DatabaseSession, figures: Mapping[str, float], thresholds: Thresholds
) -> Iterator[Diagnosis]:
    table, oldest = session.tables.outbox.name, figures["outbox_oldest_seconds"]
    if oldest > thresholds.patience:
        yield Diagnosis(
            name="outbox not moved",
            severity=WARNING,
            text=f"{figures['outbox_rows']} messages wait in {table}, the oldest for {in_seconds(oldest)}",
            cause="no broker and no process that claims has outbox = true, or its log says why it moves none",
            cure="start one with outbox = true",
        )
    if refused := figures["outbox_refused_rows"]:
        yield Diagnosis(
            name="refused rows in the outbox",
            severity=WARNING,
            text=f"{refused} messages stay in {table} with an error",
            cause="they could not be sent, nor become dead letters",
            cure="jdbcstore outbox list; correct each and set its ERROR to NULL, or delete it",
        )


def examine_durability(session: DatabaseSession) -> Durability | None:
    """Return which acknowledged messages survive, by the settings of the server; None if they are not known.

    :raises StoreUnavailable: the database does not answer
    :raises StoreError: it refuses a statement
    """
    with closing(session.connect()) as connection, session.translated():
        return session.adapter.health(connection.cursor, (), "", Thresholds()).durability()


def _missing_indexes(session: DatabaseSession, present: Present) -> Iterator[Diagnosis]:
    wanted = [(table, index) for table in present.columns for index in table.indexes]
    if session.tables.claims in present.columns:
        wanted.append((session.tables.messages, session.tables.claim_index))
    for table, index in wanted:
        if not _has(present, table, str(index.name)):
            statement = str(CreateIndex(index).compile(dialect=session.engine.dialect))
            yield Diagnosis(
                name="missing index",
                severity=BAD if table is session.tables.messages else WARNING,
                text=f"{table.name} has no index {index.name}: statements read the whole table",
                cause="it was dropped, or the table was created without it",
                cure=" ".join(statement.split()),
            )


def _has(present: Present, table: Table, name: str) -> bool:
    return name.lower() in present.indexes.get(table, set())
