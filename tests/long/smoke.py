"""``python -m tests.long.smoke``: what Celery's smoke tests ask of workers, with processes for containers.

They are its test_worker.py, test_control.py, test_worker_shutdown_acks.py and failover/, in our words; some
are in tests/plugins/test_celery_worker.py. Arguments are for pytest. The broker that fails over is the
database, which stops and starts again. Left out: chords, aliases of queues, and several brokers.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery import chain

from jdbcstore import Claims
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.kombu.smoke import PATIENCE, Gate, Worker, client, wait_until_accepted, worker
from tests.support.kombu.sources import environment
from tests.support.servers import Server

pytestmark = [pytest.mark.backends("sqlite", "postgresql"), pytest.mark.slow]

NEVER = {"broker_transport_options": {"lease": 600.0}}
"""A lease that does not expire in a test: what comes back was returned."""
Start = Callable[..., Worker]


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Iterator[Start]:
    """Starts workers, which are killed at the end."""
    with ExitStack() as opened:
        count = iter(range(100))

        def start(
            *options: str,
            name: str = "worker@here",
            environment: Mapping[str, str] | None = None,
            python: Path | None = None,
            **configuration: Any,
        ) -> Worker:
            log = tmp_path / f"worker{next(count)}.log"
            return opened.enter_context(
                worker(
                    database.url,
                    log,
                    *options,
                    name=name,
                    environment=environment,
                    configuration=configuration,
                    python=python,
                )
            )

        yield start


@pytest.fixture
def app(database: Database) -> Iterator[Any]:
    with client(database.url, **NEVER) as app:
        yield app


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path, "gate")


def running(app: Any, gate: Gate) -> Any:
    """A task that a worker has begun, and that ends when the gate is opened."""
    task = app.send_task("hold", [gate.path])
    gate.wait_for_runs(1)
    wait_until_accepted(app, task)
    return task


def count(database: Database) -> tuple[int, int]:
    """The numbers of messages in the queue of tasks, and of those that are free."""
    with Claims(database.url) as claims:
        return claims.queue("celery").count()


# Shutdown


def test_a_worker_that_is_told_to_end(app: Any, start: Start) -> None:
    first = start()
    app.control.shutdown(destination=[first.name])
    assert first.wait() == 0


def test_several_signals_for_a_warm_shutdown_are_one(app: Any, gate: Gate, start: Start) -> None:
    first = start(**NEVER)
    task = running(app, gate)
    for _ in range(3):
        first.told(signal.SIGTERM)
    first.wait_to_say("Warm shutdown")
    gate.open()
    assert task.get(timeout=PATIENCE)
    first.wait()
    assert gate.runs() == 1


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGTERM, signal.SIGQUIT, signal.SIGQUIT), (signal.SIGQUIT, signal.SIGQUIT)],
    ids=["from-warm", "from-cold"],
)
def test_a_hard_shutdown_returns_what_runs(
    database: Database, app: Any, gate: Gate, start: Start, signals: tuple[signal.Signals, ...]
) -> None:
    first = start()
    running(app, gate)
    for number in signals:
        first.told(number)
        first.wait_to_say({signal.SIGTERM: "Warm shutdown", signal.SIGQUIT: "Cold shutdown"}[number])
    first.wait()
    wait_until(lambda: count(database) == (1, 1), PATIENCE)


@pytest.mark.parametrize("times", [1, 2], ids=["cold", "hard"])
def test_another_signal_may_be_that_of_a_cold_shutdown(
    database: Database, app: Any, gate: Gate, start: Start, times: int
) -> None:
    first = start(environment={"REMAP_SIGTERM": "SIGQUIT"})
    running(app, gate)
    for _ in range(times):
        first.told(signal.SIGTERM)
        first.wait_to_say("Cold shutdown")
    first.wait()
    wait_until(lambda: count(database) == (1, 1), PATIENCE)


def test_tasks_that_take_longer_than_the_lease_run_once(
    database: Database, app: Any, tmp_path: Path, start: Start
) -> None:
    gates = [Gate(tmp_path, f"gate{number}") for number in range(3)]
    first = start(worker_concurrency=3)
    tasks = [running(app, gate) for gate in gates]
    first.told(signal.SIGTERM)
    first.wait_to_say("Warm shutdown")
    with Claims(database.url) as claims:
        # Longer than its lease: it would be free by now.
        assert claims.queue("celery").claim(wait=5.0) == []
    for gate in gates:
        gate.open()
    assert all(task.get(timeout=PATIENCE) for task in tasks)
    first.wait()
    assert [gate.runs() for gate in gates] == [1, 1, 1]
    assert count(database) == (0, 0)


def test_a_task_may_end_during_a_soft_shutdown(
    database: Database, app: Any, gate: Gate, start: Start
) -> None:
    first = start(**NEVER, worker_soft_shutdown_timeout=10)  # it sleeps for so long
    task = running(app, gate)
    first.told(signal.SIGQUIT)
    first.wait_to_say("Initiating Soft Shutdown")
    gate.open()
    assert task.get(timeout=PATIENCE)
    first.wait()
    assert first.says("Cold shutdown")
    assert gate.runs() == 1
    assert count(database) == (0, 0)


def test_what_does_not_end_during_a_soft_shutdown_runs_again(app: Any, gate: Gate, start: Start) -> None:
    first = start(**NEVER, worker_soft_shutdown_timeout=1)
    task = running(app, gate)
    first.told(signal.SIGQUIT)
    first.wait()
    assert first.says("Cold shutdown")
    start(**NEVER)
    gate.wait_for_runs(2)
    gate.open()
    assert task.get(timeout=PATIENCE)


def test_a_hard_shutdown_from_a_soft_one(database: Database, app: Any, gate: Gate, start: Start) -> None:
    first = start(worker_soft_shutdown_timeout=600)
    running(app, gate)
    first.told(signal.SIGQUIT)
    first.wait_to_say("Initiating Soft Shutdown")
    first.told(signal.SIGQUIT)
    first.wait_to_say("Cold shutdown")
    first.told(signal.SIGQUIT)
    first.wait()
    wait_until(lambda: count(database) == (1, 1), PATIENCE)


def test_a_task_with_an_eta_is_returned_by_a_soft_shutdown(app: Any, start: Start) -> None:
    options = {**NEVER, "worker_soft_shutdown_timeout": 1, "worker_enable_soft_shutdown_on_idle": True}
    first = start(**options)
    task = app.send_task("identity", ["later"], countdown=8)
    first.wait_to_say(f"[{task.id}] received")
    first.told(signal.SIGQUIT)
    first.wait()
    assert first.says("Initiating Soft Shutdown")
    start(**options)
    assert task.get(timeout=PATIENCE) == "later"


# Pools and restarts


def test_processes_that_are_spawned(app: Any, start: Start) -> None:
    first = start(worker_pool_start_method="spawn")
    assert app.send_task("identity", [1]).get(timeout=PATIENCE) == 1
    assert first.says("SpawnPoolWorker-")


@pytest.mark.parametrize("pool", ["threads", "gevent", "eventlet"])
def test_a_pool_within_the_process(app: Any, tmp_path: Path, start: Start, pool: str) -> None:
    gates = [Gate(tmp_path, f"gate{number}") for number in range(3)]
    python = None if pool == "threads" else environment(f"{pool}-environment", pool)
    # psycopg knows gevent by itself.
    cooperative = {"PSYCOPG_WAIT_FUNC": "wait_select"} if pool == "eventlet" else None
    first = start("--pool", pool, **NEVER, python=python, environment=cooperative, worker_concurrency=3)
    tasks = [app.send_task("hold", [gate.path]) for gate in gates]
    for gate in gates:
        gate.wait_for_runs(1)
    for gate in gates:
        gate.open()
    assert [task.get(timeout=PATIENCE) for task in tasks] == [first.process.pid] * 3


def test_a_worker_is_restarted_between_the_tasks_of_a_chain(app: Any, gate: Gate, start: Start) -> None:
    first = start(**NEVER)
    second = app.signature("identity", [2], immutable=True)
    both = chain(app.signature("hold", [gate.path]), second).apply_async()
    gate.wait_for_runs(1)
    first.told(signal.SIGTERM)
    first.wait_to_say("Warm shutdown")
    gate.open()
    assert both.parent.get(timeout=PATIENCE)
    first.wait()
    start(**NEVER)
    assert both.get(timeout=PATIENCE) == 2


@pytest.mark.parametrize("when", ["during", "between"])
def test_the_processes_of_a_pool_are_replaced(
    app: Any, gate: Gate, tmp_path: Path, start: Start, when: str
) -> None:
    second = Gate(tmp_path, "second")
    first = start(**NEVER, worker_pool_restarts=True)
    both = chain(
        app.signature("hold", [gate.path], immutable=True),
        app.signature("hold", [second.path], immutable=True),
    ).apply_async()
    gate.wait_for_runs(1)
    if when == "between":
        wait_until_accepted(app, both.parent)
        gate.open()
        both.parent.get(timeout=PATIENCE)
    answers = app.control.pool_restart(reply=True, timeout=PATIENCE, limit=1)
    assert answers == [{first.name: {"ok": "reload started"}}]
    gate.open()
    second.open()
    last = app.send_task("hold", [second.path])
    assert last.get(timeout=PATIENCE) != both.parent.get(timeout=PATIENCE)
    assert both.get(timeout=PATIENCE)
    assert (gate.runs(), second.runs()) == (1, 2)


def test_a_worker_goes_on_if_a_process_ends_and_results_cannot_be_stored(
    database: Database, tmp_path: Path, start: Start
) -> None:
    always = {
        "result_backend": "db+sqlite:////nowhere/results.db",
        "database_create_tables_at_setup": False,
        "result_backend_always_retry": True,
        "result_backend_max_retries": 9_999_999,
        "result_backend_base_sleep_between_retries_ms": 10,
        "result_backend_max_sleep_between_retries_ms": 10,
        "task_reject_on_worker_lost": True,
        "worker_concurrency": 2,
    }
    first, noted = start(**NEVER, **always), tmp_path / "noted"
    with client(database.url, **NEVER) as app:
        app.send_task("die_once", [str(tmp_path / "died")])
        first.wait_to_say("exited prematurely")
        app.send_task("note", [str(noted)])
        wait_until(noted.exists, PATIENCE, "that another task runs")


# Queues


def test_a_queue_that_is_not_the_default_one(database: Database, start: Start) -> None:
    options = {"task_create_missing_queues": False, "task_queues": {"other": {}}}
    start("--queues", "other", **options)
    with client(database.url, **options) as app:
        assert app.send_task("identity", [3], queue="other").get(timeout=PATIENCE) == 3


@pytest.mark.backends("postgresql")
def test_a_queue_that_was_left_is_not_consumed_after_a_lost_connection(
    server: Server, database: Database, start: Start
) -> None:
    queues: dict[str, dict[str, str]] = {"other": {}, "celery": {}}
    first = start("--queues", "other,celery", task_queues=queues)
    with client(database.url, **NEVER, task_queues=queues) as app:
        assert app.send_task("identity", [1], queue="other").get(timeout=PATIENCE) == 1
        app.control.cancel_consumer("other", destination=[first.name], reply=True, timeout=PATIENCE, limit=1)
        server.restart()
        again = {"max_retries": 100, "interval_start": 0.5, "interval_max": 0.5}
        task = app.send_task("identity", [2], queue="celery", retry=True, retry_policy=again)
        assert task.get(timeout=PATIENCE) == 2
        left = app.send_task("identity", [3], queue="other", retry=True, retry_policy=again)
        last = app.send_task("identity", [4], queue="celery")
        assert last.get(timeout=PATIENCE) == 4
        assert not left.ready()


# Failover


def test_another_worker_takes_over(app: Any, start: Start) -> None:
    first = start()
    start(name="other@here")
    first.kill()
    assert app.send_task("identity", [1]).get(timeout=PATIENCE) == 1


def test_a_worker_is_started_again_under_its_name(app: Any, gate: Gate, start: Start) -> None:
    first, second = start(), start(name="other@here")
    task = running(app, gate)
    first.kill()
    second.kill()
    start()
    gate.wait_for_runs(2)
    gate.open()
    assert task.get(timeout=PATIENCE)
    assert app.send_task("identity", [1]).get(timeout=PATIENCE) == 1


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_worker_finds_the_database_again(
    server: Server, database: Database, start: Start, how: str
) -> None:
    first = start()
    again = {"max_retries": 100, "interval_start": 0.5, "interval_max": 0.5}
    with client(database.url, **NEVER) as app:
        assert app.send_task("identity", [1]).get(timeout=PATIENCE) == 1
        for value in (2, 3):
            if how == "kill":
                server.kill()
                server.start()
            else:
                server.restart()
            task = app.send_task("identity", [value], retry=True, retry_policy=again)
            assert task.get(timeout=PATIENCE) == value
        assert first.process.poll() is None


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
