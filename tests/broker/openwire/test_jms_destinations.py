"""ActiveMQ's JMS client: message groups and virtual topics, which are the engine's for every protocol."""

from __future__ import annotations

import pytest

from tests.support.broker.openwire.jms import Jms, take

pytestmark = pytest.mark.backends("memory")


def test_a_group_stays_with_one_consumer(broker_url: str) -> None:
    with Jms(broker_url) as one, Jms(broker_url) as two:
        consumers = [one.consumer("Q"), two.consumer("Q")]
        one.send("Q", *(one.text(str(number), JMSXGroupID="g") for number in range(6)))
        first = take(consumers[0])
        assert first.getBooleanProperty("JMSXGroupFirstForConsumer")
        assert one.texts(consumers[0], 5) == ["1", "2", "3", "4", "5"]
        assert consumers[1].receiveNoWait() is None


def test_a_virtual_topic(broker_url: str) -> None:
    with Jms(broker_url) as client:
        consumers = [client.consumer(f"Consumer.{name}.VirtualTopic.T") for name in ("A", "B")]
        client.send("topic://VirtualTopic.T", "to each")
        for consumer in consumers:
            assert client.texts(consumer, 1) == ["to each"]
