"""Operations on queues and topics: create, delete, send, purge, and reset their counters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.baselines import Baselines
from jdbcstore.broker.management.master import CONNECTION, existing
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.queues import QueueOperations
from jdbcstore.broker.management.runs import OperationRuns
from jdbcstore.broker.management.subscriptions import pending_messages
from jdbcstore.broker.operations import OperationOutcome
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.errors import InvalidDestination, SubscriptionInUse, SubscriptionNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

_PATIENCE = 60.0
"""Seconds for which a send may wait for room."""


class DestinationOperations:
    """Operations on one queue or topic as a whole."""

    def __init__(
        self, *, audit: Audit, baselines: Baselines, queues: QueueOperations, runs: OperationRuns
    ) -> None:
        self._audit = audit
        self._runs = runs
        self._baselines = baselines
        self._queues = queues

    async def create(self, actor: Actor, destination: Destination) -> None:
        """Create a queue or topic, which is removed again after a minute without messages and clients.

        :raises InvalidDestination: the name is invalid, or names several destinations
        """
        with self._audit.operation(actor, "create", destination=str(destination)) as (engine, _):
            if destination.is_composite:
                raise InvalidDestination(f"{destination} names several destinations; create each")
            engine.destinations.find(destination)

    async def delete(
        self, actor: Actor, destination: Destination, *, keep_subscriptions: bool = False
    ) -> OperationOutcome:
        """Remove a queue or topic without consumers, with its messages and durable subscriptions.

        Nothing is changed if it has consumers. Otherwise every message that had arrived is removed, and not
        delivered to a consumer that connects meanwhile. If producers continue to send, messages that arrive
        before some moment of the call are removed too; later messages go to a new destination of the same
        name, without delaying the deletion. For a queue these are counted in ``left``, with the messages of
        open transactions.

        An administrator may stop the deletion; the destination then stays with the rest of its messages.

        :param keep_subscriptions: the durable subscriptions of a topic stay, without messages, as in ActiveMQ
        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it has consumers
        :raises StoreError: some messages could not be deleted, and stays
        :raises SubscriptionInUse: a durable subscription of the topic is in use
        """
        with self._audit.operation(actor, "delete", destination=str(destination)) as (engine, line):
            deleted = existing(engine, destination)
            if deleted.has_consumers:
                raise InvalidDestination(f"{destination} has consumers; close them first")
            size = deleted.size or 0 if isinstance(deleted, Queue) else None
            with self._runs.run(actor, "delete", destination, size) as run:
                count, left = await engine.deletion.delete(
                    deleted, keep_subscriptions=keep_subscriptions, goes_on=run.advance
                )
                line["count"] = count
                run.leave(left)
        return OperationOutcome(count=count, left=left, is_stopped=run.is_stopped)

    def reset(self, actor: Actor, destination: Destination) -> None:
        """Reset the counters of a queue or topic in views.

        Metrics are not reset, because Prometheus computes differences.

        :raises DestinationNotFound: it does not exist
        """
        with self._audit.operation(actor, "reset_counters", destination=str(destination)) as (engine, _):
            self._baselines.reset(existing(engine, destination))

    def reset_all(self, actor: Actor) -> None:
        """Reset all counters in views."""
        with self._audit.operation(actor, "reset_counters") as (engine, _):
            self._baselines.reset_all(engine)

    async def send(
        self, actor: Actor, destination: Destination, messages: Sequence[Message]
    ) -> OperationOutcome:
        """Send messages to a destination, as a client does.

        Persistent messages are durable when this returns.

        :raises StoreError: some of them were not sent
        """
        with self._audit.operation(actor, "send", destination=str(destination)) as (engine, line):
            addressed = [message.replace(destination=destination) for message in messages]
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(*[engine.send(message, CONNECTION) for message in addressed])
            line["count"] = len(messages)
        return OperationOutcome(count=len(messages))

    async def purge(
        self, actor: Actor, destination: Destination, *, expired: bool = False
    ) -> OperationOutcome:
        """Remove all messages of a queue except unacknowledged ones, or of a topic's durable subscriptions.

        Subscriptions with a consumer are not changed; their messages are counted in ``left``.

        :param expired: whether to remove only expired messages of a queue
        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic, and ``expired``
        :raises StoreError: some of them could not be removed, and stay
        """
        if not destination.is_topic:
            return await self._queues.remove(actor, destination, MessageChoice(expired=expired), name="purge")
        left = 0
        with self._audit.operation(actor, "purge", destination=str(destination)) as (engine, line):
            existing(engine, destination)
            if expired:
                raise InvalidDestination(
                    f"{destination} is a topic; only queues can be searched for expired messages"
                )
            durables = [durable for durable in engine.durables if destination in durable.topics]
            with self._runs.run(actor, "purge", destination, None) as run:
                for durable in durables:
                    if run.is_stopped:
                        break
                    try:
                        await engine.durables.purge(*durable.key, destination, goes_on=run.advance)
                    except SubscriptionInUse:
                        left += await engine.loop.run(
                            partial(pending_messages, engine.store, durable, [destination])
                        )
                    except SubscriptionNotFound:
                        continue
                run.leave(left)
                line["count"] = run.count
        return OperationOutcome(count=run.count, left=left, is_stopped=run.is_stopped)
