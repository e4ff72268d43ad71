"""A Celery application on the database that the environment names, and workers of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from celery import Celery

import jdbcstore.plugins.kombu  # noqa: F401
from tests.support import ROOT

_BROKER = "CELERY_TEST_BROKER"
_LEASE = "CELERY_TEST_LEASE"


def make_app(url: str, lease: float) -> Any:
    """The application; results go back through the broker."""
    app = Celery("tests", broker=f"jdbcstore+{url}", backend="rpc://", set_as_current=False)
    app.conf.update(
        broker_transport_options={"lease": lease},
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        result_expires=60,
    )

    def process() -> int:
        return os.getpid()

    def relay() -> str:
        return str(app.send_task("process").id)

    app.task(name="process")(process)
    app.task(name="hold")(hold)
    app.task(name="relay")(relay)
    return app


def hold(path: str) -> int:
    """The first process that runs it stays in it; of any later one, its id."""
    try:
        with open(path, "x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return os.getpid()
    time.sleep(600)
    raise AssertionError


@contextmanager
def worker(url: str, lease: float, log: Path, pool: str = "solo") -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own, killed at the end if it does not end when it is asked to."""
    environment = {**os.environ, _BROKER: url, _LEASE: str(lease), "PYTHONPATH": str(ROOT)}
    options = (
        "worker",
        "--pool",
        pool,
        "--concurrency",
        "1",
        "--loglevel",
        "INFO",
        "--hostname",
        f"{pool}@%h",
    )
    command = [sys.executable, "-m", "celery", "--app", __name__, *options]
    with (
        log.open("wb") as said,
        subprocess.Popen(
            command, env=environment, stdout=said, stderr=said, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60.0)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


if _BROKER in os.environ:
    app = make_app(os.environ[_BROKER], float(os.environ[_LEASE]))
