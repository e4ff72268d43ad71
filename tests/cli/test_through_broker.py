"""Commands that ask the broker that is the master, instead of refusing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Configuration, Destination, Message
from jdbcstore.broker.management.audit import AUDIT_LOG
from jdbcstore.broker.security import hash_password
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.broker import Address
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.config.users import write_user
from jdbcstore.errors import StoreUnavailable
from jdbcstore.message.ids import XATransactionId
from jdbcstore.testing.polling import wait_until
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.cli.command_line import CommandLine
from tests.support.cli.damage import damage
from tests.support.ports import free_port

Place = tuple[BrokerProcess, CommandLine, ApiClient]
LOGIN = ("me", "secret")
ORIGINS = ("OTHER", "OTHER", "BACK", "BACK", "BACK")
"""Where dead letters come from."""


def _is_resolved() -> bool:
    try:
        return bool(socket.getaddrinfo(socket.gethostname(), None))
    except OSError:
        return False


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker with users, the command line on its store with a login, and its management."""
    folder, port = tmp_path_factory.mktemp("broker"), free_port()
    url, users = f"sqlite:///{folder}/mq.db", folder / "users.toml"
    write_user(users, "me", hash_password("secret"), role="manage")
    write_user(users, "test", hash_password("secret"))
    with jdbcstore.open(url) as store:
        store.queue("ActiveMQ.DLQ").add_messages(
            [Message(str(n), original_destination=Destination.queue(to)) for n, to in enumerate(ORIGINS)]
        )
        for number in range(2):
            branch = store.xa.start(XATransactionId(1, b"g", bytes([number])))
            branch.queue("DOUBT").add_message(Message(f"x{number}"))
            assert branch.prepare()
        store.topic("T").subscribe("c", "s")
        store.topic("N.>").subscribe("c", "all")
        store.queue("READ").add_messages([Message(str(n)) for n in range(120)])
        needle = Message("0", properties={"k": "needle"})
        [damaged, *_] = store.queue("DAMAGED").add_messages([needle, Message("1"), Message("2")])
    damage(url, damaged.sequence, find=b"\x09\x00\x06needle", replace=b"\x63\x00\x06needle")
    options = ("--url", url, "--health", f"127.0.0.1:{port}", "--users", str(users))
    with BrokerProcess(folder, *options) as process:
        process.ready()
        with jdbcstore.JdbcStore(url, read_only=True) as store:
            wait_until(store.announced, what="the address of the master")
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


def test_a_durable_subscription(place: Place) -> None:
    _, cli, _ = place
    one = ("--client-id", "c", "--subscription", "all")
    for body in ("1", "2", "3"):
        assert cli("send", "topic://N.B", body).code == 0
    wrong = cli.run("consume", "topic://N.B", *one)
    assert (wrong.code, "subscribes to topic://N.>" in wrong.err) == (2, True)
    assert cli.run("consume", "topic://N.>", "--client-id", "c", "--subscription", "none").code == 6
    assert cli("consume", "topic://N.>", *one, "--json").json["body"] == "1"
    listed = {row["destination"]: row for row in cli("subscriptions", "--json").lines}
    row = listed["topic://N.B"]
    assert (row["subscription_name"], row["pending"], row["active"]) == ("all", 2, False)
    shown = cli("consume", "topic://N.>", *one, "--count", "5")
    assert ("\n2\n" in shown.out, "\n3\n" in shown.out, "original_destination" in shown.out) == (
        True,
        True,
        False,
    )
    assert cli.run("consume", "topic://N.>", *one).code == 6


def test_readings(place: Place) -> None:
    """The same facts as those of the database, and those that only the broker has."""
    _, cli, api = place
    for body, fields in (("in memory", {"persistent": False}), ("last", {"properties": {"n": 7}})):
        api.post(queue("READ", "messages"), body=body, **fields)
    asked = cli("browse", "READ", "--json")
    assert "asking the broker at http://127.0.0.1:" in asked.err
    assert [one["body"] for one in asked.lines] == [*map(str, range(120)), "last", "in memory"]
    some = cli("browse", "READ", "--limit", "2", "--selector", "n = 7 OR JMSPriority = 4", "--json").lines
    assert [one["body"] for one in some] == ["0", "1"]
    without = CommandLine(cli.folder, cli.environment["JDBCSTORE_URL"])
    read = without("browse", "READ", "--json")
    assert "needs JDBCSTORE_BROKER_LOGIN" in read.err
    assert read.lines == asked.lines[:-1]
    assert cli("browse", "NONE", "--json").lines == []
    facts = cli("status", "--json").json
    [row] = [one for one in facts["destinations"] if one["destination"] == "queue://READ"]
    assert (row["message_count"], row["consumers"], row["in_flight"]) == (122, 0, 0)
    assert (facts["broker"]["url"], facts["broker"]["connections"]) == (f"http://{api.address}", 0)
    assert "consumers" in cli("status").out
    assert without("status", "--json").json["broker"] is None


