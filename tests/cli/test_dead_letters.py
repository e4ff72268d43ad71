"""Dead letters: shown, sent again, dropped."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import JdbcStore, Message, MessageId, StoreConfig
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.lockers import make_locker
from jdbcstore.message.destination import Destination
from jdbcstore.testing.polling import wait_until
from tests.cli.conftest import Invoke
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.cli.command_line import CommandLine

DLQ = "ActiveMQ.DLQ"
Fill = Callable[..., None]


def dead(number: int, origin: str | None, **more: Any) -> Message:
    """As the broker makes one."""
    return Message(
        f"order {number}",
        message_id=MessageId.parse(f"ID:p:1:1:{number}"),
        original_destination=None if origin is None else Destination.parse(origin),
        properties={"number": number, "dlqDeliveryFailureCause": "too often", **more.pop("properties", {})},
        **more,
    )


@pytest.fixture
def fill(local_store: Callable[[], JdbcStore]) -> Fill:
    def fill(*messages: Message, queue: str = DLQ) -> None:
        with local_store() as store:
            store.queue(queue).add_messages(messages)

    return fill


@pytest.fixture
def stored(local_store: Callable[[], JdbcStore]) -> Callable[[str], list[Message]]:
    def stored(name: str) -> list[Message]:
        with local_store() as store:
            destination = Destination.parse(name)
            return [*(store.topic(name) if destination.is_topic else store.queue(name)).recover()]

    return stored


Stored = Callable[[str], list[Message]]


def bodies(messages: list[Message]) -> list[object]:
    return [message.body for message in messages]


def test_they_are_listed_with_their_origin_and_cause(invoke: Invoke, fill: Fill) -> None:
    fill(dead(1, "ORDERS"), dead(2, "topic://PRICES"))

    result = invoke("dlq", "list", "--json")

    assert [(one["original_destination"], one["cause"], one["body"]) for one in result.lines] == [
        ("queue://ORDERS", "too often", "order 1"),
        ("topic://PRICES", "too often", "order 2"),
    ]
    assert {one["dead_letter_queue"] for one in result.lines} == {f"queue://{DLQ}"}
    table = invoke("dlq", "list").out
    assert "ID:p:1:1:1" in table
    assert "topic://PRICES" in table


def test_they_go_back_to_where_they_came_from(invoke: Invoke, fill: Fill, stored: Stored) -> None:
    fill(
        dead(1, "ORDERS", redelivery_counter=6, properties={"originalExpiration": 5}),
        dead(2, "topic://PRICES"),
    )

    assert invoke("dlq", "retry", "--all", "--json").json == {"retried": 2, "left": 0}

    assert stored(DLQ) == []
    [order] = stored("ORDERS")
    assert (str(order.message_id), order.body) == ("ID:p:1:1:1", "order 1")
    assert (order.original_destination, order.redelivery_counter, order.expiration_ms) == (None, 0, 0)
    assert dict(order.properties) == {"number": 1}
    assert bodies(stored("topic://PRICES")) == ["order 2"]


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ((), [1, 2, 3, 4]),
        (("--limit", "2"), [1, 2]),
        (("--from", "ORDERS.*"), [1, 2, 3]),
        (("--from", "ORDERS.NEW"), [1, 3]),
        (("--id", "ID:p:1:1:4", "--id", "ID:p:1:1:1"), [1, 4]),
        (("--selector", "number BETWEEN 2 AND 3"), [2, 3]),
        (("--from", "ORDERS.>", "--selector", "number > 1", "--limit", "1"), [2]),
        (("--from", "topic://ORDERS.NEW"), []),
    ],
)
def test_which_ones(
    invoke: Invoke, fill: Fill, stored: Stored, options: tuple[str, ...], chosen: list[int]
) -> None:
    origins = ("ORDERS.NEW", "ORDERS.OLD", "ORDERS.NEW", "INVOICES")
    fill(*(dead(number, origin) for number, origin in enumerate(origins, 1)))

    listed = invoke("dlq", "list", "--json", *options)
    purged = invoke("dlq", "purge", "--json", *(options or ["--all"]))

    assert [one["properties"]["number"] for one in listed.lines] == chosen
    assert purged.json == {"removed": len(chosen), "left": 0}
    assert purged.code == (0 if chosen else 6)
    assert bodies(stored(DLQ)) == [f"order {number}" for number in range(1, 5) if number not in chosen]


@pytest.mark.parametrize("options", [(), (DLQ,), ("--selector", ""), ("--id", "")])
@pytest.mark.parametrize("act", ["retry", "purge"])
def test_an_empty_choice_is_not_all(
    invoke: Invoke, fill: Fill, stored: Stored, act: str, options: tuple[str, ...]
) -> None:
    fill(dead(1, "ORDERS"), dead(2, "INVOICES"))

    result = invoke("dlq", act, *options)

    assert result.code == (6 if "--id" in options else 2)
    assert bodies(stored(DLQ)) == ["order 1", "order 2"]


@pytest.mark.parametrize(("act", "done"), [("retry", "retried"), ("purge", "removed")])
def test_ids_come_from_a_file(
    invoke: Invoke, fill: Fill, stored: Stored, tmp_path: Path, act: str, done: str
) -> None:
    fill(*(dead(number, "ORDERS") for number in range(1, 5)))
    chosen = tmp_path / "ids"
    chosen.write_text("ID:p:1:1:3\n\n ID:p:1:1:2 \r\nID:p:1:1:3\nID:p:1:1:9")
    options = ("--ids", str(chosen), "--id", "ID:p:1:1:4", "--selector", "number > 2", "--json")

    assert [one["body"] for one in invoke("dlq", "list", *options).lines] == ["order 3", "order 4"]
    assert invoke("dlq", act, *options).json == {done: 2, "left": 0}
    assert bodies(stored(DLQ)) == ["order 1", "order 2"]


@pytest.mark.parametrize("text", ["", "\n \n"])
@pytest.mark.parametrize(("act", "done"), [("retry", "retried"), ("purge", "removed")])
def test_a_file_without_ids_selects_nothing(
    invoke: Invoke, fill: Fill, stored: Stored, tmp_path: Path, act: str, done: str, text: str
) -> None:
    fill(dead(1, "ORDERS"), dead(2, "INVOICES"))
    chosen = tmp_path / "ids"
    chosen.write_text(text)

    result = invoke("dlq", act, "--ids", str(chosen), "--json")

    assert (result.code, result.json) == (0, {done: 0, "left": 0})
    assert f"{chosen} has no ids, so no message is selected" in result.err
    assert invoke("dlq", "list", "--ids", str(chosen), "--json").lines == []
    assert bodies(stored(DLQ)) == ["order 1", "order 2"]


def test_a_file_that_is_no_text(invoke: Invoke, fill: Fill, stored: Stored, tmp_path: Path) -> None:
    fill(dead(1, "ORDERS"))
    chosen = tmp_path / "ids"
    chosen.write_bytes(b"ID:p:1:1:1\n\xff")

    result = invoke("dlq", "purge", "--ids", str(chosen))

    assert result.code == 2
    assert result.err.startswith(f"jdbcstore: {chosen} is not UTF-8")
    assert bodies(stored(DLQ)) == ["order 1"]


def test_what_came_from_nowhere_stays(invoke: Invoke, fill: Fill, stored: Stored) -> None:
    fill(dead(1, None), dead(2, "ORDERS"))

    result = invoke("dlq", "retry", "--all", "--json")

    assert result.json == {"retried": 1, "left": 1}
    assert "1 message left: the original destination is unknown" in result.err
    assert bodies(stored(DLQ)) == ["order 1"]


def test_the_queues_of_the_policies(invoke: Invoke, fill: Fill, tmp_path: Path) -> None:
    (tmp_path / "jdbcstore.toml").write_text(
        '[[policies]]\nqueue = "A"\ndead_letter_strategy = { type = "sharedDeadLetterStrategy",'
        ' dead_letter_queue = "DEAD" }\n'
        '[[policies]]\nqueue = "B"\ndead_letter_strategy = { type = "individualDeadLetterStrategy",'
        ' queue_prefix = "DLQ." }\n'
    )
    for queue in ("DEAD", "DLQ.B", "ALIVE", DLQ):
        fill(dead(1, queue), queue=queue)

    found = {one["dead_letter_queue"] for one in invoke("dlq", "list", "--json").lines}

    assert found == {"queue://DEAD", "queue://DLQ.B", f"queue://{DLQ}"}
    named = invoke("dlq", "list", "ALIVE", "--json").lines
    assert [one["dead_letter_queue"] for one in named] == ["queue://ALIVE"]


def test_the_audit_does_not_take_them_for_duplicates(
    invoke: Invoke, fill: Fill, stored: Stored, tmp_path: Path
) -> None:
    (tmp_path / "jdbcstore.toml").write_text("enable_audit = true")
    fill(dead(1, "ORDERS"))

    assert invoke("dlq", "retry", "--all").code == 0

    assert bodies(stored("ORDERS")) == ["order 1"]


def test_many(invoke: Invoke, fill: Fill, stored: Stored) -> None:
    fill(*(dead(number, "ORDERS") for number in range(1, 251)))

    assert invoke("dlq", "retry", "--limit", "230", "--json").json["retried"] == 230

    assert len(stored(DLQ)) == 20


def test_a_wrong_selector(invoke: Invoke, fill: Fill) -> None:
    fill(dead(1, "ORDERS"))

    result = invoke("dlq", "purge", "--selector", "number >")

    assert result.code == 2
    assert "the selector 'number >' is wrong" in result.err


def test_not_while_a_broker_serves(invoke: Invoke, fill: Fill, local_url: str, tmp_path: Path) -> None:
    fill(dead(1, "ORDERS"))
    directory = f"{tmp_path}/activemq-data/jdbcstore.db-lock"
    locker = make_locker(SharedFileLockerConfig(directory=directory), "one")
    with JdbcStore(local_url, StoreConfig(cleanup_period=0.0), locker=locker):
        assert invoke("dlq", "list").code == 0
        for command in ("retry", "purge"):
            result = invoke("dlq", command, "--all")
            assert result.code == 8
            assert "holds the lock" in result.err


def test_on_every_database(cli: CommandLine, open_store: Callable[..., JdbcStore]) -> None:
    with open_store() as store:
        store.queue(DLQ).add_messages([dead(1, "ORDERS"), dead(2, "ORDERS")])

    assert cli("dlq", "retry", "--limit", "1", "--json").json == {"retried": 1, "left": 0}
    assert cli("dlq", "purge", "--all", "--json").json == {"removed": 1, "left": 0}

    with open_store() as store:
        assert bodies([*store.queue("ORDERS").recover()]) == ["order 1"]


def test_a_rejection_names_its_consumer_and_each_attempt(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rejected.db"
    policy = "redelivery_policy = { maximum_redeliveries = 1, initial_redelivery_delay = 0.0 }"
    (tmp_path / "jdbcstore.toml").write_text(f'[[policies]]\nqueue = "Q"\n{policy}\n')
    with BrokerProcess(tmp_path, "--url", url) as broker:
        client = Client(broker.ready(), acknowledges=False, client_id="billing")
        client.connect()
        client.send("/queue/Q", "bad")
        client.consume("/queue/Q")
        for count in (1, 2):
            wait_until(partial(lambda count: len(client.received) == count, count))
            client.connection.nack(client.received[-1][1]["ack"])
        client.close()
        command = CommandLine(tmp_path)
        [facts] = command.run("dlq", "list", "--url", url, "--json").lines
        who = r"client billing, user test, 127\.0\.0\.1:\d+"
        attempts = facts["properties"]["dlqDeliveryAttempts"].split("\n")
        assert len(attempts) == 2
        assert all(
            re.fullmatch(rf"20\S+ rejected by {who}, connection ID:\S+", attempt) for attempt in attempts
        )
        table = CommandLine(tmp_path, COLUMNS="300").run("dlq", "list", "--url", url).out
        assert re.search(rf"queue://Q  20.* 2  {who}", table)
        assert "messages are rejected by client billing, user test" in broker.log.read_text()
