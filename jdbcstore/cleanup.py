"""Removing topic messages that every durable subscription has acknowledged.

ActiveMQ sweeps one priority in ten at each run, with a DELETE of any size. Here each run sweeps all
of them, a batch at a time, between other writers' batches. What was removed stays removed, so an
interrupted run needs no taking up: the next one finds the rest.
"""

from __future__ import annotations

from jdbcstore.abc import Progress
from jdbcstore.paging import PRIORITIES
from jdbcstore.session import Session
from jdbcstore.topic_store import JdbcTopicMessageStore


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
