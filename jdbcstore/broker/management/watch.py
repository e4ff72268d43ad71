"""Monitoring of a broker: samples of its counters, and the current alarms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from jdbcstore.broker.management.alarms import Alarm, Watched, alarms
from jdbcstore.broker.management.audit import Actor, audited
from jdbcstore.broker.management.history import INTERVAL, CounterHistory
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.views import (
    BrokerView,
    DestinationView,
    MastershipView,
    TransactionView,
)
from jdbcstore.errors import MessageNotFound, NotMaster
from jdbcstore.message.destination import Destination
from jdbcstore.util.checkup import Checkup
from jdbcstore.util.clock import Clock

_BEHIND = 0.1
_SILENCE_MS = 3_600_000
_LARGEST = 10
"""The most queues whose first messages are read."""


class WatchedSource(Protocol):
    """The views that a database can answer alone; they are also in :class:`Views`."""

    def broker(self) -> BrokerView: ...

    def lock(self) -> MastershipView: ...

    async def destinations(self) -> list[DestinationView]: ...

    async def with_ages(self, views: Sequence[DestinationView], /) -> list[DestinationView]: ...

    def dead_letter_queues(self) -> list[Destination]: ...

    async def transactions(self) -> list[TransactionView]: ...

    async def checkup(self) -> Checkup | None: ...


class BrokerWatch:
    """Monitor of one broker, or of a database.

    :param history: receives the samples
    :param folders: the folders whose disks are watched
    """

    def __init__(
        self, source: WatchedSource, history: CounterHistory, clock: Clock, folders: Iterable[Path] = ()
    ) -> None:
        self._source = source
        self._clock = clock
        self._folders = tuple(folders)
        self.history = history
        self._since: dict[str, int] = {}
        """The time when each alarm was first seen, by its key."""
        self._silenced: dict[str, int] = {}
        """The end of each silence, by the key of its alarm."""

    async def read(self) -> Watched:
        """Return the current input of alarms; only the role if the broker is not serving.

        :raises StoreError: the store cannot be read
        """
        source = self._source
        alone = Watched(
            broker=source.broker(),
            lock=source.lock(),
            now_ms=self._clock.now_ms(),
            folders=self._folders,
            history=self.history,
        )
        if not alone.broker.condition.serves:
            return alone
        views = await source.destinations()
        sizes = [view for view in views if view.size and not view.is_topic]
        largest = sorted(sizes, key=lambda view: -(view.size or 0))[:_LARGEST]
        stored = replace(
            alone,
            views=views,
            dead=source.dead_letter_queues(),
            largest=await source.with_ages(largest),
            in_doubt=await source.transactions(),
            checkup=await source.checkup(),
        )
        if not isinstance(source, Views):
            return stored
        return replace(
            stored,
            slow_clients=source.slow_clients(),
            failing_consumers=source.failing_consumers(),
            journal=await source.journal(),
            streams=await source.streams(),
        )

    async def alarms(self) -> list[Alarm]:
        """Return the alarms, the most severe first, the silenced ones last.

        :raises StoreError: the store cannot be read
        """
        return self.judged(await self.read())

    def judged(self, now: Watched) -> list[Alarm]:
        """Return the alarms of an input, as :meth:`alarms` does."""
        found, now_ms = [alarm.named() for alarm in alarms(now)], now.now_ms
        self._since = {alarm.key: self._since.get(alarm.key, now_ms) for alarm in found}
        silenced = {key: until for key, until in self._silenced.items() if until > now_ms}
        self._silenced = silenced
        found = [
            replace(
                alarm,
                since_ms=alarm.since_ms or self._since[alarm.key],
                silenced_until_ms=silenced.get(alarm.key),
            )
            for alarm in found
        ]
        return sorted(found, key=lambda alarm: alarm.silenced_until_ms is not None)

    def silence(self, actor: Actor, alarm: str) -> None:
        """Silence an alarm for an hour, unless it concerns other destinations then.

        :param alarm: its key
        :raises MessageNotFound: there is no such alarm
        :raises NotMaster: the broker is not serving
        """
        with audited(self._clock, actor, "silence", alarm=alarm):
            condition = self._source.broker().condition
            if not condition.serves:
                raise NotMaster(f"this broker is not serving: {condition}")
            if alarm not in self._since:
                raise MessageNotFound(f"there is no alarm {alarm!r}; list the alarms")
            self._silenced[alarm] = self._clock.now_ms() + _SILENCE_MS

    async def sampling(self, views: Views, _: object) -> AsyncIterator[None]:
        """Take samples of a broker's counters while an application runs."""
        task = asyncio.create_task(self._sample(views), name="jdbcstore-samples")
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _sample(self, views: Views) -> None:
        while True:
            self._observe(views)
            # A sample that slips into the next interval leaves a gap.
            await asyncio.sleep(INTERVAL - self._clock.monotonic() % INTERVAL + _BEHIND)

    def _observe(self, views: Views) -> None:
        try:
            views.look_at_consumers()
            tallies = views.tallies()
            total = views.broker(monotonic=True)
        except NotMaster:
            return
        size = sum(size for size, _ in tallies.values())
        self.history.add(self._clock.monotonic(), tallies, (size, total))
