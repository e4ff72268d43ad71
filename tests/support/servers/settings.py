"""A short contract of a store, for servers whose settings a new session inherits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jdbcstore
from jdbcstore import Claims, Message
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from tests.support.databases import Database
from tests.support.servers import Server

_QUEUE = "queue://ORDERS"
_TOPIC = "topic://PRICES"


def failure_with(
    server: Server, database: Database, change: Sequence[str], undo: Sequence[str]
) -> Exception | None:
    """Return what the contract raises on a new database after a change, which is undone then."""
    observer = database.engine.connect()  # before the change, which is not its own

    def count(container: str) -> int:
        rows = observer.exec_driver_sql("SELECT CONTAINER FROM ACTIVEMQ_MSGS")
        return sum(found == container for (found,) in rows)

    try:
        server.execute_as_administrator(*change)
        _short_contract(database.url, count)
    except Exception as error:
        return error
    finally:
        server.execute_as_administrator(*undo)
        observer.close()
        database.close()
    return None


def _short_contract(url: str, count: Callable[[str], int]) -> None:
    """Send, read and remove, as a store, as a worker and as a master; a second session counts."""
    with jdbcstore.open(url) as store:
        queue = store.queue("ORDERS")
        for number in range(4):
            queue.add_message(Message(f"\u20ac {number}", properties={"n": number}))
        store.topic("PRICES").subscribe("reader", "late")
        store.topic("PRICES").add_message(Message("17"))
        assert (count(_QUEUE), count(_TOPIC)) == (4, 1)
        first, *others = queue.recover()
        assert first.body == "\u20ac 0"
        queue.acknowledge(first)
        with store.transaction() as transaction:
            transaction.queue("ORDERS").acknowledge(others[0])
            transaction.queue("ORDERS").add_message(Message("later"))
        assert count(_QUEUE) == 3
        assert [message.body for message in queue.recover()][-1] == "later"
    with Claims(url) as claims:
        shared = claims.queue("TASKS")
        shared.add(*[Message(str(number), group_id="k") for number in range(3)])
        taken = shared.claim(2)
        assert [claim.message.body for claim in taken] == ["0", "1"]
        shared.acknowledge(*taken)
        assert count("queue://TASKS") == 1
    lease = Configuration(data_source=DataSourceConfig(url=url), locker=LeaseDatabaseLockerConfig())
    with jdbcstore.open(lease) as master:
        master.queue("ORDERS").add_message(Message("of the master"))
    assert count(_QUEUE) == 4
