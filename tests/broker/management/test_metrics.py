"""Metrics: their names and values, the limit of labels, and what the dashboard and the alerts ask for."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jdbcstore import MemoryStore
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.metrics import Metrics, of_streams, text_of
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.broker.security import AllowAll
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.util.clock import SystemClock
from jdbcstore.util.stream_health import StreamHealth, StreamMember
from tests.support import ROOT
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.consuming import consume, message, running, send
from tests.support.broker.managed import Master, Process, managed
from tests.support.broker.prometheus import prometheus

MONITORING = ROOT / "docs" / "monitoring"
_NAME = re.compile(r"\bjdbcstore_\w+")
STREAM = StreamHealth(
    name="mq", place="", sync="quorum_mem", replicas=3, present=3, current=2, messages=1, size=9, limit=10,
    members=(
        StreamMember(name="b", role="follower", applied=1, lag=2, silent=0.5, is_alive=True, trouble=""),
    ),
)  # fmt: skip


def metrics_of(engine: Engine, most: int = 10) -> Metrics:
    return Metrics(managed(engine).views, Guard(AllowAll(), "localhost"), most)


async def values(metrics: Metrics) -> dict[str, float]:
    """Each sample by its name and labels, as Prometheus reads it."""
    found = {}
    for family in text_string_to_metric_families((await metrics.page()).decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_counters_of_a_destination() -> None:
    async def main() -> None:
        async with running(MemoryStore(), counted=True) as engine:
            metrics = metrics_of(engine)
            await send(engine, *[message(str(n)) for n in range(5)], message("x", "topic://T"))
            consumer = await consume(engine, "Q", prefetch=3)
            await consumer.got(3)
            await consumer.acknowledge(consumer.deliveries[0])
            await consumer.got(4)
            found = await values(metrics)
            labels = "{destination=Q,type=queue}"
            expected = {"messages": 4, "in_flight_messages": 3, "consumers": 1, "paused": 0}
            for name, value in expected.items():
                assert found[f"jdbcstore_destination_{name}{labels}"] == value
            for name, value in {"enqueued": 5, "dispatched": 4, "dequeued": 1, "dead": 0}.items():
                assert found[f"jdbcstore_destination_{name}_messages_total{labels}"] == value
            assert found[f"jdbcstore_destination_oldest_message_age_seconds{labels}"] >= 0
            assert found["jdbcstore_broker_enqueued_messages_total"] == 6
            assert found["jdbcstore_destination_enqueued_messages_total{destination=T,type=topic}"] == 1
            assert "jdbcstore_destination_messages{destination=T,type=topic}" not in found
            assert found["jdbcstore_broker_serving"] == 1

    asyncio.run(main())


def test_beyond_the_limit_destinations_are_one_and_no_counter_falls() -> None:
    other = "jdbcstore_destination_enqueued_messages_total{destination=other,type=other}"

    async def main() -> None:
        async with running(MemoryStore(), counted=True) as engine:
            metrics = metrics_of(engine, 2)
            await send(engine, *[message("x", f"Q{n % 5}") for n in range(20)])
            found = await values(metrics)
            names = [one for one in found if one.startswith("jdbcstore_destination_enqueued")]
            assert len(names) == 3
            assert found[other] == 12
            assert found["jdbcstore_destinations_without_labels"] == 3
            assert found["jdbcstore_destination_messages{destination=other,type=other}"] == 12
            management = managed(engine)
            for view in await management.views.destinations():
                consumer = await consume(engine, view.name)
                await consumer.got(4)
                await consumer.acknowledge(*consumer.deliveries)
                consumer.subscription.close()
            for _ in range(3):
                engine.destinations.forget_idle()
            assert not engine.destinations
            await send(engine, message("x", "NEW"), message("x", "NEWER"), message("x", "NEWEST"))
            found = await values(metrics)
            assert found[other] == 13
            assert found["jdbcstore_destination_enqueued_messages_total{destination=NEW,type=queue}"] == 1
            assert found["jdbcstore_broker_enqueued_messages_total"] == 23

    asyncio.run(main())


def test_a_slave_has_metrics_too() -> None:
    async def main() -> None:
        management = Management(Process(None), SystemClock())
        found = await values(Metrics(management.views, Guard(AllowAll(), "localhost"), 10))
        assert (found["jdbcstore_broker_serving"], found["jdbcstore_lock_held"]) == (0, 0)
        async with running(MemoryStore()) as engine:
            stopping = Process(Master(engine, engine.store))
            assert await values(Metrics(Management(stopping, SystemClock()).views, Guard(AllowAll(), ""), 1))

    asyncio.run(main())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a broker with a journal, after some work, and those of a stream."""
    folder = tmp_path_factory.mktemp("broker")
    configuration = Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{folder}/mq.db"),
        journal=JournalConfig(directory=str(folder / "journal")),
        locker=SharedFileLockerConfig(directory=str(folder)),
        broker=BrokerConfig(connectors=(ConnectorConfig(uri="stomp://127.0.0.1:0"),), health="127.0.0.1:0"),
    )

    async def main() -> str:
        async with asyncio.timeout(120), BrokerHost(configuration) as host:
            assert host.health_address is not None
            api = ApiClient(host.health_address)

            def ask() -> str:
                api.post(queue("Q", "messages"), body="x")
                api.post("/api/checkpoint")
                status, text = api.ask("GET", "/metrics")
                assert status == 200
                assert api.ask("GET", "/metrics", headers={"Host": "evil.example.com"})[0] == 403
                return str(text)

            return await asyncio.to_thread(ask)

    return asyncio.run(main()) + asyncio.run(text_of([*of_streams([STREAM])])).decode()


def sample_names(page: str) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}


def asked_for() -> Iterator[tuple[str, str]]:
    """Each query of the dashboard and of the alerts, by where it is."""
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]
    _, *alerts = (MONITORING / "alerts.yml").read_text().split("- alert: ")
    for alert in alerts:
        name, _, rule = alert.partition("\n")
        yield f"alert {name}", rule


def test_what_the_dashboard_and_the_alerts_ask_for_exists(page: str) -> None:
    names = sample_names(page)
    asked = [(where, {*_NAME.findall(query)}) for where, query in asked_for()]
    assert len(asked) > 30
    assert [(where, found - names) for where, found in asked if not found or found - names] == []


def test_every_metric_is_in_the_documentation(page: str) -> None:
    text = (ROOT / "docs" / "monitoring" / "metrics.csv").read_text()
    families = {family.name for family in text_string_to_metric_families(page)}
    documented = {*_NAME.findall(text)}
    missing = {name for name in families if not documented & {name, f"{name}_total", f"{name}_info"}}
    assert not missing


@pytest.mark.parametrize("what", ["rules", "metrics"])
def test_promtool_accepts(page: str, what: str, tmp_path: Path) -> None:
    promtool = prometheus("promtool")
    (tmp_path / "page").write_text(page)
    arguments = ["rules", str(MONITORING / "alerts.yml")] if what == "rules" else ["metrics"]
    with (tmp_path / "page").open() as given:
        done = subprocess.run(
            [promtool, "check", *arguments], stdin=given, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
