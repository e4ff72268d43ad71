"""The brokers whose behaviour is compared: a real ActiveMQ, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

import pytest

from tests.support.backends import BACKENDS
from tests.support.broker.programs import BrokerProcess
from tests.support.interop.activemq import Peer, PeerMissing
from tests.support.interop.artemis import Artemis, ArtemisMissing, classpath
from tests.support.interop.behaviours.tunnel import tunnel
from tests.support.interop.differences import ARTEMIS
from tests.support.pool import ServerPool
from tests.support.require import unavailable

PRIORITISED = "BEHAVIOURS.PRIORITISED"
"""The queue whose messages come in the order of their priorities."""
REMEMBERED = "BEHAVIOURS.REMEMBERED"
"""The topics below it keep their last message for retroactive consumers."""
MARKED = "BEHAVIOURS.MARKED"
"""The queues below it have persistJMSRedelivered."""
FULL = "BEHAVIOURS.FULL"
"""The queues below it have room for one message, and advisories about that."""
SLOW = "BEHAVIOURS.SLOW"
"""The queues and topics below it have advisories about slow consumers."""
WATCHED = "BEHAVIOURS.WATCHED"
"""The queues and topics below it have advisories about their messages, with the bodies, and topics keep one
message for a subscriber beyond its prefetch."""

FORWARDING = "BEHAVIOURS.FORWARDING"
"""The queue whose messages go to two others, of which one takes those that are urgent."""
FORWARDED, URGENT = "BEHAVIOURS.FORWARDED", "BEHAVIOURS.URGENT"
SHOUTING = "BEHAVIOURS.SHOUTING"
"""The topic whose messages go to a queue, too."""
HEARD = "BEHAVIOURS.HEARD"

_CONFIGURATION = f"""
[broker]
scheduler_support = true
populate_jmsx_user_id = true

[[broker.composite_destinations]]
queue = "{FORWARDING}"

[[broker.composite_destinations.forward_to]]
queue = "{FORWARDED}"

[[broker.composite_destinations.forward_to]]
topic = "{URGENT}"
selector = "urgent"

[[broker.composite_destinations]]
topic = "{SHOUTING}"
forward_only = false

[[broker.composite_destinations.forward_to]]
queue = "{HEARD}"

[[policies]]
queue = "{PRIORITISED}"
prioritized_messages = true

[[policies]]
topic = "{REMEMBERED}.>"
subscription_recovery_policy = {{ type = "lastImageSubscriptionRecoveryPolicy" }}

[[policies]]
queue = "{FULL}.>"
memory_limit = 1
pending_queue_policy = "vmQueueCursor"
advisory_when_full = true
advisory_for_fast_producers = true

[[policies]]
queue = "{SLOW}.>"
advisory_for_slow_consumers = true

[[policies]]
topic = "{SLOW}.>"
advisory_for_slow_consumers = true

[[policies]]
queue = "{MARKED}.>"
persist_jms_redelivered = true

[[policies]]
queue = "{WATCHED}.>"
advisory_for_delivery = true
advisory_for_dispatched = true
advisory_for_consumed = true
send_advisory_if_no_consumers = true
include_body_for_advisory = true

