"""Tables that lack what a journal has are not written to by anybody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.errors import JournalPending
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.shared.checkpoint import Changes, JournalMark
from jdbcstore.testing.messages import content
from tests.cli.conftest import Invoke, invoke
from tests.support.cli.command_line import CommandLine

__all__ = ["invoke"]


@pytest.fixture
def pending(tmp_path: Path) -> str:
    """The URL of a store with one message, of which a journal has more."""
    url = f"sqlite:///{tmp_path / 'mq.db'}"
    with JdbcStore(url, journaled=True) as base:
        base.apply(Changes(JournalMark(86, 1, 10), adds=[(10, base.queue("Q").encode(Message("x")))]))
    return url


def test_no_other_writes(pending: str) -> None:
    with pytest.raises(JournalPending, match=r"number 86 has messages that are not in sqlite") as raised:
        jdbcstore.open(pending)
    assert raised.value.journal == 86
    assert "use_journal=false" in str(raised.value)


def test_others_may_read(pending: str) -> None:
    with JdbcStore(pending, read_only=True) as store:
        assert content(store.queue("Q")) == ["x"]
        assert store.journal_mark() == JournalMark(86, 1, 10)


def test_its_own_journal_goes_on(pending: str) -> None:
    with JdbcStore(pending, journaled=True) as base:
        base.apply(Changes(JournalMark(0, 2, 10)))

    with jdbcstore.open(pending) as store:
        assert content(store.queue("Q")) == ["x"]


def test_tables_of_an_activemq_have_no_mark(pending: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mq.db")) as raw:
        raw.execute("DROP TABLE JDBCSTORE_STATE")

    with JdbcStore(pending, read_only=True) as store:
        assert store.journal_mark() is None


OTHER = "sqlite:///{}/other.db"
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "send": lambda url: ["send", "Q", "y", "--url", url],
    "consume": lambda url: ["consume", "Q", "--url", url],
    "purge": lambda url: ["purge", "Q", "--url", url],
    "cleanup": lambda url: ["cleanup", "--url", url],
    "dead letters": lambda url: ["dlq", "purge", "--all", "--url", url],
    "copy from it": lambda url: ["copy", url, "sqlite:///other.db"],
    "copy to it": lambda url: ["copy", "sqlite:///other.db", url],
    "back to ActiveMQ": lambda url: ["migrate", "--to", "activemq", "--url", url],
    "broker": lambda url: ["broker", "--url", url, "--stomp", "127.0.0.1:0"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_writes_says_so(pending: str, tmp_path: Path, command: str) -> None:
    jdbcstore.open(OTHER.format(tmp_path)).close()

    # In a process of its own: a broker has a log of its own.
    result = CommandLine(tmp_path).run(*COMMANDS[command](pending))

    assert result.code == 3, result
    assert "the journal number 86 has messages that are not in" in result.err.splitlines()[-1]


def test_a_command_that_reads_reads(pending: str, invoke: Invoke) -> None:
    assert "x" in invoke("browse", "Q", "--url", pending).out
