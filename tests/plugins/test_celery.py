"""Celery on the transport: results, remote control, and what becomes of the task of a killed worker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from jdbcstore.plugins.sharing import open_claims
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.kombu.app import make_app, worker

pytestmark = [
    pytest.mark.backends("sqlite", "postgresql", "galera", "group-replication"),
    pytest.mark.slow,
]

LEASE = 6.0
PATIENCE = 90.0


def test_the_task_of_a_killed_worker_runs_elsewhere(database: Database, tmp_path: Path) -> None:
    logging.getLogger("kombu").setLevel(logging.ERROR)
    app = make_app(database.url, LEASE)
    held = tmp_path / "held"
    with app, worker(database.url, LEASE, tmp_path / "solo.log") as first:
        assert app.send_task("process").get(timeout=PATIENCE) == first.pid
        [answer] = app.control.ping(timeout=PATIENCE, limit=1)
        assert [*answer.values()] == [{"ok": "pong"}]

        task = app.send_task("hold", (str(held),))
        wait_until(lambda: held.is_file() and held.read_text() == str(first.pid), PATIENCE)
        first.kill()
        with worker(database.url, LEASE, tmp_path / "prefork.log", "prefork") as second:
            assert task.get(timeout=PATIENCE) not in (first.pid, second.pid)
            assert app.send_task("relay").get(timeout=PATIENCE)
        app.backend.result_consumer.stop()
    # Celery leaves connections of its pools open until the process ends.
    open_claims.close()
    wait_until(lambda: database.connections() == 0, PATIENCE)
