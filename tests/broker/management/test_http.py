"""The management over HTTP: a broker's process under STOMP clients, the roles of users, hostile input."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import jdbcstore
from jdbcstore import errors
from jdbcstore.broker.management.audit import AUDIT_LOG
from jdbcstore.broker.management.bean_names import DOMAIN
from jdbcstore.broker.management.http import MAX_BODY
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.broker.security import hash_password
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.config.broker import Address, BrokerConfig, ConnectorConfig
from jdbcstore.config.users import ROLES, write_user
from jdbcstore.testing.polling import wait_until
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.frames import Stomp
from tests.support.broker.hostile import attack
from tests.support.broker.jolokia import ORDERS, exec_
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.ports import free_port

SEND = {"body": "two pints", "properties": {"table": 7}}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[BrokerProcess, ApiClient]]:
    port = free_port()
    url = f"sqlite:///{tmp_path}/mq.db"
    with BrokerProcess(tmp_path, "--url", url, "--health", f"127.0.0.1:{port}") as process:
        process.ready()
        yield process, ApiClient(Address("127.0.0.1", port))


def test_under_load_nothing_is_lost_that_was_not_removed_and_nothing_removed_is_delivered(
    broker: tuple[BrokerProcess, ApiClient], tmp_path: Path
) -> None:
    process, api = broker
    total = 300
    consumer, elsewhere, producer = (Client(process.port) for _ in range(3))
    try:
        consumer.connect()
        consumer.consume("/queue/WORK")
        elsewhere.connect()
        elsewhere.consume("/queue/ELSEWHERE")

        def produce() -> None:
            producer.connect()
            for number in range(total):
                producer.send("/queue/WORK", f"m{number}", n=str(number))

        producing = threading.Thread(target=produce)
        producing.start()
        removed = moved = 0
        while producing.is_alive():
            api.post(queue("WORK", "pause"))
            producing.join(0.05)
            moved += api.post(queue("WORK", "move"), selector="n LIKE '%7'", to="ELSEWHERE")["count"]
            removed += api.post(queue("WORK", "remove"), limit=2)["count"]
            api.post(queue("WORK", "resume"))
            removed += api.post(queue("WORK", "purge"))["count"]
        producing.join()
        assert not producer.sent_again
        removed += api.post(queue("WORK", "purge"))["count"]
        consumer.wait_for(total - removed - moved)
        elsewhere.wait_for(moved)
        given = [body for one in (consumer, elsewhere) for body, _ in one.received]
        assert len(given) == len(set(given)) == total - removed
        assert {body[-1] for body in elsewhere.bodies} <= {"7"}
    finally:
        for one in (consumer, elsewhere, producer):
            one.close()
    process.end()
    with jdbcstore.open(f"sqlite:///{tmp_path}/mq.db") as store:
        assert store.destinations() == []


def test_views_and_operations(broker: tuple[BrokerProcess, ApiClient]) -> None:
    process, api = broker
    assert api.post(queue("A/B c", "messages"), **SEND) == {"count": 1, "left": 0, "is_stopped": False}
    [shown] = api.get(queue("A/B c", "messages"))
    assert (shown["body"], shown["properties"]) == ("two pints", {"table": 7})
    assert api.get(queue("A/B c", f"messages/{shown['message_id']}")) == shown
    found = api.get(queue("A/B c"))
    assert (found["name"], found["size"], found["is_paused"]) == ("queue://A/B c", 1, False)
    assert found["oldest_age"] >= 0
    for number in range(4):
        api.post("/api/topics/T.X/messages", body=str(number))
        api.post(queue(f"Q{number}", "messages"), body="x")
    listed = api.get("/api/destinations?kind=queue&search=q&sort=name&order=desc&offset=1&limit=2")
    assert listed["total"] == 5
    assert [one["name"] for one in listed["destinations"]] == ["queue://Q2", "queue://Q1"]
    aged = api.get("/api/destinations?ages=true&search=x")["destinations"]
    assert [(one["name"], one["oldest_age"]) for one in aged] == [("topic://T.X", None)]
    [aged] = api.get("/api/destinations?ages=true&search=q3")["destinations"]
    assert aged["oldest_age"] >= 0
    assert api.get("/api/topics/T.X")["enqueued"] == 4
    whole = api.get("/api/broker")
    assert (whole["condition"]["state"], whole["queues"], whole["topics"]) == ("serving", 5, 1)
    assert whole["addresses"] == [f"stomp://127.0.0.1:{process.port}"]
    assert api.get("/api/lock")["is_held"]
    assert api.get("/api/store")["timings"]["commit"]["count"] > 0
    assert api.get("/api/transactions") == []
    client = Client(process.port, acknowledges=False)
    client.connect()
    try:
        client.consume("/queue/Q1")
        client.wait_for(1)
        [connection] = api.get("/api/connections")
        assert (connection["consumers"], connection["in_flight"]) == (1, 1)
        [subscription] = api.get("/api/subscriptions?pending=true")
        assert (subscription["destination"], subscription["is_active"]) == ("queue://Q1", True)
        assert api.post(queue("Q1", "purge")) == {"count": 0, "left": 1, "is_stopped": False}
        assert api.ask("DELETE", queue("Q1"))[0] == 400
        assert api.ask("DELETE", f"/api/connections/{connection['id']}")[0] == 200
        assert api.ask("DELETE", f"/api/connections/{connection['id']}")[0] == 404
    finally:
        client.drop()
    assert api.post(queue("Q2", "change"), priority=9, ttl_ms=60_000)["count"] == 1
    [changed] = api.get(queue("Q2", "messages"))
    assert (changed["priority"], changed["expiration"] > changed["timestamp"]) == (9, True)
    assert api.post(queue("Q2", "purge"), expired=True) == {"count": 0, "left": 0, "is_stopped": False}
    assert api.post("/api/topics/T.X/purge") == {"count": 0, "left": 0, "is_stopped": False}
    for path in (queue("Q2", "reset-counters"), "/api/topics/T.X/reset-counters", "/api/reset-counters"):
        assert api.post(path) == {}
    assert (api.get(queue("Q2"))["size"], api.get(queue("Q2"))["enqueued"]) == (1, 0)
    assert [one["event"] for one in api.get("/api/lock/history")] == ["master"]
    assert api.get("/api/journal") is None
    assert api.ask("DELETE", queue("Q2")) == (200, {"count": 1, "left": 0, "is_stopped": False})
    assert api.ask("GET", queue("Q2"))[0] == 404
    assert api.post(queue("Q3", "copy"), to="topic://T.X")["count"] == 1
    api.post("/api/checkpoint")
    lines = [json.loads(line) for line in process.log.read_text().splitlines() if line.startswith("{")]
    assert [line["operation"] for line in lines][-3:] == ["delete", "copy", "checkpoint"]
    assert "pints" not in process.log.read_text()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/nothing", None, 404),
        ("GET", "/api/queues/NONE", None, 404),
        ("GET", "/api/queues/NONE/messages", None, 404),
        ("PATCH", "/api/queues/Q", {}, 405),
        ("GET", "/api/queues/Q/messages?selector=n%20%3E", None, 400),
        ("GET", "/api/queues/Q/messages?limit=0", None, 400),
        ("GET", "/api/queues/Q/messages?limit=99999999999999999999999", None, 400),
        ("GET", "/api/queues/Q/messages?limit=%D9%A3", None, 400),
        ("GET", "/api/destinations?sort=__class__", None, 400),
        ("GET", "/api/destinations?surprise=1", None, 400),
        ("GET", "/api/queues/Q/messages/none", None, 404),
        ("POST", "/api/queues/Q/messages", b"{", 400),
        ("POST", "/api/queues/Q/messages", b"\xff\xfe", 400),
        ("POST", "/api/queues/Q/messages", b"[" * 100_000, 400),
        ("POST", "/api/queues/Q/messages", [1], 400),
        ("POST", "/api/queues/Q/messages", {"body": 1}, 400),
        ("POST", "/api/queues/Q/messages", {"body": "x", "surprise": 1}, 400),
        ("POST", "/api/queues/Q/messages", {"properties": {"a": [1]}}, 400),
        ("POST", "/api/queues/Q/messages", {"properties": {"a": 1 << 70}}, 400),
        ("POST", "/api/queues/Q/messages", {"priority": 11}, 400),
        ("POST", "/api/queues/Q/messages", {"priority": True}, 400),
        ("POST", "/api/queues/%3E/messages", {"body": "x"}, 400),
        ("POST", "/api/queues/Q/messages", b" " * (MAX_BODY + 1), 413),
        ("POST", "/api/queues/Q/remove", {"ids": "x"}, 400),
        ("POST", "/api/queues/Q/remove", {"ids": [""]}, 400),
        ("POST", "/api/queues/Q/remove", {"selector": ""}, 400),
        ("POST", "/api/queues/Q/retry", {"selector": " "}, 400),
        ("POST", "/api/queues/Q/remove", {"limit": -1}, 400),
        ("POST", "/api/queues/Q/move", {}, 400),
        ("POST", "/api/queues/Q/move", {"to": "Q"}, 400),
        ("POST", "/api/queues/Q/move", {"to": "a,,topic:x"}, 400),
        ("DELETE", "/api/subscriptions/a/b", None, 404),
        ("POST", "/api/subscriptions/a/b/purge", {}, 404),
        ("POST", "/api/transactions/none/commit", {}, 400),
        ("POST", "/api/transactions/XID:%5B1,globalId=01,branchId=02%5D/roll-back", {}, 404),
        ("POST", "/api/queues/Q/change", {}, 400),
        ("POST", "/api/queues/Q/change", {"priority": 10}, 400),
        ("POST", "/api/queues/Q/purge", {"expired": 1}, 400),
        ("POST", "/api/topics/NONE/purge", {}, 404),
        ("POST", "/api/topics/NONE/reset-counters", {}, 404),
    ],
)
def test_what_is_wrong_is_refused(
    one_broker: ApiClient, method: str, path: str, body: Any, status: int
) -> None:
    one_broker.post(queue("Q", "messages"), body="stays")
    found, answer = one_broker.ask(method, path, body)
    assert found == status, answer
    assert set(answer) <= {"error", "type"}
    assert hasattr(errors, answer.get("type", "StoreError"))
    assert one_broker.get(queue("Q"))["size"] >= 1


def test_a_message_goes_to_what_the_address_names(one_broker: ApiClient) -> None:
    for kind, other in (("queues", "topic://MINE"), ("topics", "queue://MINE"), ("queues", "/topic/MINE")):
        status, answer = one_broker.ask("POST", f"/api/{kind}/{quote(other, safe='')}/messages", SEND)
        assert (status, "the address is for a" in answer["error"]) == (400, True)
    assert one_broker.get("/api/destinations?search=MINE")["total"] == 0
    for kind, name in (("queues", "queue://MINE"), ("topics", "topic://MINE"), ("queues", "MINE,topic://B")):
        one_broker.post(f"/api/{kind}/{quote(name, safe='')}/messages", **SEND)
    found = one_broker.get("/api/destinations?search=MINE")["destinations"]
    assert [(one["name"], one["enqueued"]) for one in found] == [("queue://MINE", 2), ("topic://MINE", 1)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/nothing", None),
        ("/api/queues/NONE", "DestinationNotFound"),
        ("/api/queues/NONE/messages/none", "DestinationNotFound"),
        ("/api/queues/Q/messages/none", "MessageNotFound"),
    ],
)
def test_what_is_missing_is_named(one_broker: ApiClient, path: str, kind: str | None) -> None:
    one_broker.post(queue("Q", "messages"), body="stays")
    status, answer = one_broker.ask("GET", path)
    assert (status, answer.get("type")) == (404, kind)


def test_only_this_machine_under_its_own_name_is_answered_without_users(one_broker: ApiClient) -> None:
    # Its own name is what a broker at 0.0.0.0 announces.
    for host in ("localhost", "localhost:80", "127.0.0.1", "[::1]:8161", f"{socket.gethostname()}:8161"):
        assert one_broker.ask("GET", "/api/broker", headers={"Host": host})[0] == 200
    for host in ("evil.example.com", "127.0.0.1.evil.example.com", "", "[", "192.0.2.1"):
        assert one_broker.ask("GET", "/api/broker", headers={"Host": host})[0] in (400, 403)
    for name in ("Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Via"):
        assert one_broker.ask("GET", "/api/broker", headers={name: "x"})[0] == 403


@pytest.mark.parametrize("name", ["{curly}", "a{b}c", "{", "%7B", "a b", "ü/x", "a:b"])
def test_names_with_anything(one_broker: ApiClient, name: str) -> None:
    one_broker.post(queue(name, "messages"), body="x")
    assert one_broker.get(queue(name))["size"] == 1
    assert one_broker.post(queue(name, "purge"))["count"] == 1


def test_another_sites_page_changes_nothing(one_broker: ApiClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        found, _ = one_broker.ask("POST", queue("Q", "messages"), {"body": "x"}, {"Content-Type": kind})
        assert found == 415
    headers = {"Content-Type": "text/plain", "X-Requested-By": "me"}
    assert one_broker.ask("POST", queue("Q", "messages"), {"body": "x"}, headers)[0] == 200
    assert one_broker.ask("GET", "/api/broker", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert one_broker.ask("OPTIONS", queue("Q", "purge"))[0] == 405


def test_many_hostile_requests_leave_it_serving(one_broker: ApiClient) -> None:
    assert attack(one_broker.address, 7, 2000) > 1000
    assert one_broker.get("/api/broker")["condition"]["state"] == "serving"


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    folder, port = tmp_path_factory.mktemp("broker"), free_port()
    url = f"sqlite:///{folder}/mq.db"
    with BrokerProcess(folder, "--url", url, "--health", f"127.0.0.1:{port}") as process:
        process.ready()
        yield ApiClient(Address("127.0.0.1", port))


def test_what_each_role_may_do(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password("secret"), role=role)
    write_user(users, "none", hash_password("secret"))
    connector = ConnectorConfig(uri="stomp://127.0.0.1:0")
    configuration = Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{tmp_path}/mq.db"),
        broker=BrokerConfig(connectors=(connector,), health="127.0.0.1:0", users_file=str(users)),
    )
    asks: list[tuple[str, str, Any]] = [
        ("GET", "/api/broker", None),
        ("GET", queue("Q"), None),
        ("GET", queue("Q", "messages"), None),
        ("POST", queue("Q", "pause"), {}),
        ("POST", queue("Q", "purge"), {}),
        ("DELETE", queue("Q"), None),
    ]
    expected = {
        "none": [403] * 6,
        "view": [200, 200, 403, 403, 403, 403],
        "browse": [200, 200, 200, 403, 403, 403],
        "manage": [200] * 6,
    }

    async def main() -> None:
        async with asyncio.timeout(120), BrokerHost(configuration) as host:
            [(_, stomp)] = host.addresses
            async with Stomp(stomp.port, "manage", "secret") as client:
                await client.send("/queue/Q", "seen by few")
            address = host.health_address
            assert address is not None

            def ask() -> None:
                for name, statuses in expected.items():
                    api = ApiClient(address, (name, "secret"))
                    found = [api.ask(*one) for one in asks]
                    assert [status for status, _ in found] == statuses
                    if name == "view":
                        assert "seen by few" not in json.dumps(found)
                for wrong in (None, ("manage", "wrong"), ("nobody", "secret")):
                    assert ApiClient(address, wrong).ask("GET", "/api/broker")[0] == 401
                api = ApiClient(address)
                for text in ("Basic", "Basic !", "Basic " + "=" * 50, "Bearer x", "Basic /w=="):
                    assert api.ask("GET", "/api/broker", headers={"Authorization": text})[0] == 401

            await asyncio.to_thread(ask)

    asyncio.run(main())


def test_what_is_refused_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users = tmp_path / "users.toml"
    for role in ("view", "manage"):
        write_user(users, role, hash_password("secret"), role=role)
    purge = exec_(ORDERS, "purge()")
    foreign = {"Origin": "http://wiki.example\u0085x", "X-Requested-By": "me"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    forged = "x\n2026-01-01 WARNING forged"

    def last() -> str:
        return next(one for one in reversed(caplog.messages) if one.startswith("user "))

    def ask(address: Address) -> None:
        view, manage = (ApiClient(address, (name, "secret")) for name in ("view", "manage"))
        manage.post(queue("ORDERS", "messages"), body="x")
        other = queue("Q", "purge")
        text, cross = {"Content-Type": "text/plain"}, {"Sec-Fetch-Site": "cross-site"}
        for api, method, path, body, headers, line in (
            (view, "POST", other, {}, {}, "'POST /api/queues/Q/purge': this user needs the role"),
            (view, "DELETE", queue(forged), None, {}, "queues/x%0A2026-01-01%20WARNING%20forged'"),
            (view, "GET", "/console/message?name=Q&id=secret", None, {}, "'GET /console/message': this user"),
            (
                manage,
                "POST",
                other,
                {},
                foreign,
                "unless management_origins lists the site (Origin: 'http://wiki.",
            ),
            (manage, "POST", other, {}, text, "needs the content type"),
            (manage, "POST", "/api/jolokia", purge, {"Origin": "null"}, "lists the site (Origin: 'null')"),
            (manage, "POST", "/console/do/purge", b"name=Q&token=secret", form, "the broker was restarted"),
            (manage, "POST", "/console/do/purge", {}, {}, "needs the content type application/x-www"),
            (manage, "GET", "/console", None, cross, "(Sec-Fetch-Site: 'cross-site')"),
        ):
            assert api.ask(method, path, body, headers)[0] in (403, 415)
            user = "view" if api is view else "manage"
            assert last().startswith(f"user '{user}' of 127.0.0.1 is not allowed '{method} /"), line
            assert line in last()
        for api, user, headers, line in (
            (view, "view", {}, "needs the role manage"),
            (manage, "manage", text, "X-Requested-By"),
        ):
            assert api.ask("POST", "/api/jolokia", purge, headers)[1]["status"] == 403
            assert last().startswith(f"user '{user}' of 127.0.0.1 is not allowed 'exec {DOMAIN}:")
            assert line in last()
        with caplog.at_level(logging.INFO, AUDIT_LOG):
            for _ in range(250):
                assert view.ask("POST", queue("Q", "purge"), {})[0] == 403
        refusals = [one for one in caplog.messages if " is not allowed '" in one]
        assert len(refusals) == 200
        lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == AUDIT_LOG]
        refused = [one for one in lines if one["operation"] == "refused"]
        assert 150 < len(refused) <= 200
        assert (refused[0]["user"], refused[0]["request"]) == ("view", "POST /api/queues/Q/purge")
        assert refused[0]["error"].startswith("this user needs the role manage")
        # Those of anybody do not hide that passwords are guessed.
        assert ApiClient(address, (forged, "wrong")).ask("GET", "/api/broker")[0] == 401
        assert last().startswith(f"user {forged!r} of 127.0.0.1 failed to log in")
        assert manage.ask("POST", queue("NONE", "purge"), {})[0] == 404

    with caplog.at_level(logging.INFO, "jdbcstore.audit"):
        served(tmp_path, ask, users_file=str(users))
    audited = [json.loads(one.getMessage()) for one in caplog.records if one.name == AUDIT_LOG]
    lines = [one for one in audited if one["operation"] != "refused"]
    assert [one.get("error") for one in lines] == [None, "DestinationNotFound"]
    assert (lines[1]["operation"], lines[1]["user"], lines[1]["destination"]) == (
        *("purge", "manage", "queue://NONE"),
    )
    assert not any("\n" in one or "\u0085" in one or "secret" in one for one in caplog.messages)


def test_names_that_point_here_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def ask(address: Address) -> None:
        for headers, line in (
            ({"Host": "evil.example.com"}, "(Host: 'evil.example.com')"),
            (
                {"X-Forwarded-For": "10.0.0.1"},
                "without a users_file only requests from this machine are accepted",
            ),
        ):
            assert ApiClient(address).ask("GET", "/metrics", headers=headers)[0] == 403
            assert caplog.messages[-1].startswith("user '' of 127.0.0.1 is not allowed 'GET /metrics': ")
            assert line in caplog.messages[-1]

    served(tmp_path, ask)


def served(folder: Path, ask: Callable[[Address], None], **broker: Any) -> None:
    connector = ConnectorConfig(uri="stomp://127.0.0.1:0")
    configuration = Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{folder}/mq.db"),
        broker=BrokerConfig(connectors=(connector,), health="127.0.0.1:0", **broker),
    )

    async def main() -> None:
        async with asyncio.timeout(120), BrokerHost(configuration) as host:
            assert host.health_address is not None
            await asyncio.to_thread(ask, host.health_address)

    asyncio.run(main())


def test_the_mastership_is_handed_over(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    ports = free_port(), free_port()
    one, other = [ApiClient(Address("127.0.0.1", port)) for port in ports]
    with BrokerProcess(tmp_path, "--url", url, "--health", f"127.0.0.1:{ports[0]}") as master:
        master.ready()
        one.post(queue("Q", "messages"), body="kept")
        with BrokerProcess(tmp_path, "--url", url, "--health", f"127.0.0.1:{ports[1]}") as slave:
            assert slave.line().startswith("waiting for lock")
            assert other.ask("POST", queue("Q", "purge"), {})[0] == 503
            assert not other.get("/api/lock")["is_held"]

            def handed_over() -> bool:
                one.ask("POST", "/api/hand-over", {})  # again, if nobody has taken the lock in time
                return bool(other.get("/api/lock")["is_held"])

            wait_until(handed_over, 120.0, "that the other is the master")
            slave.ready()
            assert [message["body"] for message in other.get(queue("Q", "messages"))] == ["kept"]
            assert one.ask("POST", queue("Q", "purge"), {})[0] == 503

            def waits() -> bool:
                found = one.get("/api/broker")["condition"]
                return bool(found["state"] == "waiting for another broker" and "holds" in found["reason"])

            wait_until(waits, 120.0, "that the former master is a slave")
            history = one.get("/api/lock/history")
            assert [event["event"] for event in history[:2]] == ["master", "handed_over"]
            events = [event["event"] for event in other.get("/api/lock/history")]
            assert (events[0], events[-1]) == ("waiting", "master")
