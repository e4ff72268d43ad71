"""ActiveMQ's JMS client: TLS, logins and permissions."""

from __future__ import annotations

from pathlib import Path
from queue import Queue
from typing import Any

import jpype
import pytest

from jdbcstore import Destination, Message, Store
from jdbcstore.broker.openwire.session import OpenWireSession
from jdbcstore.broker.security import Principal, Security
from jdbcstore.errors import NotAuthorized
from tests.support.broker.certificates import make_certificate
from tests.support.broker.openwire.jms import Jms, activemq, java, refused, take
from tests.support.broker.openwire.serving import Served
from tests.support.broker.stomp.serving import PATIENCE

_RIGHTS = ("read", "write", "create")

pytestmark = [pytest.mark.backends("memory"), pytest.mark.usefixtures("java_client")]


class OnlyQ(Security):
    async def login(self, name: str | None, password: str | None) -> Principal:
        if (name, password) != ("ann", "secret"):
            raise NotAuthorized("the user name or the password is wrong")
        return Principal("ann", *[[Destination.queue("Q")]] * 3)


def test_a_wrong_login(store: Store) -> None:
    with Served(store, security=OnlyQ()) as served:
        for login in (("ann", "wrong"), None):
            with refused("JMSSecurityException"):
                Jms(served.url, login=login)


def test_an_exception_listener_of_a_wrong_login(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenWireSession, "refusal_delay", 600.0)
    causes: Queue[str] = Queue()

    def on_exception(error: Any) -> None:
        causes.put(str(error.getCause().getCause()))

    with Served(store, security=OnlyQ()) as served:
        factory = activemq("ActiveMQConnectionFactory")(served.url)
        connection = factory.createConnection()
        connection.setExceptionListener(
            jpype.JProxy(java("javax.jms.ExceptionListener"), dict={"onException": on_exception})
        )
        with refused("JMSSecurityException"):
            connection.start()
        assert "SecurityException" in causes.get(timeout=PATIENCE)


def test_permissions(store: Store) -> None:
    with Served(store, security=OnlyQ()) as served, Jms(served.url, login=("ann", "secret")) as client:
        client.send("Q", "may")
        assert client.texts(client.consumer("Q"), 1) == ["may"]
        for attempt in (lambda: client.send("OTHER", "x"), lambda: client.consumer("OTHER")):
            with refused("JMSSecurityException"):
                attempt()
        client.send("Q", "still may")


@pytest.mark.parametrize("missing", _RIGHTS)
def test_deleting_a_queue_needs_every_permission(store: Store, missing: str) -> None:
    class AllBut(Security):
        async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
            others = [Destination.queue("OTHER")]
            return Principal("ann", *(others if right == missing else None for right in _RIGHTS))

    store.queue("Q").add_message(Message("kept"))
    with Served(store, security=AllBut()) as served, Jms(served.url, login=("ann", "")) as client:
        with refused("JMSSecurityException"):
            client.connection.destroyDestination(client.destination("Q"))
        client.connection.destroyDestination(client.destination("OTHER"))
    assert store.queue("Q").message_count() == 1


def trusting(certificate: Path) -> Any:
    """Java's trust managers for this certificate alone."""
    factory = jpype.JClass("java.security.cert.CertificateFactory").getInstance("X.509")
    with certificate.open("rb") as file:
        one = factory.generateCertificate(jpype.JClass("java.io.ByteArrayInputStream")(file.read()))
    store = jpype.JClass("java.security.KeyStore").getInstance("PKCS12")
    store.load(None, None)
    store.setCertificateEntry("broker", one)
    managers = jpype.JClass("javax.net.ssl.TrustManagerFactory").getInstance("PKIX")
    managers.init(store)
    return managers.getTrustManagers()


def test_tls(store: Store, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with Served(store, uri="ssl://127.0.0.1:0", certificate=str(certificate)) as served:
        factory = activemq("ActiveMQSslConnectionFactory")(served.url)
        factory.setKeyAndTrustManagers(None, trusting(certificate), None)
        connection = factory.createConnection()
        try:
            connection.start()
            session = connection.createSession(False, 1)
            queue = session.createQueue("Q")
            session.createProducer(queue).send(session.createTextMessage("encrypted"))
            assert str(take(session.createConsumer(queue)).getText()) == "encrypted"
        finally:
            connection.close()
        with refused("JMSException"):
            Jms(served.url)
