"""One of the three servers of a stream has a full disk: the others go on, and it is named."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.journal.logs import health
from jdbcstore.testing.polling import wait_until
from jdbcstore.tools.doctor import examine_streams
from tests.support.campaign.world import Disk
from tests.support.failover.surroundings import Missing
from tests.support.streams import NatsCluster, newer, streamed

pytestmark = [pytest.mark.servers, pytest.mark.slow]


class Servers:
    """A cluster whose servers have small disks."""

    def __init__(self, cluster: NatsCluster, disks: dict[str, Disk]) -> None:
        self.url, self.disks = cluster.url, disks
        self.urls = {server.name: server.url for server in cluster.servers}


@pytest.fixture
def servers(version: str) -> Iterator[Servers]:
    cluster = NatsCluster(program=newer() if version == "newer" else None)
    with ExitStack() as opened:
        opened.push(cluster)
        disks = {}
        for server in cluster.servers:
            try:
                disks[server.name] = Disk(server.folder / "data")
            except Missing as missing:
                pytest.skip(str(missing))
            opened.callback(disks[server.name].close)
        cluster.__enter__()
        yield Servers(cluster, disks)


@pytest.mark.parametrize("version", ["2.9", "newer"])
def test_a_server_with_a_full_disk_is_named(
    version: str, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "shuffle", lambda _: None)  # clients try the servers in our order
    journal = streamed(servers.url, "disk", replicas=3, directory=str(tmp_path / "journal"))
    source = DataSourceConfig(url=f"sqlite:///{tmp_path}/mq.db")
    configuration = Configuration(data_source=source, journal=journal)
    with jdbcstore.open(configuration) as store:
        queue = store.queue("Q")
        queue.add_message(Message("first"))
        before = health(journal)
        assert before is not None
        full = next(name for name in servers.urls if name != before.leader)
        servers.disks[full].fill()

        others = [url for name, url in servers.urls.items() if name != full]
        asked = replace(journal, stream=",".join([servers.urls[full], *others]))

        def is_named() -> bool:
            queue.add_message(Message("x" * 20_000))
            found = health(asked)
            return found is not None and (found.problem, found.behind) == (None, (full,))

        wait_until(is_named, what="that a server is behind")
        found = health(asked)
        assert found is not None
        assert (found.leader, found.place) == (before.leader, asked.place)
        [(finding, [diagnosis])] = examine_streams(replace(configuration, journal=asked))
        for text in (finding.found, diagnosis.text):
            assert f"{full} are down or behind" in str(text)
        if version == "2.9":
            hangs = f"{servers.urls[full]} takes connections, and answers nothing: stop it, make room"
            assert f"; {hangs}" in str(finding.found)
            assert "nats-server 2.10" in str(finding.found)
        assert not any(url in str(finding.found) for url in others)
        queue.add_message(Message("last"))
