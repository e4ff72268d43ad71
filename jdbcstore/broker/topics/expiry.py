"""The search of a topic for expired messages of durable subscriptions without a consumer.

A consumer drops expired messages as it comes to them. Without one they would stay in the store until it comes
back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jdbcstore.abc import Page
from jdbcstore.broker.cursors.store import AllPages
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.memory import Resources
from jdbcstore.broker.queues.dead_letters import DeadLetters
from jdbcstore.broker.queues.redelivery import Rejections
from jdbcstore.broker.topics.durable import StoredTopic, TopicState
from jdbcstore.config.policy import DiscardingDeadLetterStrategy


@dataclass(eq=False, repr=False)
class TopicExpiry:
    """The search of one topic.

    Each subscription is searched from its first message, page by page, as long as a page has expired ones. A
    subscription with a consumer is left to that.
    """

    _resources: Resources
    _topic: StoredTopic
    _dead_letters: DeadLetters

    async def search(self) -> None:
        """Search once."""
        store = self._topic.store
        if store is None or all(state.feed is not None for state in self._topic.durables.values()):
            return
        if await self._read(partial(store.recover_expired, 1)):
            for state in [*self._topic.durables.values()]:
                await self._search(state)

    async def _search(self, state: TopicState) -> None:
        topic, source = self._topic, state.offline(self._topic, self._resources)
        rejections = Rejections(
            loop=self._resources.loop,
            dead_letters=self._dead_letters,
            source=source,
            store=topic.store,
            memory=topic.memory,
            policy=topic.policy,
            subscriber=":".join(state.durable.key),
        )
        rows, most = source.rows, topic.policy.max_expire_page_size
        if rows is None:
            return
        async for page in AllPages(self._read, rows.recover, most):
            if state.feed is not None or state.durable.is_ending:
                return
            now_ms = self._resources.loop.clock.now_ms()
            expired: list[Entry] = []
            unwanted: list[Entry] = []
            for message in page:
                sequence = message.sequence or 0
                if 0 < message.expiration_ms < now_ms and sequence not in state.in_flight:
                    entry = Entry(message, source, sequence, stored=True)
                    state.in_flight.add(sequence)
                    topic.memory.hold(entry)
                    (expired if state.durable.wants(message) else unwanted).append(entry)
            if not expired and not unwanted:
                return
            if unwanted:
                drop, key = DiscardingDeadLetterStrategy(), ":".join(state.durable.key)
                await self._dead_letters.move(source, drop, unwanted, expired=True, subscriber=key)
            if expired:
                await rejections.move_expired(expired)

    async def _read(self, read: Callable[[], Page]) -> Page:
        loop = self._resources.loop
        async with loop.searching:
            return await loop.run(read)
