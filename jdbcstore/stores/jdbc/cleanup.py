"""Cleanup: the removal of topic messages that every durable subscription has acknowledged.

ActiveMQ sweeps one priority in ten at each run, with a DELETE of any size. Here each run sweeps all
priorities, in bounded batches between the batches of other writers. The next run continues an interrupted
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from jdbcstore.abc import Progress
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Statement
from jdbcstore.message.destination import Destination
from jdbcstore.stores.jdbc.writer.writer import UnitWriter
from jdbcstore.stores.shared.paging import PRIORITIES, REMOVE_BATCH, counted, id_pages


def clean(session: DatabaseSession, writer: UnitWriter, progress: Progress | None) -> int:
    """Clean all topics; those without durable subscriptions keep their messages."""
    names = session.fetch(session.statements.find_subscribed_destinations)
    topics = (_Topic(session, writer, name) for (name,) in names if Destination.parse(name).is_topic)
    return counted((count for topic in topics for count in topic.clean()), progress)


def find_consumed(session: DatabaseSession) -> Iterator[tuple[str, list[int]]]:
    """Yield what :func:`clean` would remove, by topic, in pages; nothing is written."""
    sql = session.statements
    for (name,) in session.fetch(sql.find_subscribed_destinations):
        if not Destination.parse(name).is_topic:
            continue
        rows = session.fetch(sql.find_all_marks, container=name)
        for priority, floor in enumerate(_floors(rows)):
            find = partial(
                session.fetch, sql.find_ids_by_priority.of(priority), container=name, priority=priority
            )
            for ids in id_pages(find, floor):
                yield name, ids
        ahead: set[int] = set()
        for client_id, sub_name in dict.fromkeys((client_id, sub_name) for client_id, sub_name, *_ in rows):
            after = -1
            page = {"container": name, "client_id": client_id, "sub_name": sub_name, "limit": REMOVE_BATCH}
            while page_of_marks := session.fetch(sql.find_acknowledged, after=after, **page):
                done = [id_ for id_, _, is_done in page_of_marks if is_done and id_ not in ahead]
                if done:
                    yield name, done
                ahead.update(done)
                after = page_of_marks[-1][0]


class _Topic:
    """The cleanup of one topic.

    Each batch reads the acknowledgements again, in its own transaction: a retroactive subscription made
    meanwhile wants all messages that are still stored.
    """

    def __init__(self, session: DatabaseSession, writer: UnitWriter, container: str) -> None:
        self._session = session
        self._sql = session.statements
        self._writer = writer
        self._container = container

    def clean(self) -> Iterator[int]:
        """Yield the number of messages that each batch removed."""
        rows = self._session.fetch(self._sql.find_all_marks, container=self._container)
        floors = _floors(rows)
        if len(set(floors)) == 1:
            yield from self._remove_passed(None, floors[0])
        else:
            for priority, floor in enumerate(floors):
                yield from self._remove_passed(priority, floor)
        for sub in dict.fromkeys((client_id, name) for client_id, name, *_ in rows):
            yield from self._remove_ahead(*sub)

    def _remove_passed(self, priority: int | None, floor: int) -> Iterator[int]:
        """Remove messages up to the mark of every subscription."""
        values: dict[str, Any] = {"container": self._container}
        find: Statement = self._sql.find_ids
        if priority is not None:
            find, values["priority"] = self._sql.find_ids_by_priority.of(priority), priority
        for ids in id_pages(lambda **place: self._session.fetch(find, **place, **values), floor):

            def remove(connection: Connection, ids: list[int] = ids) -> int:
                floors = _floors(connection.fetch(self._sql.find_all_marks, container=self._container))
                up_to = min(floors) if priority is None else floors[priority]
                passed = [(self._container, id_) for id_ in ids if id_ <= up_to]
                return connection.remove_messages(passed)

            yield self._writer.call(remove, removes=len(ids))

    def _remove_ahead(self, client_id: str, name: str) -> Iterator[int]:
        """Remove messages acknowledged ahead of this subscription's mark that no other one waits for."""
        sub = {"container": self._container, "client_id": client_id, "sub_name": name}
        after = -1
        while True:
            page = {**sub, "after": after, "limit": REMOVE_BATCH}
            rows = self._session.fetch(self._sql.find_acknowledged, **page)
            if not rows:
                return
            if any(done or present is None for _, present, done in rows):

                def remove(connection: Connection, page: dict[str, Any] = page) -> int:
                    rows = connection.fetch(self._sql.find_acknowledged, **page)
                    done = [(self._container, id_) for id_, _, is_done in rows if is_done]
                    removed = connection.remove_messages(done)
                    up_to = rows[-1][0] if rows else page["after"]
                    stale = self._sql.remove_stale_acknowledged
                    connection.execute(stale, **sub, after=page["after"], up_to=up_to)
                    return removed

                yield self._writer.call(remove, removes=len(rows))
            after = rows[-1][0]


def _floors(rows: Iterable[Row]) -> list[int]:
    """For each priority, the sequence up to which every subscription has acknowledged."""
    marks: dict[tuple[str, str], dict[int, int]] = {}
    for client_id, name, priority, mark, _, _ in rows:
        marks.setdefault((client_id, name), {})[priority] = mark or 0
    floors = []
    for priority in range(PRIORITIES):
        # A single row is the mark for every priority.
        of_each = [
            next(iter(lanes.values())) if len(lanes) == 1 else lanes.get(priority, 0)
            for lanes in marks.values()
        ]
        floors.append(min(of_each, default=-1))
    return floors
