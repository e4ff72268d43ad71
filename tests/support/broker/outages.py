"""A broker in an outage, and each view of it: what an operator sees, and when."""

from __future__ import annotations

import itertools
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from jdbcstore.broker.condition import BrokerState
from jdbcstore.config.broker import Address
from jdbcstore.testing.polling import wait_until
from tests.support.broker.api import ApiClient
from tests.support.broker.programs import WAIT, BrokerProcess, Client
from tests.support.cli.command_line import CommandLine
from tests.support.ports import free_port
from tests.support.servers.alone import server_of
from tests.support.servers.process import Server, ServerMissing, signal_all

VIEWS = ("page", "/ready", "metrics", "top", "status", "doctor", "log")
NO_ANSWER = "no answer"
"""Shown by a view of a broker that was killed."""
_PAUSE = 0.3
"""Seconds between two looks at a view."""


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

    def view(self, name: str) -> str:
        """What one shows now."""
        if name == "page":
            page = re.search(r'id="banner".*?</div>', self.ask("/console"), re.DOTALL)
            return "" if page is None else page[0]
        if name == "/ready":
            return self.ask(name)
        if name == "metrics":
            metrics = self.ask("/metrics").splitlines()
            return next(line for line in metrics if line.startswith("jdbcstore_broker_condition_info"))
        if name == "log":
            return self.process.log.read_text()
        return self.run(*(("top", "--once", "--interval", "0.1") if name == "top" else (name,)))

    def views(self) -> dict[str, str]:
        """What each shows now."""
        return {name: self.view(name) for name in VIEWS}

    def state(self, name: str) -> str:
        """The state that a view shows now."""
        try:
            text = self.view(name).lower()
        except OSError:
            return NO_ANSWER
        if name == "log":
            text = text.rpartition("state: ")[2]
        if "no answer from the broker" in text or "it does not answer" in text:
            return NO_ANSWER
        # The longest first: the reason of an unreachable database may be that it is starting.
        states = sorted(BrokerState, key=len, reverse=True)
        return next((str(state) for state in states if state in text), str(BrokerState.SERVING))

    def becomes(self, state: str) -> dict[str, Any]:
        """Wait until this is its state; return its condition."""
        wait_until(lambda: self.condition["state"] == state, WAIT, f"that the broker is {state}")
        return self.condition

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


def stopped(server: Server) -> Callable[[], None]:
    server.stop_at_once()
    return server.start


def frozen(server: Server) -> Callable[[], None]:
    pid = server.pid
    assert pid is not None
    signal_all(pid, signal.SIGSTOP)
    return lambda: signal_all(pid, signal.SIGCONT)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        raise ServerMissing(f"a small disk cannot be mounted: {mounted.stderr.decode()}")
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


@contextmanager
def on_a_small_disk(vendor: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The URL of an empty database on a disk of its own, and the options of its broker.

    :raises ServerMissing: the server is not installed, or no disk can be mounted
    """
    if vendor == "sqlite":
        with small_disk(folder / "disk", "16m") as disk:
            yield f"sqlite:///{disk}/mq.db", 'disk_free_limit = "6 MiB"\n'
        return
    with server_of(vendor) as (server, _), small_disk(server.directory / "small", "24m") as disk:
        shutil.chown(disk, server.directory.owner(), server.directory.group())
        if vendor == "postgresql":
            server.execute_as_administrator(
                "ALTER SYSTEM SET autovacuum_naptime = 1",
                "SELECT pg_reload_conf()",
                f"CREATE TABLESPACE small LOCATION '{disk}'",
                f"CREATE DATABASE small OWNER {server.username} TABLESPACE small",
            )
        else:
            server.execute_as_administrator("CREATE DATABASE small")
            files = server.directory / "data" / "small"
            for file in files.iterdir():
                shutil.move(file, disk)
                shutil.chown(disk / file.name, server.directory.owner())
            files.rmdir()
            files.symlink_to(disk)
        yield server.url.set(database="small").render_as_string(hide_password=False), ""
        server.kill()


class Recording:
    """The states that the views of a broker show, read again and again by a thread for each view."""

    def __init__(self, seen: Observed) -> None:
        self._seen = seen
        self._stopping = threading.Event()
        self.changes: dict[str, list[tuple[float, str]]] = {name: [] for name in VIEWS}
        """The changes of each view: the time by the monotonic clock, and the state."""
        self._threads = [threading.Thread(target=self._read, args=(name,)) for name in VIEWS]

    def _read(self, name: str) -> None:
        changes = self.changes[name]
        while not self._stopping.is_set():
            state = self._seen.state(name)
            if not changes or changes[-1][1] != state:
                changes.append((time.monotonic(), state))
            self._stopping.wait(_PAUSE)

    def wait_for(self, state: str) -> float:
        """Wait until all views show a state; return the time of the last one.

        The log of a broker that was killed ends without a line about that.
        """
        seen = [self.changes[name] for name in VIEWS if (name, state) != ("log", NO_ANSWER)]

        def shown() -> bool:
            return all(changes and changes[-1][1] == state for changes in seen)

        wait_until(shown, WAIT, f"that every view shows {state}")
        return max(changes[-1][0] for changes in seen)

    def rows(self, begun: float) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield each second since a time in which a view changed, and what each view showed then."""
        last: dict[str, str] = {}
        for second in range(int(time.monotonic() - begun) + 2):
            now = {
                name: [state for at, state in changes if at < begun + second][-1]
                for name, changes in self.changes.items()
            }
            if now != last:
                yield second, now
            last = now

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
