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


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[BrokerProcess, CommandLine, ApiClient]]:
    """A broker, the command line on its store, and its management."""
    url, port = f"sqlite:///{tmp_path}/mq.db", free_port()
    with jdbcstore.open(url) as store:
        store.queue("ActiveMQ.DLQ").add_messages(
            [Message(str(n), original_destination=Destination.queue("BACK")) for n in range(3)]
        )
    with BrokerProcess(tmp_path, "--url", url, "--health", f"127.0.0.1:{port}") as process:
        process.ready()
        api = ApiClient(Address("127.0.0.1", port))
        yield process, CommandLine(tmp_path, url), api


def test_commands_that_write(place: tuple[BrokerProcess, CommandLine, ApiClient]) -> None:
    process, cli, api = place
    client = Client(process.port)
    client.connect()
    try:
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
        assert cli("purge", "Q", "--json").json["removed"] == 3
        assert cli("purge", "NONE", "--json").json["removed"] == 0
        assert cli("dlq", "retry", "--limit", "1", "--json").json == {"retried": 1, "left": 0}
        client.consume("/queue/BACK")
        client.wait_for(1)
        assert cli("dlq", "purge", "--json").json == {"removed": 2, "left": 0}
        assert cli.run("dlq", "purge").code == 6
        assert cli.run("unsubscribe", "topic://T", "--client-id", "c", "--subscription", "s").code == 6
        refused = cli.run("purge", "topic://T")
        assert (refused.code, "stop that process first" in refused.err) == (8, True)
    finally:
        client.close()
    assert client.bodies == {"0"}


def test_a_broker_at_the_address_of_another_is_not_asked(tmp_path: Path) -> None:
    port, urls = free_port(), [f"sqlite:///{tmp_path}/{name}/mq.db" for name in ("one", "other")]
    for url in urls:
        Path(url.removeprefix("sqlite:///")).parent.mkdir()
    options = ("--health", f"127.0.0.1:{port}")
    with BrokerProcess(tmp_path, "--url", urls[0], *options) as process:
        process.ready()
        assert CommandLine(tmp_path, urls[0])("send", "Q", "here").code == 0
    with BrokerProcess(tmp_path, "--url", urls[1], *options) as process:
        process.ready()
        assert CommandLine(tmp_path, urls[1])("send", "Q", "there").code == 0
        one = DataSourceConfig(url=urls[0])
        locker = SharedFileLockerConfig(directory=str(tmp_path / "one"))
        with jdbcstore.open(Configuration(data_source=one, locker=locker)) as store:
            refused = CommandLine(tmp_path, urls[0]).run("purge", "Q")
            assert (refused.code, "stop that process first" in refused.err) == (8, True)
            assert store.queue("Q").message_count() == 1
        assert ApiClient(Address("127.0.0.1", port)).get(queue("Q"))["size"] == 1


def test_a_login(tmp_path: Path) -> None:
    url, port, users = f"sqlite:///{tmp_path}/mq.db", free_port(), tmp_path / "users.toml"
    write_user(users, "me", hash_password("secret"), role="manage")
    options = ("--url", url, "--health", f"127.0.0.1:{port}", "--users", str(users))
    with BrokerProcess(tmp_path, *options) as process:
        process.ready()
        refused = CommandLine(tmp_path, url).run("send", "Q", "x")
        assert refused.code != 0
        assert "JDBCSTORE_BROKER_LOGIN" in refused.err
        allowed = CommandLine(tmp_path, url, JDBCSTORE_BROKER_LOGIN="me:secret")
        assert allowed("send", "Q", "x").code == 0
