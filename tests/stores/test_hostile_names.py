"""Names that databases compare in ways of their own, in every column that is found by name.

A name is taken, and found again as itself and as no other; or it is refused with a StoreError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jdbcstore import Claims, Destination, Inbox, JdbcStore, Message
from jdbcstore.errors import StoreError
from jdbcstore.stores.claims.routing import Routing
from tests.support.claims.callers import opened
from tests.support.databases import Database
from tests.support.hostile import NAMES

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


def taken(take: Callable[[str], object]) -> Iterator[str]:
    """Yield the names that were taken; the others were refused."""
    for name in NAMES:
        try:
            take(name)
        except StoreError:
            continue
        yield name


def test_of_messages_and_consumers_in_an_inbox(database: Database) -> None:
    with opened(database.url, "driver") as caller:
        for consumer in filter(None, NAMES):
            with Inbox(database.url, consumer) as inbox:
                for name in NAMES if consumer == "a" else ("", "\ud800"):
                    assert inbox.accept(caller.connection, name), (consumer, name)
                    assert not inbox.accept(caller.connection, name)
                caller.commit()


def test_of_queues_that_are_paused(database: Database) -> None:
    with Claims(database.url) as claims:
        found = [*taken(lambda name: claims.queue(Destination.queue(name)).add(Message(name)))]
        assert len(found) > len(NAMES) / 2
        places = {claims.queue(Destination.queue(name)) for name in found}
        for number, queue in enumerate(sorted(places, key=lambda one: one.destination.name)):
            queue.flow.limit(claims=number + 1)
            queue.flow.pause()
        assert len(claims.flow()) == len(places)
        for queue in places:
            assert queue.claim() == []
            queue.flow.resume()
            assert queue.claim()


def test_of_queues_exchanges_and_bindings(database: Database) -> None:
    with Claims(database.url) as claims:
        routing = Routing(claims, 30.0)
        queues = [*taken(lambda name: routing.declare_queue(name, None, None))]
        assert [name for name in queues if routing.find_queue(name) is None] == []
        exchanges = [*taken(lambda name: routing.declare_exchange(name, "direct"))]
        assert [name for name in exchanges if routing.find_exchange(name) is None] == []
        keys = [*taken(lambda name: routing.bind(exchanges[0], queues[0], name))]
        assert sorted(key for _, _, key in routing.bindings()) == sorted(keys)
        for names in (queues, exchanges, keys):
            assert len(names) > len(NAMES) / 2
        routing.remove_queue(queues[1])
        assert [name for name in queues if routing.find_queue(name) is None] == [queues[1]]


def test_of_clients_and_their_subscriptions(database: Database) -> None:
    with JdbcStore(database.url) as store:
        topic = store.topic("NEWS")
        pairs = [(name, "s") for name in taken(lambda name: topic.subscribe(name, "s"))]
        pairs += [("c", name) for name in taken(lambda name: topic.subscribe("c", name))]
        assert len(pairs) > len(NAMES)
        topic.add_message(Message("x"))
        for number, pair in enumerate(pairs):
            assert topic.subscription(*pair).message_count() == 1
            topic.subscription(*pair).acknowledge(*topic.subscription(*pair).recover())
            left = [one for one in pairs if topic.subscription(*one).message_count()]
            assert left == pairs[number + 1 :]
        assert len(topic.subscriptions()) == len(pairs)
