"""Subscribing: making the subscription for a client's request, to queues, to topics, or durable."""

from __future__ import annotations

import asyncio
from asyncio import Future
from typing import cast

from jdbcstore.broker.api import Consumer, Subscription, SubscriptionRequest
from jdbcstore.broker.destinations import DestinationRegistry
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.memory import Resources
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.routing import members_of
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.temporary import TemporaryDestinations
from jdbcstore.broker.topics.subscriber import TopicSubscriber
from jdbcstore.errors import InvalidDestination, InvalidSubscription, StoreError
from jdbcstore.message.patterns import is_wildcard


class ConsumerSubscriptions:
    """Makes the subscriptions of consumers, and lists them in the directory until they are closed."""

    def __init__(
        self,
        resources: Resources,
        outbox: Outbox,
        policies: Policies,
        destinations: DestinationRegistry,
        temporary: TemporaryDestinations,
        directory: Directory,
        options: EngineOptions,
    ) -> None:
        self._loop, self._resources = resources.loop, resources
        self._outbox = outbox
        self._store = outbox.store
        self._policies = policies
        self._destinations = destinations
        self._temporary = temporary
        self._directory = directory
        self._refuses_durables = options.reject_durables

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        """Subscribe, see :meth:`jdbcstore.broker.api.Broker.subscribe`."""
        try:
            members = members_of(request.destination)
            if len({member.is_topic for member in members}) > 1:
                raise InvalidDestination(f"{request.destination} has queues and topics; subscribe to each")
            if request.subscription_name is not None and self._refuses_durables:
                raise InvalidSubscription("Durable Consumers are not allowed; use a plain subscriber")
            self._temporary.own(members, request.connection_id)
        except StoreError as error:
            return self._loop.failed(error)
        subscribed = self._loop.create_task(self._subscribe(request, consumer))
        # The first of its callbacks, so that nothing is delivered before the others have run.
        subscribed.add_done_callback(self._begin_soon)
        return subscribed

    async def _subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Subscription:
        subscription: BaseSubscription
        if not request.destination.members[0].is_topic:
            if request.browser:
                await self._outbox.written()  # a client sees messages that it has sent and committed before
            subscription = self._of_queues(request, consumer)
            for member in request.destination.members:
                if member in self._destinations.by_name and self._destinations.virtual.copies_to(member):
                    await asyncio.shield(self._destinations.record(member))
        elif request.subscription_name is None:
            subscription = self._of_topics(request, consumer)
        else:
            subscription = await self._destinations.durables.subscribe(request, consumer, self._closed)
        self._destinations.attach(subscription)
        self._directory.add(request)
        return subscription

    def _closed(self, subscription: BaseSubscription) -> None:
        self._destinations.detach(subscription)
        self._directory.remove(subscription.request)

    def _begin_soon(self, subscribed: Future[Subscription]) -> None:
        if not subscribed.cancelled() and subscribed.exception() is None:
            self._loop.call_soon(cast(BaseSubscription, subscribed.result()).begin)

    def _of_topics(self, request: SubscriptionRequest, consumer: Consumer) -> BaseSubscription:
        name, memory = request.destination, self._resources.memory
        policy = self._policies.of(name.members[0])
        if not name.is_composite and not is_wildcard(name):
            memory = self._destinations.find(name).memory
        return TopicSubscriber(
            self._resources, request, consumer, policy.topic_prefetch, policy, memory, on_close=self._closed
        )

    def _of_queues(self, request: SubscriptionRequest, consumer: Consumer) -> BaseSubscription:
        for member in request.destination.members:
            if not is_wildcard(member):
                self._destinations.find(member)
            elif not request.browser:
                self._destinations.make_of_pattern(member)
        policy, resources = self._policies.of(request.destination), self._resources
        if not request.browser:
            return BaseSubscription(
                resources, request, consumer, policy.queue_prefetch, on_close=self._closed
            )
        return Browser(
            resources,
            request,
            consumer,
            policy.queue_browser_prefetch,
            self._store,
            policy.max_browse_page_size,
            self._destinations.last_sequence,
            on_close=self._closed,
        )
