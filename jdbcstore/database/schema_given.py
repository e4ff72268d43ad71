"""Tables made by statements of the user's."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Engine, Table
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.statements import BY_NAME, StatementValue
from jdbcstore.database.schema import Present, look
from jdbcstore.database.tables import Tables
from jdbcstore.errors import SchemaError

log = logging.getLogger(__name__)


def given_tables(tables: Tables, given: Mapping[str, StatementValue]) -> list[Table]:
    """The tables that statements of ``given`` make."""
    return [table for name, made in _made_by(tables) if name in given for table in made]


def _made_by(tables: Tables) -> list[tuple[str, tuple[Table, ...]]]:
    return [
        ("createSchemaStatements", (tables.messages, tables.acks)),
        ("createLockSchemaStatements", (tables.lock,)),
    ]


def create_given_tables(
    engine: Engine, tables: Tables, present: Present, given: Mapping[str, StatementValue]
) -> Present:
    """Run the statements of ``given`` whose tables are not there whole; what is there then.

    :raises SchemaError: after them, a table or a column is missing
    """
    for name, made in _made_by(tables):
        texts = given.get(name)
        if isinstance(texts, tuple) and _lacking(present, made):
            refusals = _run(engine, texts)
            present = look(engine, tables.all)
            if lacking := _lacking(present, made):
                reason = f": {refusals[0].statement!r}: {refusals[0].orig}" if refusals else ""
                raise SchemaError(
                    f"{BY_NAME[name].name} left the database without {lacking}{reason}; correct the"
                    " statements, or leave them out"
                ) from (refusals[0] if refusals else None)
    return present


def _run(engine: Engine, texts: Iterable[str]) -> list[DBAPIError]:
    """Try each, as ActiveMQ does: whether one may fail is known by what is there behind the last."""
    refusals = []
    for statement in texts:
        try:
            with engine.connect().execution_options(no_parameters=True) as connection, connection.begin():
                connection.exec_driver_sql(statement)
        except DBAPIError as error:
            log.info("a statement that makes the tables was refused: %s: %s", statement, error.orig)
            refusals.append(error)
    return refusals


def _lacking(present: Present, tables: Sequence[Table]) -> str:
    """The first table or column that is not there, for people."""
    for table in tables:
        if table not in present.columns:
            return f"the table {table.name}"
        missing = set(table.columns.keys()) - {name.lower() for name in present.columns[table]}
        if missing:
            return f"the column {min(missing).upper()} of {table.name}"
    return ""
