"""The guide of three machines: its commands and files, and what it says of them, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from jdbcstore import load_config
from jdbcstore.journal.logs import health
from jdbcstore.journal.stream.aside import StreamAside
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT, tiers
from tests.support.broker.frames import Stomp
from tests.support.cli.zygote import Forked
from tests.support.docs.pages import Page
from tests.support.ports import free_port
from tests.support.require import unavailable
from tests.support.server_process import ServerProcess
from tests.support.streams import NatsServer, newer, streamed

pytestmark = pytest.mark.servers
GUIDE = Page(ROOT / "docs/guide/three-machines.md")
MACHINES = ("m1", "m2", "m3")
PORTS = (4222, 6222, 8222, 8161, 61613, 61616)
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "ORDERS_PASSWORD": "of-orders"}


def block(language: str, beginning: str) -> str:
    """The block of the guide that begins so."""
    return next(one.code for one in GUIDE.examples(language) if one.code.startswith(beginning))


@pytest.fixture
def program() -> str:
    found = shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        unavailable("nats", "no nats-server: .ci/packages nats-server")
    return found


class Machines:
    """Three machines, which are folders here: the files of the guide, with the addresses of this machine."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self._database = database
        self._ports = {name: {port: free_port() for port in PORTS} for name in MACHINES}
        own = "DNS:$machine.example.com"
        commands = block("sh", "openssl").replace(own, f"{own},DNS:localhost")
        subprocess.run(["bash", "-ec", commands], cwd=folder, check=True, capture_output=True)
        for name in MACHINES:
            (folder / name).mkdir()
            for suffix in ("", "-key"):
                shutil.copy(folder / f"{name}{suffix}.pem", folder / name / f"server{suffix}.pem")
            shutil.copy(folder / "authority.pem", folder / name)
            self._write(name, "nats-server.conf", block("text", "server_name: m1"))
            self._write(name, "jdbcstore.toml", block("toml", "url"))

    def _write(self, name: str, file: str, text: str) -> None:
        def there(match: re.Match[str]) -> str:
            return f"localhost:{self.port(match[1], int(match[2] or 4222))}"

        def here(match: re.Match[str]) -> str:
            return f"localhost:{self.port(name, int(match[1]))}"

        text = re.sub(r"(m\d)\.example\.com(?::(\d+))?", there, text)
        text = re.sub(r"\b(?:0\.0\.0\.0|127\.0\.0\.1):(\d+)", here, text)
        for old, new in (
            ('"m1"', f'"{name}"'),
            ("server_name: m1", f"server_name: {name}"),
            ("/etc/mq", str(self.folder / name)),
            ("/var/lib/nats", str(self.folder / name / "data")),
            ("postgresql://mq@db.example.com/mq", self._database),
            ("lock_acquire_sleep_interval = 10.0", "lock_acquire_sleep_interval = 3.0"),
            ("lock_keep_alive_period = 2.0", "lock_keep_alive_period = 0.5"),
        ):
            text = text.replace(old, new)
        (self.folder / name / file).write_text(text)

    def port(self, name: str, port: int) -> int:
        """The port here that stands for one of the guide."""
        return self._ports[name][port]

    def jdbcstore(self, name: str, *arguments: str, **streams: Any) -> Forked:
        """A command on a machine."""
        settings = str(self.folder / name / "jdbcstore.toml")
        return Forked(("--config", settings, *arguments), self.folder / name, ENVIRONMENT, **streams)

    def stream(self, name: str) -> dict[str, Any]:
        """The stream, as ``status`` on a machine shows it."""
        process = self.jdbcstore(name, "status", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        printed, said = process.communicate(timeout=180)
        assert process.returncode == 0, said
        return dict(json.loads(printed)["stream"])

    def answer(self, name: str, port: int, path: str) -> tuple[int, str]:
        """The status and the text of an answer over HTTP; 0 without one."""
        try:
            with urlopen(f"http://localhost:{self.port(name, port)}{path}", timeout=10) as found:
                return found.status, found.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except (URLError, OSError):
            return 0, ""


class Server(ServerProcess):
    """The server of the stream on a machine."""

    def __init__(self, program: str, machines: Machines, name: str) -> None:
        super().__init__("jdbcstore-three-")
        self._program = program
        self._machines = machines
        self.name = name

    def start(self) -> None:
        tiers.starts("servers")
        settings = self._machines.folder / self.name / "nats-server.conf"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-c", str(settings)], env=ENVIRONMENT, stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        return self._machines.answer(self.name, 8222, "/healthz")[0] == 200

    def wipe(self) -> None:
        """Lose the disk."""
        shutil.rmtree(self._machines.folder / self.name / "data")


class Broker(ServerProcess):
    """The broker on a machine."""

    def __init__(self, machines: Machines, name: str) -> None:
        super().__init__("jdbcstore-three-")
        self._machines = machines
        self.name = name

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = self._machines.jdbcstore(self.name, "broker", stdout=log, stderr=log)

    def is_ready(self) -> bool:
        return self._machines.answer(self.name, 8161, "/ready")[0] == 200

    def send(self, *bodies: str) -> None:
        """Send messages, and see each of them stored."""

        async def main() -> None:
            async with Stomp(self._machines.port(self.name, 61613)) as client:
                for body in bodies:
                    await client.send("/queue/ORDERS", body)

        asyncio.run(main())


def test_its_files_are_accepted(program: str, tmp_path: Path) -> None:
    Machines(tmp_path, "sqlite:///mq.db")
    for name in MACHINES:
        command = [program, "-t", "-c", str(tmp_path / name / "nats-server.conf")]
        checked = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        configuration = load_config(tmp_path / name / "jdbcstore.toml", environment={})
        assert configuration.notes == ()
        assert configuration.broker_name == name
        assert configuration.journal is not None
        assert len(configuration.journal.servers) == 3


def test_the_line_that_syncs_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "nats-server.conf"
    path.write_text(block("text", "jetstream").replace("/var/lib/nats", str(tmp_path)))
    subprocess.run([newer(), "-t", "-c", str(path)], check=True, capture_output=True)


def test_its_permissions_are_all_that_a_journal_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = block("text", "server_name: m1")
    authorization = text[text.index("authorization {") :].replace("$ORDERS_PASSWORD", "of-orders")
    monkeypatch.setenv("ORDERS_PASSWORD", ENVIRONMENT["ORDERS_PASSWORD"])
    with NatsServer(settings=authorization) as server:
        login = {"stream_user": "orders", "stream_password_env": "ORDERS_PASSWORD"}
        config = streamed(server.url, "orders", **login)
        stream = StreamServer(config)
        for at in range(3):
            stream.append(b"x", at)
        assert stream.message(2) == b"x"
        assert [at for at, _ in stream.messages(1, 3)] == [1, 2, 3]
        stream.purge(2)
        stream.reach()
        aside = StreamAside(stream, "refused")
        assert aside.names() == []
        aside.write("a", b"1")
        aside.write("a", b"2")
        assert (aside.names(), aside.read("a"), aside.read("b")) == (["a"], b"2", None)
        aside.remove("a")
        assert aside.names() == []
        stream.close()
        found = health(config)
        assert found is not None
        assert found.problem is None


@pytest.mark.slow
@pytest.mark.backends("postgresql")
def test_a_machine_is_lost_and_replaced(url: str, program: str, tmp_path: Path) -> None:
    machines = Machines(tmp_path, url)
    with ExitStack() as running:
        servers = [running.enter_context(Server(program, machines, name)) for name in MACHINES]
        wait_until(lambda: all(server.is_ready() for server in servers), what="the servers")
        first, second = (running.enter_context(Broker(machines, name)) for name in MACHINES[:2])
        wait_until(lambda: first.is_ready() or second.is_ready(), what="a broker that serves")
        master, slave = (first, second) if first.is_ready() else (second, first)
        master.send(*"abc")
        stream = machines.stream("m3")
        assert [stream[name] for name in ("current", "replicas", "problem")] == [3, 3, None]

        lost = next(server for server in servers if server.name == master.name)
        master.kill()
        lost.kill()
        wait_until(slave.is_ready, what="the next master")
        slave.send(*"de")
        wait_until(lambda: machines.stream(slave.name)["current"] == 2, what="that it is missed")

        lost.wipe()
        lost.start()
        wait_until(lambda: machines.stream(slave.name)["current"] == 3, what="the new machine")
        assert machines.stream(slave.name)["problem"] is None
        _, queue = machines.answer(slave.name, 8161, "/api/queues/ORDERS")
        assert json.loads(queue)["size"] == 5
