"""Prometheus scrapes a broker that serves: what the dashboard and the alerts ask for has answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from jdbcstore.broker.security import hash_password
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.config.users import ROLES, write_user
from tests.support import ROOT
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.console import console_of
from tests.support.broker.programs import Client
from tests.support.broker.prometheus import Prometheus, prometheus
from tests.support.polling import wait_until

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
            Prometheus(tmp_path, rules, str(client.api.address), jobs) as server,
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
