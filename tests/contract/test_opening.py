"""Opening a store: what cannot work is told of, in words that give nothing away."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import inspect

import jdbcstore
from jdbcstore import Message, Store
from jdbcstore.database import schema_lock
from jdbcstore.errors import (
    AuthenticationFailed,
    ConfigurationError,
    MessageTooLarge,
    MissingDriver,
    SchemaError,
    StoreError,
    StoreUnavailable,
    UnknownDatabase,
)
from jdbcstore.testing import OpenStore
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.without import ONE_STORE, TOPICS_ELSEWHERE
from tests.support.backends import Backend, Capabilities
from tests.support.databases import Database
from tests.support.ports import closed_port

WRONG = "s3cr3t-but-wrong"

# Names are part of these cases themselves.
pytestmark = pytest.mark.variants("types", "statements")


def tables(database: Database) -> list[str]:
    """The names of all tables but that of the lock with which a cluster changes them."""
    names = {name.upper() for name in inspect(database.engine).get_table_names()}
    return sorted(names - {schema_lock.NAME})


def said(error: BaseException) -> str:
    """Everything that a log would show of an error: its chain, with all representations."""
    text = "".join(traceback.format_exception(error))
    seen: BaseException | None = error
    while seen is not None:
        text += repr(seen) + repr(seen.args)
        if isinstance(seen, StoreError):
            text += str(vars(seen))
        seen = seen.__cause__ or seen.__context__
    return text


@pytest.mark.ours
@pytest.mark.parametrize(
    "options",
    [
        {"table_prefix": 'x"; DROP TABLE y; --'},
        {"table_prefix": "it's"},
        {"table_prefix": "`"},
        {"table_prefix": "a b"},
        {"table_prefix": "x" * 100},
        {"message_table_name": "a.b"},
        {"message_table_name": ""},
        {"lock_table_name": "\N{SNOWMAN}"},
        {"durable_sub_acks_table_name": "1st"},
        {"max_pending_count": 0},
        {"pool_size": -1},
        {"cleanup_period": -1.0},
        {"cleanup_period": "never"},
        {"enable_audit": 1},
        {"no_such_option": 1},
    ],
)
def test_options_that_cannot_work(open_store: OpenStore, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        open_store(**options)


@pytest.mark.new_database
def test_options_that_cannot_work_touch_nothing(open_store: OpenStore, database: Database) -> None:
    with pytest.raises(ConfigurationError):
        open_store(table_prefix="'")

    assert tables(database) == []


@pytest.mark.new_database
def test_missing_tables_when_they_are_not_to_be_made(open_store: OpenStore, database: Database) -> None:
    with pytest.raises(SchemaError, match="jdbcstore init") as raised:
        open_store(create_tables_on_startup=False)

    assert raised.value.found == "nothing"
    assert "ACTIVEMQ_MSGS" in (raised.value.expected or "").upper()
    assert tables(database) == []


@pytest.mark.new_database
def test_one_missing_table(open_store: OpenStore, database: Database) -> None:
    open_store().close()
    database.execute("DROP TABLE JDBCSTORE_ACKS")

    with pytest.raises(SchemaError, match=r"(?i)JDBCSTORE_ACKS"):
        open_store(create_tables_on_startup=False)
    store = open_store()

    assert "JDBCSTORE_ACKS" in tables(database)
    fill(store.queue("ORDERS"), "a")
    assert content(store.queue("ORDERS")) == ["a"]


@pytest.mark.new_database
@pytest.mark.parametrize("table", ["ACTIVEMQ_MSGS", "ACTIVEMQ_LOCK", "JDBCSTORE_STATE"])
@pytest.mark.parametrize("create", [True, False])
def test_tables_of_something_else(
    open_store: OpenStore, database: Database, table: str, create: bool
) -> None:
    if not create:
        open_store().close()
        database.execute(f"DROP TABLE {table}")
    database.execute(f"CREATE TABLE {table} (ID INTEGER, A INTEGER)")

    with pytest.raises(SchemaError, match="not ActiveMQ's") as raised:
        open_store(create_tables_on_startup=create)

    assert (raised.value.found or "").lower() == "id, a"
    assert len(tables(database)) == (1 if create else 6)


@TOPICS_ELSEWHERE
@pytest.mark.new_database
def test_tables_that_are_there_are_left_alone(open_store: OpenStore, database: Database) -> None:
    store = open_store()
    fill(store.queue("ORDERS"), "a")
    store.topic("PRICES").subscribe("client", "ticker")
    store.close()
    before = tables(database)

    store = open_store(create_tables_on_startup=False)

    assert tables(database) == before
    assert content(store.queue("ORDERS")) == ["a"]
    assert len(store.topic("PRICES").subscriptions()) == 1


@pytest.mark.new_database
@pytest.mark.variants
def test_own_table_names(open_store: OpenStore, database: Database) -> None:
    names: dict[str, Any] = {
        "table_prefix": "My_",
        "message_table_name": "Messages",
        "durable_sub_acks_table_name": "Acks$2",
        "lock_table_name": "select",
    }
    store = open_store(**names)
    topic = store.topic("PRICES", prioritized=True)
    subscription = topic.subscribe("client", "ticker")
    a, b = fill(topic, "a", "b", priority=5)
    subscription.acknowledge(b)
    assert content(subscription) == ["a"]
    subscription.acknowledge(a)
    assert store.cleanup() == 2
    fill(store.queue("ORDERS"), *map(str, range(20)))
    store.close()

    ours = ["MY_JDBCSTORE_ACKS", "MY_JDBCSTORE_STATE", "MY_JDBCSTORE_VERSION"]
    assert tables(database) == ["MY_ACKS$2", *ours, "MY_MESSAGES", "MY_SELECT"]
    assert content(open_store(**names).queue("ORDERS")) == list(map(str, range(20)))


@ONE_STORE
@pytest.mark.new_database
@pytest.mark.variants
def test_stores_of_other_prefixes_share_nothing(open_store: OpenStore, database: Database) -> None:
    stores = [open_store(table_prefix=prefix) for prefix in ("", "A_", "B_")]
    for number, store in enumerate(stores):
        subscription = store.topic("PRICES").subscribe("client", "ticker")
        _, second = fill(store.topic("PRICES"), f"{number}", "x")
        subscription.acknowledge(second)

    assert len(tables(database)) == 18
    for number, store in enumerate(stores):
        assert content(store.topic("PRICES").subscription("client", "ticker")) == [str(number)]
        assert store.last_sequence() == 2


def test_an_unknown_database() -> None:
    for url in ("nosuchdb://host/db", "jdbc:nosuchdb://host/db"):
        with pytest.raises(UnknownDatabase, match="nosuchdb") as raised:
            jdbcstore.open(url)
        assert {"sqlite", "postgresql", "mysql", "mariadb"} <= set(raised.value.known)


@pytest.mark.parametrize("url", ["", "nonsense", "://", "postgresql", "jdbc:", "jdbc:x", f"x://u:{WRONG}@[/"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        jdbcstore.open(url)

    assert WRONG not in said(raised.value)


def test_a_missing_driver_names_its_extra(
    backend: Backend, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not backend.driver:
        pytest.skip("its driver comes with Python")
    monkeypatch.setitem(sys.modules, backend.driver, None)

    with pytest.raises(MissingDriver, match=r"pip install '(?!jdbcstore)") as raised:
        jdbcstore.open(url)

    assert raised.value.driver == backend.driver


def test_a_wrong_password_is_refused_and_not_told(
    database: Database, capabilities: Capabilities, caplog: pytest.LogCaptureFixture
) -> None:
    if not capabilities.server:
        pytest.skip("no server, no password")
    caplog.set_level(logging.DEBUG)
    jdbcstore.open(database.url).close()  # H2 makes a database for whoever comes first, with any password

    with pytest.raises(AuthenticationFailed, match="user, password") as raised:
        jdbcstore.open(database.url_with(password=WRONG))

    text = said(raised.value) + caplog.text
    assert WRONG not in text
    assert database.password is not None
    assert database.password not in text
    assert isinstance(raised.value, StoreUnavailable)


def test_an_unreachable_server(database: Database, capabilities: Capabilities) -> None:
    if not capabilities.server:
        pytest.skip("no server")
    with closed_port() as port:
        url = database.url_with(port=port, password=WRONG)
        with pytest.raises(StoreUnavailable, match="cannot reach") as raised:
            jdbcstore.open(url)

    assert WRONG not in said(raised.value)
    assert not isinstance(raised.value, AuthenticationFailed)


def test_the_password_is_in_nothing_that_is_shown(
    open_store: OpenStore, database: Database, capabilities: Capabilities, caplog: pytest.LogCaptureFixture
) -> None:
    if not capabilities.server:
        pytest.skip("no server, no password")
    caplog.set_level(logging.DEBUG)
    store = open_store()
    assert database.password is not None
    shown = [store, store.queue("ORDERS"), store.topic("PRICES"), getattr(store, "place", None)]
    shown += [getattr(store, "engine", None), getattr(store, "config", None)]

    def use() -> None:
        store.queue("ORDERS").add_message(Message("x"))
        store.destinations()

    database.rename("ACTIVEMQ_MSGS", "HIDDEN")
    try:
        with pytest.raises(StoreError) as raised:
            use()
    finally:
        database.rename("HIDDEN", "ACTIVEMQ_MSGS")

    assert database.password not in repr(shown) + str(shown) + said(raised.value) + caplog.text


def test_messages_of_any_size(store: Store, capabilities: Capabilities) -> None:
    if capabilities.packets:
        pytest.skip("bounded by a setting of the server: the next case")
    queue = store.queue("ORDERS")

    queue.add_message(Message(b"'" * 20_000_000))

    assert queue.recover()[0].body == b"'" * 20_000_000


@pytest.mark.parametrize("byte", [b"'", b"\\", b"\0", b"x"])
def test_next_to_the_packet_limit_everything_works(
    store: Store, capabilities: Capabilities, byte: bytes
) -> None:
    """Whatever the bytes and the way; beyond it a message is refused and nothing else."""
    if not capabilities.packets:
        pytest.skip("nothing but its memory bounds this database")
    queue = store.queue("ORDERS")

    def refused(add: Callable[[Message], object], size: int) -> MessageTooLarge:
        with pytest.raises(MessageTooLarge, match="packet") as raised:
            add(Message(byte * size))
        return raised.value

    one, two = refused(queue.add_message, 20_000_000), refused(queue.add_message_async, 21_000_000)
    assert one.limit is not None
    # What else is in the message differs by some bytes from one to the next.
    each = round((two.size - one.size) / 1_000_000)
    largest = 20_000_000 - (one.size - one.limit) // each - 50
    refused(lambda message: queue.add_messages([Message("good"), message]), largest + 100)
    refused(lambda message: store.transaction().queue("ORDERS").add_message(message), largest + 100)
    assert queue.message_count() == 0

    message = Message(byte * largest)
    queue.add_message(message)
    queue.add_messages([message, Message("beside"), message])
    queue.update_message(queue.recover(limit=1)[0])
    assert [found.body for found in queue.recover()] == [message.body, message.body, "beside", message.body]
