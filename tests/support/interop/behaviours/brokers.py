"""The brokers whose behaviour is compared: a real ActiveMQ, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.support.backends import BACKENDS
from tests.support.broker.programs import BrokerProcess
from tests.support.interop.activemq import Peer, PeerMissing
from tests.support.pool import ServerPool
from tests.support.require import unavailable

PRIORITISED = "BEHAVIOURS.PRIORITISED"
"""The queue whose messages come in the order of their priorities."""
REMEMBERED = "BEHAVIOURS.REMEMBERED"
"""The topics below it keep their last message for retroactive consumers."""

_CONFIGURATION = """
[broker]
scheduler_support = true

[[policies]]
queue = "{}"
prioritized_messages = true

[[policies]]
topic = "{}.>"
subscription_recovery_policy = {{ type = "lastImageSubscriptionRecoveryPolicy" }}
"""

Start = Callable[[pytest.FixtureRequest], AbstractContextManager[int]]
"""Runs a broker, and gives its STOMP port."""


@contextmanager
def _activemq(request: pytest.FixtureRequest) -> Iterator[int]:
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
        prioritized, last_image = [f"queue://{PRIORITISED}"], [f"topic://{REMEMBERED}.>"]
        with (
            peer,
            peer.broker(*login, prioritized=prioritized, last_image=last_image, scheduler=True) as broker,
        ):
            yield broker.stomp_port
    finally:
        database.close()


@contextmanager
def _jdbcstore(request: pytest.FixtureRequest) -> Iterator[int]:
    """A process, on SQLite."""
    paths: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    directory = paths.mktemp("behaviours")
    configuration = directory / "jdbcstore.toml"
    configuration.write_text(_CONFIGURATION.format(PRIORITISED, REMEMBERED))
    url = f"sqlite:///{directory / 'mq.db'}"
    with BrokerProcess(directory, "--url", url, "--config", str(configuration)) as process:
        yield process.ready()


BROKERS: dict[str, Start] = {"activemq": _activemq, "jdbcstore": _jdbcstore}
