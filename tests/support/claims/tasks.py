"""Members of a crowd that are of Celery: producers, workers and beat, with any broker that kombu knows.

A message is known by the id of its task. Nothing is sent again by itself, so that there are no two of one id.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import celery.apps.worker  # noqa: F401 (before the nurse forks)
from celery import Celery
from celery.apps.beat import Beat
from celery.beat import Scheduler

import jdbcstore.plugins.kombu  # noqa: F401
from tests.support.claims.crowd import Notes

QUEUE = "orders"
_TASK = 0.01
"""Seconds for which a task runs, and may be killed."""


def make_app(url: str, lease: float, notes: Notes) -> Any:
    """The application, whose only task notes its id."""
    transport = url.partition("+")[0].partition("://")[0]
    options: Mapping[str, Mapping[str, Any]] = {
        "jdbcstore": {"lease": lease},
        "sqla": {"pool_pre_ping": True},
        "pgmq": {"visibility_timeout": lease, "init_extension": False},
    }
    app = Celery("crowd", broker=url, set_as_current=False)
    app.conf.update(
        broker_transport_options=options[transport],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_acks_late=True,
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_publish_retry=False,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
    )

    def note(self: Any) -> None:
        notes.add("taken", [self.request.id])
        time.sleep(_TASK)
        notes.add("done", [self.request.id])  # acknowledged afterwards

    app.task(name="note", bind=True)(note)
    return app


def produce(app: Any, notes: Notes, rate: float) -> None:
    """Send tasks at this rate until the process is killed; those that certainly exist are ``added``."""
    begin, count = time.monotonic(), 0
    while True:
        try:
            sent = app.send_task("note")
        except Exception as error:
            sys.stderr.write(f"{time.time():.3f} {type(error).__name__}: {error}\n")
            time.sleep(0.1)
        else:
            notes.add("added", [sent.id])
        count += 1
        time.sleep(max(0.0, begin + count / rate - time.monotonic()))


def beat(app: Any, notes: Notes, rate: float) -> None:
    """Celery's beat, which has one task due at this rate."""

    class Noting(Scheduler):  # type: ignore[misc]
        def apply_async(self, *arguments: Any, **options: Any) -> Any:
            sent = super().apply_async(*arguments, **options)
            notes.add("added", [sent.id])
            return sent

    app.conf.beat_schedule = {"note": {"task": "note", "schedule": timedelta(seconds=1 / rate)}}
    Beat(app=app, scheduler_cls=Noting, max_interval=1.0, quiet=True, loglevel="WARNING").run()


def work(app: Any, name: str) -> None:
    """Celery's worker, which acknowledges a task after it has run."""
    app.Worker(
        pool="solo",
        hostname=f"{name}@crowd",
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    ).start()


def main(kind: str, url: str, lease: str, path: str, name: str, rate: str) -> None:
    notes = Notes(path)
    app = make_app(url, float(lease), notes)
    notes.add("ready", [name])
    if kind == "producer":
        produce(app, notes, float(rate))
    elif kind == "beat":
        beat(app, notes, float(rate) / 10)
    else:
        work(app, name)
