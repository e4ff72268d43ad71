"""Statements that are compiled before a process is forked, which would do so again."""

from __future__ import annotations

from jdbcstore.database.adapters.sql import Sql
from jdbcstore.database.statements.builder import StatementBuilder


def compile_all(statements: StatementBuilder) -> None:
    """Have all of these compiled."""
    for found in vars(statements).values():
        for statement in found if isinstance(found, tuple) else (found,):
            if isinstance(statement, Sql):
                _ = statement.text
