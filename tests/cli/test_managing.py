"""``init``, ``status``, ``purge``, ``cleanup`` and the durable subscriptions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import inspect

from jdbcstore import Destination, JdbcStore, Message
from tests.cli.conftest import Invoke
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database

OpenLocal = Callable[[], JdbcStore]
SUBSCRIPTION = ("--client-id", "c", "--subscription", "s")


def test_init_and_status_on_each_database(cli: CommandLine, database: Database) -> None:
    made = cli("init", "--json").json
    cli("send", "queue://Q", "x", "--count", "3")
    status = cli("status", "--json")

    assert set(map(str.lower, made["tables"])) == {
        name.lower() for name in inspect(database.engine).get_table_names()
    }
    facts = status.json
    assert facts["url"] == made["url"]
    assert all(facts["tables"].values())
    assert facts["last_id"] == 3
    (queue,) = facts["destinations"]
    [(size,)] = database.rows("SELECT SUM(LENGTH(MSG)) FROM ACTIVEMQ_MSGS")
    assert (queue["destination"], queue["message_count"]) == ("queue://Q", 3)
    assert queue["message_bytes"] == size
    assert 0 <= queue["oldest_age"] < 3600
    if database.password:
        assert database.password not in status.out + status.err


def test_init_twice_changes_nothing(invoke: Invoke, local_store: OpenLocal) -> None:
    assert invoke("init").code == 0
    invoke("send", "Q", "x")

    result = invoke("init")

    assert result.code == 0
    assert "activemq-data/jdbcstore.db" in result.out
    with local_store() as store:
        assert store.queue("Q").message_count() == 1


def test_status_for_people(invoke: Invoke, local_store: OpenLocal) -> None:
    invoke("send", "queue://Q", "x")
    invoke("subscribe", "topic://T", *SUBSCRIPTION, "--selector", "a = 1")
    invoke("send", "topic://T", "x", "--count", "2")
    with local_store() as store:
        store.pause_queue(Destination.queue("Q"), "operator")

    lines = [" ".join(line.split()) for line in invoke("status").out.splitlines()]

    assert "store sqlite:///activemq-data/jdbcstore.db" in lines
    assert "lock free" in lines
    assert any(line.startswith("queue://Q 1 ") for line in lines)
    assert any(line.startswith("topic://T 2 ") for line in lines)
    assert "c s topic://T topic://T a = 1 2" in lines
    assert any(line.startswith("queue://Q operator 20") for line in lines)


def test_status_shows_who_had_the_lock(invoke: Invoke, tmp_path: Path, local_store: OpenLocal) -> None:
    local_store().close()
    database = tmp_path / "activemq-data" / "jdbcstore.db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE ACTIVEMQ_LOCK SET TIME = 1700000000000, BROKER_NAME = 'amq\x1b[1m'")
    connection.close()

    assert invoke("status", "--json").json["lock"] == {"broker_name": "amq\x1b[1m", "time": 1700000000000}
    assert r"lock     free; amq\x1b[1m held it until 20" in invoke("status").out


def test_status_knows_the_last_id_of_an_empty_store(invoke: Invoke) -> None:
    invoke("send", "Q", "x", "--count", "3")
    invoke("purge", "Q")

    assert invoke("status", "--json").json["last_id"] == 3


def test_purge(invoke: Invoke, local_store: OpenLocal) -> None:
    with local_store() as store:
        store.topic("T").subscribe("c", "s")
        store.topic("T").add_messages(Message("x") for _ in range(2500))
        store.queue("Q").add_message(Message("y"))

    assert invoke("purge", "topic://T", "--json").json == {
        "destination": "topic://T",
        "removed": 2500,
        "left": 0,
    }
    assert invoke("purge", "topic://T").out == "removed 0 messages from topic://T\n"

    with local_store() as store:
        assert len(store.topic("T").subscriptions()) == 1
        assert store.queue("Q").message_count() == 1


def test_purge_of_what_has_expired(invoke: Invoke, local_store: OpenLocal) -> None:
    with local_store() as store:
        store.queue("Q").add_messages([Message("old", expiration_ms=1), Message("new")])

    assert invoke("purge", "Q", "--expired").out == "removed 1 message from queue://Q\n"

    with local_store() as store:
        assert [message.body for message in store.queue("Q").recover()] == ["new"]


def test_the_life_of_a_subscription(cli: CommandLine) -> None:
    topic = ("topic://T", *SUBSCRIPTION, "--json")
    assert cli("subscribe", *topic).json["pending"] == 0
    cli("send", "topic://T", "-", stdin=b"1\n2\n3\n")

    consumed = cli("consume", *topic, "--count", "2").lines
    (listed,) = cli("subscriptions", "--json").lines
    removed = cli("cleanup", "--json").json

    assert [line["body"] for line in consumed] == ["1", "2"]
    assert listed == {
        "client_id": "c",
        "subscription_name": "s",
        "destination": "topic://T",
        "subscribed_destination": "topic://T",
        "selector": None,
        "pending": 1,
        "active": None,
    }
    assert removed == {"removed": 2}
    assert [line["body"] for line in cli("browse", *topic).lines] == ["3"]
    assert cli("unsubscribe", *topic).json["subscription_name"] == "s"
    assert cli("subscriptions", "topic://T", "--json").lines == []
    assert cli.run("consume", *topic).code == 6


def test_a_retroactive_subscription_starts_at_the_first_message(invoke: Invoke) -> None:
    invoke("send", "topic://T", "before")

    assert invoke("subscribe", "topic://T", *SUBSCRIPTION, "--json").json["pending"] == 0
    late = ("--client-id", "c", "--subscription", "late", "--retroactive", "--json")
    assert invoke("subscribe", "topic://T", *late).json["pending"] == 1


def test_a_subscription_with_another_selector_is_refused(invoke: Invoke) -> None:
    assert invoke("subscribe", "topic://T", *SUBSCRIPTION).code == 0

    result = invoke("subscribe", "topic://T", *SUBSCRIPTION, "--selector", "a = 1")

    assert result.code == 1
    assert "unsubscribe it first" in result.err


@pytest.mark.parametrize(
    "command",
    [
        ["subscribe", "queue://Q", *SUBSCRIPTION],
        ["unsubscribe", "Q", *SUBSCRIPTION],
        ["subscribe", "topic://T", "--client-id", "c"],
        ["subscribe", "topic://T", *SUBSCRIPTION, "--selector", "a =="],
        ["subscriptions", "queue://Q"],
        ["purge"],
        ["nonsense"],
        *(
            [*command, number]
            for command in (
                ["browse", "Q", "--limit"],
                ["consume", "Q", "--count"],
                ["dlq", "list", "--limit"],
                ["dlq", "retry", "--limit"],
                ["manage", "remove", "Q", "--limit"],
                ["send", "Q", "x", "--count"],
                ["send", "Q", "x", "--ttl"],
                ["wait-master", "--timeout"],
                ["top", "--once", "--interval"],
                ["export", "lake", "Q", "--interval"],
            )
            for number in ("nan", "inf", "9" * 30)
        ),
        ["status", "--broker", "http://[::1"],
        ["status", "--broker", "http://127.0.0.1:99999"],
        ["status", "--broker", "http://:8161"],
    ],
)
def test_usage_errors_are_one_line(invoke: Invoke, command: list[str]) -> None:
    invoke("init")

    result = invoke(*command)

    assert result.code == 2
    assert result.err.startswith("jdbcstore: ")
    assert len(result.err.splitlines()) == 1