def test_transactions_in_doubt(place: Place) -> None:
    _, cli, api = place
    first, second = (one["xid"] for one in api.get("/api/transactions"))
    listed = cli("xa", "list", "--json")
    assert "asking the broker at" in listed.err
    without = CommandLine(cli.folder, cli.environment["JDBCSTORE_URL"])
    assert listed.lines == without("xa", "list", "--json").lines
    assert [(one["format_id"], one["writes"][0]["added"]) for one in listed.lines] == [(1, 1)] * 2
    assert cli("xa", "commit", first, "--json").json == {"xid": first, "outcome": "committed"}
    assert cli("xa", "rollback", second, "--json").json == {"xid": second, "outcome": "rolled back"}
    assert api.get("/api/transactions") == []
    assert api.get(queue("DOUBT"))["size"] == 1
    gone = cli.run("xa", "commit", first)
    assert (gone.code != 0, "the broker at http" in gone.err) == (True, True)


def test_what_only_a_broker_can_do(place: Place, tmp_path: Path) -> None:
    process, cli, api = place
    for number in range(4):
        api.post(queue("MANAGED", "messages"), body=str(number), properties={"n": number})
    assert cli("manage", "create", "topic://FRESH", "--json").json == {"created": "topic://FRESH"}
    options = {one["option"]: one for one in cli("manage", "configuration", "--json").json["options"]}
    assert options["broker.health"]["value"].startswith("127.0.0.1:")
    assert "manage" in [json.loads(one)["role"] for one in cli("manage", "users", "--json").out.splitlines()]
    assert json.loads(cli("manage", "log", "--search", '"create"', "--json").out)["logger"] == AUDIT_LOG
    assert "set scheduler_support" in cli.run("manage", "scheduled").err
    assert cli("manage", "pause", "MANAGED", "--json").json["is_paused"]
    assert api.get(queue("MANAGED"))["is_paused"]
    assert "resumed queue://MANAGED" in cli("manage", "resume", "MANAGED").out
    assert not api.get(queue("MANAGED"))["is_paused"]
    moved = cli("manage", "move", "MANAGED", "--to", "ELSEWHERE", "--selector", "n > 1")
    assert "moved 2 messages from queue://MANAGED to queue://ELSEWHERE" in moved.out
    some = ("--limit", "1", "--to", "topic://COPIES", "--json")
    assert cli("manage", "copy", "MANAGED", *some).json == {"copied": 1}
    assert (api.get(queue("MANAGED"))["size"], api.get(queue("ELSEWHERE"))["size"]) == (2, 2)
    assert cli.run("manage", "pause", "topic://T").code == 2
    changed = cli("manage", "change", "MANAGED", "--selector", "n = 0", "--priority", "9")
    assert "changed 1 message of queue://MANAGED" in changed.out
    assert [one["priority"] for one in api.get(queue("MANAGED", "messages"))] == [4, 9]
    assert cli.run("manage", "change", "MANAGED").code == 2
    for act in (("move", "--to", "ELSEWHERE"), ("copy", "--to", "ELSEWHERE"), ("change", "--priority", "9")):
        assert cli.run("manage", act[0], "MANAGED", *act[1:]).code == 2
        assert cli.run("manage", act[0], "MANAGED", *act[1:], "--selector", "").code == 2
    assert cli.run("manage", "remove", "MANAGED").code == 2
    assert cli("manage", "remove", "MANAGED", "--limit", "1", "--json").json == {"removed": 1, "left": 0}
    assert "reset the counters" in cli("manage", "reset-counters", "MANAGED").out
    assert api.get(queue("MANAGED"))["enqueued"] == 0
    assert cli("manage", "reset-counters", "--json").json == {"reset": "all"}
    assert api.get(queue("ELSEWHERE"))["enqueued"] == 0
    assert "deleted queue://ELSEWHERE with 2 messages" in cli("manage", "delete", "ELSEWHERE").out
    assert api.ask("GET", queue("ELSEWHERE"))[0] == 404
    assert cli.run("manage", "delete", "ELSEWHERE").code == 2
    client = Client(process.port)
    client.connect()
    try:
        [one] = cli("manage", "connections", "--json").lines
        assert one["user"] == "test"
        assert cli("manage", "drop", one["id"]).code == 0
        assert cli.run("manage", "drop", "nobody").code == 6
    finally:
        client.drop()
    assert cli("manage", "checkpoint").code == 0
    alone = CommandLine(tmp_path, f"sqlite:///{tmp_path}/alone.db")
    assert alone("init").code == 0
    nobody = alone.run("manage", "pause", "Q")
    assert (nobody.code, "no broker with a management" in nobody.err) == (8, True)


