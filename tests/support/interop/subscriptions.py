"""One durable subscription, as each of the two brokers sees it."""

from __future__ import annotations

from jdbcstore.abc import DurableSubscription, Store
from jdbcstore.message.message import Body, Message
from tests.support.interop.activemq import Broker
from tests.support.interop.messages import text
from tests.support.interop.typed import Json

TOPIC = "topic://PRICES"
CLIENT, NAME = "client-1", "ticker"


def bodies(received: list[Json]) -> list[str]:
    return [message["body"]["v"] for message in received]


def send(broker: Broker, *texts: str, topic: str = TOPIC) -> None:
    broker.send(topic, [text(body) for body in texts])


def receive(broker: Broker, count: int, topic: str = TOPIC) -> list[str]:
    return bodies(broker.durable_receive(topic, CLIENT, NAME, count))


def everything_left(broker: Broker, topic: str = TOPIC) -> list[str]:
    """What the subscription still gets, found without waiting: all that comes before one more message."""
    broker.send(topic, [text("the end", priority=0)])
    left: list[str] = []
    while left[-1:] != ["the end"]:
        left += receive(broker, 1, topic)
    return left[:-1]


def add(store: Store, *texts: str, topic: str = TOPIC) -> None:
    store.topic(topic).add_messages(Message(body) for body in texts)


def subscription(store: Store, topic: str = TOPIC) -> DurableSubscription:
    return store.topic(topic).subscription(CLIENT, NAME)


def pending(subscribed: DurableSubscription) -> list[Body]:
    left = [message.body for message in subscribed.recover()]
    assert subscribed.message_count() == len(left)
    return left


def acknowledge(subscribed: DurableSubscription, *texts: str) -> None:
    subscribed.acknowledge(*(message for message in subscribed.recover() if message.body in texts))
