"""Outages as an operator sees them: every view of a broker shows the same state, reason and advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.broker.condition import BrokerState
from jdbcstore.testing.polling import wait_until
from tests.support.broker.outages import Filling, Observed, frozen, observed, on_a_small_disk, stopped
from tests.support.broker.programs import WAIT
from tests.support.require import unavailable
from tests.support.servers.alone import server_of
from tests.support.servers.process import ServerMissing

UNREACHABLE = BrokerState.UNREACHABLE
SERVERS = ("postgresql", pytest.param("mariadb", marks=pytest.mark.whole))


@pytest.mark.servers
@pytest.mark.parametrize("vendor", SERVERS)
def test_a_stopped_and_a_frozen_database_are_shown_by_every_view(vendor: str, tmp_path: Path) -> None:
    try:
        with server_of(vendor) as (server, _):
            url = server.url.render_as_string(hide_password=False)
            with observed(tmp_path, url) as seen:
                for outage in (stopped, frozen):
                    mend = outage(server)
                    if outage is frozen:  # the command begins to read before the broker knows
                        assert UNREACHABLE in seen.run("status")
                    found = seen.becomes(UNREACHABLE)
                    seen.shows(found)
                    assert server.password not in str(seen.views())
                    mend()
                    seen.becomes("serving")
                    assert seen.ask("/ready") == "ready\n"
    except ServerMissing as missing:
        unavailable(vendor, str(missing))


def test_a_moved_file_is_shown_by_every_view(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    file = folder / "mq.db"
    with observed(tmp_path, f"sqlite:///{file}") as seen:
        moved = file.rename(tmp_path / "moved.db")
        seen.becomes(UNREACHABLE)
        # At first it may only have waited for an answer.
        wait_until(lambda: str(file) in seen.condition["reason"], WAIT, "that the file is named")
        found = seen.condition
        assert "is the disk mounted?" in found["reason"]
        seen.shows(found)
        assert not file.exists()  # no second, empty database
        moved.rename(file)
        seen.becomes("serving")


def test_a_killed_broker_is_named_by_commands(tmp_path: Path) -> None:
    with observed(tmp_path, f"sqlite:///{tmp_path}/mq.db") as seen:
        seen.process.kill()
        for command in (("top", "--once"), ("manage", "alarms"), ("doctor",)):
            assert f"no answer from the broker at {seen.where}" in seen.run(*command)
        assert "master   none" in seen.run("status")


def drains_and_recovers(seen: Observed, reason: str) -> None:
    """Fill the disk, see that every view shows it, drain the queue, and see that messages are taken again."""
    client = Filling(seen.process.port)
    stored = client.fill()
    assert reason in client.errors[0]
    found = seen.becomes("read-only")
    assert reason in found["reason"]
    seen.shows(found)
    assert "jdbcstore_broker_refused_messages_total 1.0" in seen.ask("/metrics")
    client.connect()
    client.consume("/queue/Q")
    client.wait_for(stored)
    seen.becomes("serving")
    client.send("/queue/AGAIN", "there is room again")
    client.close()
    assert seen.process.log.read_text().count("state: read-only") == 1


def drained(vendor: str, folder: Path, reason: str) -> None:
    """Fill the disk of a database, and drain it again."""
    try:
        with on_a_small_disk(vendor, folder) as (url, options), observed(folder, url, options) as seen:
            drains_and_recovers(seen, reason)
    except ServerMissing as missing:
        unavailable(vendor, str(missing))


def test_a_full_disk_rejects_messages_until_consumers_have_made_room(tmp_path: Path) -> None:
    drained("sqlite", tmp_path, "disk_free_limit")


@pytest.mark.servers
@pytest.mark.parametrize("vendor", SERVERS)
def test_a_full_server_rejects_messages_until_consumers_have_made_room(vendor: str, tmp_path: Path) -> None:
    drained(vendor, tmp_path, "no space left")
