"""Outages as an operator sees them: every view of a broker shows the same state, reason and advice."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.config.broker import Address
from jdbcstore.testing.polling import wait_until
from tests.support.broker.api import ApiClient
from tests.support.broker.programs import WAIT, BrokerProcess
from tests.support.cli.command_line import CommandLine
from tests.support.ports import free_port
from tests.support.servers.alone import server_of
from tests.support.servers.process import Server, ServerMissing

UNREACHABLE = "database unreachable"
WITHIN_MS = 10_000


class Observed:
    """A broker that becomes a slave, and each view of it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.port = free_port()
        self.where = f"http://127.0.0.1:{self.port}"
        self._cli = CommandLine(folder)
        (folder / "jdbcstore.toml").write_text("[broker]\nbecome_slave = true\n")
        health = f"127.0.0.1:{self.port}"
        self.process = BrokerProcess(folder, "--url", url, "--health", health)
        self.process.ready()

    def ask(self, path: str) -> str:
        return str(ApiClient(Address("127.0.0.1", self.port)).ask("GET", path)[1])

    @property
    def condition(self) -> dict[str, Any]:
        found: dict[str, Any] = ApiClient(Address("127.0.0.1", self.port)).get("/api/broker")["condition"]
        return found

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        done = self._cli.run(*arguments, "--url", self.url, "--broker", self.where)
        return done.out + done.err

    def views(self) -> dict[str, str]:
        """What each shows now."""
        page = re.search(r'id="banner".*?</div>', self.ask("/console"), re.DOTALL)
        metrics = self.ask("/metrics").splitlines()
        return {
            "page": "" if page is None else page[0].lower(),
            "/ready": self.ask("/ready"),
            "metrics": next(line for line in metrics if line.startswith("jdbcstore_broker_condition_info")),
            "top": self.run("top", "--once", "--interval", "0.1"),
            "status": self.run("status"),
            "doctor": self.run("doctor"),
            "log": self.process.log.read_text(),
        }

    def becomes(self, state: str, begun_ms: int = 0) -> dict[str, Any]:
        """Wait until this is its state; return its condition."""
        wait_until(lambda: self.condition["state"] == state, WAIT, f"that the broker is {state}")
        found = self.condition
        assert found["since_ms"] - begun_ms < WITHIN_MS or not begun_ms
        return found

    def shows(self, condition: dict[str, Any]) -> None:
        """Check that every view says so, however its reason is put."""
        table = self.views()
        wrong = {
            name: text
            for name, text in table.items()
            if condition["state"] not in text.lower() or condition["what_to_do"][1:] not in text.lower()
        }
        assert not wrong


@contextmanager
def observed(folder: Path, url: str) -> Iterator[Observed]:
    seen = Observed(folder, url)
    try:
        yield seen
    finally:
        seen.process.kill()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def signal_all(pid: int, number: int) -> None:
    """Send a signal to a process and all its descendants, as if their machine stopped."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, number)
    for child in children:
        signal_all(int(child), number)


def stopped(server: Server) -> Callable[[], None]:
    server.stop_at_once()
    return server.start


def frozen(server: Server) -> Callable[[], None]:
    pid = server.pid
    assert pid is not None
    signal_all(pid, signal.SIGSTOP)
    return lambda: signal_all(pid, signal.SIGCONT)


@pytest.mark.servers
@pytest.mark.parametrize("vendor", ["postgresql", "mariadb"])
def test_a_stopped_and_a_frozen_database_are_shown_by_every_view(vendor: str, tmp_path: Path) -> None:
    try:
        with server_of(vendor) as (server, _):
            url = server.url.render_as_string(hide_password=False)
            with observed(tmp_path, url) as seen:
                for outage in (stopped, frozen):
                    begun_ms = now_ms()
                    mend = outage(server)
                    found = seen.becomes(UNREACHABLE, begun_ms)
                    seen.shows(found)
                    assert server.password not in str(seen.views())
                    mend()
                    seen.becomes("serving")
                    assert seen.ask("/ready") == "ready\n"
    except ServerMissing as missing:
        pytest.skip(str(missing))


def test_a_moved_file_is_shown_by_every_view(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    file = folder / "mq.db"
    with observed(tmp_path, f"sqlite:///{file}") as seen:
        begun_ms = now_ms()
        moved = file.rename(tmp_path / "moved.db")
        found = seen.becomes(UNREACHABLE, begun_ms)
        assert f"there is no SQLite file {file}" in found["reason"]
        assert "is the disk mounted?" in found["reason"]
        seen.shows(found)
        assert not file.exists()  # no second, empty database
        moved.rename(file)
        seen.becomes("serving")


def test_a_killed_broker_is_named_by_commands(tmp_path: Path) -> None:
    with observed(tmp_path, f"sqlite:///{tmp_path}/mq.db") as seen:
        seen.process.kill()
        for command in (("top", "--once"), ("manage", "alarms")):
            assert f"no answer from the broker at {seen.where}" in seen.run(*command)
        assert "master   none" in seen.run("status")
