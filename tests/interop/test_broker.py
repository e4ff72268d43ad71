"""A failover pair of the real ActiveMQ, with JMS clients, and ``jdbcstore broker``, with STOMP clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jdbcstore.message.values import Byte, Float, Long
from jdbcstore.testing.polling import wait_until
from tests.support.broker.programs import BrokerProcess
from tests.support.databases import Database
from tests.support.interop.activemq import Broker, Peer, PeerMissing
from tests.support.interop.messages import spec, text
from tests.support.interop.typed import to_json
from tests.support.require import unavailable
from tests.support.stomp import StompClient

pytestmark = pytest.mark.backends("postgresql")

WAIT = 120.0
LEASE = 10.0
CONFIGURATION = f"""
[locker]
type = "lease-database-locker"
lock_acquire_sleep_interval = {LEASE}
lock_keep_alive_period = {LEASE / 4}
"""
PROPERTIES = {
    "string": "zażółć: 日本語",
    "int": 7,
    "long": Long(1 << 40),
    "byte": Byte(-1),
    "double": 2.5,
    "float": Float(0.1),
    "true": True,
    "null": None,
}


class Pair:
    """Whoever is started while the other serves waits for its lease."""

    def __init__(self, database: Database, folder: Path, stack: ExitStack) -> None:
        self._database = database
        self._folder = folder
        self._stack = stack
        self._peers: list[Peer] = []

    def activemq(self) -> Broker:
        """A broker in a JVM of its own, once it is the master."""
        peer = Peer()
        self._stack.callback(peer.kill)
        self._peers.append(peer)
        login = (self._database.jdbc_url, self._database.username or "", self._database.password or "")
        return peer.broker(*login, lease_ms=LEASE * 1000)

    def kill_activemq(self) -> None:
        self._peers[-1].kill()

    def ours(self) -> BrokerProcess:
        """A process, which may have to wait."""
        configuration = self._folder / "jdbcstore.toml"
        configuration.write_text(CONFIGURATION)
        arguments = ("--url", self._database.url, "--config", str(configuration))
        return self._stack.enter_context(BrokerProcess(self._folder, *arguments))


@pytest.fixture
def pair(database: Database, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(database, tmp_path, stack)


def test_messages_of_each_are_consumed_through_the_other(pair: Pair, database: Database) -> None:
    try:
        activemq = pair.activemq()
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    headers = {"priority": 7, "correlation_id": "corr", "jms_type": "a.type", "reply_to": "topic://REPLIES"}
    activemq.send(
        "queue://Q",
        [text("from JMS", properties=PROPERTIES, **headers), spec("bytes", b"\0\xff"), spec("map", {"a": 1})],
    )
    ours = pair.ours()
    assert ours.line().startswith("waiting for lock")
    pair.kill_activemq()

    with StompClient(ours.ready()) as client:
        first, second, third = client.receive("/queue/Q", 3)
        client.send("/queue/Q", b"from STOMP", {"persistent": "true", "custom": "a:b", "priority": "8"})
        client.send("/queue/Q", b"\0\xff", {"persistent": "true", "content-length": "2", "type": "a.type"})
    expected = {
        "priority": "7",
        "correlation-id": "corr",
        "type": "a.type",
        "reply-to": "/topic/REPLIES",
        "string": "zażółć: 日本語",
        "int": "7",
        "long": "1099511627776",
        "byte": "-1",
        "double": "2.5",
        "float": "0.1",
        "true": "true",
        "null": "null",
        "persistent": "true",
        "destination": "/queue/Q",
    }
    assert first.body == b"from JMS"
    assert expected.items() <= first.headers.items()
    assert (second.body, second.headers["content-length"]) == (b"\0\xff", "2")
    assert third.body == b""

    ours.kill()
    text_message, bytes_message = pair.activemq().receive("queue://Q", 2)
    assert text_message["body"] == to_json("from STOMP")
    assert text_message["properties"] == {"custom": to_json("a:b")}
    assert text_message["priority"] == 8
    assert (bytes_message["kind"], bytes_message["body"]) == ("bytes", to_json(b"\0\xff"))
    assert bytes_message["jms_type"] == "a.type"
    wait_until(lambda: database.rows("SELECT * FROM ACTIVEMQ_MSGS") == [], WAIT, "that all are consumed")
