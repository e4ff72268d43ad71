"""Earlier messages of a topic that a program finds for new subscribers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from jdbcstore import Destination, Message, Store
from jdbcstore.broker.policies import Policies
from jdbcstore.config.policy import PolicyEntry, QueryBasedSubscriptionRecoveryPolicy
from jdbcstore.errors import ConfigurationError
from tests.support.broker.stomp.serving import Client, Served


class Yesterday:
    """Finds two messages, and lets only even ones through."""

    def execute(self, topic: Destination) -> Iterable[Message]:
        return [Message(f"{topic.name} {number}") for number in ("first", "second")]

    def validate_update(self, message: Message) -> bool:
        return int(str(message.body)) % 2 == 0


def policy(query: str) -> PolicyEntry:
    recovery = QueryBasedSubscriptionRecoveryPolicy(query=query)
    return PolicyEntry(topic="NEWS.>", subscription_recovery_policy=recovery)


def test_a_new_subscriber_gets_what_the_query_finds(store: Store) -> None:
    entry = policy(f"{__name__}:Yesterday")
    with (
        Served(store, entry) as served,
        Client(served.port) as client,
        Client(served.port) as other,
        Client(served.port) as producer,
    ):
        other.subscribe("/topic/NEWS.A")
        client.subscribe("/topic/NEWS.A", activemq__retroactive="true")
        assert [frame.body for frame in client.messages(2)] == [b"NEWS.A first", b"NEWS.A second"]
        for number in range(4):
            producer.send("/topic/NEWS.A", str(number))
        assert [frame.body for frame in other.messages(2)] == [b"0", b"2"]


@pytest.mark.parametrize("query", ["no.such:Query", "json:loads", "datetime:date"])
def test_a_query_that_is_not_one(query: str) -> None:
    with pytest.raises(ConfigurationError, match="query"):
        Policies([policy(query)])
    with pytest.raises(ConfigurationError, match=r"give package\.module:Class"):
        QueryBasedSubscriptionRecoveryPolicy()
