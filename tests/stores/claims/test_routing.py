"""What routes messages, kept in memory by each process and changed by others."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from jdbcstore import Message
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.claims.routing import Routing
from jdbcstore.testing.clock import FakeClock
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database
from tests.support.servers import Server

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

BODY = "an order"


class Pair(NamedTuple):
    """Two processes: one that sends, and another."""

    claims: Claims
    ours: Routing
    other: Routing
    clock: FakeClock

    def declare(self) -> None:
        self.ours.declare_exchange("SHOP", "fanout")
        self.ours.declare_queue("ORDERS", None, None)
        assert self.ours.bind("SHOP", "ORDERS", "")

    def send(self, **options: bool) -> None:
        """To all queues that are bound."""

        def route() -> dict[str, Message]:
            found = self.ours.known_exchange("SHOP")
            return {} if found is None else {one.queue: Message(BODY) for one in found.bindings}

        self.ours.send(route, **options)

    def counts(self, *queues: str) -> list[int]:
        return [self.claims.queue(name).count()[0] for name in queues]


@pytest.fixture
def pair(open_claims: OpenClaims, clock: FakeClock) -> Pair:
    claims = open_claims(clock=clock)
    return Pair(claims, Routing(claims, 1.0), Routing(open_claims(clock=clock), 1.0), clock)


def test_a_queue_that_another_process_binds_or_deletes_is_seen_by_the_next_message(pair: Pair) -> None:
    pair.declare()
    pair.send()
    pair.other.declare_queue("COPIES", None, None)
    pair.other.bind("SHOP", "COPIES", "")
    pair.send()
    assert pair.counts("ORDERS", "COPIES") == [2, 1]

    pair.other.unbind("SHOP", "ORDERS", "")
    pair.send()
    assert pair.counts("ORDERS", "COPIES") == [2, 2]

    pair.other.remove_queue("COPIES")
    pair.send()
    assert pair.counts("ORDERS", "COPIES") == [2, 0]


@pytest.mark.parametrize("what", ["queue", "exchange"])
def test_what_was_just_declared_is_there_though_another_process_has_deleted_it(pair: Pair, what: str) -> None:
    pair.declare()
    pair.declare()
    pair.send()
    if what == "queue":
        pair.other.remove_queue("ORDERS")
    else:
        pair.other.remove_exchange("SHOP")
    pair.declare()  # changes nothing, as far as this process knows
    pair.send()
    assert pair.counts("ORDERS") == [1 if what == "queue" else 2]


def test_a_queue_that_was_just_declared_can_be_consumed(pair: Pair) -> None:
    pair.declare()
    pair.declare()
    pair.other.remove_queue("ORDERS")
    pair.declare()
    assert pair.ours.find_queue("ORDERS") == (None, None)
    pair.ours.remove_exchange("SHOP")
    assert not pair.ours.bind("SHOP", "ORDERS", "")


def test_a_queue_that_expires_gets_no_message_of_a_process_that_knew_it(
    pair: Pair, database: Database
) -> None:
    pair.declare()
    pair.ours.declare_queue("REPLIES", None, 60_000)
    pair.ours.bind("SHOP", "REPLIES", "")
    pair.send()
    database.execute("UPDATE JDBCSTORE_QUEUES SET UNUSED_UNTIL = 1 WHERE NAME = 'REPLIES'")
    pair.clock.advance(100.0)
    pair.send()
    assert pair.counts("ORDERS", "REPLIES") == [2, 1]


@pytest.mark.backends("postgresql")
def test_a_transient_message_does_not_wait_for_a_standby(pair: Pair, server: Server) -> None:
    pair.declare()
    pair.send(durable=False)
    pair.ours.declare_queue("COPIES", None, None)
    pair.ours.bind("SHOP", "COPIES", "")
    reload = "SELECT pg_reload_conf()"
    server.execute_as_administrator("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", reload)
    try:
        pair.ours.send(lambda: {"ORDERS": Message(BODY)}, durable=False)
        pair.send(durable=False)
    finally:
        relaxed = "SET synchronous_commit = off"
        server.execute_as_administrator(relaxed, "ALTER SYSTEM RESET synchronous_standby_names", reload)
    assert pair.counts("ORDERS", "COPIES") == [3, 1]
