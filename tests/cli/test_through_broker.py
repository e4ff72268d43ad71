"""Commands that ask the broker that is the master, instead of refusing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Configuration, Destination, Message
from jdbcstore.broker.security import hash_password
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.broker import Address
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.config.users import write_user
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.programs import BrokerProcess, Client, free_port
from tests.support.cli.command_line import CommandLine

Place = tuple[BrokerProcess, CommandLine, ApiClient]
LOGIN = ("me", "secret")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker with users, the command line on its store with a login, and its management."""
    folder, port = tmp_path_factory.mktemp("broker"), free_port()
    url, users = f"sqlite:///{folder}/mq.db", folder / "users.toml"
    write_user(users, "me", hash_password("secret"), role="manage")
    write_user(users, "test", hash_password("secret"))
    with jdbcstore.open(url) as store:
        store.queue("ActiveMQ.DLQ").add_messages(
            [Message(str(n), original_destination=Destination.queue("BACK")) for n in range(3)]
        )
        store.topic("T").subscribe("c", "s")
    options = ("--url", url, "--health", f"127.0.0.1:{port}", "--users", str(users))
    with BrokerProcess(folder, *options) as process:
        process.ready()
        cli = CommandLine(folder, url, JDBCSTORE_BROKER_LOGIN=":".join(LOGIN))
        yield process, cli, ApiClient(Address("127.0.0.1", port), LOGIN)


def test_send_and_purge(place: Place) -> None:
    _, cli, api = place
    sent = cli("send", "Q", "two pints", "--property", "table:int=7", "--ttl", "600", "--json")
    assert (sent.code, sent.json["sent"]) == (0, 1)
    assert "asking the broker at http://127.0.0.1:" in sent.err
    assert cli("send", "Q", "-", stdin=b"a\nb\n").code == 0
    shown = api.get(queue("Q", "messages"))
    assert [one["body"] for one in shown] == ["two pints", "a", "b"]
    assert shown[0]["properties"] == {"table": 7}
    assert shown[0]["expiration"] > shown[0]["timestamp"]
    wrong = cli.run("send", "Q", "x", "--property", "n:short=1")
    assert (wrong.code, "n has a type" in wrong.err) == (2, True)
    assert cli("purge", "Q", "--expired", "--json").json["removed"] == 0
    assert cli("purge", "Q", "--json").json["removed"] == 3
    assert cli("purge", "NONE", "--json").json["removed"] == 0


def test_topics(place: Place) -> None:
    _, cli, _ = place
    assert cli("send", "topic://T", "for a subscription").code == 0
    assert cli("purge", "topic://T", "--json").json["removed"] == 1
    assert cli("unsubscribe", "topic://T", "--client-id", "c", "--subscription", "s").code == 0
    assert cli.run("unsubscribe", "topic://T", "--client-id", "c", "--subscription", "s").code == 6
    refused = cli.run("consume", "topic://T", "--client-id", "c", "--subscription", "s")
    assert (refused.code, "stop that process first" in refused.err) == (8, True)


def test_consume(place: Place) -> None:
    _, cli, api = place
    for body in ("one", "two", "three"):
        api.post(queue("C", "messages"), body=body, properties={"n": 1})
    first = cli("consume", "C", "--json")
    assert [(one["body"], one["properties"]) for one in first.lines] == [("one", {"n": 1})]
    others = cli("consume", "C", "--count", "9", "--json")
    assert [one["body"] for one in others.lines] == ["two", "three"]
    assert (cli.run("consume", "C").code, cli.run("consume", "NONE").code) == (6, 6)


def test_dead_letters(place: Place) -> None:
    process, cli, _ = place
    client = Client(process.port)
    client.connect()
    try:
        assert cli("dlq", "retry", "--limit", "1", "--json").json == {"retried": 1, "left": 0}
        client.consume("/queue/BACK")
        client.wait_for(1)
        assert cli("dlq", "purge", "--json").json == {"removed": 2, "left": 0}
        assert cli.run("dlq", "purge").code == 6
    finally:
        client.close()
    assert client.bodies == {"0"}


def test_a_broker_at_the_address_of_another_is_not_asked(place: Place, tmp_path: Path) -> None:
    _, _, api = place
    url = f"sqlite:///{tmp_path}/mq.db"
    source, locker = DataSourceConfig(url=url), SharedFileLockerConfig(directory=str(tmp_path))
    with jdbcstore.open(Configuration(data_source=source, locker=locker)) as store:
        assert isinstance(store, jdbcstore.JdbcStore)
        store.queue("Q").add_message(Message("here"))
        store.announce([("management", f"http://{api.address}"), ("name", "another")])
        cli = CommandLine(tmp_path, url, JDBCSTORE_BROKER_LOGIN=":".join(LOGIN))
        refused = cli.run("purge", "Q")
        assert (refused.code, "stop that process first" in refused.err) == (8, True)
        assert store.queue("Q").message_count() == 1


def test_a_login(place: Place) -> None:
    process, cli, _ = place
    refused = CommandLine(cli.folder, cli.environment["JDBCSTORE_URL"]).run("send", "Q", "x")
    assert refused.code != 0
    assert "JDBCSTORE_BROKER_LOGIN" in refused.err
    assert process.log.read_text().count('"operation": "send"') >= 1
