"""The registry of destinations: queues and topics, created at their first use, and their subscriptions.

A destination is forgotten when it is empty and idle, and created again at its next use, so clients may use
any number of names. All state that outlives the broker is in the store.
"""

from __future__ import annotations

import asyncio
from asyncio import Future, TimerHandle
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from jdbcstore.broker.counters import Counters
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.memory import Account, Resources
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.queues.dead_letters import DeadLetters, DiscardedDeadLetters
from jdbcstore.broker.queues.moves import Moves
from jdbcstore.broker.queues.pauses import Pauses
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.registry import DurableRegistry
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.broker.virtual import VirtualDestinations
from jdbcstore.config.plugins import DiscardingDeadLettersConfig
from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.jobs import JOBS
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern, is_wildcard

_IDLE_PERIOD = 30.0
"""Seconds after which an idle destination is forgotten."""


class DestinationRegistry(Mapping[Destination, Queue | Topic]):
    """The current queues and topics, by name. Every method is called on the loop.

    :param directory: is notified of created and forgotten destinations, except temporary ones
    :param pauses: the paused queues; a deletion removes its queue from here
    """

    def __init__(
        self,
        resources: Resources,
        outbox: Outbox,
        moves: Moves,
        policies: Policies,
        directory: Directory,
        pauses: Pauses,
        options: EngineOptions,
    ) -> None:
        self.by_name: dict[Destination, Queue | Topic] = {}
        """The queues and topics by destination, for a lookup with each message."""
        self.forgotten = Counters()
        """The sum of the counters of forgotten destinations."""
        self.pauses = pauses
        self.last_sequence = 0
        """The last sequence in the store when the broker started."""
        self._loop, self._store = resources.loop, outbox.store
        self._resources, self._outbox = resources, outbox
        self._policies = policies
        self._directory = directory
        self._options = options
        self.subscriptions: dict[BaseSubscription, list[DestinationPattern]] = {}
        """The subscriptions with a consumer, including browsers, and the patterns of their destinations."""
        self._recording: dict[Destination, Future[None]] = {}
        """The queues of virtual topics that the store has recorded, or is recording."""
        self.virtual = VirtualDestinations(
            options.virtual_topics, options.composite_destinations, self._is_wanted_in
        )
        self._declared: set[Destination] = set()
        """The declared destinations, which always exist."""
        discarding = [plugin for plugin in options.plugins if isinstance(plugin, DiscardingDeadLettersConfig)]
        self._dead_letters = DeadLetters(
            *(self._loop, moves, self.find, policies.of, options.audited, resources.events),
            resources.attempts,
            DiscardedDeadLetters(discarding),
        )
        self.durables = DurableRegistry(resources, outbox, policies.of, self._topics, directory)
        self._idle_timer: TimerHandle | None = None

    def __getitem__(self, name: Destination) -> Queue | Topic:
        return self.by_name[name]

    def __iter__(self) -> Iterator[Destination]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    # From start to stop

    async def load(self, names: Iterable[Destination], last_sequence: int, *, is_counted: bool) -> None:
        """Create the stored destinations and durable subscriptions.

        :param last_sequence: the last sequence in the store: messages up to it may have been delivered before
        :param is_counted: whether the stored messages of each queue are counted
        :raises StoreError: the store cannot be read
        """
        self.last_sequence = last_sequence
        await self.pauses.load()
        await self.durables.load(names, last_sequence)
        for name in names:
            if name != JOBS and not (name.is_topic and is_wildcard(name)):
                self._make(name, is_empty=False)
        for name in [queue for queue in self.pauses if not (queue in self.by_name or queue.is_temporary)]:
            self._make(name, is_empty=True)
        if is_counted:
            queues = [queue for queue in self.by_name.values() if isinstance(queue, Queue)]
            stores = [queue.store for queue in queues]
            counts = await self._loop.run(lambda: [store.message_count() if store else 0 for store in stores])
            for queue, count in zip(queues, counts, strict=True):
                queue.set_stored_before(count)
        self._look_for_idle_later()

    async def stop(self) -> None:
        """Close all subscriptions, and wait until the queues of virtual topics are recorded."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for subscription in list(self.subscriptions):
            subscription.close()
        await asyncio.gather(*self._recording.values(), return_exceptions=True)

    def close(self) -> None:
        """Forget the content of memory; stored messages stay stored."""
        for destination in self.by_name.values():
            destination.close()

    def declare(self, names: Iterable[Destination]) -> None:
        """Create declared destinations, which are never forgotten."""
        for name in names:
            self._declared.add(name)
            if name not in self.by_name:
                self._make(name, is_empty=True)

    # Destinations

    def find(self, name: Destination) -> Queue | Topic:
        """Return the queue or topic of this name, and create it if it is new.

        :raises InvalidDestination: the name has wildcards, or the store cannot hold it
        """
        destination = self.by_name.get(name)
        if destination is None:
            self.check_name(name)
            self._check_may_make(name)
            destination = self._make(name, is_empty=True)
            for subscription, patterns in self.subscriptions.items():
                if any(pattern.matches(name) for pattern in patterns):
                    destination.add(subscription)
        return destination

    def _check_may_make(self, name: Destination) -> None:
        """Raise if a policy does not allow another destination.

        :raises InvalidDestination: the maximum is reached, or clients may not create destinations
        """
        policy = self._policies.of(name)
        if not policy.auto_create and not name.is_temporary:
            text = f"{name} does not exist, and its policy has auto_create off"
            raise InvalidDestination(
                f"{text}: use another name, or ask the administrator to add it to destinations"
            )
        most = policy.max_destinations
        if most is None:
            return
        where = policy.destination
        patterns = [] if where is None else [DestinationPattern(member) for member in where.members]
        there = sum(
            other.kind is name.kind and (not patterns or any(pattern.matches(other) for pattern in patterns))
            for other in self.by_name
        )
        if there >= most:
            of_policy = "of other policies" if where is None else f"for {where}"
            text = f"{name} cannot be created: there are {there} destinations {of_policy}, and"
            raise InvalidDestination(
                f"{text} max_destinations is {most}; delete one, or ask the administrator to raise it"
            )

    def check_name(self, name: Destination) -> None:
        """Raise unless messages can be sent to a destination; it is not created.

        :raises InvalidDestination: it has wildcards, or the store cannot hold its name
        """
        if name == JOBS:
            raise InvalidDestination(f"{JOBS} is reserved for scheduled messages; use another queue")
        if is_wildcard(name):
            raise InvalidDestination(f"{name} has wildcards; send to a name without them")
        if not name.is_temporary:
            open_in_store = self._store.topic if name.is_topic else self._store.queue
            open_in_store(name, prioritized=self._policies.of(name).prioritized_messages)

    def _make(self, name: Destination, *, is_empty: bool) -> Queue | Topic:
        """Create a queue or topic; ``is_empty`` if the store has no messages of it."""
        destination: Queue | Topic
        policy = self._policies.of(name)
        account = Account(self._resources, name, policy)
        is_scheduled = self._options.scheduler_support
        is_rerouted = is_scheduled or self.virtual.apply_to(name) or policy.changes_expiration
        if name.is_topic:
            destination = Topic(account, self._outbox, self.find, self._dead_letters, is_rerouted=is_rerouted)
            self.durables.introduce(destination)
        else:
            destination = Queue(
                account=account,
                outbox=self._outbox,
                find=self.find,
                dead_letters=self._dead_letters,
                last_sequence=self.last_sequence,
                is_concurrent=self._options.concurrent_store_and_dispatch_queues,
                is_empty=is_empty,
                is_rerouted=is_rerouted,
            )
            if name in self.pauses:
                destination.pause()
            if self.virtual.copies_to(name):
                self.virtual.introduce(name)
                self.record(name)
        self.by_name[name] = destination
        if not name.is_temporary:
            self._directory.add(name)
        return destination

    def _topics(self) -> list[Topic]:
        return [topic for topic in self.by_name.values() if isinstance(topic, Topic)]

    def forget_idle(self) -> None:
        """Forget destinations that are not paused, and have been empty and unused since the last call."""
        for name, destination in [*self.by_name.items()]:
            is_needed = self.virtual.copies_to(name) or name in self.pauses or name in self._declared
            if not is_needed and destination.is_idle():
                self._forget(destination)

    def _look_for_idle_later(self) -> None:
        self._idle_timer = self._loop.call_later(_IDLE_PERIOD, self._look_for_idle)

    def _look_for_idle(self) -> None:
        self.forget_idle()
        self._look_for_idle_later()

    def _forget(self, destination: Queue | Topic) -> None:
        name = destination.destination
        self.forgotten.add(destination.counters)
        del self.by_name[name]
        self.virtual.forget(name)
        destination.close()
        if not name.is_temporary:
            self._directory.remove(name)

    def end_temporary(self, name: Destination) -> None:
        """Drop a temporary destination with its messages; do nothing if it was not used."""
        destination = self.by_name.pop(name, None)
        if destination is not None:
            self.forgotten.add(destination.counters)
            destination.close()
            destination.memory.decrease(destination.memory.used)  # also of returned messages

    # Virtual topics

    def record(self, name: Destination) -> Future[None]:
        """Record a queue of a virtual topic in the store, so that it exists even if it is empty."""
        recording = self._recording.get(name)
        if recording is None:
            recording = self._recording[name] = self._loop.run(partial(self._store.record_queue, name))
            recording.add_done_callback(partial(self._recorded, name))
        return recording

    def _recorded(self, name: Destination, recording: Future[None]) -> None:
        if recording.cancelled() or recording.exception() is not None:
            del self._recording[name]  # the next consumer tries again

    def make_of_pattern(self, name: Destination) -> None:
        """Create a queue whose name has wildcards, if it is the first of these virtual topics.

        As in ActiveMQ, the first consumer of several virtual topics together has a queue of that name.
        """
        pattern = DestinationPattern(name)
        if self.virtual.copies_to(name) and not any(
            pattern.overlaps(DestinationPattern(existing)) for existing in self.by_name
        ):
            self._make(name, is_empty=True)

    def _is_wanted_in(self, name: Destination, message: Message) -> bool:
        queue = self.by_name.get(name)
        return isinstance(queue, Queue) and any(consumer.wants(message) for consumer in queue.consumers)

    # Subscriptions

    def attach(self, subscription: BaseSubscription) -> None:
        """Attach a subscription to its destinations, including later ones that match.

        :raises InvalidDestination: the store cannot hold a name
        """
        names = subscription.request.destination.members
        patterns = [DestinationPattern(name) for name in names if is_wildcard(name)]
        self.subscriptions[subscription] = patterns
        destinations = {self.find(name) for name in names if not is_wildcard(name)}
        if patterns:
            destinations.update(
                destination
                for name, destination in self.by_name.items()
                if any(pattern.matches(name) for pattern in patterns)
            )
        for destination in destinations:
            destination.add(subscription)

    def detach(self, subscription: BaseSubscription) -> None:
        """Forget a closed subscription."""
        self.subscriptions.pop(subscription, None)

    # Administration

    async def count(self, queue: Queue) -> int:
        """Count the messages of a queue of unknown size; the size is known from now on.

        It is exact if the queue is not written meanwhile.

        :raises StoreError: the store cannot be read
        """
        counters = queue.counters
        await self._loop.run(self._store.last_sequence)  # after the current reads
        known = counters.enqueued - counters.dequeued
        counted = 0 if queue.store is None else await self._loop.run(queue.store.message_count)
        queue.set_stored_before(counted - known)
        return max(counted + counters.enqueued - counters.dequeued - known, 0)

    async def forget_drained(self, destination: Queue | Topic) -> bool:
        """Forget a destination if it has no consumer and no message; return whether it had none.

        :raises StoreError: the record of a queue of a virtual topic could not be removed
        """
        name = destination.destination
        if not self._can_forget(destination):
            return False
        if self.virtual.copies_to(name):
            await self._loop.run(partial(self._store.drop_record, name))
            self._recording.pop(name, None)
            if not self._can_forget(destination):  # it is in use again
                await self.record(name)
                return False
        self._forget(destination)
        return True

    def _can_forget(self, destination: Queue | Topic) -> bool:
        return self.is_current(destination) and not destination.has_consumers and destination.is_drained

    def is_current(self, destination: Queue | Topic) -> bool:
        """Return whether a destination is still registered."""
        return self.by_name.get(destination.destination) is destination