def test_what_is_damaged_stays(place: Place) -> None:
    _, cli, api = place
    for count in ("1", "9"):
        taken = cli.run("consume", "DAMAGED", "--count", count, "--json")
        assert (taken.code, taken.err.count("cannot decode")) == (7, 1)
        assert [one["body"] for one in taken.lines] == (["1"] if count == "1" else ["2"])
    assert api.get(queue("DAMAGED"))["size"] == 1
    shown = cli.run("browse", "DAMAGED", "--json")
    assert (shown.code, shown.lines) == (7, [])


def test_subscriptions_are_created_and_cleaned_up(place: Place) -> None:
    _, cli, _ = place
    one = ("topic://MADE", "--client-id", "a/b", "--subscription", "made")
    cli("send", "topic://MADE", "before")
    made = cli("subscribe", *one, "--selector", "n IS NULL", "--json")
    assert "asking the broker at" in made.err
    assert (made.json["subscription_name"], made.json["pending"]) == ("made", 0)
    cli("send", "topic://MADE", "wanted")
    assert cli("subscribe", *one, "--selector", "n IS NULL", "--json").json["pending"] == 1
    other = cli.run("subscribe", *one, "--selector", "n = 1")
    assert (other.code, "made of a/b subscribes to topic://MADE with 'n IS NULL'" in other.err) == (1, True)
    assert cli.run("subscribe", "topic://MADE", "--client-id", "c" * 300, "--subscription", "x").code != 0
    cli("subscribe", "topic://MADE", "--client-id", "c", "--subscription", "late", "--retroactive")
    [row] = [one for one in cli("subscriptions", "--json").lines if one["subscription_name"] == "late"]
    assert row["pending"] == 1
    assert [one["body"] for one in cli("consume", *one, "--json").lines] == ["wanted"]
    assert "asking the broker at" in cli("cleanup").err  # of other topics
    assert cli("cleanup", "--json").json["removed"] == 0
    cli("unsubscribe", "topic://MADE", "--client-id", "c", "--subscription", "late")
    assert cli("cleanup", "--json").json["removed"] == 1


@pytest.mark.skipif(not _is_resolved(), reason="this machine's own name has no address")
def test_a_broker_at_every_address_is_asked_by_its_hosts_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    with BrokerProcess(tmp_path, "--url", url, "--health", f"0.0.0.0:{free_port()}") as process:
        process.ready()
        with jdbcstore.JdbcStore(url, read_only=True) as store:
            wait_until(store.announced)
        cli = CommandLine(tmp_path, url)
        sent = cli("send", "Q", "x")
        assert f"asking the broker at http://{socket.gethostname()}:" in sent.err
        assert cli("purge", "Q", "--json").json["removed"] == 1
        assert cli("status", "--json").json["broker"] is not None
        assert cli("dlq", "list").code == 0


def test_topics(place: Place) -> None:
    _, cli, _ = place
    assert cli("send", "topic://T", "for a subscription").code == 0
    assert cli("purge", "topic://T", "--json").json["removed"] == 1
    assert cli("unsubscribe", "topic://T", "--client-id", "c", "--subscription", "s").code == 0
    assert cli.run("unsubscribe", "topic://T", "--client-id", "c", "--subscription", "s").code == 6


def test_consume(place: Place) -> None:
    _, cli, api = place
    for body in ("one", "two", "three"):
        api.post(queue("C", "messages"), body=body, properties={"n": 1})
    first = cli("consume", "C", "--json")
    assert [(one["body"], one["properties"]) for one in first.lines] == [("one", {"n": 1})]
    others = cli("consume", "C", "--count", "9", "--json")
    assert [one["body"] for one in others.lines] == ["two", "three"]
    assert (cli.run("consume", "C").code, cli.run("consume", "NONE").code) == (6, 6)


