"""Topics: plain, durable and retroactive subscribers."""

from __future__ import annotations

import pytest

from tests.interop.behaviours.conftest import Connect, OpenWire, RunningBroker
from tests.support.interop.behaviours.brokers import REMEMBERED
from tests.support.interop.behaviours.conversation import Conversation, Refused

PERSISTENT = {"persistent": "true"}


def test_all_subscribers_get_all(connect: Connect, topic: str) -> None:
    sessions = [connect(), connect("1.1"), connect("1.0")]
    for session in sessions:
        session.subscribe(topic)
        session.settle()
    for body in ("1", "2"):
        sessions[0].send(topic, body, {"persistent": str(body == "1").lower()})
    assert [session.bodies(2) for session in sessions] == [["1", "2"]] * 3


def test_nothing_is_kept_for_later_ones(connect: Connect, topic: str) -> None:
    session = connect()
    session.send(topic, "before", PERSISTENT)
    session.subscribe(topic)
    session.send(topic, "after", PERSISTENT)
    assert session.bodies(1) == ["after"]


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_acknowledgements_of_a_topic(connect: Connect, topic: str, ack: str) -> None:
    session = connect()
    session.subscribe(topic, ack)
    session.send(topic, "one")
    session.acknowledge(session.message())


def test_unacknowledged_of_a_plain_subscriber_are_gone(connect: Connect, topic: str) -> None:
    session = connect()
    session.subscribe(topic, "client")
    session.send(topic, "one", PERSISTENT)
    session.message()
    session.drop()
    other = connect()
    other.subscribe(topic)
    other.send(topic, "two", PERSISTENT)
    assert other.bodies(1) == ["two"]


def test_selector_of_a_topic(connect: Connect, topic: str) -> None:
    session = connect()
    session.subscribe(topic, headers={"selector": "colour = 'blue'"})
    for colour in ("red", "blue", "red", "blue"):
        session.send(topic, colour, {"colour": colour})
    assert session.bodies(2) == ["blue", "blue"]


def test_no_local(connect: Connect, topic: str) -> None:
    session, other = connect(), connect()
    session.subscribe(topic, headers={"activemq.noLocal": "true"})
    session.send(topic, "mine")
    other.send(topic, "another's")
    assert session.bodies(1) == ["another's"]


def test_wildcards_of_a_topic(connect: Connect, name: str) -> None:
    session = connect()
    star = session.subscribe(f"/topic/{name}.*.C")
    rest = session.subscribe(f"/topic/{name}.A.>")
    received = []
    for one in ("A.B.C", "A.B", "B.C", "B.C.D", "X.C"):
        session.send(f"/topic/{name}.{one}", one)
    session.send(f"/topic/{name}.A", "end")  # a.> is a too
    for _ in range(5):
        message = session.message()
        received.append((message.headers["subscription"], message.body.decode()))
    assert sorted(received) == sorted(
        [(rest, "A.B.C"), (rest, "A.B"), (star, "B.C"), (star, "X.C"), (rest, "end")]
    )


def _durable(connect: Connect, topic: str, name: str, **headers: str) -> Conversation:
    session = connect(headers={"client-id": name})
    session.subscribe(topic, "client", {"activemq.subscriptionName": name, **headers})
    return session


def test_durable_subscription_resumes(connect: Connect, topic: str, name: str) -> None:
    session = _durable(connect, topic, name)
    session.send(topic, "1", PERSISTENT)
    session.acknowledge(session.message())
    session.disconnect()
    other = connect()
    for body in ("2", "3"):
        other.send(topic, body, PERSISTENT)
    again = _durable(connect, topic, name)
    assert again.bodies(2) == ["2", "3"]


def test_durable_subscription_gets_the_unacknowledged_again(
    connect: Connect, topic: str, name: str, broker: RunningBroker
) -> None:
    session = _durable(connect, topic, name)
    for body in ("1", "2", "3"):
        session.send(topic, body, PERSISTENT)
    messages = [session.message() for _ in range(3)]
    session.acknowledge(messages[1])
    session.disconnect()
    again = _durable(connect, topic, name)
    message = again.message()
    assert message.body == b"3"
    assert message.headers.get("redelivered") == broker.either(activemq=None, ours="true")


def test_durable_subscription_of_wildcards(connect: Connect, name: str) -> None:
    session = _durable(connect, f"/topic/{name}.>", name)
    session.send(f"/topic/{name}.OLD", "1", PERSISTENT)
    session.acknowledge(session.message())
    session.disconnect()
    other = connect()
    other.send(f"/topic/{name}.OLD", "2", PERSISTENT)
    other.send(f"/topic/{name}.NEW", "3", PERSISTENT)
    again = _durable(connect, f"/topic/{name}.>", name)
    assert sorted(again.bodies(2)) == ["2", "3"]


