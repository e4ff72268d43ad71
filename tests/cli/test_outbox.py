"""The table of messages that SQL statements insert, from the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.settings import Settings
from jdbcstore.cli.shared import open_claims
from tests.cli.conftest import Invoke


def execute(url: str, statement: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(statement)


def test_it_is_created_shown_and_dropped(invoke: Invoke, local_url: str) -> None:
    invoke("init")
    assert "run jdbcstore outbox create" in invoke("outbox", "status").err

    assert invoke("outbox", "create").out.endswith("has JDBCSTORE_OUTBOX\n")
    invoke("outbox", "create")

    empty = {"waiting": 0, "refused": 0, "oldest": None}
    assert json.loads(invoke("outbox", "status", "--json").out) == empty
    execute(local_url, "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, CREATED) VALUES ('A', 1000)")
    execute(local_url, "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION, ERROR) VALUES ('B', 'too large')")
    shown = invoke("outbox", "status").out
    assert shown.startswith("1 message waiting, the oldest for ")
    assert "1 message refused" in shown
    refused = json.loads(invoke("outbox", "list", "--json").out)
    assert (refused["row_id"], refused["destination"], refused["error"]) == (2, "B", "too large")
    assert "too large" in invoke("outbox", "list").out
    execute(local_url, "UPDATE JDBCSTORE_OUTBOX SET CREATED = 'today' WHERE ID = 2")
    assert "today" in invoke("outbox", "list").out

    assert "has 2 messages" in invoke("outbox", "drop").err
    assert invoke("outbox", "drop", "--force").out == "dropped JDBCSTORE_OUTBOX with 2 messages\n"
    assert invoke("outbox", "status").code == ExitCode.SCHEMA


def test_a_command_that_claims_moves_nothing(invoke: Invoke, local_url: str, tmp_path: Path) -> None:
    invoke("init")
    invoke("outbox", "create")
    execute(local_url, "INSERT INTO JDBCSTORE_OUTBOX (DESTINATION) VALUES ('A')")
    file = tmp_path / "outbox.toml"
    file.write_text(f'url = "{local_url}"\noutbox = true\n')
    settings = Settings()
    settings.config = str(file)
    with open_claims(settings, "test") as claims:
        assert claims.config.outbox is False
    assert json.loads(invoke("outbox", "status", "--json").out)["waiting"] == 1
