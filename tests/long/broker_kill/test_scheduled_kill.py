"""The broker is killed while scheduled messages come due: each is sent once."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.testing.polling import wait_until
from tests.support.broker.programs import WAIT, BrokerProcess, Client
from tests.support.databases import Database

JOBS = 300
KILLS = 4
SPREAD = 6.0
"""Seconds in which the messages come due."""


@pytest.mark.backends("sqlite", "postgresql")
@pytest.mark.parametrize("journaled", [False, True])
def test_each_scheduled_message_is_sent_once(database: Database, tmp_path: Path, journaled: bool) -> None:
    configuration = tmp_path / "jdbcstore.toml"
    configuration.write_text(
        "[broker]\nscheduler_support = true\n"
        f'[locker]\ntype = "shared-file-locker"\ndirectory = "{tmp_path}"\n'
        + (f'[journal]\ndirectory = "{tmp_path / "journal"}"\n' if journaled else "")
    )
    arguments = ("--url", database.url, "--config", str(configuration))

    with BrokerProcess(tmp_path, *arguments) as broker:
        client = Client(broker.ready())
        client.connect()
        for number in range(JOBS):
            delay = round(1000 * (1 + SPREAD * number / JOBS))
            schedule = {"AMQ_SCHEDULED_DELAY": str(delay)}
            if number % 10 == 0:
                schedule |= {"AMQ_SCHEDULED_PERIOD": "500", "AMQ_SCHEDULED_REPEAT": "2"}
            client.send("/queue/Q", str(number), **schedule)
        broker.kill()
    for _ in range(KILLS - 1):
        with BrokerProcess(tmp_path, *arguments) as broker:
            broker.ready()
            time.sleep(SPREAD / KILLS / 2)  # while messages come due
            broker.kill()
    with BrokerProcess(tmp_path, *arguments) as broker:
        client = Client(broker.ready())
        client.connect()
        client.consume("/queue/Q")
        expected = Counter({str(number): 3 if number % 10 == 0 else 1 for number in range(JOBS)})
        wait_until(lambda: len(client.received) >= expected.total(), WAIT, "that all messages have come")
        client.close()
        assert broker.end() == 0
    assert Counter(body for body, _ in client.received) == expected

    loaded = jdbcstore.load_config(configuration, environment={}, url=database.url)
    assert isinstance(loaded.locker, SharedFileLockerConfig)
    with jdbcstore.open(loaded) as store:
        assert store.destinations() == []
