"""Prometheus scrapes a broker that serves: what the dashboard and the alerts ask for has answers."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from jdbcstore.broker.security import hash_password
from jdbcstore.config.broker import Address
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.config.users import ROLES, write_user
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.console import console_of
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.broker.prometheus import Prometheus, prometheus
from tests.support.ports import free_port

MONITORING = ROOT / "docs" / "monitoring"
PASSWORD = "secret"
VARIABLES = {"$job": "prometheus", "$instance": ".*", "$destination": ".*", "$__rate_interval": "5m"}


@contextmanager
def traffic(port: int, api: ApiClient) -> Iterator[None]:
    """Messages that are sent and consumed, and checkpoints, until the block ends."""
    ended = threading.Event()
    sender, consumer = Client(port), Client(port)
    for client in (sender, consumer):
        client.connect()
    consumer.consume("/queue/ORDERS")

    def produce() -> None:
        number = 0
        while not ended.wait(0.05):
            number += 1
            sender.send("/queue/ORDERS", str(number))
            sender.send("/topic/NEWS", str(number))
            if number % 20 == 0:
                api.post("/api/checkpoint")

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        sender.close()
        consumer.close()


def dead_letter(port: int) -> None:
    """A consumer of REFUSED that refuses what it gets, until it is in the dead letter queue."""
    client = Client(port, acknowledges=False)
    client.connect()
    client.consume("/queue/REFUSED")
    client.wait_for(1)
    client.connection.nack(client.received[0][1]["ack"])
    client.close()


def dashboard() -> Iterator[tuple[str, str]]:
    """Each query of the dashboard, by its panel, its variables replaced."""
    for panel in json.loads((MONITORING / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            yield panel["title"], query


def states(server: Prometheus) -> dict[str, str]:
    """The state of each alert."""
    return {name: rule["state"] for name, rule in server.alerts().items()}


@pytest.mark.slow
def test_prometheus_scrapes_a_broker_under_load(tmp_path: Path) -> None:
    prometheus()  # skipped before anything is started
    users = tmp_path / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password(PASSWORD), role=role)
    write_user(users, "test", hash_password(PASSWORD))
    login = {"basic_auth": {"username": "view", "password": PASSWORD}}
    folder, journal = str(tmp_path), str(tmp_path / "journal")
    with console_of(
        f"sqlite:///{tmp_path}/mq.db",
        locker=SharedFileLockerConfig(directory=folder),
        journal=JournalConfig(directory=journal),
        users_file=str(users),
    ) as (client, port):
        api = ApiClient(client.api.address, ("manage", PASSWORD))
        for name in ("REFUSED", "PAUSED"):
            api.post(queue(name, "messages"), body="x")
        api.post(queue("PAUSED", "pause"))
        jobs = {"prometheus": login, "nobody": {}}
        rules = MONITORING / "alerts.yml"
        with (
            Prometheus(tmp_path, rules, [str(client.api.address)], jobs) as server,
            traffic(port, api),
        ):
            refused = 'jdbcstore_destination_dead_messages_total{destination="REFUSED"}'
            wait_until(lambda: server.values(refused) == [0], what="the dead letters that are scraped")
            dead_letter(port)
            wait_until(lambda: server.values(refused) == [1], what="the dead letters that are scraped")

            wait_until(lambda: server.targets()["prometheus"]["health"] == "up", what="the target")
            wait_until(lambda: server.values('up{job="prometheus"}') == [1], what="the target")
            wait_until(lambda: "401" in server.targets()["nobody"]["lastError"], what="the refusal")
            assert server.targets()["nobody"]["health"] == "down"

            queries = [*dashboard()]
            assert len(queries) > 25
            assert not [query for _, query in queries if "$" in query]
            for title, query in queries:
                wait_until(partial(server.values, query), what=f"{title}: {query}")
            [rate] = server.values("sum(rate(jdbcstore_broker_enqueued_messages_total[5m]))")
            assert rate > 0
            sizes = {"match[]": "jdbcstore_destination_messages"}
            assert "ORDERS" in server.ask("label/destination/values", **sizes)

            expected = {
                "JdbcstoreDeadLetters": "firing",
                "JdbcstoreNoConsumer": "pending",
                "JdbcstorePaused": "pending",
                "JdbcstoreNoMaster": "inactive",
                "JdbcstoreTwoMasters": "inactive",
            }
            wait_until(lambda: expected.items() <= states(server).items(), what="the states of the alerts")
            alerts = server.alerts()
            assert {rule["health"] for rule in alerts.values()} == {"ok"}
            assert len(alerts) == (MONITORING / "alerts.yml").read_text().count("- alert: ")
            [firing] = alerts["JdbcstoreDeadLetters"]["alerts"]
            assert firing["labels"]["destination"] == "REFUSED"
            alone = {one["labels"]["destination"] for one in alerts["JdbcstoreNoConsumer"]["alerts"]}
            assert "PAUSED" in alone
            assert "ActiveMQ.DLQ" not in alone


@pytest.mark.slow
def test_alerts_fire_and_end_over_a_failover(tmp_path: Path) -> None:
    """Two brokers on a database: the slave is stopped, the master killed; then the slave goes on."""
    prometheus()  # skipped before anything is started
    rules = tmp_path / "alerts.yml"
    shortened, count = re.subn(r"for: \w+", "for: 1s", (MONITORING / "alerts.yml").read_text())
    assert count > 10
    rules.write_text(shortened)
    url, ports = f"sqlite:///{tmp_path}/mq.db", [free_port() for _ in range(3)]
    addresses = [Address("127.0.0.1", free_port()) for _ in range(2)]

    def broker(which: int) -> BrokerProcess:
        where = ("--url", url, "--health", str(addresses[which]))
        return BrokerProcess(tmp_path, *where, stomp=f"127.0.0.1:{ports[which]}")

    began = time.monotonic()
    with (
        broker(0) as first,
        Prometheus(tmp_path, rules, [*map(str, addresses)], {"prometheus": {}}, "1s") as server,
    ):
        first.ready()
        api = ApiClient(addresses[0])
        for name in ("ALONE", "PAUSED"):
            api.post(queue(name, "messages"), body="x")
        api.post(queue("PAUSED", "pause"))

        def until(state: str, *names: str) -> None:
            wait_until(lambda: {states(server)[name] for name in names} == {state}, what=f"{names} {state}")

        come, end = partial(until, "firing"), partial(until, "inactive")

        with broker(1) as second:
            assert second.line().startswith("waiting for lock")
            come("JdbcstoreNoConsumer", "JdbcstorePaused")
            end("JdbcstoreNoMaster")
            second.process.send_signal(signal.SIGSTOP)
            first.kill()
            come("JdbcstoreNoMaster")
            end("JdbcstoreNoConsumer", "JdbcstorePaused")  # nobody knows
            second.process.send_signal(signal.SIGCONT)
            second.ready()
            end("JdbcstoreNoMaster")
            come("JdbcstoreNoConsumer", "JdbcstorePaused")
            api = ApiClient(addresses[1])
            api.post(queue("PAUSED", "resume"))
            consumer = Client(ports[1])
            consumer.connect()
            for name in ("ALONE", "PAUSED"):
                consumer.consume(f"/queue/{name}")
                consumer.wait_for(1)
            end("JdbcstoreNoConsumer", "JdbcstorePaused")
            with broker(0) as again:
                assert again.line().startswith("waiting for lock")
                wait_until(
                    lambda: sorted(server.values("jdbcstore_broker_serving")) == [0, 1], what="the slave"
                )
            assert states(server)["JdbcstoreTwoMasters"] == "inactive"
            assert {rule["health"] for rule in server.alerts().values()} == {"ok"}
            span = time.monotonic() - began
            silent = {title for title, query in dashboard() if not server.points(query, span)}
            assert silent == {"Journal write time", "Journal records a second"}
            consumer.close()


SERVING = 'jdbcstore_broker_serving{job="mq",instance="%s"}'
UP = 'up{job="mq",instance="one"}'
DEAD = 'jdbcstore_destination_dead_messages_total{instance="one",type="queue",destination="PAY"}'
OF_QUEUE = '{instance="one",type="queue",destination="%s"}'
OF_BROKER = 'jdbcstore_%s{instance="one"}'
OF_DISK = 'jdbcstore_disk_%sbytes{instance="one",folder="/j"}'
CRITICAL, WARNING = {"severity": "critical"}, {"severity": "warning"}


def of_two(one: str, two: str) -> dict[str, str]:
    """The series of two brokers of a job that is always scraped."""
    return {SERVING % "one": one, SERVING % "two": two, UP: "0x30000"}


def waiting(name: str, more: str = "") -> dict[str, str]:
    """The series of a queue with messages and no consumer."""
    found = {"messages": "5x60", "consumers": "0x60"} | ({more: "1x60"} if more else {})
    return {f"jdbcstore_destination_{metric}{OF_QUEUE % name}": values for metric, values in found.items()}


ARRIVALS = "0+60x60"
"""One message per second arrives."""


def growing(sizes: str, consumers: str = "1x60") -> dict[str, str]:
    """The series of a queue with these sizes."""
    found = {"messages": sizes, "consumers": consumers, "paused": "0x60", "enqueued_messages_total": ARRIVALS}
    return {f"jdbcstore_destination_{metric}{OF_QUEUE % 'Q'}": values for metric, values in found.items()}


def of_one(severity: str, text: str) -> tuple[tuple[dict[str, str], str], ...]:
    """An alert of the broker one."""
    return (({"severity": severity, "instance": "one"}, text),)


GROWING = (
    {**WARNING, "instance": "one", "type": "queue", "destination": "Q"},
    "Q grows by 1 messages per second",
)
NO_MASTER = ({**CRITICAL, "job": "mq"}, "No broker of mq serves clients")
TO_DEAD = (
    {**WARNING, "instance": "one", "destination": "PAY"},
    "Messages of PAY go to a dead letter queue",
)
ALONE = (
    {**WARNING, "instance": "one", "type": "queue", "destination": "Q"},
    "Q has 5 messages and no consumer",
)
CASES: dict[str, tuple[str, str, dict[str, str], tuple[tuple[dict[str, str], str], ...]]] = {
    "one serves": ("JdbcstoreNoMaster", "20m", of_two("1x30", "0x30"), ()),
    "a failover": ("JdbcstoreNoMaster", "20m", of_two("1x9 stale", "0x9 1x30"), ()),
    "both are slaves": ("JdbcstoreNoMaster", "20m", of_two("0x30", "0x30"), (NO_MASTER,)),
    "both are gone": ("JdbcstoreNoMaster", "20m", of_two("1x9 stale", "0x9 stale"), (NO_MASTER,)),
    "both are gone for days": ("JdbcstoreNoMaster", "2d", of_two("1x9 stale", "0x9 stale"), (NO_MASTER,)),
    "there was never one": (
        "JdbcstoreNoMaster",
        "20m",
        {UP: "0x30"},
        ((CRITICAL, "No broker serves clients"),),
    ),
    "their job was removed": (
        "JdbcstoreNoMaster",
        "20m",
        {SERVING % "one": "1x9 stale", SERVING.replace('"mq"', '"other"') % "two": "1x30"},
        (),
    ),
    "dead letters": ("JdbcstoreDeadLetters", "20m", {DEAD: "0x15 3x30"}, (TO_DEAD,)),
    "the first dead letters": ("JdbcstoreDeadLetters", "20m", {DEAD: "_x15 1x30"}, (TO_DEAD,)),
    "old dead letters": ("JdbcstoreDeadLetters", "50m", {DEAD: "_x15 1x60"}, ()),
    "no dead letters": ("JdbcstoreDeadLetters", "20m", {DEAD: "_x15 0x30"}, ()),
    "no consumer": ("JdbcstoreNoConsumer", "30m", waiting("Q"), (ALONE,)),
    "a growing backlog": ("JdbcstoreGrowingBacklog", "20m", growing("1000+60x30"), (GROWING,)),
    "a backlog that is worked off": ("JdbcstoreGrowingBacklog", "20m", growing("1000+60x12 1700-60x20"), ()),
    "a backlog that has grown before": ("JdbcstoreGrowingBacklog", "20m", growing("1000+60x12 1700x30"), ()),
    "a backlog without a consumer": ("JdbcstoreGrowingBacklog", "20m", growing("1000+60x30", "0x60"), ()),
    "no room for messages": (
        "JdbcstoreReadOnly",
        "10m",
        {'jdbcstore_broker_condition_info{instance="one",job="mq",state="read-only",reason="full"}': "1x30"},
        (
            (
                {**CRITICAL, "instance": "one", "job": "mq", "state": "read-only", "reason": "full"},
                "one rejects messages: full",
            ),
        ),
    ),
    "a full disk": (
        "JdbcstoreDiskLow",
        "10m",
        {OF_DISK % "free_": "5x30", OF_DISK % "": "100x30"},
        (({**CRITICAL, "instance": "one", "folder": "/j"}, "The disk of /j of one has 5% free"),),
    ),
    "a disk with room": ("JdbcstoreDiskLow", "10m", {OF_DISK % "free_": "50x30", OF_DISK % "": "100x30"}, ()),
    "a failed checkpoint": (
        "JdbcstoreCheckpointFailed",
        "10m",
        {OF_BROKER % "journal_checkpoint_failed": "0 1x30"},
        of_one("critical", "The last checkpoint of the journal of one failed; check its database"),
    ),
    "a full journal": (
        "JdbcstoreJournalFull",
        "10m",
        {OF_BROKER % "journal_pending_bytes": "90x30", OF_BROKER % "journal_limit_bytes": "100x30"},
        of_one("warning", "The journal of one is full to 90%"),
    ),
    "refused messages": (
        "JdbcstoreMessagesRefused",
        "10m",
        {OF_BROKER % "journal_refused_messages": "0 1x30"},
        of_one("warning", "The database of one rejected messages; run jdbcstore journal refused"),
    ),
    "in doubt": (
        "JdbcstoreInDoubt",
        "10m",
        {OF_BROKER % "transactions_in_doubt": "0 2x30"},
        of_one(
            "warning",
            "2 transactions of one are prepared but not completed; restart their transaction manager",
        ),
    ),
    "in doubt for a moment": (
        "JdbcstoreInDoubt",
        "10m",
        {OF_BROKER % "transactions_in_doubt": "0 2x3 0x30"},
        (),
    ),
    "a slow consumer": (
        "JdbcstoreSlowConsumer",
        "10m",
        {OF_BROKER % "slow_consumers": "0 2x30"},
        of_one("warning", "2 consumers of one hold messages and acknowledge none"),
    ),
    "a rejecting consumer": (
        "JdbcstoreRejectingConsumer",
        "10m",
        {OF_BROKER % "rejecting_consumers": "0 1x30"},
        of_one("warning", "1 consumers of one have rejected more than half of their messages"),
    ),
    "a slow client": (
        "JdbcstoreSlowClient",
        "10m",
        {OF_BROKER % "slow_connections": "0 1x30"},
        of_one("warning", "1 clients of one do not read their messages"),
    ),
    "its broker is gone": (
        "JdbcstoreSlowClient",
        "20m",
        {OF_BROKER % "slow_connections": "0 1x10 stale"},
        (),
    ),
    "no consumer of dead letters": ("JdbcstoreNoConsumer", "30m", waiting("D", "dead_letter_queue"), ()),
}


def test_what_the_alerts_fire_for(tmp_path: Path) -> None:
    rules = {
        "rule_files": [str(MONITORING / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in series.items()],
                "alert_rule_test": [
                    {
                        "alertname": alert,
                        "eval_time": at,
                        "exp_alerts": [
                            {"exp_labels": labels, "exp_annotations": {"summary": text}}
                            for labels, text in expected
                        ],
                    }
                ],
            }
            for alert, at, series, expected in CASES.values()
        ],
    }
    (tmp_path / "tests.json").write_text(json.dumps(rules))  # JSON is YAML
    command = [prometheus("promtool"), "test", "rules", "tests.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
