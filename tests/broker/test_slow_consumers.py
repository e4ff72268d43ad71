"""Consumers that are too slow by a rate; tests/interop has those that are ended."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from jdbcstore.config.policy import PolicyEntry, SlowConsumerRateStrategy
from jdbcstore.testing.polling import wait_until
from tests.support.broker.stomp.serving import Client, Served

pytestmark = pytest.mark.backends("memory")


def test_a_slow_consumer_that_stays_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    strategy = SlowConsumerRateStrategy(threshold=2.0, check_period=0.05)
    with (
        Served(store, PolicyEntry(slow_consumer_strategy=strategy)) as served,
        Client(served.port) as client,
        Client(served.port) as sender,
    ):
        for number, name in enumerate(("/queue/IDLE", "/queue/Q", "/topic/T")):
            client.subscribe(name, str(number), ack="client")
        for name in ("/queue/Q", "/topic/T"):
            for text in "abc":
                sender.send(name, text)
        client.messages(6)
        for name in ("queue://Q", "topic://T"):
            wait_until(lambda name=name: f"a consumer of {name} is slow" in caplog.text)  # type: ignore[misc]
        assert "queue://IDLE is slow" not in caplog.text
        sender.send("/queue/Q", "d")
        assert client.expect("MESSAGE").body == b"d"
