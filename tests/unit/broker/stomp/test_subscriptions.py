"""What the headers of a SUBSCRIBE ask for."""

from __future__ import annotations

import pytest

from jdbcstore import Destination
from jdbcstore.broker.api import SubscriptionRequest
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.broker.stomp.messages import DestinationNames
from jdbcstore.broker.stomp.subscriptions import AckMode, durable_name, subscription_request
from jdbcstore.errors import ProtocolError

TOPIC = {"destination": "/topic/T"}
DURABLE = {**TOPIC, "activemq.subscriptionName": "s"}


def request(
    headers: dict[str, str], version: Version = Version.V1_2, client_id: str | None = "me"
) -> SubscriptionRequest:
    headers = {"destination": "/queue/Q", **headers}
    return subscription_request(headers, DestinationNames("c"), version, "c", client_id)


def test_without_headers_nothing_is_special() -> None:
    found = request({})
    assert found == SubscriptionRequest(destination=Destination.queue("Q"), connection_id="c")


@pytest.mark.parametrize("name", ["retroactive", "noLocal", "exclusive"])
@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), (" TRUE ", True), ("false", False), ("", False)]
)
def test_flags(name: str, value: str, expected: bool) -> None:
    found = request({f"activemq.{name}": value})
    flags = {"retroactive": found.retroactive, "noLocal": found.no_local, "exclusive": found.exclusive}
    assert flags == {**dict.fromkeys(flags, False), name: expected}


@pytest.mark.parametrize(("asked", "expected"), [("0", 1), ("1", 1), ("7", 7), (str(2**31 - 1), 2**31 - 1)])
def test_a_prefetch_is_at_least_one(asked: str, expected: int) -> None:
    """A client of STOMP cannot pull."""
    assert request({"activemq.prefetchSize": asked}).prefetch == expected


@pytest.mark.parametrize("value", ["-128", "127"])
def test_a_priority_is_a_byte(value: str) -> None:
    assert request({"activemq.priority": value}).priority == int(value)


def test_strings_in_a_selector_are_converted() -> None:
    assert request({"selector": "a = 1"}).selector == "convert_string_expressions:a = 1"


def test_only_a_durable_subscription_has_the_client_id() -> None:
    assert (request(TOPIC).client_id, request(TOPIC).subscription_name) == (None, None)
    assert (request(DURABLE).client_id, request(DURABLE).subscription_name) == ("me", "s")
    assert durable_name({"durable-subscriber-name": "a", "activemq.subscriptionName": "b"}) == "b"


@pytest.mark.parametrize(
    ("headers", "version", "client_id", "words"),
    [
        ({"activemq.subscriptionName": "s"}, Version.V1_2, "me", "cannot durably subscribe to a Queue"),
        (DURABLE, Version.V1_2, None, "set client-id in CONNECT"),
        ({"browser": "true"}, Version.V1_0, "me", "Browsers need STOMP 1.1 or 1.2"),
        ({**TOPIC, "browser": "true"}, Version.V1_1, "me", "only queues can be browsed"),
        ({"activemq.prefetchSize": "-1"}, Version.V1_2, "me", "prefetchSize"),
        ({"activemq.prefetchSize": str(2**31)}, Version.V1_2, "me", "prefetchSize"),
        ({"activemq.priority": "-129"}, Version.V1_2, "me", "priority"),
        ({"activemq.priority": "128"}, Version.V1_2, "me", "priority"),
    ],
)
def test_what_cannot_be_subscribed(
    headers: dict[str, str], version: Version, client_id: str | None, words: str
) -> None:
    with pytest.raises(ProtocolError, match=words):
        request(headers, version, client_id)


def test_a_browser_of_a_queue() -> None:
    assert request({"browser": "true"}, Version.V1_1).browser


def test_an_unknown_way_to_acknowledge_is_auto() -> None:
    assert AckMode("some") is AckMode.AUTO
