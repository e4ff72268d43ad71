"""Outages as an operator sees them: every view of a broker shows the same state, reason and advice."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.config.broker import Address
from jdbcstore.testing.polling import wait_until
from tests.support.broker.api import ApiClient
from tests.support.broker.programs import WAIT, BrokerProcess, Client
from tests.support.cli.command_line import CommandLine
from tests.support.ports import free_port
from tests.support.require import unavailable
from tests.support.servers.alone import server_of
from tests.support.servers.process import Server, ServerMissing

UNREACHABLE = "database unreachable"
WITHIN_MS = 10_000
POSTGRESQL = "postgresql"


class Observed:
    """A broker that becomes a slave, and each view of it."""

    def __init__(self, folder: Path, url: str, options: str = "") -> None:
        self.folder, self.url = folder, url
        self.port = free_port()
        self.where = f"http://127.0.0.1:{self.port}"
        self._cli = CommandLine(folder)
        (folder / "jdbcstore.toml").write_text(f"[broker]\nbecome_slave = true\n{options}")
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
def observed(folder: Path, url: str, options: str = "") -> Iterator[Observed]:
    seen = Observed(folder, url, options)
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
@pytest.mark.parametrize("vendor", [POSTGRESQL, "mariadb"])
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
        unavailable(vendor, str(missing))


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


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.decode()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Filling(Client):
    """A client that sends until a message is rejected."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.errors: list[str] = []

    def on_error(self, frame: Any) -> None:
        self.errors.append(frame.headers["message"])

    def fill(self) -> int:
        """Return the number of stored messages."""
        self.connect()
        for number in itertools.count():
            receipt = f"fill-{number}"
            headers = {"persistent": "true", "receipt": receipt}
            self.connection.send("/queue/Q", f"{number} {secrets.token_hex(10_000)}", headers=headers)
            answered = partial(lambda receipt: receipt in self._receipts or self.errors, receipt)
            wait_until(answered, WAIT, "an answer")
            if self.errors:
                return number
        raise AssertionError


def drains_and_recovers(seen: Observed, reason: str) -> None:
    """Fill the disk, see that every view shows it, drain the queue, and see that messages are taken again."""
    client = Filling(seen.process.port)
    stored = client.fill()
    assert reason in client.errors[0]
    found = seen.becomes("read-only")
    assert reason in found["reason"]
    seen.shows(found)
    client.connect()
    client.consume("/queue/Q")
    client.wait_for(stored)
    seen.becomes("serving")
    client.send("/queue/AGAIN", "there is room again")
    client.close()


def test_a_full_disk_rejects_messages_until_consumers_have_made_room(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", "16m") as disk,
        observed(tmp_path, f"sqlite:///{disk}/mq.db", 'disk_free_limit = "6 MiB"\n') as seen,
    ):
        drains_and_recovers(seen, "disk_free_limit")
        assert "jdbcstore_broker_refused_messages_total 1.0" in seen.ask("/metrics")
        assert seen.process.log.read_text().count("state: read-only") == 1


@pytest.mark.servers
def test_a_full_tablespace_rejects_messages_until_consumers_have_made_room(tmp_path: Path) -> None:
    try:
        with server_of(POSTGRESQL) as (server, _), small_disk(server.directory / "small", "24m") as disk:
            shutil.chown(disk, *[server.directory.owner()])
            server.execute_as_administrator(
                "ALTER SYSTEM SET autovacuum_naptime = 1",
                "SELECT pg_reload_conf()",
                f"CREATE TABLESPACE small LOCATION '{disk}'",
                f"CREATE DATABASE small OWNER {server.username} TABLESPACE small",
            )
            url = server.url.set(database="small").render_as_string(hide_password=False)
            with observed(tmp_path, url) as seen:
                drains_and_recovers(seen, "no space left")
                server.kill()
    except ServerMissing as missing:
        unavailable(POSTGRESQL, str(missing))
