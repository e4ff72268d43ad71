"""What the database itself writes down: every message, lease and epoch, when it changed, by its own clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.support.databases import Database

_TABLES = (
    "CREATE TABLE history ({serial}, what VARCHAR(8), producer VARCHAR(250), number BIGINT, epoch BIGINT,"
    " at DOUBLE PRECISION)",
    "CREATE TABLE leases ({serial}, holder VARCHAR(250), expires BIGINT, at DOUBLE PRECISION)",
    "CREATE TABLE epochs ({serial}, epoch BIGINT, at DOUBLE PRECISION)",
)
_EPOCH = "(SELECT number FROM jdbcstore_state WHERE name = 'epoch')"
_MYSQL_EPOCH = "(SELECT NUMBER FROM JDBCSTORE_STATE WHERE NAME = 'epoch')"
_NOW = "extract(epoch FROM clock_timestamp())"
_MYSQL_NOW = "UNIX_TIMESTAMP(SYSDATE(6))"


def _postgresql() -> list[str]:
    def function(name: str, body: str) -> str:
        return f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$"

    def remember(row: str) -> str:
        values = f"'{row}', {row}.msgid_prod, {row}.msgid_seq, {_EPOCH}, {_NOW}"
        return f"INSERT INTO history (what, producer, number, epoch, at) VALUES ({values}); RETURN NULL;"

    return [
        *(table.format(serial="serial BIGSERIAL") for table in _TABLES),
        function("stored", remember("new")),
        function("removed", remember("old")),
        function(
            "leased",
            "INSERT INTO leases (holder, expires, at)"
            f" VALUES (NEW.broker_name, NEW.time, {_NOW}); RETURN NULL;",
        ),
        function("begun", f"INSERT INTO epochs (epoch, at) VALUES (NEW.number, {_NOW}); RETURN NULL;"),
        # At the commit, so that what began in one epoch and ended in the next is seen.
        *(
            f"CREATE CONSTRAINT TRIGGER {name} AFTER {event} ON activemq_msgs"
            f" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {name}()"
            for name, event in (("stored", "INSERT"), ("removed", "DELETE"))
        ),
        "CREATE TRIGGER leased AFTER UPDATE ON activemq_lock FOR EACH ROW EXECUTE FUNCTION leased()",
        "CREATE TRIGGER begun AFTER UPDATE ON jdbcstore_state FOR EACH ROW"
        " WHEN (NEW.name = 'epoch') EXECUTE FUNCTION begun()",
    ]


def _mysql() -> list[str]:
    def remember(row: str) -> str:
        values = f"'{row}', {row}.MSGID_PROD, {row}.MSGID_SEQ, {_MYSQL_EPOCH}, {_MYSQL_NOW}"
        return f"INSERT INTO history (what, producer, number, epoch, at) VALUES ({values})"

    return [
        *(table.format(serial="serial BIGINT AUTO_INCREMENT PRIMARY KEY") for table in _TABLES),
        f"CREATE TRIGGER on_store AFTER INSERT ON ACTIVEMQ_MSGS FOR EACH ROW {remember('new')}",
        f"CREATE TRIGGER on_removal AFTER DELETE ON ACTIVEMQ_MSGS FOR EACH ROW {remember('old')}",
        "CREATE TRIGGER leased AFTER UPDATE ON ACTIVEMQ_LOCK FOR EACH ROW"
        " INSERT INTO leases (holder, expires, at)"
        f" VALUES (NEW.BROKER_NAME, NEW.TIME, {_MYSQL_NOW})",
        "CREATE TRIGGER begun AFTER UPDATE ON JDBCSTORE_STATE FOR EACH ROW"
        " INSERT INTO epochs (epoch, at)"
        f" SELECT NEW.NUMBER, {_MYSQL_NOW} FROM DUAL WHERE NEW.NAME = 'epoch'",
    ]


_TRIGGERS = {"postgresql": _postgresql, "mariadb": _mysql, "mysql": _mysql}


class Change(NamedTuple):
    """A message stored or removed, in which epoch, and when by the database's clock."""

    name: str
    producer: str
    epoch: int
    at: float


class Lease(NamedTuple):
    """What was written into ACTIVEMQ_LOCK; ``expires`` is epoch milliseconds."""

    holder: str | None
    expires: int
    at: float


@dataclass(frozen=True)
class Recording:
    """All that the database wrote down."""

    stored: list[Change]
    removed: list[Change]
    leases: list[Lease]
    epochs: list[tuple[int, float]]
    """In the order in which they began, with the time."""
    present: set[str]
    """The messages that are there at the end."""


def record(database: Database, server: str) -> None:
    """Let the database write down what changes from now on."""
    for statement in _TRIGGERS[server]():
        database.execute(statement)


def recorded(database: Database) -> Recording:
    changes = database.rows("SELECT what, producer, number, epoch, at FROM history ORDER BY serial")
    present = database.rows("SELECT MSGID_PROD, MSGID_SEQ FROM ACTIVEMQ_MSGS")

    def those(row: str) -> list[Change]:
        return [
            Change(f"{producer}:{number}", producer, epoch, at)
            for what, producer, number, epoch, at in changes
            if what == row
        ]

    return Recording(
        those("new"),
        those("old"),
        [Lease(*row) for row in database.rows("SELECT holder, expires, at FROM leases ORDER BY serial")],
        [(epoch, at) for epoch, at in database.rows("SELECT epoch, at FROM epochs ORDER BY serial")],
        {f"{producer}:{number}" for producer, number in present},
    )
