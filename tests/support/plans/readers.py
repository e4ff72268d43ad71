"""What a statement costs each vendor: the plan it says, and the work it then does."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from jdbcstore.database.adapters.sql import Sql

Row = tuple[Any, ...]


class PlanReader(Protocol):
    """Reads plans on one connection. Sizes are rows, or what stands for a row."""

    def analyze(self, tables: Sequence[str]) -> None:
        """Let the planner know what is in the tables."""
        ...

    def full_scans(self, sql: Sql, row: Row) -> set[str]:
        """The tables of which the statement would read every row, or every entry of an index."""
        ...

    def examined(self, sql: Sql, row: Row) -> tuple[int, float]:
        """How many rows a query finds, and how many it looks at for that."""
        ...


class SqlitePlans:
    _STEPS_PER_ROW = 60
    """Instructions of SQLite's machine that a row and its subqueries take."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._connection: sqlite3.Connection = cursor.connection

    def analyze(self, tables: Sequence[str]) -> None:
        for table in tables:
            self._cursor.execute(f'ANALYZE "{table}"')

    def full_scans(self, sql: Sql, row: Row) -> set[str]:
        self._cursor.execute(f"EXPLAIN QUERY PLAN {sql.text}", row)
        details = [detail for _, _, _, detail in self._cursor.fetchall()]
        return {match[1].upper() for detail in details if (match := re.match(r"SCAN (\w+)", detail))}

    def examined(self, sql: Sql, row: Row) -> tuple[int, float]:
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 10

        self._connection.set_progress_handler(count, 10)
        try:
            self._cursor.execute(sql.text, row)
            found = len(self._cursor.fetchall())
        finally:
            self._connection.set_progress_handler(None, 10)
        return found, steps / self._STEPS_PER_ROW


class PostgresqlPlans:
    """Plans of prepared statements, as the driver makes them, under the session's settings."""

    def __init__(self, cursor: Any) -> None:
        from psycopg import ClientCursor

        self._cursor = ClientCursor(cursor.connection)

    def analyze(self, tables: Sequence[str]) -> None:
        for table in tables:
            self._cursor.execute(f'ANALYZE "{table.lower()}"')

    def full_scans(self, sql: Sql, row: Row) -> set[str]:
        nodes = list(self._nodes(self._explain(sql, row, "FORMAT JSON")))
        return {node["Relation Name"].upper() for node in nodes if node["Node Type"] == "Seq Scan"}

    def examined(self, sql: Sql, row: Row) -> tuple[int, float]:
        # Pages of the tables and of their indexes: rows that an index has skipped are told nowhere.
        plan = self._explain(sql, row, "ANALYZE, BUFFERS, FORMAT JSON")
        return round(plan["Actual Rows"]), float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    def _explain(self, sql: Sql, row: Row, options: str) -> Any:
        numbers = iter(range(1, len(row) + 1))
        statement = re.sub("%s", lambda _: f"${next(numbers)}", sql.text)
        self._cursor.execute(f"PREPARE examined AS {statement}".replace("%", "%%"))
        try:
            values = f"({', '.join(['%s'] * len(row))})" if row else ""
            self._cursor.execute(f"EXPLAIN ({options}) EXECUTE examined{values}", row)
            [[found]] = self._cursor.fetchall()
        finally:
            self._cursor.execute("DEALLOCATE examined")
        return found[0]["Plan"]

    def _nodes(self, plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield plan
        for child in plan.get("Plans", ()):
            yield from self._nodes(child)


class MariadbPlans:
    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def analyze(self, tables: Sequence[str]) -> None:
        for table in tables:
            self._cursor.execute(f"ANALYZE TABLE `{table}`")
            self._cursor.fetchall()

    def full_scans(self, sql: Sql, row: Row) -> set[str]:
        tables = self._tables(self._explain(f"EXPLAIN FORMAT=JSON {sql.text}", row))
        return {
            table["table_name"].upper() for table in tables if table.get("access_type") in ("ALL", "index")
        }

    def examined(self, sql: Sql, row: Row) -> tuple[int, float]:
        self._cursor.execute(sql.text, row)
        found, total = len(self._cursor.fetchall()), 0.0
        for table in self._tables(self._explain(f"ANALYZE FORMAT=JSON {sql.text}", row)):
            total += (table.get("r_rows") or 0) * (table.get("r_loops") or 0)
        return found, total

    def _explain(self, text: str, row: Row) -> Any:
        self._cursor.execute(text, row)
        [[plan]] = self._cursor.fetchall()
        return json.loads(plan)

    def _tables(self, plan: Any) -> Iterator[dict[str, Any]]:
        if isinstance(plan, dict):
            if "table_name" in plan:
                yield plan
            for value in plan.values():
                yield from self._tables(value)
        elif isinstance(plan, list):
            for value in plan:
                yield from self._tables(value)


class MysqlPlans(MariadbPlans):
    _LAST = (
        "SELECT ROWS_EXAMINED FROM performance_schema.events_statements_history"
        " WHERE THREAD_ID = PS_CURRENT_THREAD_ID() ORDER BY EVENT_ID DESC LIMIT 1"
    )

    def full_scans(self, sql: Sql, row: Row) -> set[str]:
        # The second version has other names, and an older server only the first.
        self._cursor.execute("SET SESSION explain_json_format_version = 1")
        return super().full_scans(sql, row)

    def _tables(self, plan: Any) -> Iterator[dict[str, Any]]:
        # The table that an INSERT fills is among them, with the name of a scan.
        return (table for table in super()._tables(plan) if not table.get("insert"))

    def examined(self, sql: Sql, row: Row) -> tuple[int, float]:
        self._cursor.execute(sql.text, row)
        found = len(self._cursor.fetchall())
        self._cursor.execute(self._LAST)
        [[examined]] = self._cursor.fetchall()
        return found, float(examined)


READERS: dict[str, type[Any]] = {
    "sqlite": SqlitePlans,
    "postgresql": PostgresqlPlans,
    "mariadb": MariadbPlans,
    "mysql": MysqlPlans,
}
