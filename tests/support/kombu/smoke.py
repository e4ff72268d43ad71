"""A Celery application whose tasks wait for files, and its workers as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from celery import Celery

import jdbcstore.plugins.kombu  # noqa: F401
from jdbcstore.plugins.sharing import open_claims
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT

PATIENCE = 120.0
LEASE = 3.0
_BROKER = "CELERY_SMOKE_BROKER"
_CONFIGURATION = "CELERY_SMOKE_CONFIGURATION"
_NOT_BEFORE = 0.02


def make_app(url: str, **configuration: Any) -> Any:
    """The application; results go back through the broker."""
    app = Celery("smoke", broker=f"jdbcstore+{url}", backend="rpc://", set_as_current=False)
    app.conf.update(
        broker_transport_options={"lease": LEASE},
        broker_connection_retry_on_startup=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_concurrency=1,
        result_expires=300,
    )
    app.conf.update(configuration)
    app.task(name="identity")(identity)
    app.task(name="hold")(hold)
    app.task(name="die_once")(die_once)
    app.task(name="note")(note)
    return app


def identity(value: Any) -> Any:
    return value


def hold(path: str) -> int:
    """Runs until the file exists; each run first adds a line with its process to another file."""
    with open(f"{path}.runs", "a") as runs:
        runs.write(f"{os.getpid()}\n")
    while not os.path.exists(path):
        time.sleep(_NOT_BEFORE)
    return os.getpid()


def die_once(path: str) -> str:
    """The first process that runs it ends at once."""
    try:
        open(path, "x").close()
    except FileExistsError:
        return "survived"
    os._exit(1)


def note(path: str) -> None:
    """Add a line with the time of its beginning."""
    with open(path, "a") as begun:
        begun.write(f"{time.time()}\n")


class Gate:
    """What a task ``hold`` waits for."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = str(folder / name)

    def runs(self) -> int:
        """How often the task has begun."""
        runs = Path(f"{self.path}.runs")
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def wait_for_runs(self, count: int) -> None:
        """Wait until the task has begun so often."""
        wait_until(lambda: self.runs() >= count, PATIENCE, f"{count} runs of the task")

    def open(self) -> None:
        """Let it end."""
        Path(self.path).touch()


class Worker:
    """A worker in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, name: str) -> None:
        self.process = process
        self.log = log
        self.name = name

    def says(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def wait_to_say(self, *texts: str) -> None:
        """Wait until the log has all of these."""
        for text in texts:
            wait_until(lambda text=text: self.says(text), PATIENCE, f"{text!r} in the log")  # type: ignore[misc]

    def told(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill it and the processes of its pool."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@contextmanager
def worker(
    url: str,
    log: Path,
    *options: str,
    name: str = "worker@here",
    environment: Mapping[str, str] | None = None,
    configuration: Mapping[str, Any] | None = None,
    python: Path | None = None,
) -> Iterator[Worker]:
    """A worker that is ready; killed at the end, with the processes of its pool.

    ``python`` is that of an environment for a pool that needs a package.
    """
    given = {_BROKER: url, _CONFIGURATION: json.dumps({**(configuration or {})}), "PYTHONPATH": str(ROOT)}
    command = [str(python or sys.executable), "-m", "celery", "--app", __name__]
    command += ["worker", "--loglevel", "INFO"]
    command += ["--hostname", name, "--without-gossip", "--without-mingle", *options]
    with log.open("wb") as said:
        process = subprocess.Popen(
            command,
            env={**os.environ, **given, **(environment or {})},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    started = Worker(process, log, name)
    try:
        started.wait_to_say(" ready.")
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


def wait_until_accepted(app: Any, task: Any) -> None:
    """Wait until the worker knows which process runs a task; before, a cold shutdown waits for its end."""

    def is_accepted() -> bool:
        answers = app.control.inspect(timeout=PATIENCE, limit=1).active() or {}
        active = [one for found in answers.values() for one in found]
        return any(one["id"] == task.id and one["time_start"] for one in active)

    wait_until(is_accepted, PATIENCE, "that the task was accepted")


@contextmanager
def client(url: str, **configuration: Any) -> Iterator[Any]:
    """The application in this process, whose connections are closed at the end."""
    with make_app(url, **configuration) as app:
        try:
            yield app
        finally:
            if app.backend.result_consumer._consumer is not None:
                app.backend.result_consumer.stop()
    # Celery leaves connections of its pools open until the process ends.
    open_claims.close()


if _BROKER in os.environ:
    app = make_app(os.environ[_BROKER], **json.loads(os.environ[_CONFIGURATION]))
