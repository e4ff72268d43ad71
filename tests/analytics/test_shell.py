"""``jdbcstore sql --shell``: from a pipe, and as typed."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from jdbcstore.analytics import VIEWS
from jdbcstore.cli.sql import prompted, statements
from tests.analytics.conftest import Invoke

pytest.importorskip("prompt_toolkit")


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_a_conversation_through_a_pipe(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(
        monkeypatch,
        ".tables\nSELECT count(*) AS n\n  FROM messages\n  WHERE id = 1;\n\nlag\n\\q\nSELECT 1;\n",
    )
    result = invoke("sql", "--engine", "spark", "--shell")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("\n".join(VIEWS) + "\n")
    assert "acknowledged_ahead" in result.out
    assert result.out.split()[len(VIEWS)] == "n"


def test_an_answer_for_machines_and_the_end_at_an_error(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "SELECT 1 AS one;\nSELECT * FROM nowhere;\nSELECT 2 AS two")
    result = invoke("sql", "--engine", "spark", "--shell", "--json")
    assert (result.code, result.lines) == (1, [{"one": 1}])
    assert "nowhere" in result.err
    assert result.err.count("\n") == 1


def test_statements_end_at_their_semicolon() -> None:
    lines = ["SELECT 1", " FROM x;", "", ".help", "backlog", "SELECT", None, "backlog;", "SELECT 2", "\\q"]
    assert [*statements(lines, ["backlog"])] == [
        *("SELECT 1\n FROM x", ".help", "backlog", "backlog", "SELECT 2\n\\q")
    ]


def test_words_of_other_shells_are_commands_where_no_question_has_begun() -> None:
    lines = ["help", "?", "Help;", "SELECT", "quit", ";", "exit", ".quit", "QUIT;"]
    assert [*statements(lines, [])] == [*(".help", ".help", ".help", "SELECT\nquit\n", "\\q", "\\q", "\\q")]


def test_what_is_typed_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("SELECT 1;\rSELECT\x03\x04")
        assert [*prompted(["messages"])] == ["SELECT 1;", None]
    history = tmp_path / "jdbcstore" / "sql-history"
    assert "+SELECT 1;" in history.read_text()
    assert os.stat(history).st_mode & 0o777 == 0o600
