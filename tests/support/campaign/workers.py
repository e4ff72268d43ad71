"""Processes of the campaign that claim messages, or run tasks of Celery; and the threads that add both.

A process that is killed has said before what it was about to do: an acknowledgement is first recorded as
unknown.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

from jdbcstore import Message
from jdbcstore.errors import ClaimLost, OutcomeUnknown, StoreError
from jdbcstore.stores.claims import Claims
from tests.support.campaign.clients import Client, Surroundings
from tests.support.histories.events import Delivery, Outcome, Write
from tests.support.histories.recorder import Recorder

JOBS = "JOBS"
TASKS = "tasks"
_WAIT = 0.3


def claim(url: str, lease: float, recorder: Recorder, name: str) -> None:
    """Claim messages and acknowledge them until the process is killed."""
    with Claims(url, lease=lease, max_redeliveries=-1, name=name) as claims:
        queue = claims.queue(JOBS)
        while True:
            begun = time.monotonic()
            try:
                taken = queue.claim(3, wait=_WAIT)
            except StoreError:
                time.sleep(0.1)
                continue
            for one in taken:
                # Which claim came first cannot be known of a process that was paused, so none is unmarked.
                key = (JOBS, str(one.message.body))
                recorder.add(Delivery(begun, name, *key, redelivered=True))
            while taken:
                begun = time.monotonic()
                keys = tuple((JOBS, str(one.message.body)) for one in taken)
                for key in keys:
                    recorder.add(Write(begun, begun, name, Outcome.UNKNOWN, acks=(key,)))
                try:
                    queue.acknowledge(*taken)
                except ClaimLost as lost:
                    taken = [one for one in taken if one.sequence not in lost.sequences]
                except StoreError:
                    time.sleep(0.1)
                else:
                    for key in keys:
                        recorder.add(Write(begun, time.monotonic(), name, Outcome.OK, acks=(key,)))
                    taken = []
            time.sleep(0.01)


def make_app(url: str, lease: float) -> Any:
    """Return a Celery application without tasks."""
    from celery import Celery

    import jdbcstore.plugins.kombu  # noqa: F401

    app = Celery("campaign", broker=f"jdbcstore+{url}", set_as_current=False)
    app.conf.update(
        broker_transport_options={"lease": lease},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_acks_late=True,
        task_default_queue=TASKS,
        task_ignore_result=True,
        task_publish_retry=False,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
    )
    return app


def run_tasks(url: str, lease: float, recorder: Recorder, name: str) -> None:
    """Run tasks, each acknowledged after it, until the process is killed."""
    app = make_app(url, lease)

    def work(self: Any) -> None:
        key = (TASKS, str(self.request.id))
        recorder.add(Delivery(time.monotonic(), name, *key, redelivered=True))
        now = time.monotonic()
        recorder.add(Write(now, now, name, Outcome.UNKNOWN, acks=(key,)))

    app.task(name="work", bind=True)(work)
    app.Worker(
        pool="solo",
        hostname=f"{name}@campaign",
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    ).start()


class Adder(Client):
    """Adds messages that are claimed, by a connection of its own to the database."""

    group = "claims"

    def __init__(self, name: str, shared: Surroundings, url: str, lease: float) -> None:
        super().__init__(name, shared)
        self._numbers = itertools.count(1)
        self._url = url
        self._lease = lease

    def run(self) -> None:
        """Add at a steady pace."""
        self.session = self.name
        claims: Claims | None = None
        while not self.stopping:
            if not self.quiet.is_set():
                claims = self._add(claims)
            self.pause(0.05)
        if claims is not None:
            claims.close()

    def _add(self, claims: Claims | None) -> Claims | None:
        try:
            claims = claims or Claims(self._url, lease=self._lease, name=self.name)
            key = (JOBS, f"{self.name}.{next(self._numbers)}")
            with self.writing((key,)):
                claims.queue(JOBS).add(Message(key[1]))
        except StoreError as error:
            if not isinstance(error, OutcomeUnknown):
                self.progress.note("refused", ())
            self.pause(0.1)
        return claims


class Publisher(Client):
    """Sends tasks of Celery."""

    group = "celery"

    def __init__(self, name: str, shared: Surroundings, url: str, lease: float) -> None:
        super().__init__(name, shared)
        self._app = make_app(url, lease)

    def run(self) -> None:
        """Send at a steady pace."""
        self.session = self.name
        numbers = itertools.count(1)
        while not self.stopping:
            if not self.quiet.is_set():
                key = (TASKS, f"{self.name}.{next(numbers)}")
                try:
                    with self.writing((key,)):
                        self._app.send_task("work", task_id=key[1])
                except Exception:  # whatever a transport raises: the outcome is unknown
                    self.pause(0.1)
            self.pause(0.1)
        # Celery's close leaves the pool's connections open, and with them the claims of this process.
        self._app.pool.force_close_all()
        self._app.close()


def main(kind: str, url: str, lease: str, history: str, name: str) -> None:
    """Work until the process is killed."""
    with Recorder(Path(history, f"{name}-{os.getpid()}.history")) as recorder:
        (claim if kind == "claims" else run_tasks)(url, float(lease), recorder, name)
