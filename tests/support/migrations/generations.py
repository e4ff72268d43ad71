"""Tables as ActiveMQs of several ages made them, with the rows that a real one wrote."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, inspect, text

from tests.support.databases import Database
from tests.support.recordings import postgres

Rows = dict[str, list[tuple[Any, ...]]]

NAMES = ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK")
_BINARY = {"postgresql": "BYTEA", "mariadb": "LONGBLOB", "mysql": "LONGBLOB", "sqlite": "BLOB"}


@dataclass(frozen=True)
class Generation:
    """What the ActiveMQs from one version on left in a database."""

    id: str
    priority: bool = True
    xid: bool = True
    container_null: bool = False
    id_index: bool = True
    named_key: bool = True
    """Where the key is named, ActiveMQ fails to widen it on PostgreSQL."""
    binary: str | None = None
    prefix: str = ""

    def create(self, database: Database) -> None:
        """Make the tables."""
        for statement in self.ddl(database):
            database.execute(statement)

    def ddl(self, database: Database) -> Iterable[str]:
        """The statements that make them."""
        vendor = database.engine.dialect.name
        msgs, acks, lock = (self.prefix + name for name in NAMES)
        later = ", PRIORITY BIGINT" * self.priority + ", XID VARCHAR(250)" * self.xid
        null = "" if self.container_null else " NOT NULL"
        yield (
            f"CREATE TABLE {msgs} (ID {'INTEGER' if vendor == 'sqlite' else 'BIGINT'} NOT NULL,"
            f" CONTAINER VARCHAR(250){null}, MSGID_PROD VARCHAR(250), MSGID_SEQ BIGINT, EXPIRATION BIGINT,"
            f" MSG {self.binary or _BINARY[vendor]}{later}, PRIMARY KEY (ID))"
        )
        yield f"CREATE INDEX {msgs}_MIDX ON {msgs} (MSGID_PROD, MSGID_SEQ)"
        yield f"CREATE INDEX {msgs}_CIDX ON {msgs} (CONTAINER)"
        yield f"CREATE INDEX {msgs}_EIDX ON {msgs} (EXPIRATION)"
        if self.priority:
            yield f"CREATE INDEX {msgs}_PIDX ON {msgs} (PRIORITY)"
        if self.xid:
            yield f"CREATE INDEX {msgs}_XIDX ON {msgs} (XID)"
        if self.id_index:
            yield f"CREATE INDEX {msgs}_IIDX ON {msgs} (ID, XID, CONTAINER)"
        later = ", PRIORITY BIGINT DEFAULT 5 NOT NULL" * self.priority + ", XID VARCHAR(250)" * self.xid
        named = self.named_key and vendor == "postgresql"
        wide = ", PRIORITY" * (self.priority and not named)
        yield (
            f"CREATE TABLE {acks} (CONTAINER VARCHAR(250) NOT NULL, SUB_DEST VARCHAR(250),"
            " CLIENT_ID VARCHAR(250) NOT NULL, SUB_NAME VARCHAR(250) NOT NULL, SELECTOR VARCHAR(250),"
            f" LAST_ACKED_ID BIGINT{later},"
            f" {'CONSTRAINT PK_ACTIVEMQ_ACKS ' if named else ''}PRIMARY KEY"
            f" (CONTAINER, CLIENT_ID, SUB_NAME{wide}))"
        )
        if self.xid:
            yield f"CREATE INDEX {acks}_XIDX ON {acks} (XID)"
        yield (
            f"CREATE TABLE {lock} (ID {'INTEGER' if vendor == 'sqlite' else 'BIGINT'} NOT NULL, TIME BIGINT,"
            " BROKER_NAME VARCHAR(250), PRIMARY KEY (ID))"
        )
        yield f"INSERT INTO {lock} (ID) VALUES (1)"

    def fill(self, database: Database) -> None:
        """Put in what the real ActiveMQ wrote, as far as there are columns for it."""
        recording = postgres()
        messages = [message.row for message in recording.messages]
        if self.binary == "BLOB":
            messages = [row for row in messages if len(row["MSG"]) < 65536]
        acks = [dict(row) for row in recording.acks if row["PRIORITY"] in (0, 11)]
        if not self.xid:
            messages = [row for row in messages if row["XID"] is None]
        with database.engine.connect() as connection:
            _insert(connection, f"{self.prefix}ACTIVEMQ_MSGS", messages)
            _insert(connection, f"{self.prefix}ACTIVEMQ_ACKS", acks)


def _insert(connection: Connection, table: str, rows: list[dict[str, Any]]) -> None:
    present = {
        column["name"].upper() for column in inspect(connection).get_columns(_found(connection, table))
    }
    names = [name for name in rows[0] if name in present]
    columns, values = ", ".join(names), ", ".join(f":{name}" for name in names)
    connection.execute(text(f"INSERT INTO {table} ({columns}) VALUES ({values})"), rows)


def _found(connection: Connection, table: str) -> str:
    """A table's name in this database's case."""
    return next(name for name in inspect(connection).get_table_names() if name.upper() == table.upper())


def rows_of(database: Database, prefix: str = "") -> Rows:
    """All rows, of the columns that every generation has."""
    columns = {
        "ACTIVEMQ_MSGS": "ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG",
        "ACTIVEMQ_ACKS": "CONTAINER, CLIENT_ID, SUB_NAME, SUB_DEST, SELECTOR, LAST_ACKED_ID",
        "ACTIVEMQ_LOCK": "ID, TIME, BROKER_NAME",
    }
    return {
        table: database.rows(f"SELECT {names} FROM {prefix}{table} ORDER BY 1, 2, 3")
        for table, names in columns.items()
    }


BEFORE_PRIORITY = Generation(
    "before-priority", priority=False, xid=False, container_null=True, id_index=False, named_key=False
)
BEFORE_XID = Generation("before-xid", xid=False, container_null=True, id_index=False, named_key=False)
BEFORE_5_15 = Generation("before-5.15", container_null=True, id_index=False, named_key=False)
BEFORE_5_15_11 = Generation("before-5.15.11", id_index=False, named_key=False)
BEFORE_5_15_15 = Generation("before-5.15.15", named_key=False)
LATEST = Generation("latest")
GENERATIONS = (BEFORE_PRIORITY, BEFORE_XID, BEFORE_5_15, BEFORE_5_15_11, BEFORE_5_15_15, LATEST)
MISTAKEN = Generation("mistaken-for-another", binary="BLOB")
"""As an ActiveMQ that does not know MariaDB's driver makes them: MSG holds 64 KiB."""
