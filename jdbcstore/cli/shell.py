"""``sql --shell``: one question after another, from a prompt with a history or from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jdbcstore.cli.answers import answer
from jdbcstore.cli.output import note, write_line
from jdbcstore.errors import QueryFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from jdbcstore.analytics import Analytics

_HELP = """A question in SQL ends with a semicolon at the end of a line; a question with a name is its name.
.tables   the views; DESCRIBE messages_decoded; shows the columns of one
.list     the questions that have a name
.help     this; help and ? are the same
\\q        ends, as quit, exit, .quit and Ctrl-D do; Ctrl-C drops what was typed, or stops the query"""
_COMMANDS = {"help": ".help", "?": ".help", "quit": "\\q", "exit": "\\q", ".quit": "\\q", ".exit": "\\q"}
"""Other words for a command, where no question has begun."""


def converse(views: Analytics, questions: dict[str, str], show: Callable[[DataFrame], None]) -> None:
    """Answer until the input ends. At a terminal an error is told; in a pipe it ends the conversation.

    :raises QueryFailed: a question from a pipe could not be answered
    """
    interactive = sys.stdin.isatty()
    lines = prompted([*views_of(), *questions]) if interactive else sys.stdin
    if interactive:
        note("Spark SQL; a question ends with a semicolon. .help says more, quit ends.")
    for statement in statements(lines, questions):
        if statement == "\\q":
            return
        try:
            _carry_out(views, statement, questions, show)
        except QueryFailed as error:
            if not interactive:
                raise
            note(str(error))
        except KeyboardInterrupt:
            if not interactive:
                raise
            note("interrupted")
        sys.stdout.flush()


def statements(lines: Iterable[str | None], questions: Iterable[str]) -> Iterator[str]:
    """Commands and names, a line each, and questions up to their semicolon; None drops what was begun."""
    begun: list[str] = []
    for line in lines:
        if line is None:
            begun = []
            continue
        text = line.strip()
        if not begun:
            text = _COMMANDS.get(text.removesuffix(";").rstrip().lower(), text)
        if not begun and (text.startswith((".", "\\")) or text.removesuffix(";") in questions):
            yield text.removesuffix(";")
            continue
        if text or begun:
            begun.append(line.rstrip("\n"))
        if text.endswith(";"):
            yield "\n".join(begun).rstrip().removesuffix(";")
            begun = []
    if begun:
        yield "\n".join(begun)


def prompted(words: list[str]) -> Iterator[str | None]:
    """Lines typed at a terminal, until Ctrl-D; None for a Ctrl-C."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory

    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(_history())), completer=WordCompleter(words), complete_while_typing=False
    )
    while True:
        try:
            yield session.prompt("jdbcstore> ")
        except KeyboardInterrupt:
            yield None
        except EOFError:
            return


def views_of() -> tuple[str, ...]:
    from jdbcstore.analytics import VIEWS

    return VIEWS


def _carry_out(
    views: Analytics, statement: str, questions: dict[str, str], show: Callable[[DataFrame], None]
) -> None:
    if statement == ".tables":
        write_line("\n".join(views_of()))
    elif statement == ".list":
        write_line("\n".join(questions))
    elif statement.startswith((".", "\\")):
        write_line(_HELP)
    else:
        with answer(views, questions.get(statement, statement)) as frame:
            if frame.columns:  # a setting or a new view has no answer
                show(frame)


def _history() -> Path:
    """The file of what was typed, for its user alone."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = state / "jdbcstore" / "sql-history"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    return path
