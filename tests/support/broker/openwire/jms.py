"""ActiveMQ's own JMS client, from Debian's jars, in the Java machine of this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

import jpype
import pytest

from jdbcstore.database.adapters.jdbc.jvm import OPTIONS
from jdbcstore.testing.polling import wait_until
from tests.support import tiers
from tests.support.interop.activemq import JMS, LIBRARIES, NUMBER, VERSION, PeerMissing
from tests.support.jvm import QUICK
from tests.support.stomp import WAIT

PATIENCE_MS = int(WAIT * 1000)
"""How long to wait for a message that is bound to come."""
AUTO, CLIENT, DUPS_OK, INDIVIDUAL = 1, 2, 3, 4
PERSISTENT, NON_PERSISTENT = 2, 1
SPRING = Path("/usr/share/java")
"""Where Debian has Spring, on which its ActiveMQ depends."""
_JAVA = {str: "String", int: "Long", float: "Double", bool: "Boolean"}


@cache
def _loader() -> Any:
    jars = [
        *sorted(LIBRARIES.glob("*.jar")),
        *sorted(SPRING.glob("spring3-*.jar")),
        SPRING / "aopalliance.jar",
    ]
    if not any(jar.name.startswith("activemq-client") for jar in jars):
        cure = "run make maven" if VERSION else "on Debian: apt-get install activemq"
        raise PeerMissing(f"no ActiveMQ in {LIBRARIES}; {cure}")
    tiers.starts("java")
    if not jpype.isJVMStarted():
        jpype.startJVM(*OPTIONS, *QUICK, interrupt=False)  # as for the databases' drivers
    url = jpype.JClass("java.net.URL")
    parent = jpype.JClass("java.lang.ClassLoader").getSystemClassLoader()
    urls = [url(jar.resolve().as_uri()) for jar in jars]
    return jpype.JClass("java.net.URLClassLoader")(urls, parent)


@cache
def java(name: str) -> Any:
    """A class of ActiveMQ or JMS, whose package is that of any version.

    :raises PeerMissing: it is not installed
    """
    return jpype.JClass(name.replace("javax.jms", JMS), loader=_loader())


def activemq(name: str) -> Any:
    return java(f"org.apache.activemq.{name}")


def names_of(message: Any) -> list[str]:
    """The names of the properties, sorted, without one that only some clients list."""
    return sorted({str(name) for name in elements(message.getPropertyNames())} - {"JMSXDeliveryCount"})


def name_of(error: Any) -> str:
    """The class of a Java exception, without its package."""
    return str(error.getClass().getSimpleName())


@contextmanager
def refused(*names: str) -> Iterator[list[Any]]:
    """Expect a Java exception of one of these classes; yields a list that it is put into."""
    caught: list[Any] = []
    with pytest.raises(java("java.lang.Throwable")) as raised:
        yield caught
    kind, said = name_of(raised.value), str(raised.value.getMessage())
    if (6,) <= NUMBER < (6, 1) and said.startswith("javax.jms."):
        # These clients do not know the classes of brokers before 6, and only pass on their names.
        kind = said.partition(":")[0].rpartition(".")[2]
    assert kind in names, f"{raised.value}"
    caught.append(raised.value)


class Jms:
    """A connection of the JMS client, with a session; a context manager that closes it."""

    def __init__(
        self,
        url: str,
        mode: int | None = AUTO,
        *,
        client_id: str | None = None,
        login: tuple[str, str] | None = None,
        started: bool = True,
        xa: bool = False,
        **options: Any,
    ) -> None:
        query = "&".join(f"{name.replace('__', '.')}={value}" for name, value in options.items())
        address = url if not query else f"{url}{'&' if '?' in url else '?'}{query}"
        kind = "ActiveMQXAConnectionFactory" if xa else "ActiveMQConnectionFactory"
        self.url = url
        factory = activemq(kind)(address)
        factory.setTrustAllPackages(True)
        create = factory.createXAConnection if xa else factory.createConnection
        self.connection = create(*(login or ()))
        try:
            if client_id is not None:
                self.connection.setClientID(client_id)
            if started:
                self.connection.start()
            self.session = self.connection.createXASession() if xa else self.new_session(mode)
        except BaseException:
            self.connection.close()
            raise

    def new_session(self, mode: int | None) -> Any:
        """One with this mode of acknowledgement; None is a transacted one."""
        return self.connection.createSession(mode is None, 0 if mode is None else mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.connection.close()

    def cut(self) -> None:
        """Lose the connection of a client on ``failover:``, which opens another one."""
        failover = self.connection.getTransport().narrow(
            activemq("transport.failover.FailoverTransport").class_
        )
        failover.handleTransportFailure(jpype.JClass("java.io.IOException")("cut by a test"))

    def destination(self, name: Any) -> Any:
        """A queue, or a topic if the name begins with ``topic://``."""
        if not isinstance(name, str):
            return name
        if name.startswith("topic://"):
            return self.session.createTopic(name.removeprefix("topic://"))
        return self.session.createQueue(name)

    def text(self, body: str | None, **properties: str | int | float | bool) -> Any:
        """A text message with properties: strings, longs, doubles, booleans."""
        message = self.session.createTextMessage(body)
        for name, value in properties.items():
            set_property = getattr(message, f"set{_JAVA[type(value)]}Property")
            set_property(name, value)
        return message

    def send(
        self, destination: Any, *messages: Any, priority: int = 4, ttl: int = 0, mode: int = PERSISTENT
    ) -> None:
        producer = self.session.createProducer(self.destination(destination))
        for message in messages:
            made = self.text(message) if isinstance(message, str) else message
            producer.send(made, mode, priority, ttl)
        producer.close()

    def send_expired(self, destination: Any, message: Any) -> None:
        """Send a message, and wait until it has expired."""
        self.send(destination, message, ttl=1)
        wait_until(lambda: time.time() * 1000 > message.getJMSExpiration() + 1, what="that it has expired")

    def await_temporary(self, destination: Any) -> None:
        """Wait until the client has heard of another's temporary destination; until then it cannot send."""
        wait_until(lambda: not self.connection.isDeleted(destination), what=f"that it knows {destination}")

    def consumer(self, destination: Any, selector: str | None = None, no_local: bool = False) -> Any:
        return self.session.createConsumer(self.destination(destination), selector, no_local)

    def texts(self, consumer: Any, count: int) -> list[str]:
        """The bodies of the next messages, which are bound to come."""
        return [str(take(consumer).getText()) for _ in range(count)]

    def browse(self, queue: str, selector: str | None = None) -> list[str]:
        browser = self.session.createBrowser(self.destination(queue), selector)
        found = [str(message.getText()) for message in elements(browser.getEnumeration())]
        browser.close()
        return found


def is_left(client: Jms, queue: str, *bodies: str) -> None:
    """Wait until these messages, and no others, are in a queue."""
    wait_until(lambda: client.browse(queue) == [*bodies], what=f"that {bodies} are left")


def elements(enumeration: Any) -> Iterator[Any]:
    while enumeration.hasMoreElements():
        yield enumeration.nextElement()


def take(consumer: Any) -> Any:
    """The next message, which is bound to come."""
    message = consumer.receive(PATIENCE_MS)
    assert message is not None, "no message has come"
    return message