def test_durable_subscription_with_a_selector(connect: Connect, topic: str, name: str) -> None:
    selector = {"selector": "colour = 'blue'"}
    _durable(connect, topic, name, **selector).disconnect()
    other = connect()
    for colour in ("red", "blue"):
        other.send(topic, colour, {**PERSISTENT, "colour": colour})
    again = _durable(connect, topic, name, **selector)
    assert again.bodies(1) == ["blue"]


def test_another_selector_makes_the_subscription_anew(connect: Connect, topic: str, name: str) -> None:
    _durable(connect, topic, name, selector="colour = 'blue'").disconnect()
    other = connect()
    other.send(topic, "before", {**PERSISTENT, "colour": "blue"})
    again = _durable(connect, topic, name, selector="colour = 'red'")
    other.send(topic, "after", {**PERSISTENT, "colour": "red"})
    assert again.bodies(1) == ["after"]


def test_durable_subscription_is_active_once(connect: Connect, topic: str, name: str) -> None:
    session = _durable(connect, topic, name)
    with pytest.raises(Refused):
        session.subscribe(topic, "client", {"activemq.subscriptionName": name})


def test_client_may_have_several_durable_subscriptions(connect: Connect, topic: str, name: str) -> None:
    session = _durable(connect, topic, name)
    session.subscribe(topic, "client", {"activemq.subscriptionName": f"{name}-2"})
    session.send(topic, "one", PERSISTENT)
    assert len({session.message().headers["subscription"] for _ in range(2)}) == 2


def test_queue_has_no_durable_subscription(connect: Connect, queue: str, name: str) -> None:
    session = connect(headers={"client-id": name})
    with pytest.raises(Refused, match="cannot durably subscribe to a Queue"):
        session.subscribe(queue, "client", {"activemq.subscriptionName": name})


def test_retroactive_consumer_gets_the_last_image(connect: Connect, name: str) -> None:
    session = connect()
    topic = f"/topic/{REMEMBERED}.{name}"
    for body in ("1", "2"):
        session.send(topic, body)
    session.subscribe(topic)
    session.subscribe(topic, headers={"activemq.retroactive": "true"})
    assert session.bodies(1) == ["2"]
    session.send(topic, "3")
    assert session.bodies(2) == ["3", "3"]


def test_message_that_is_not_persistent_waits_for_a_durable_subscriber(
    connect: Connect, topic: str, name: str
) -> None:
    _durable(connect, topic, name).disconnect()
    other = connect()
    for number in range(3):
        other.send(topic, str(number))
    assert _durable(connect, topic, name).bodies(3) == ["0", "1", "2"]


def test_message_that_is_not_persistent_and_a_present_durable_subscriber(
    connect: Connect, topic: str, name: str
) -> None:
    session = _durable(connect, topic, name)
    session.send(topic, "one")
    message = session.message()
    assert message.body == b"one"
    session.acknowledge(message)


def test_topic_has_no_browser(connect: Connect, topic: str) -> None:
    with pytest.raises(Refused):
        connect().subscribe(topic, headers={"browser": "true"})


def test_durable_subscription_is_deleted(wire: OpenWire, topic: str, name: str) -> None:
    socket = wire(connected=False)
    socket.connect({"client-id": name})
    durable = {"id": "1", "activemq.subscriptionName": name}
    socket.write("SUBSCRIBE", {"destination": topic, **durable, "receipt": "1"})
    assert socket.read().command == "RECEIPT"
    socket.write("UNSUBSCRIBE", {**durable, "receipt": "2"})
    assert socket.read().command == "ERROR"  # it is in use
    socket.write("DISCONNECT", {"receipt": "3"})
    assert socket.read().headers == {"receipt-id": "3"}

    socket = wire(connected=False)
    socket.connect({"client-id": name})
    socket.write("UNSUBSCRIBE", {**durable, "receipt": "4"})
    assert socket.read().headers == {"receipt-id": "4"}
    socket.write("UNSUBSCRIBE", {**durable, "receipt": "5"})
    error = socket.read()
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "5")
    socket.write("SEND", {"destination": topic, "persistent": "true"}, b"nobody's")
    socket.write("SUBSCRIBE", {"destination": topic, **durable, "receipt": "6"})
    assert socket.read().headers == {"receipt-id": "6"}
    socket.write("SEND", {"destination": topic, "persistent": "true"}, b"one")
    assert socket.read().body == b"one"
