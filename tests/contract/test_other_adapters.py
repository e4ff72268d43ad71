"""A database served by an adapter that knows nothing of it, as one would be that has none of its own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jdbcstore import Message
from jdbcstore.testing import OpenStore
from jdbcstore.testing.without import ONE_STORE
from tests.support.backends import Backend

pytestmark = [pytest.mark.new_database, pytest.mark.variants(), pytest.mark.usefixtures("database")]

GENERIC = {"sqlite": ("default", "blob"), "h2": ("default", "image"), "postgresql": ("bytes",)}


@ONE_STORE
@pytest.mark.needs("sessions")  # it prepares statements
@pytest.mark.backends(*GENERIC)
def test_a_generic_adapter(backend: Backend, open_store: OpenStore) -> None:
    for adapter in GENERIC[backend.vendor]:
        options: dict[str, Any] = {"adapter": adapter, "table_prefix": f"{adapter.upper()}_"}
        store = open_store(**options)
        queue, topic = store.queue("ORDERS"), store.topic("PRICES", prioritized=True)
        subscription = topic.subscribe("client", "ticker")
        queue.add_messages([Message(str(number)) for number in range(300)])
        first, second = (topic.add_message(Message(text, priority=4)) for text in "ab")
        subscription.acknowledge(second)
        transaction = store.transaction()
        transaction.queue("ORDERS").add_message(Message("never"))
        transaction.rollback()
        with store.transaction() as transaction:
            transaction.queue("ORDERS").add_message(Message("☃" * 1000))
        store.close()

        again = open_store(**options)
        bodies = [message.body for message in again.queue("ORDERS").recover()]
        assert bodies == [*map(str, range(300)), "☃" * 1000]
        assert again.last_sequence() == 303
        ticker = again.topic("PRICES", prioritized=True).subscription("client", "ticker")
        assert [message.body for message in ticker.recover()] == ["a"]
        ticker.acknowledge(first)
        assert again.cleanup() == 2
        assert again.queue("ORDERS").remove_all_messages() == 301


@ONE_STORE
@pytest.mark.needs("sessions")  # it prepares statements
@pytest.mark.backends(*GENERIC)
def test_two_writers_get_different_sequences(backend: Backend, open_store: OpenStore) -> None:
    """Nothing but an UPDATE that changes nothing keeps them from reserving the same block."""
    adapter = GENERIC[backend.vendor][0]
    stores = [open_store(adapter=adapter, table_prefix="W_") for _ in range(3)]
    start, sequences = threading.Barrier(len(stores)), list[int]()

    def write(number: int) -> None:
        start.wait()
        queue = stores[number].queue("ORDERS")
        sequences.extend(queue.add_message(Message("x")).sequence for _ in range(10))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(sequences)) == 30
    assert stores[0].queue("ORDERS").message_count() == 30
