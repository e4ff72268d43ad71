"""Operations on durable subscriptions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from jdbcstore.abc import Store
from jdbcstore.broker.api import SubscriptionRequest
from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.holds import Collector
from jdbcstore.broker.management.master import CONNECTION
from jdbcstore.broker.management.runs import OperationRuns
from jdbcstore.broker.management.views import SubscribedView
from jdbcstore.broker.operations import OperationOutcome
from jdbcstore.broker.topics.durable import Durable
from jdbcstore.errors import InvalidDestination, SubscriptionExists, SubscriptionNotFound
from jdbcstore.message.destination import Destination


class SubscriptionOperations:
    """Operations on durable subscriptions without consumers."""

    def __init__(self, *, audit: Audit, runs: OperationRuns) -> None:
        self._audit = audit
        self._runs = runs

    async def subscribe(
        self,
        actor: Actor,
        client_id: str,
        name: str,
        *,
        topic: Destination,
        selector: str | None = None,
        retroactive: bool = False,
    ) -> SubscribedView:
        """Create a durable subscription, unless it exists.

        :param retroactive: whether a new subscription begins at the first message that is still stored
        :raises InvalidDestination: it is not one topic, or the store cannot hold its name
        :raises InvalidSelector: the selector is invalid
        :raises InvalidSubscription: the store cannot hold its names, or durable subscriptions are rejected
        :raises SubscriptionExists: it exists with another selector or topic
        """
        details = {"client_id": client_id, "subscription": name, "selector": selector}
        with self._audit.operation(actor, "subscribe", destination=str(topic), **details) as (engine, _):
            if not topic.is_topic or topic.is_composite or topic.is_temporary:
                raise InvalidDestination(f"{topic} is a pattern or temporary; name one topic")
            key, wanted = (client_id, name), (topic, selector or None)
            durable = next((durable for durable in engine.durables if durable.key == key), None)
            if durable is None:
                request = SubscriptionRequest(
                    destination=topic,
                    connection_id=CONNECTION,
                    prefetch=0,
                    selector=selector,
                    client_id=client_id,
                    subscription_name=name,
                    retroactive=retroactive,
                )
                (await engine.subscribe(request, Collector(0))).close()
                durable = engine.durables.unused(*key)
            elif (durable.destination, durable.selector) != wanted:
                raise SubscriptionExists(
                    f"{name} of {client_id} subscribes to {durable.destination}"
                    f" {'without a selector' if durable.selector is None else f'with {durable.selector!r}'};"
                    " delete it first"
                )
            pending = await engine.loop.run(partial(pending_messages, engine.store, durable))
            return SubscribedView(pending=pending)

    async def unsubscribe(self, actor: Actor, client_id: str, name: str) -> None:
        """Delete a durable subscription without a consumer.

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        names = {"client_id": client_id, "subscription": name}
        with self._audit.operation(actor, "destroy_subscription", **names) as (engine, _):
            await engine.unsubscribe(client_id, name)

    async def purge(self, actor: Actor, client_id: str, name: str) -> OperationOutcome:
        """Remove the pending messages of a durable subscription without a consumer.

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        :raises StoreError: some messages could not be removed
        """
        names = {"client_id": client_id, "subscription": name}
        with self._audit.operation(actor, "purge_subscription", **names) as (engine, line):
            of = engine.durables.unused(client_id, name).destination
            with self._runs.run(actor, "purge_subscription", of, None) as run:
                line["count"] = await engine.durables.purge(client_id, name, goes_on=run.advance)
        return OperationOutcome(count=run.count, is_stopped=run.is_stopped)


def pending_messages(store: Store, durable: Durable, topics: Sequence[Destination] | None = None) -> int:
    """Count the pending messages of a durable subscription, of all its topics or of some; called in a
    thread."""
    count = 0
    for topic in topics or [*durable.topics]:
        with contextlib.suppress(SubscriptionNotFound):
            count += store.topic(topic).subscription(*durable.key).message_count()
    return count
