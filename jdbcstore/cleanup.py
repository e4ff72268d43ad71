"""Removing topic messages that every durable subscription has acknowledged.

ActiveMQ sweeps one priority in ten at each run, with a DELETE of any size. Here each run sweeps all
of them, a batch at a time, between other writers' batches. What was removed stays removed, so an
interrupted run needs no taking up: the next one finds the rest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jdbcstore.abc import Progress
from jdbcstore.errors import StoreClosed, StoreError
from jdbcstore.paging import PRIORITIES
from jdbcstore.session import Session
from jdbcstore.topic_store import JdbcTopicMessageStore

log = logging.getLogger(__name__)


def clean_topic(session: Session, topic: JdbcTopicMessageStore, progress: Progress | None) -> int:
    """Remove this topic's messages that nobody waits for; a topic without subscriptions is left."""
    sql = session.statements
    floors = _floors(session, topic)
    if floors is None:
        return 0
    total = 0
    if len(set(floors)) == 1:
        total += topic.remove_in_batches(sql.find_ids, progress, up_to=floors[0])
    else:
        for priority, floor in enumerate(floors):
            total += topic.remove_in_batches(
                sql.find_ids_by_priority, progress, up_to=floor, priority=priority
            )
    return total + topic.remove_in_batches(sql.find_ids_acknowledged_ahead, progress)


def _floors(session: Session, topic: JdbcTopicMessageStore) -> list[int] | None:
    """For each priority, the sequence up to which every subscription has acknowledged."""
    rows = session.fetch(session.statements.find_all_durable_subs, container=topic.destination.qualified_name)
    if not rows:
        return None
    marks: dict[tuple[str, str], dict[int, int]] = {}
    for client_id, name, priority, mark, _, _ in rows:
        marks.setdefault((client_id, name), {})[priority] = mark or 0
    floors = []
    for priority in range(PRIORITIES):
        # A subscription's only row is its mark for every priority.
        floors.append(
            min(
                next(iter(lanes.values())) if len(lanes) == 1 else lanes.get(priority, 0)
                for lanes in marks.values()
            )
        )
    return floors


class CleanupTimer:
    """Runs ``cleanup`` at once and then every ``period`` seconds, on a thread that keeps no process alive."""

    def __init__(self, cleanup: Callable[[], int], period: float) -> None:
        self._cleanup = cleanup
        self._period = period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jdbcstore-cleanup", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                removed = self._cleanup()
            except StoreClosed:
                return
            except StoreError as error:
                log.warning("cleanup failed and will be tried again in %s s: %s", self._period, error)
            else:
                log.debug("cleanup removed %d messages", removed)
            self._stop.wait(self._period)

    def stop(self) -> None:
        """Stop after the batch in hand; the store's close ends a longer wait."""
        self._stop.set()
