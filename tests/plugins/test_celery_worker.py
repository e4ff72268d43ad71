"""What Celery's smoke tests ask of a worker and its control; more of them are in tests/long/smoke.py."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError, TimeLimitExceeded

from jdbcstore import Claims
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.kombu.smoke import PATIENCE, Gate, Worker, client, wait_until_accepted, worker

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("celery-worker")]

NEVER = {"lease": 600.0}
"""A lease that does not expire in a test: what comes back was returned."""


class Shop:
    """A worker with a pool of one process, for several cases."""

    def __init__(self, app: Any, worker: Worker) -> None:
        self.app = app
        self.worker = worker

    def send(self, task: str, *arguments: object, **options: Any) -> Any:
        return self.app.send_task(task, arguments, **options)

    def control(self, method: str, *arguments: object, **options: Any) -> Any:
        """The one answer of the worker."""
        name = self.worker.name
        call = getattr(self.app.control, method)
        [answer] = call(*arguments, destination=[name], reply=True, timeout=PATIENCE, limit=1, **options)
        return answer[name]

    def inspect(self, method: str) -> Any:
        """What the worker knows."""
        inspect = self.app.control.inspect([self.worker.name], timeout=PATIENCE, limit=1)
        return getattr(inspect, method)()[self.worker.name]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    url = f"sqlite:///{folder}/mq.db"
    configuration = {"task_reject_on_worker_lost": True, "broker_transport_options": NEVER}
    with (
        client(url, **configuration) as app,
        worker(url, folder / "worker.log", configuration=configuration) as started,
    ):
        yield Shop(app, started)


def test_a_worker_answers(shop: Shop) -> None:
    [pong] = shop.app.control.ping(timeout=PATIENCE, limit=1)
    assert pong == {shop.worker.name: {"ok": "pong"}}
    assert "software -> celery:" in shop.inspect("report")["ok"]
    assert "celery" in [queue["name"] for queue in shop.inspect("active_queues")]


def test_the_process_of_a_pool_is_replaced_after_a_time_limit(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(TimeLimitExceeded):
        shop.send("hold", str(tmp_path / "never"), time_limit=1).get(timeout=PATIENCE)
    assert shop.send("identity", "alive").get(timeout=PATIENCE) == "alive"


def test_a_task_whose_process_ended_runs_again(shop: Shop, tmp_path: Path) -> None:
    assert shop.send("die_once", str(tmp_path / "died")).get(timeout=PATIENCE) == "survived"
    assert shop.worker.says("exited prematurely")


def test_a_task_that_is_revoked_while_it_waits_does_not_run(shop: Shop, tmp_path: Path) -> None:
    running, waiting = Gate(tmp_path, "running"), Gate(tmp_path, "waiting")
    # acks_late and one process: the second is claimed when the first is settled, revoked or not.
    first = shop.send("hold", running.path)
    running.wait_for_runs(1)
    second = shop.send("hold", waiting.path)
    assert shop.control("revoke", second.id)["ok"]
    running.open()

    assert first.get(timeout=PATIENCE)
    with pytest.raises(TaskRevokedError):
        second.get(timeout=PATIENCE)
    assert waiting.runs() == 0


def test_a_queue_is_left_and_taken_up_again(shop: Shop) -> None:
    assert "ok" in shop.control("add_consumer", "other")
    assert shop.send("identity", 1, queue="other").get(timeout=PATIENCE) == 1
    assert "ok" in shop.control("cancel_consumer", "other")
    wait_until(lambda: [one["name"] for one in shop.inspect("active_queues")] == ["celery"], PATIENCE)

    left = shop.send("identity", 2, queue="other")
    assert shop.send("identity", 3).get(timeout=PATIENCE) == 3
    assert not left.ready()
    assert "ok" in shop.control("add_consumer", "other")
    assert left.get(timeout=PATIENCE) == 2


@pytest.mark.backends("sqlite")
def test_what_ends_during_a_warm_shutdown_is_removed_before_the_worker_is_killed(
    database: Database, tmp_path: Path
) -> None:
    longer, shorter = Gate(tmp_path, "longer"), Gate(tmp_path, "shorter")
    configuration = {"broker_transport_options": {"lease": 8.0}}
    with (
        client(database.url, **configuration) as app,
        Claims(database.url) as claims,
        worker(
            database.url, tmp_path / "worker.log", "--concurrency", "2", configuration=configuration
        ) as started,
    ):
        queue = claims.queue("celery")
        app.send_task("hold", [longer.path])
        ending = app.send_task("hold", [shorter.path])
        longer.wait_for_runs(1)
        shorter.wait_for_runs(1)
        started.told(signal.SIGTERM)
        started.wait_to_say("Warm shutdown")
        shorter.open()
        assert ending.get(timeout=PATIENCE)
        wait_until(lambda: queue.count() == (1, 0), PATIENCE, "one message, and it is claimed")
        started.kill()

        [left] = queue.claim(10, wait=PATIENCE)
        assert longer.path in str(left.message.body)
        queue.acknowledge(left)
        assert queue.count() == (0, 0)


@pytest.mark.backends("sqlite")
def test_a_cold_shutdown_returns_what_runs(database: Database, tmp_path: Path) -> None:
    gate, options = Gate(tmp_path, "gate"), {"broker_transport_options": NEVER}
    with client(database.url, **options) as app, Claims(database.url) as claims:
        with worker(database.url, tmp_path / "first.log", configuration=options) as first:
            task = app.send_task("hold", [gate.path])
            gate.wait_for_runs(1)
            wait_until_accepted(app, task)
            first.told(signal.SIGQUIT)
            first.wait()
        assert first.says("Cold shutdown")
        assert claims.queue("celery").count() == (1, 1)