def test_dead_letters(place: Place, tmp_path: Path) -> None:
    process, cli, _ = place
    client = Client(process.port)
    client.connect()
    try:
        listed = cli("dlq", "list", "--json").lines
        assert [one["original_destination"] for one in listed] == ["queue://OTHER"] * 2 + ["queue://BACK"] * 3
        assert {one["dead_letter_queue"] for one in listed} == {"queue://ActiveMQ.DLQ"}
        chosen = ("--from", "BACK", "--id", listed[3]["message_id"])
        assert cli("dlq", "list", *chosen, "--json").lines == [listed[3]]
        # More ids than the broker takes in one request.
        many = tmp_path / "ids"
        ids = [*(f"ID:none:{'x' * 90}:1:1:{n}" for n in range(12_000)), listed[0]["message_id"]]
        many.write_text("\n".join(ids))
        assert cli("dlq", "purge", "--ids", str(many), "--json").json == {"removed": 1, "left": 0}
        assert cli("dlq", "purge", "--from", "OTHER", "--json").json == {"removed": 1, "left": 0}
        assert cli.run("dlq", "retry", "--from", "OTHER").code == 6
        chosen = ("--from", ">", "--limit", "1")
        assert cli("dlq", "retry", *chosen, "--json").json == {"retried": 1, "left": 0}
        client.consume("/queue/BACK")
        client.wait_for(1)
        assert cli("dlq", "purge", "--all", "--json").json == {"removed": 2, "left": 0}
        assert cli.run("dlq", "purge", "--all").code == 6
    finally:
        client.close()
    assert client.bodies == {"2"}


def test_what_is_left_is_said(place: Place) -> None:
    process, cli, api = place
    # A message that a client sends there has no original destination.
    api.post(queue("ActiveMQ.DLQ", "messages"), body="of unknown origin")
    found = cli.run("dlq", "retry", "--all", "--json")
    assert found.json["left"] == 1
    assert "1 message left: the original" in found.err
    assert cli("dlq", "purge", "--all", "--json").json == {"removed": 1, "left": 0}
    client = Client(process.port, acknowledges=False)
    client.connect()
    try:
        api.post(queue("HELD", "messages"), body="x")
        client.consume("/queue/HELD")
        client.wait_for(1)
        found = cli("purge", "HELD", "--json")
        assert (found.json["removed"], found.json["left"]) == (0, 1)
        assert "1 message left: consumers" in found.err
    finally:
        client.close()


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


@pytest.mark.parametrize("where", ["/x", "/api/nothing"])
def test_an_address_that_is_not_the_management_has_no_empty_queues(
    place: Place, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, api = place
    monkeypatch.setenv("JDBCSTORE_BROKER_LOGIN", ":".join(LOGIN))
    there, elsewhere = (RemoteBroker(f"http://{api.address}{one}") for one in ("", where))
    none = Destination.queue("NONE")
    assert (there.act("purge", none).count, there.consume(none, 1)["token"]) == (0, None)
    assert (there.on_queue("browse", none, []), list(there.pages(none, 1))) == ([], [])
    for ask in (
        lambda: elsewhere.act("purge", none),
        lambda: elsewhere.consume(none, 1),
        lambda: elsewhere.call("browse", none),
        lambda: [*elsewhere.pages(none, 1)],
    ):
        with pytest.raises(StoreUnavailable, match=f"{where} is not the management"):
            ask()
    assert not elsewhere.is_master("anything")


@pytest.mark.parametrize("answer", [b"ERROR\n\n\0", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_a_listener_that_is_no_management(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reply() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(StoreUnavailable, match="no answer from the broker"):
            RemoteBroker(f"http://127.0.0.1:{server.getsockname()[1]}").call("broker")
        thread.join()


def test_a_login(place: Place) -> None:
    process, cli, _ = place
    refused = CommandLine(cli.folder, cli.environment["JDBCSTORE_URL"]).run("send", "Q", "x")
    assert refused.code != 0
    assert "JDBCSTORE_BROKER_LOGIN" in refused.err
    assert cli.run("send", "Q", "x").code == 0
    assert process.log.read_text().count('"operation": "send"') >= 1