[[policies]]
topic = "{WATCHED}.>"
advisory_for_delivery = true
advisory_for_dispatched = true
advisory_for_consumed = true
send_advisory_if_no_consumers = true
advisory_for_discarding_messages = true
include_body_for_advisory = true
pending_message_limit = 1
"""

_OPTIONS: dict[str, Any] = {
    "prioritized": [f"queue://{PRIORITISED}"],
    "last_image": [f"topic://{REMEMBERED}.>"],
    "full": [f"queue://{FULL}.>"],
    "persist_redelivered": [f"queue://{MARKED}.>"],
    "slow": [f"queue://{SLOW}.>", f"topic://{SLOW}.>"],
    "watched": [f"queue://{WATCHED}.>", f"topic://{WATCHED}.>"],
    "scheduler": True,
    "composite": [
        {
            "name": f"queue://{FORWARDING}",
            "forward_to": [
                {"name": f"queue://{FORWARDED}"},
                {"name": f"topic://{URGENT}", "selector": "urgent"},
            ],
        },
        {
            "name": f"topic://{SHOUTING}",
            "forward_to": [{"name": f"queue://{HEARD}"}],
            "forward_only": False,
        },
    ],
}


class Addresses(NamedTuple):
    """Where a broker serves, and its store."""

    stomp_port: int
    openwire_url: str
    store_url: str


class Start(Protocol):
    """Runs a broker. Without advisories ActiveMQ sends fewer messages, but JMS clients need them."""

    def __call__(
        self, request: pytest.FixtureRequest, *, advisories: bool = False
    ) -> AbstractContextManager[Addresses]: ...


@contextmanager
def _activemq(request: pytest.FixtureRequest, *, advisories: bool = False) -> Iterator[Addresses]:
    """On PostgreSQL, with its JDBC store."""
    [backend] = (backend for backend in BACKENDS if backend.id == "postgresql")
    pool: ServerPool = request.getfixturevalue("server_pool")
    try:
        peer = Peer()
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    database = backend.database(pool.address(backend, lambda: request.getfixturevalue("docker_services")))
    try:
        login = database.jdbc_url, database.username or "", database.password or ""
        with peer, peer.broker(*login, advisories=advisories, **_OPTIONS) as broker:
            yield Addresses(broker.stomp_port, broker.openwire_url, database.url)
    finally:
        database.close()


@contextmanager
def _artemis(request: pytest.FixtureRequest, *, advisories: bool = False) -> Iterator[Addresses]:  # noqa: ARG001
    """On PostgreSQL, with its JDBC store."""
    [backend] = (backend for backend in BACKENDS if backend.id == "postgresql")
    pool: ServerPool = request.getfixturevalue("server_pool")
    try:
        classpath()
    except ArtemisMissing as missing:
        unavailable("artemis", str(missing))
    database = backend.database(pool.address(backend, lambda: request.getfixturevalue("docker_services")))
    try:
        with Artemis(database.jdbc_url, database.username or "", database.password or "") as broker:
            broker.await_ready()
            yield Addresses(broker.stomp_port, broker.openwire_url, database.url)
    finally:
        database.close()


@contextmanager
def _jdbcstore(request: pytest.FixtureRequest, *, advisories: bool = False) -> Iterator[Addresses]:  # noqa: ARG001
    with _process(request) as (process, url):
        yield Addresses(process.ready(), process.openwire_url, url)


@contextmanager
def websocket(request: pytest.FixtureRequest) -> Iterator[Addresses]:
    """Ours; the STOMP port leads to its WebSocket."""
    with _process(request, "--ws", "127.0.0.1:0") as (process, url):
        addresses = dict(part.split("=") for part in process.line().split()[1:])
        with tunnel(int(addresses["ws"].rpartition(":")[2])) as port:
            yield Addresses(port, f"tcp://{addresses['tcp']}", url)


@contextmanager
def _process(request: pytest.FixtureRequest, *options: str) -> Iterator[tuple[BrokerProcess, str]]:
    """Ours, on SQLite; with the URL of its store."""
    paths: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    directory = paths.mktemp("behaviours")
    configuration = directory / "jdbcstore.toml"
    configuration.write_text(_CONFIGURATION)
    url = f"sqlite:///{directory / 'mq.db'}"
    arguments = "--url", url, "--config", str(configuration)
    with BrokerProcess(directory, *arguments, "--openwire", "127.0.0.1:0", *options) as process:
        yield process, url


BROKERS: dict[str, Start] = {"activemq": _activemq, ARTEMIS: _artemis, "jdbcstore": _jdbcstore}
