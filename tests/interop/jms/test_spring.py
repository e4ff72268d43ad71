"""Spring's listener container and template, as Debian has them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jpype
import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import RunningBroker
from tests.support.broker.openwire.jms import Jms, activemq, elements, is_left, java
from tests.support.interop.activemq import IS_SIX
from tests.support.require import unavailable

ALL = [str(number) for number in range(20)]


pytestmark = pytest.mark.skipif(IS_SIX, reason="Debian's Spring 3 knows the JMS of before ActiveMQ 6")


def spring(name: str) -> Any:
    try:
        return java(f"org.springframework.{name}")
    except TypeError:
        unavailable("activemq", "no Spring; on Debian: apt-get install libspring-jms-java")


class Listener:
    """Keeps the bodies that it gets; fails at the first one, if it is to."""

    def __init__(self, fails: bool = False) -> None:
        self.bodies: list[str] = []
        self.redelivered: list[str] = []
        changed = self._changed = threading.Condition()
        bodies, redelivered = self.bodies, self.redelivered

        @jpype.JImplements(java("javax.jms.MessageListener"))
        class Proxy:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onMessage(self, message: Any) -> None:  # noqa: N802
                body = str(message.getText())
                with changed:
                    if message.getJMSRedelivered():
                        redelivered.append(body)
                    elif fails and body == "0":
                        raise java("java.lang.RuntimeException")("not now")
                    bodies.append(body)
                    changed.notify_all()

        self.proxy = Proxy()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.bodies) >= count, 120), self.bodies


@contextmanager
def container(broker: RunningBroker, destination: str, listener: Listener, **settings: Any) -> Iterator[Any]:
    """A running DefaultMessageListenerContainer."""
    made = spring("jms.listener.DefaultMessageListenerContainer")()
    made.setConnectionFactory(activemq("ActiveMQConnectionFactory")(broker.url))
    made.setDestinationName(destination)
    made.setMessageListener(listener.proxy)
    made.setReceiveTimeout(100)
    for name, value in settings.items():
        getattr(made, f"set{name}")(value)
    made.afterPropertiesSet()
    made.start()
    try:
        yield made
    finally:
        made.shutdown()


@pytest.mark.parametrize("settings", [{"SessionTransacted": True}, {"SessionAcknowledgeMode": 2}, {}])
def test_a_container_of_several_consumers(
    broker: RunningBroker, client: Jms, queue: str, settings: dict[str, Any]
) -> None:
    listener = Listener()
    client.send(queue, *ALL[:10])
    with container(broker, queue, listener, ConcurrentConsumers=2, MaxConcurrentConsumers=4, **settings):
        client.send(queue, *ALL[10:])
        listener.wait_for(20)
    assert sorted(listener.bodies, key=int) == ALL
    is_left(client, queue)


def test_a_listener_that_fails_in_a_transaction(broker: RunningBroker, client: Jms, queue: str) -> None:
    listener = Listener(fails=True)
    with container(broker, queue, listener, SessionTransacted=True):
        client.send(queue, "0", "1")
        listener.wait_for(2)
    assert sorted(listener.bodies) == ["0", "1"]
    assert "0" in listener.redelivered
    is_left(client, queue)


def test_a_container_that_opens_a_session_for_each_message(
    broker: RunningBroker, client: Jms, queue: str
) -> None:
    """It caches the connection only: each receive has a consumer of its own."""
    listener = Listener()
    with container(broker, queue, listener, CacheLevel=1, SessionTransacted=True):
        client.send(queue, *ALL)
        listener.wait_for(20)
    assert sorted(listener.bodies, key=int) == ALL
    is_left(client, queue)


def test_a_container_of_a_durable_subscription(broker: RunningBroker, client: Jms, name: str) -> None:
    settings = {"PubSubDomain": True, "SubscriptionDurable": True, "ClientId": name}
    listener = Listener()
    with container(broker, name, listener, DurableSubscriptionName="s", **settings) as running:
        wait_until(running.isRegisteredWithDestination, what="that it has subscribed")
        client.send(f"topic://{name}", "1")
        listener.wait_for(1)
    client.send(f"topic://{name}", "2")
    with container(broker, name, listener, DurableSubscriptionName="s", **settings):
        listener.wait_for(2)
    assert listener.bodies == ["1", "2"]


def test_a_template(broker: RunningBroker, client: Jms, queue: str) -> None:
    template = spring("jms.core.JmsTemplate")(activemq("ActiveMQConnectionFactory")(broker.url))
    template.setReceiveTimeout(10_000)
    template.convertAndSend(queue, jpype.JString("text"))
    template.convertAndSend(queue, jpype.JClass("java.util.HashMap")({"k": "v"}))
    assert str(template.receiveAndConvert(queue)) == "text"
    assert str(template.receiveAndConvert(queue).get("k")) == "v"
    browser = client.session.createBrowser(client.destination(queue))
    wait_until(lambda: not [*elements(browser.getEnumeration())], what="that nothing is left")
