"""Settings of a broker.xml, as clients notice them: of the real Artemis, and of ours."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import jpype
import pytest

from jdbcstore.testing.polling import wait_until
from tests.support.broker.certificates import make_certificate
from tests.support.broker.openwire.jms import CLIENT, NON_PERSISTENT, Jms, is_left, refused, take
from tests.support.broker.programs import BrokerProcess
from tests.support.broker.stomp.serving import Client
from tests.support.interop.activemq import VERSION, PeerMissing
from tests.support.interop.artemis import Artemis, ArtemisMissing, classpath
from tests.support.ports import free_port
from tests.support.require import unavailable

HERE = Path(__file__).parent
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
LOGIN_CONFIG = """
activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
       debug=false
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
};
"""
USERS = """plain = s3cret
hashed = ENC(1024:{salt}:{hash})
"""
ROLES = "all = plain,hashed\nchief = hashed\n"


@dataclass(frozen=True)
class Running:
    stomp_port: int
    openwire_url: str
    tls_port: int
    database: Path | None = None
    """Of our broker."""

    def pieces(self) -> int:
        """How many pieces of large messages our broker has; Artemis has a file for each."""
        if self.database is None:
            return 2
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            return int(connection.execute("SELECT COUNT(*) FROM JDBCSTORE_PIECES").fetchone()[0])

    def jms(self, user: str = "hashed") -> Jms:
        return Jms(self.openwire_url, login=(user, "s3cret"))


@pytest.fixture(scope="module", params=["artemis", "jdbcstore"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("artemis")
    tls = free_port()
    xml = Template((HERE / "broker.xml").read_text()).substitute(tls=tls, keys=key_store(folder))
    (folder / "broker.xml").write_text(xml)
    (folder / "login.config").write_text(LOGIN_CONFIG)
    (folder / "artemis-users.properties").write_text(USERS.format(**hashed("s3cret")))
    (folder / "artemis-roles.properties").write_text(ROLES)
    if request.param == "jdbcstore":
        # A journal cannot keep large messages in pieces, and memory does not.
        url = f"<jdbc-connection-url>sqlite:///{folder}/mq.db</jdbc-connection-url>"
        store = f"<store><database-store>{url}</database-store></store>"
        in_memory = "<persistence-enabled>false</persistence-enabled>"
        (folder / "broker.xml").write_text(xml.replace(in_memory, store))
        with BrokerProcess(folder, "--config", str(folder / "broker.xml"), stomp="") as process:
            port = process.ready()
            yield Running(port, process.openwire_url, tls, folder / "mq.db")
        return
    if VERSION:
        pytest.skip("Artemis does not depend on the version of ActiveMQ")
    try:
        classpath()
    except ArtemisMissing as missing:
        unavailable("artemis", str(missing))
    with Artemis(configuration=folder / "broker.xml", domain="activemq") as artemis:
        artemis.await_ready()
        yield Running(artemis.stomp_port, artemis.openwire_url, tls)


def key_store(folder: Path) -> Path:
    path = folder / "keys.p12"
    command = ("openssl", "pkcs12", "-export", "-in", str(make_certificate(folder)), "-out", str(path))
    subprocess.run([*command, "-passout", "pass:s3cret"], check=True, capture_output=True)
    return path


def hashed(password: str) -> dict[str, str]:
    import hashlib

    salt = bytes(range(32))
    return {"salt": salt.hex(), "hash": hashlib.pbkdf2_hmac("sha1", password.encode(), salt, 1024, 64).hex()}


@pytest.fixture
def jms(broker: Running) -> Iterator[Jms]:
    try:
        with broker.jms() as client:
            yield client
    except PeerMissing as missing:
        unavailable("activemq", str(missing))


def test_logins(broker: Running) -> None:
    for user in ("plain", "hashed"):
        with Client(broker.stomp_port, login=user, passcode="s3cret") as client:
            assert client.connected.command == "CONNECTED"
    for user, password in (("plain", "wrong"), ("hashed", "wrong"), ("nobody", "s3cret")):
        with refused("JMSSecurityException"):
            Jms(broker.openwire_url, login=(user, password))


def test_an_acceptor_with_tls(broker: Running) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", broker.tls_port)) as plain,
        context.wrap_socket(plain) as connection,
    ):
        connection.sendall(b"CONNECT\naccept-version:1.2\nlogin:plain\npasscode:s3cret\n\n\0")
        assert connection.recv(1000).startswith(b"CONNECTED\n")


def test_the_login_of_a_sender(broker: Running) -> None:
    with Client(broker.stomp_port, login="plain", passcode="s3cret") as client:
        client.send("/queue/WHOSE", "x")
        client.subscribe("/queue/WHOSE")
        assert client.expect("MESSAGE").headers["JMSXUserID"] == "plain"


def test_the_queues_of_a_topic(broker: Running, jms: Jms) -> None:
    jms.send("topic://NEWS", jms.text("1", urgent="no"), jms.text("2", urgent="yes"))

    for queue, expected in (("NEWS.ALL", ["1", "2"]), ("NEWS.URGENT", ["2"])):
        name = queue if broker.database else f"NEWS::{queue}"
        assert jms.texts(jms.consumer(name), len(expected)) == expected


def test_an_exclusive_queue(broker: Running, jms: Jms) -> None:
    with broker.jms() as other:
        first, second = jms.consumer("ALONE.A"), other.consumer("ALONE.A")
        jms.send("ALONE.A", *"1234")
        assert jms.texts(first, 4) == [*"1234"]
        assert second.receiveNoWait() is None


def test_earlier_messages_of_a_topic(jms: Jms) -> None:
    jms.consumer("topic://EARLIER.A")
    jms.send("topic://EARLIER.A", *"12345")

    assert jms.texts(jms.consumer("topic://EARLIER.A"), 2) == ["4", "5"]


def test_the_most_specific_setting_counts(broker: Running) -> None:
    with broker.jms("plain") as client:
        client.send("SECRET.A", "for the chief")
        with refused("JMSSecurityException"):
            client.consumer("SECRET.A")
    with broker.jms() as client:
        assert client.texts(client.consumer("SECRET.A"), 1) == ["for the chief"]


def test_diverts(jms: Jms) -> None:
    jms.send("DIVERTED", jms.text("1", urgent="yes"), jms.text("2", urgent="no"))
    jms.send("COPIED", "3")

    assert jms.texts(jms.consumer("TARGET"), 2) == ["1", "3"]
    assert jms.browse("DIVERTED") == ["2"]
    assert jms.browse("COPIED") == ["3"]


def test_an_address_for_expired_messages(jms: Jms) -> None:
    jms.send("SOON", "x", ttl=1)
    consumer = jms.consumer("SOON")
    assert consumer.receiveNoWait() is None

    assert jms.texts(jms.consumer("EXPIRED"), 1) == ["x"]


def test_addresses_that_clients_may_not_make(jms: Jms) -> None:
    jms.send("CLOSED.THERE", "x")
    assert jms.texts(jms.consumer("CLOSED.THERE"), 1) == ["x"]
    with refused("JMSException", "InvalidDestinationException"):
        jms.send("CLOSED.NOT", "x")


def test_an_address_that_is_full_fails(jms: Jms) -> None:
    with refused("JMSException", "ResourceAllocationException"):
        for _ in range(100):
            jms.send("FAILS.A", "x" * 2000)


def test_an_address_that_is_full_drops(jms: Jms) -> None:
    for number in range(50):
        jms.send("DROPS.A", f"{number:4}" + "x" * 2000, mode=NON_PERSISTENT)

    found = jms.browse("DROPS.A")
    assert 2 <= len(found) < 40
    assert [int(body[:4]) for body in found] == [*range(len(found))]


@pytest.mark.parametrize(
    ("address", "given", "expected"),
    [
        ("ENDS.A", [0, MINUTE_MS, 3 * HOUR_MS], [HOUR_MS, MINUTE_MS, 3 * HOUR_MS]),
        ("WITHIN.A", [0, MINUTE_MS, 3 * HOUR_MS], [2 * HOUR_MS, HOUR_MS, 2 * HOUR_MS]),
        ("STAYS.A", [0, MINUTE_MS], [0, 0]),
    ],
)
def test_the_time_to_live_of_an_address(
    jms: Jms, address: str, given: list[int], expected: list[int]
) -> None:
    now_ms = time.time() * 1000
    for number, ttl in enumerate(given):
        jms.send(address, str(number), ttl=ttl)

    consumer = jms.consumer(address)
    assert [lives(take(consumer), now_ms) for _ in given] == expected


def lives(message: Any, since_ms: float) -> int:
    """How long a message lives, in whole minutes; 0 is for ever."""
    expires_ms = int(message.getJMSExpiration())
    return round((expires_ms - since_ms) / MINUTE_MS) * MINUTE_MS if expires_ms else 0


def test_dead_letters_have_the_time_to_live_of_their_address(broker: Running, jms: Jms) -> None:
    now_ms = time.time() * 1000
    jms.send("DEAD.A", "x")
    url = f"{broker.openwire_url}?jms.redeliveryPolicy.maximumRedeliveries=0"
    with Jms(url, None, login=("hashed", "s3cret")) as client:
        take(client.consumer("DEAD.A"))
        client.session.rollback()
        dead = take(jms.consumer("ENDS.DEAD"))

    assert lives(dead, now_ms) == HOUR_MS


def test_large_messages(broker: Running, jms: Jms) -> None:
    """Above stompMinLargeMessageSize they are large ones in both brokers, for consumers of both protocols."""
    body = bytes(range(256)) * 2000
    with Client(broker.stomp_port, login="hashed", passcode="s3cret") as client:
        for _ in range(2):
            client.send("/queue/LARGE", body, kind="bytes")
        assert broker.pieces() == 2
        message = take(jms.consumer("LARGE", "JMSPriority = 4"))
        data = jpype.JArray(jpype.JByte)(int(message.getBodyLength()))
        message.readBytes(data)
        assert bytes(data) == body
        assert str(message.getStringProperty("kind")) == "bytes"
    with Client(broker.stomp_port, login="hashed", passcode="s3cret") as client:
        jms.send("LARGE.TEXT", "\N{GRINNING FACE}" * 50_000)
        client.subscribe("/queue/LARGE.TEXT", ack="client")
        assert client.expect("MESSAGE").body.decode() == "\N{GRINNING FACE}" * 50_000


def test_a_consumer_that_is_too_slow_is_disconnected(broker: Running, jms: Jms) -> None:
    queue = f"SLOW.{time.monotonic_ns()}"
    with Client(broker.stomp_port, login="hashed", passcode="s3cret") as slow:
        slow.subscribe(f"/queue/{queue}", ack="client")
        jms.send(queue, *map(str, range(20)))

        others = [frame.command for frame in slow.rest() if frame.command != "MESSAGE"]
        assert others in ([], ["ERROR"])
    is_left(jms, queue, *map(str, range(20)))


def test_deliveries_to_clients_that_leave_count(broker: Running, jms: Jms) -> None:
    """Three are max-delivery-attempts."""
    queue = f"LOST.{time.monotonic_ns()}"
    jms.send(queue, queue)
    for disconnects in (True, False, True):
        with Client(broker.stomp_port, login="hashed", passcode="s3cret") as client:
            client.subscribe(f"/queue/{queue}", ack="client")
            assert client.expect("MESSAGE").body.decode() == queue
            if disconnects:
                client.request("DISCONNECT")
    jms.send(f"{queue}.JMS", f"{queue}.JMS")
    for _ in range(3):
        with Jms(broker.openwire_url, CLIENT, login=("hashed", "s3cret")) as leaving:
            assert leaving.texts(leaving.consumer(f"{queue}.JMS"), 1) == [f"{queue}.JMS"]
    dead = {queue, f"{queue}.JMS"}
    wait_until(lambda: dead <= {*jms.browse("ActiveMQ.DLQ")}, 20.0, what="that both are dead letters")
    assert jms.browse(queue) == jms.browse(f"{queue}.JMS") == []
