from __future__ import annotations

import re

import pytest

from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination, DestinationKind
from tests.support.recordings import all_messages


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("ORDERS", DestinationKind.QUEUE, "ORDERS"),
        ("queue://ORDERS", DestinationKind.QUEUE, "ORDERS"),
        ("topic://PRICES", DestinationKind.TOPIC, "PRICES"),
        ("temp-queue://ID:x:1", DestinationKind.TEMPORARY_QUEUE, "ID:x:1"),
        ("temp-topic://ID:x:1", DestinationKind.TEMPORARY_TOPIC, "ID:x:1"),
        ("  topic:// A B ", DestinationKind.TOPIC, "A B"),
        ("queue://A?consumer.prefetchSize=1", DestinationKind.QUEUE, "A"),
        ("Zażółć.\U0001f600", DestinationKind.QUEUE, "Zażółć.\U0001f600"),
        ("FX.WILD.>", DestinationKind.QUEUE, "FX.WILD.>"),
        ("other://A", DestinationKind.QUEUE, "other://A"),
    ],
)
def test_parse(text: str, kind: DestinationKind, name: str) -> None:
    destination = Destination.parse(text)
    assert (destination.kind, destination.name) == (kind, name)


@pytest.mark.parametrize(
    ("text", "qualified"),
    [
        ("ORDERS", "queue://ORDERS"),
        ("queue://ORDERS", "queue://ORDERS"),
        ("/queue/ORDERS", "queue://ORDERS"),
        ("/topic/NEWS?consumer.priority=1", "topic://NEWS"),
        ("queue:///queue/ORDERS", "queue:///queue/ORDERS"),  # exactly this one, which other programs made
        ("queue://topic:NEWS", "queue://topic:NEWS"),
        ("a:b/c", "queue://a:b/c"),
        ("queue", "queue://queue"),
        ("/queue/A, topic://B", "A,topic://B"),
    ],
)
def test_named(text: str, qualified: str) -> None:
    assert str(Destination.named(text)) == qualified


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("topic:NEWS", "write topic://NEWS, or for a queue of this very name, queue://topic:NEWS"),
        ("queue:ORDERS", "write queue://ORDERS"),
        ("QUEUE://ORDERS", "write queue://ORDERS"),
        ("Temp-Topic://x", "write temp-topic://x"),
        ("/temp-queue/x", "write temp-queue://x"),
        ("/Topic/NEWS", "write topic://NEWS"),
        ("amqp://ORDERS", "write queue://ORDERS or topic://ORDERS"),
        ("A,topic:B", "write topic://B"),
        ("/queue/", "needs a name"),
    ],
)
def test_what_looks_like_a_kind_and_is_none_is_refused(text: str, advice: str) -> None:
    with pytest.raises(InvalidDestination, match=re.escape(advice)):
        Destination.named(text)


def test_a_bare_name_is_of_the_default_kind() -> None:
    assert Destination.parse("A", DestinationKind.TOPIC) == Destination.topic("A")
    assert Destination.parse("queue://A", DestinationKind.TOPIC) == Destination.queue("A")


@pytest.mark.parametrize("row", all_messages(), ids=lambda row: row.container)
def test_every_recorded_container_is_parsed_and_printed(row: object) -> None:
    container = row.container  # type: ignore[attr-defined]
    destination = Destination.parse(container)
    assert str(destination) == destination.qualified_name == container


def test_kinds() -> None:
    kinds = {kind: Destination(kind, "A") for kind in DestinationKind}
    assert [kind for kind, d in kinds.items() if d.is_topic] == ["topic", "temp-topic"]
    assert [kind for kind, d in kinds.items() if d.is_temporary] == ["temp-queue", "temp-topic"]
    assert [str(d) for d in kinds.values()] == ["queue://A", "topic://A", "temp-queue://A", "temp-topic://A"]


def test_a_kind_may_be_given_as_text() -> None:
    assert Destination("topic", "A") == Destination.topic("A")  # type: ignore[arg-type]
    assert Destination("topic", "A").kind is DestinationKind.TOPIC  # type: ignore[arg-type]


def test_composites() -> None:
    composite = Destination.parse("queue://A, topic://B,,A,C")
    assert composite.is_composite
    assert composite.qualified_name == "A, topic://B,,A,C"  # bare, as ActiveMQ stores it
    assert composite.members == (Destination.queue("A"), Destination.topic("B"), Destination.queue("C"))
    assert Destination.parse("A,queue://B", DestinationKind.TOPIC).members == (
        Destination.topic("A"),
        Destination.queue("B"),
    )
    assert Destination.queue("A").members == (Destination.queue("A"),)


def test_equality_and_hash() -> None:
    assert Destination.queue("A") == Destination.parse("queue://A")
    assert hash(Destination.queue("A")) == hash(Destination.parse("queue://A"))
    assert Destination.queue("A") != Destination.topic("A")
    assert Destination.queue("A,B") != Destination.topic("A,B")  # though both print as A,B
    assert Destination.queue("A") != "queue://A"
    assert len({Destination.queue("A"), Destination.queue("A"), Destination.topic("A")}) == 2


def test_is_frozen() -> None:
    destination = Destination.queue("A")
    with pytest.raises(AttributeError):
        destination.name = "B"  # type: ignore[misc]


@pytest.mark.parametrize(
    "name", ["", " ", "queue://", "topic:// ", "?a=b", "a\0b", "\ud800", ",", " , ", "A,queue://"]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidDestination):
        Destination.parse(name)


@pytest.mark.parametrize("name", ["", " A", "A ", "A?b=c", "A\t", "a\0b", "\udc00", ",,"])
def test_the_constructor_takes_names_as_they_are(name: str) -> None:
    with pytest.raises(InvalidDestination):
        Destination(DestinationKind.QUEUE, name)


@pytest.mark.parametrize("name", [None, 5, b"A"])
def test_names_are_texts(name: object) -> None:
    with pytest.raises(InvalidDestination, match="must be a str"):
        Destination.queue(name)  # type: ignore[arg-type]
    with pytest.raises(InvalidDestination, match="must be a str"):
        Destination(DestinationKind.QUEUE, name)  # type: ignore[arg-type]
