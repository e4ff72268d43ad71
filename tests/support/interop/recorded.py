"""The schema that a real ActiveMQ 5.17.2 made, as recorded in the fixtures."""

from __future__ import annotations

import re

from tests.support import ROOT
from tests.support.databases import Database

RECORDED = ROOT / "tests" / "fixtures" / "activemq-5.17.2"


def recorded_ddl(database: Database) -> list[str]:
    """The statements that make the three tables; their collation is the database's, as it was there."""
    if database.jdbc_scheme == "postgresql":
        text = (RECORDED / "postgres-schema.txt").read_text()
        return re.findall(r"^(?:CREATE|ALTER) .*?;$", text, re.MULTILINE | re.DOTALL)
    text = (RECORDED / "mariadb-schema.txt").read_text().split("-- For comparison")[0]
    text = text.replace(" DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci", "")
    return re.findall(r"^Create Table: (CREATE TABLE .*?^\).*?)$", text, re.MULTILINE | re.DOTALL)


def drop_tables(database: Database) -> None:
    """Drop ActiveMQ's three tables."""
    for table in ("MSGS", "ACKS", "LOCK"):
        database.execute(f"DROP TABLE ACTIVEMQ_{table}")
