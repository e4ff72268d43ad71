"""The search of a topic for expired messages of durable subscriptions without a consumer.

A consumer drops expired messages when it reaches them. Without a consumer they would stay in the store until
it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jdbcstore.abc import Page
from jdbcstore.broker.cursors.store import AllPages
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.queues.redelivery import Rejections
from jdbcstore.broker.topics.durable import StoredTopic, TopicState
from jdbcstore.config.policy import DiscardingDeadLetterStrategy


@dataclass(eq=False, repr=False)
class TopicExpiry:
    """The search of one topic.

    Each subscription is searched from its first message, page by page, as long as a page has expired
    messages. A subscription with a consumer is skipped.
    """

    _topic: StoredTopic

    async def search(self) -> None:
        """Search once."""
        store = self._topic.store
        if store is None or all(state.feed is not None for state in self._topic.durables.values()):
            return
        if await self._read(partial(store.recover_expired, 1)):
            for state in [*self._topic.durables.values()]:
                await self._search(state)

    async def _search(self, state: TopicState) -> None:
        topic, source = self._topic, state.offline(self._topic)
        rows, most = source.rows, topic.policy.max_expire_page_size
        if rows is None:
            return
        rejections = Rejections(topic.account, topic.dead_letters, source, rows)
        async for page in AllPages(self._read, rows.recover, most):
            if state.feed is not None or state.durable.is_ending:
                return
            now_ms = topic.account.loop.clock.now_ms()
            expired: list[Entry] = []
            unwanted: list[Entry] = []
            for message in page:
                sequence = message.sequence or 0
                if 0 < message.expiration_ms < now_ms and sequence not in state.in_flight:
                    entry = Entry(message, source, sequence, stored=True)
                    state.in_flight.sequences.add(sequence)
                    topic.memory.hold(entry)
                    (expired if state.durable.wants(message) else unwanted).append(entry)
            if not expired and not unwanted:
                return
            if unwanted:
                await topic.dead_letters.move(
                    *(source, DiscardingDeadLetterStrategy(), unwanted),
                    expired=True,
                    subscriber=rows.subscriber,
                )
            if expired:
                await rejections.move_expired(expired)

    async def _read(self, read: Callable[[], Page]) -> Page:
        loop = self._topic.account.loop
        async with loop.searching:
            return await loop.run(read)
