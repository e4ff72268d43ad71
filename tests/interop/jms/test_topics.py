"""Topics, and their durable subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import CLIENT, NON_PERSISTENT, Jms, activemq, refused, take
from tests.support.interop.behaviours.brokers import REMEMBERED


def test_every_subscriber_gets_every_message(connect: Connect, topic: str) -> None:
    one, two = connect(), connect()
    consumers = [one.consumer(topic), two.consumer(topic), one.consumer(f"{topic}.>")]
    two.send(topic, "a", "b")
    for client, consumer in zip((one, two, one), consumers, strict=True):
        assert client.texts(consumer, 2) == ["a", "b"]


@pytest.mark.parametrize("mode", [2, NON_PERSISTENT])
def test_a_subscriber_gets_what_comes_after_it(client: Jms, topic: str, mode: int) -> None:
    client.send(topic, "before", mode=mode)
    consumer = client.consumer(topic)
    client.send(topic, "after", mode=mode)
    assert client.texts(consumer, 1) == ["after"]


def test_no_local(connect: Connect, topic: str) -> None:
    one, two = connect(), connect()
    consumer = one.consumer(topic, None, True)
    one.send(topic, "mine")
    two.send(topic, "another's")
    assert one.texts(consumer, 1) == ["another's"]


def test_no_local_with_a_selector(connect: Connect, topic: str) -> None:
    one, two = connect(), connect()
    consumer = one.consumer(topic, "k = 1", True)
    for client in (one, two):
        client.send(topic, client.text("no", k=2), client.text("mine" if client is one else "yes", k=1))
    assert one.texts(consumer, 1) == ["yes"]


def test_a_selector_of_a_topic(client: Jms, topic: str) -> None:
    consumer = client.consumer(topic, "k = '2'")
    client.send(topic, client.text("a", k="1"), client.text("b", k="2"))
    assert client.texts(consumer, 1) == ["b"]


def test_a_subscriber_in_a_transaction(connect: Connect, client: Jms, topic: str) -> None:
    other = connect(None, jms__redeliveryPolicy__initialRedeliveryDelay=0)
    consumer = other.consumer(topic)
    client.send(topic, "a")
    assert other.texts(consumer, 1) == ["a"]
    other.session.rollback()
    again = take(consumer)
    assert again.getJMSRedelivered()
    other.session.commit()


def test_more_than_the_prefetch_of_a_topic(connect: Connect, client: Jms, topic: str) -> None:
    other = connect(CLIENT)
    consumer = other.consumer(f"{topic}?consumer.prefetchSize=5")
    client.send(topic, *(str(number) for number in range(50)))
    messages = [take(consumer) for _ in range(50)]
    assert [str(message.getText()) for message in messages] == [str(number) for number in range(50)]
    messages[-1].acknowledge()


def test_pulling_from_a_topic(client: Jms, topic: str) -> None:
    consumer = client.consumer(f"{topic}?consumer.prefetchSize=0")
    client.send(topic, "a", "b")
    assert client.texts(consumer, 2) == ["a", "b"]
    assert consumer.receiveNoWait() is None


def test_a_retroactive_subscriber(client: Jms) -> None:
    """It gets what the policy of the topic has kept."""
    topic = f"topic://{REMEMBERED}.JMS"
    client.send(topic, "old", "newest")
    consumer = client.consumer(f"{topic}?consumer.retroactive=true")
    assert client.texts(consumer, 1) == ["newest"]
    client.send(topic, "next")
    assert client.texts(consumer, 1) == ["next"]


@pytest.mark.parametrize("mode", [2, NON_PERSISTENT])
def test_a_retroactive_durable_subscriber(connect: Connect, topic: str, mode: int) -> None:
    """When it is created it gets what the policy of the topic has kept."""
    topic = f"topic://{REMEMBERED}.{topic.removeprefix('topic://')}"
    client = connect(client_id=topic)
    client.send(topic, "old", "newest", mode=mode)
    consumer = subscribe(client, f"{topic}?consumer.retroactive=true")
    client.send(topic, "next", mode=mode)
    assert client.texts(consumer, 2) == ["newest", "next"]


def test_wildcards_of_topics(client: Jms, topic: str) -> None:
    one, many = client.consumer(f"{topic}.*.x"), client.consumer(f"{topic}.>")
    for suffix in (".a.x", ".a.y", ".b.x", ".a.b.x"):
        client.send(topic + suffix, suffix)
    assert client.texts(one, 2) == [".a.x", ".b.x"]
    assert client.texts(many, 4) == [".a.x", ".a.y", ".b.x", ".a.b.x"]


def test_the_topic_of_a_message(client: Jms, name: str) -> None:
    consumer = client.consumer(f"topic://{name}.*")
    client.send(f"topic://{name}.a", "x")
    assert str(take(consumer).getJMSDestination()) == f"topic://{name}.a"


def test_several_topics_at_once(client: Jms, name: str) -> None:
    consumer = client.consumer(f"topic://{name}.A,topic://{name}.B")
    client.send(f"topic://{name}.B", "b")
    client.send(f"topic://{name}.A", "a")
    assert client.texts(consumer, 2) == ["b", "a"]


# Durable subscriptions


def subscribe(
    client: Jms, topic: str, selector: str | None = None, *, no_local: bool = False, name: str = "s"
) -> Any:
    return client.session.createDurableSubscriber(client.destination(topic), name, selector, no_local)


@pytest.mark.parametrize("mode", [2, NON_PERSISTENT])
def test_a_durable_subscription_waits_for_its_client(client: Jms, topic: str, mode: int) -> None:
    with Jms(client.url, client_id=topic) as other:
        subscribe(other, topic)
    client.send(topic, "1", "2", mode=mode)
    with Jms(client.url, client_id=topic) as other:
        assert other.texts(subscribe(other, topic), 2) == ["1", "2"]
        other.send(topic, "3", mode=mode)
    with Jms(client.url, client_id=topic) as other:
        assert other.texts(subscribe(other, topic), 1) == ["3"]


def test_a_durable_subscription_in_a_transaction(connect: Connect, topic: str) -> None:
    with Jms(connect().url, None, client_id=topic) as client:
        consumer = subscribe(client, topic)
        client.send(topic, "1", "2")
        client.session.commit()
        assert client.texts(consumer, 2) == ["1", "2"]
        client.session.rollback()
        assert client.texts(consumer, 1) == ["1"]
        client.session.commit()
    client = connect(None, client_id=topic)
    assert client.texts(subscribe(client, topic), 1) == ["2"]


def test_what_a_durable_subscriber_has_not_acknowledged(
    connect: Connect, broker: RunningBroker, topic: str
) -> None:
    with Jms(broker.url, CLIENT, client_id=topic) as client:
        consumer = subscribe(client, topic)
        client.send(topic, "1", "2", "3")
        take(consumer).acknowledge()
        take(consumer)
    client = connect(client_id=topic)
    consumer = subscribe(client, topic)
    second, third = take(consumer), take(consumer)
    assert [str(second.getText()), str(third.getText())] == ["2", "3"]
    assert second.getJMSRedelivered()
    assert not third.getJMSRedelivered()


def test_a_durable_subscription_with_a_selector(client: Jms, topic: str) -> None:
    with Jms(client.url, client_id=topic) as other:
        subscribe(other, topic, "k = 1")
    client.send(topic, client.text("no", k=2), client.text("yes", k=1))
    with Jms(client.url, client_id=topic) as other:
        assert other.texts(subscribe(other, topic, "k = 1"), 1) == ["yes"]


def test_another_selector_is_another_subscription(connect: Connect, topic: str) -> None:
    with Jms(connect().url, client_id=topic) as client:
        subscribe(client, topic, "k = '1'")
    client = connect(client_id=topic)
    client.send(topic, client.text("lost", k="1"))
    consumer = subscribe(client, topic, "k = '2'")
    client.send(topic, client.text("a", k="1"), client.text("b", k="2"))
    assert client.texts(consumer, 1) == ["b"]


def test_another_topic_is_another_subscription(connect: Connect, topic: str) -> None:
    with Jms(connect().url, client_id=topic) as client:
        subscribe(client, f"{topic}.A")
        client.send(f"{topic}.A", "lost")
    client = connect(client_id=topic)
    consumer = subscribe(client, f"{topic}.B")
    client.send(f"{topic}.A", "no")
    client.send(f"{topic}.B", "b")
    assert client.texts(consumer, 1) == ["b"]


def test_a_durable_subscription_without_its_own_messages(connect: Connect, topic: str) -> None:
    client, other = connect(client_id=topic), connect()
    consumer = subscribe(client, topic, no_local=True)
    client.send(topic, "mine")
    other.send(topic, "another's")
    assert client.texts(consumer, 1) == ["another's"]


def test_a_durable_subscription_that_wants_its_own_messages_no_more(connect: Connect, topic: str) -> None:
    """It is the same one: no JDBC store keeps what it wanted before."""
    with Jms(connect().url, client_id=topic) as client:
        subscribe(client, topic)
    with Jms(connect().url) as client:
        client.send(topic, "kept")
    client = connect(client_id=topic)
    consumer = subscribe(client, topic, no_local=True)
    client.send(topic, "own")
    connect().send(topic, "another's")
    assert client.texts(consumer, 2) == ["kept", "another's"]


def test_a_durable_subscription_of_a_wildcard(client: Jms, topic: str) -> None:
    with Jms(client.url, client_id=topic) as other:
        subscribe(other, f"{topic}.>")
    client.send(f"{topic}.A", "a")
    client.send(f"{topic}.B.C", "b")
    with Jms(client.url, client_id=topic) as other:
        assert sorted(other.texts(subscribe(other, f"{topic}.>"), 2)) == ["a", "b"]


def test_a_durable_subscription_with_a_prefetch(connect: Connect, topic: str) -> None:
    client = connect(None, client_id=topic)
    consumer = subscribe(client, f"{topic}?consumer.prefetchSize=1")
    client.send(topic, *(str(number) for number in range(10)))
    client.session.commit()
    assert client.texts(consumer, 10) == [str(number) for number in range(10)]
    client.session.commit()


def test_pulling_from_a_durable_subscription(connect: Connect, topic: str) -> None:
    client = connect(client_id=topic)
    consumer = subscribe(client, f"{topic}?consumer.prefetchSize=0")
    client.send(topic, "1", "2")
    assert client.texts(consumer, 2) == ["1", "2"]
    assert consumer.receiveNoWait() is None


def test_a_client_with_two_subscriptions(connect: Connect, topic: str) -> None:
    client = connect(client_id=topic)
    consumers = [subscribe(client, topic, name=name) for name in ("one", "two")]
    client.send(topic, "x")
    for consumer in consumers:
        assert client.texts(consumer, 1) == ["x"]


def test_a_durable_subscription_has_one_consumer(connect: Connect, topic: str) -> None:
    client = connect(client_id=topic)
    subscribe(client, topic)
    with refused("JMSException"):
        client.new_session(1).createDurableSubscriber(client.destination(topic), "s")


def test_a_durable_subscription_needs_a_client_id(client: Jms, topic: str) -> None:
    with refused("JMSException", "InvalidClientIDException", "IllegalStateException"):
        subscribe(client, topic)
    client.send(topic, "x")


def test_unsubscribing(connect: Connect, topic: str) -> None:
    client = connect(client_id=topic)
    consumer = subscribe(client, topic)
    with refused("JMSException"):
        client.session.unsubscribe("s")
    consumer.close()
    client.send(topic, "dropped")
    client.session.unsubscribe("s")
    with refused("InvalidDestinationException"):
        client.session.unsubscribe("s")
    consumer = subscribe(client, topic)
    client.send(topic, "kept")
    assert client.texts(consumer, 1) == ["kept"]


def test_subscriptions_belong_to_their_clients(client: Jms, topic: str) -> None:
    ids = [f"{topic}-{number}" for number in range(2)]
    for client_id in ids:
        with Jms(client.url, client_id=client_id) as other:
            subscribe(other, topic)
    client.send(topic, "x")
    for client_id in ids:
        with Jms(client.url, client_id=client_id) as other:
            assert other.texts(subscribe(other, topic), 1) == ["x"]


def test_a_client_id_has_one_connection(connect: Connect, broker: RunningBroker, name: str) -> None:
    with Jms(broker.url, client_id=name), refused("InvalidClientIDException"):
        Jms(broker.url, client_id=name)

    def is_free() -> bool:
        return bool(connect(client_id=name).connection.getClientID() == name)

    wait_until(is_free, what="that the client id is free")


def test_the_subscription_of_another_client(connect: Connect, broker: RunningBroker, name: str) -> None:
    """A client of ActiveMQ removes it by naming that client's id, which no JMS client does by itself."""
    owner, other = connect(client_id=name), connect(client_id=f"{name}-other")
    for client in (owner, other):
        client.session.createDurableSubscriber(client.session.createTopic(name), "s").close()
    removal = activemq("command.RemoveSubscriptionInfo")()
    removal.setConnectionId(other.connection.getConnectionInfo().getConnectionId())
    removal.setClientId(name)
    removal.setSubscriptionName("s")

    if broker.either(activemq=True, ours=False):
        other.connection.syncSendPacket(removal)
        with refused("InvalidDestinationException"):
            owner.session.unsubscribe("s")
    else:
        with refused("InvalidDestinationException"):
            other.connection.syncSendPacket(removal)
        owner.session.unsubscribe("s")
    other.session.unsubscribe("s")
