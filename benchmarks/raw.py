"""The raw speed of the database with the same rows and the same indexes, without the store."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import psycopg

from benchmarks.ours import SECONDS

BLOB = bytes(range(256)) * 5
TABLE = "activemq_msgs_raw"
_COLUMNS = "id, container, msgid_prod, msgid_seq, expiration, msg, priority, xid"
# pgbench reads a colon before a letter or digit as a variable, so the names do not contain any.
_SCRIPT = (
    f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES (nextval('{TABLE}_seq'), 'queue.//BENCHMARK',"
    rf" 'ID.host-12345-1795222373329-3.1.1.1', 1, 0, '\\x{BLOB.hex()}'::bytea, 0, NULL);"
)


class RawPostgresql:
    """Single-row commits through pgbench, a C program, and COPY BINARY through psycopg."""

    bulk_name = "COPY, 1,000 rows a commit"

    def __init__(self, url: str, pgbench: Path) -> None:
        self._url = url.replace("postgresql+psycopg", "postgresql")
        self._pgbench = pgbench
        self._connection = psycopg.connect(self._url, autocommit=True)
        self._connection.execute(f"CREATE TABLE {TABLE} (LIKE activemq_msgs INCLUDING ALL)")
        self._connection.execute(f"CREATE SEQUENCE {TABLE}_seq CACHE 100")

    def single(self, clients: int, seconds: float = SECONDS) -> float:
        """Measure rows per second, one per commit, in whole seconds."""
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(_SCRIPT)
            script.flush()
            run = subprocess.run(
                [
                    *(str(self._pgbench), "-n", "-M", "prepared", "-f", script.name),
                    *(
                        "-c",
                        str(clients),
                        "-j",
                        str(min(clients, 2)),
                        "-T",
                        str(max(1, int(seconds))),
                        self._url,
                    ),
                ],
                check=True,
                capture_output=True,
                text=True,
            )
        found = re.search(r"tps = ([\d.]+)", run.stdout)
        if found is None:
            raise RuntimeError(f"pgbench reported no rate: {run.stdout}")
        return float(found[1])

    def bulk(self, seconds: float = SECONDS) -> float:
        """Measure rows per second through COPY, 1,000 per commit."""
        numbers = count(1 << 40)
        cursor = self._connection.cursor(binary=True)
        types = ["int8", "varchar", "varchar", "int8", "int8", "bytea", "int8", "varchar"]
        names = ("queue://BENCHMARK", "ID:host-12345-1795222373329-3:1:1:1")
        rows, start = 0, time.perf_counter()
        while time.perf_counter() < start + seconds:
            with cursor.copy(f"COPY {TABLE} ({_COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(types)
                for _ in range(1000):
                    copy.write_row((next(numbers), *names, 1, 0, BLOB, 0, None))
            rows += 1000
        rate = rows / (time.perf_counter() - start)
        self._connection.execute(f"TRUNCATE {TABLE}")
        return rate

    def close(self) -> None:
        self._connection.execute(f"DROP TABLE {TABLE}; DROP SEQUENCE {TABLE}_seq")
        self._connection.close()


class RawSqlite:
    """Single-row commits and executemany through the sqlite3 module, which is little more than C."""

    bulk_name = "executemany, 1,000 rows a commit"

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA synchronous=FULL")
        [(sql,)] = self._connection.execute("SELECT sql FROM sqlite_master WHERE name = 'ACTIVEMQ_MSGS'")
        self._connection.execute(sql.replace("ACTIVEMQ_MSGS", TABLE))
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'ACTIVEMQ_MSGS'"
        for name, sql in self._connection.execute(query + " AND sql IS NOT NULL").fetchall():
            self._connection.execute(
                sql.replace(name, f"{name}_RAW").replace('ACTIVEMQ_MSGS" ', f'{TABLE}" ')
            )
        self._insert = f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._numbers = count(1)

    def single(self, clients: int) -> float:  # noqa: ARG002
        """Measure rows per second, one per commit; SQLite has one writer, regardless of ``clients``."""
        rows, start = 0, time.perf_counter()
        while time.perf_counter() < start + SECONDS:
            self._connection.execute(self._insert, self._row())
            rows += 1
        return rows / (time.perf_counter() - start)

    def bulk(self) -> float:
        """Measure rows per second through executemany, 1,000 per commit."""
        rows, start = 0, time.perf_counter()
        while time.perf_counter() < start + SECONDS:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(self._insert, [self._row() for _ in range(1000)])
            self._connection.execute("COMMIT")
            rows += 1000
        rate = rows / (time.perf_counter() - start)
        self._connection.execute(f"DELETE FROM {TABLE}")
        return rate

    def _row(self) -> tuple[object, ...]:
        names = ("queue://BENCHMARK", "ID:host-12345-1795222373329-3:1:1:1")
        return (next(self._numbers), *names, 1, 0, BLOB, 0, None)

    def close(self) -> None:
        self._connection.execute(f"DROP TABLE {TABLE}")
        self._connection.close()
