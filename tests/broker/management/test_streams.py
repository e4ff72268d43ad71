"""A journal's stream as its operator sees it: on three servers, of which one and then a second is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats as client
import pytest
from nats.js.api import DiscardPolicy

from jdbcstore import Configuration, StoreConfig
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.cli import main as command
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.testing.polling import wait_until
from tests.support.broker.api import ApiClient
from tests.support.streams import NatsCluster, NatsServer, streamed

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.backends("sqlite")]


def serving(folder: Path, url: str, servers: str, **options: Any) -> BrokerHost:
    """A broker with its journal in a stream, which the configuration file in the folder describes, too."""
    replicas = options.get("replicas", 1)
    (folder / "jdbcstore.toml").write_text(
        f'url = "{url}"\n[journal]\nstream = "{servers}"\nstream_name = "watched"\nreplicas = {replicas}\n'
    )
    return BrokerHost(
        Configuration(
            data_source=DataSourceConfig(url=url),
            store=StoreConfig(cleanup_period=0.0),
            journal=streamed(servers, "watched", directory=str(folder / "journal"), **options),
            locker=SharedFileLockerConfig(directory=str(folder)),
            broker=BrokerConfig(
                connectors=(ConnectorConfig(uri="stomp://127.0.0.1:0"),), health="127.0.0.1:0"
            ),
        )
    )


class Operator:
    """Asks a broker, and the command line beside it."""

    def __init__(self, api: ApiClient, capsys: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self._capsys = capsys

    def ready(self) -> tuple[int, str]:
        return self.api.ask("GET", "/ready")

    def stream(self) -> dict[str, Any]:
        [found] = self.api.get("/api/streams")
        return dict(found)

    def rules(self) -> list[str]:
        return [one["rule"] for one in self.api.get("/api/alarms") if "Stream" in one["rule"]]

    def figure(self, name: str) -> float:
        _, page = self.api.ask("GET", "/metrics")
        wanted = f'jdbcstore_{name}{{stream="watched"}} '
        return float(next(line for line in page.splitlines() if line.startswith(wanted)).split()[1])

    def says(self, *arguments: str) -> tuple[int, str]:
        self._capsys.readouterr()
        return command([*arguments]), self._capsys.readouterr().out


def run(host: BrokerHost, look: Callable[[Operator], None], capsys: pytest.CaptureFixture[str]) -> None:
    """Look at a broker in a thread while it serves."""

    async def main() -> None:
        async with asyncio.timeout(180), host:
            assert host.health_address is not None
            await asyncio.to_thread(look, Operator(ApiClient(host.health_address), capsys))

    asyncio.run(main())


def test_who_asks_is_told_what_the_servers_say(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with NatsCluster() as cluster:

        def look(operator: Operator) -> None:
            operator.api.post("/api/queues/Q/messages", body="x")
            by_name = {server.name: server for server in cluster.servers}
            assert operator.ready() == (200, "ready\n")
            wait_until(lambda: operator.stream()["current"] == 3, what="that all servers have it")
            found = operator.stream()
            assert (found["present"], found["behind"], found["problem"]) == (3, [], None)
            assert found["leader"] in by_name
            assert operator.rules() == []
            assert operator.figure("stream_writable") == 1
            _, page = operator.api.ask("GET", "/console/broker")
            assert "3 of 3 are current" in page
            code, text = operator.says("status", "--json")
            shown = json.loads(text)["stream"]
            assert (code, shown["last_record"], shown["applied"], shown["lag_records"]) == (0, 1, 0, 1)
            assert {name: shown[name] for name in found} == found
            assert "3 of 3 replicas are current, led by" in operator.says("status")[1]

            follower = next(server for name, server in by_name.items() if name != found["leader"])
            follower.kill()
            wait_until(lambda: operator.stream()["current"] == 2, what="that a server is missed")
            assert operator.ready() == (200, "ready\n")
            assert operator.stream()["behind"] == [follower.name]
            assert operator.rules() == ["JdbcstoreStreamDegraded"]
            assert operator.figure("stream_current_replicas") == 2
            code, text = operator.says("doctor")
            assert (code, "warning: stream degraded" in text) == (9, True)

            second = by_name[operator.stream()["leader"]]
            second.kill()
            wait_until(lambda: operator.ready()[0] == 503, what="that there is no quorum")
            assert "the stream watched at " in operator.ready()[1]
            assert operator.rules() == ["JdbcstoreStreamStopped"]
            assert operator.figure("stream_writable") == 0
            code, text = operator.says("status", "--json")
            assert (code, bool(json.loads(text)["stream"]["problem"])) == (0, True)
            code, text = operator.says("doctor")
            said = [server.name for server in cluster.servers if f"{server.url} takes no connection" in text]
            assert (code, {*said}) == (9, {follower.name, second.name})
            second.start(waits=False)
            wait_until(lambda: operator.ready()[0] == 200, what="a quorum")

        run(serving(tmp_path, url, cluster.url, replicas=3), look, capsys)


def test_a_stream_that_is_changed_shows_in_ready_and_in_the_alarms(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def change(servers: str, policy: DiscardPolicy) -> None:
        connection = await client.connect(servers)
        js = connection.jetstream()
        config = (await js.stream_info("watched")).config
        await js.update_stream(config.evolve(discard=policy))
        await connection.close()

    monkeypatch.chdir(tmp_path)
    with NatsServer() as server:

        def look(operator: Operator) -> None:
            assert operator.ready() == (200, "ready\n")
            asyncio.run(change(server.url, DiscardPolicy.OLD))
            wait_until(lambda: operator.ready()[0] == 503, what="that the stream is unsafe")
            assert "would lose messages that were acknowledged" in operator.ready()[1]
            assert operator.rules() == ["JdbcstoreStreamStopped"]
            assert operator.figure("stream_writable") == 0
            code, text = operator.says("doctor")
            assert (code, "stream unsafe" in text) == (9, True)
            assert "it may lose acknowledged messages" in operator.says("status")[1]
            asyncio.run(change(server.url, DiscardPolicy.NEW))
            wait_until(lambda: operator.ready()[0] == 200, what="that it is safe again")

        run(serving(tmp_path, url, server.url), look, capsys)
