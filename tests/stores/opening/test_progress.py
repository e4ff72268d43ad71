"""Whoever opens a store hears how far the reading of its journal is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jdbcstore
from jdbcstore import load_config
from jdbcstore.abc import Progress
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from tests.support.opening import WAIT, kill, other_process, written


def test_it_is_told_of_the_records(tmp_path: Path) -> None:
    file = written(tmp_path)
    kill(other_process(file))
    told: list[int] = []

    for _ in range(2):
        jdbcstore.open(load_config(file, environment={}), progress=told.append).close()

    assert told == [1]  # ten messages in one unit; and nothing is left the second time


def test_a_broker_tells_it_while_it_opens(tmp_path: Path) -> None:
    file = written(tmp_path)
    kill(other_process(file))
    told: list[str] = []

    @contextmanager
    def recovering() -> Iterator[Progress]:
        told.append("begins")
        yield lambda count: told.append(f"{count}")
        told.append("ends")

    connector = ConnectorConfig(uri="stomp://127.0.0.1:0")
    configuration = replace(load_config(file, environment={}), broker=BrokerConfig(connectors=(connector,)))

    async def main() -> None:
        async with asyncio.timeout(WAIT), BrokerHost(configuration, recovering=recovering):
            assert told == ["begins", "1", "ends"]

    asyncio.run(main())
