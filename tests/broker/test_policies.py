"""The policy of a destination. For patterns see tests/unit/message/test_patterns.py."""

from __future__ import annotations

import pytest

from jdbcstore.broker.policies import Policies
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination, DestinationKind

ALL_QUEUES = PolicyEntry(queue=">", queue_prefetch=1)
ORDERS = PolicyEntry(queue="ORDERS.>", queue_prefetch=2)
NEW = PolicyEntry(queue="ORDERS.NEW, BILLS", queue_prefetch=3)
ALL_TOPICS = PolicyEntry(topic=">", topic_prefetch=4)
OTHERS = PolicyEntry(queue_prefetch=5)


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("queue://ORDERS.NEW", NEW),
        ("queue://BILLS", NEW),
        ("queue://ORDERS.OLD", ORDERS),
        ("queue://ORDERS", ORDERS),
        ("queue://PRICES", ALL_QUEUES),
        ("topic://ORDERS.NEW", ALL_TOPICS),
        ("temp-queue://ORDERS.NEW", OTHERS),
    ],
)
def test_the_entry_of_a_destination(name: str, entry: PolicyEntry) -> None:
    policies = Policies([ALL_QUEUES, OTHERS, ORDERS, ALL_TOPICS, NEW])

    assert policies.of(Destination.parse(name)) is entry


def test_without_an_entry_the_defaults_hold() -> None:
    assert Policies([ORDERS]).of(Destination.queue("PRICES")) == PolicyEntry()
    assert Policies().of(Destination(DestinationKind.TEMPORARY_TOPIC, "X")) == PolicyEntry()


@pytest.mark.parametrize("name", ["", " ", "A\0B", " , "])
def test_a_policy_for_no_destination_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="topic is not a destination") as caught:
        PolicyEntry(topic=name)
    assert caught.value.option == "topic"
