"""A deferrable sensor for Airflow: waits until so many messages are in a queue, and occupies no worker.

    wait = BacklogSensor(task_id="wait", queue="ORDERS", messages=1000, conn_id="mq", timeout=3600)

The connection is that of the database, for example AIRFLOW_CONN_MQ=postgresql://reader:secret@db/mq. The
triggerer counts without changing anything, also beside a broker, and needs jdbcstore with the driver of the
database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseHook, BaseSensorOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from jdbcstore import JdbcStore


class BacklogSensor(BaseSensorOperator):
    """Waits for messages in a queue; its result is their number."""

    def __init__(
        self, *, queue: str, conn_id: str, messages: int = 1, interval: float = 10.0, **options: Any
    ) -> None:
        super().__init__(**options)
        self.queue = queue
        self.conn_id = conn_id
        self.messages = messages
        self.interval = interval

    def execute(self, context: Any) -> None:  # noqa: ARG002
        trigger = BacklogTrigger(self.queue, self.conn_id, self.messages, self.interval)
        self.defer(trigger=trigger, method_name="counted", timeout=timedelta(seconds=self.timeout))

    def counted(self, context: Any, event: int) -> int:  # noqa: ARG002
        return event


class BacklogTrigger(BaseTrigger):
    """Counts the messages of a queue at an interval, in seconds, until there are enough."""

    def __init__(self, queue: str, conn_id: str, messages: int, interval: float) -> None:
        super().__init__()
        self.queue = queue
        self.conn_id = conn_id
        self.messages = messages
        self.interval = interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            "queue": self.queue,
            "conn_id": self.conn_id,
            "messages": self.messages,
            "interval": self.interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        url = (await BaseHook.aget_connection(self.conn_id)).get_uri()
        while (count := await asyncio.to_thread(self._count, url)) < self.messages:
            self.log.info("%d of %d messages are in %s", count, self.messages, self.queue)
            await asyncio.sleep(self.interval)
        yield TriggerEvent(count)

    def _count(self, url: str) -> int:
        with JdbcStore(url, read_only=True) as store:
            return store.queue(self.queue).message_count()
