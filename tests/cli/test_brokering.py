"""``broker``: what its options may not be."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.support import ROOT
from tests.support.broker.programs import BrokerProcess

STUBBORN = """
import asyncio
from jdbcstore.cli.broker import _serve

class Host:
    async def start(self):
        print("started", flush=True)
    async def ended(self):
        await asyncio.Event().wait()
    async def stop(self):
        print("stopping", flush=True)
        await asyncio.Event().wait()

asyncio.run(_serve(Host()))
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--stomp", "61613"), "must be HOST:PORT"),
        (("--certificate", "x.pem"), "--certificate and --private-key need a TLS listener"),
        (("--stomp-tls", "127.0.0.1:0"), "needs a certificate"),
        (("--openwire", "61616"), "must be HOST:PORT"),
        (("--openwire-tls", "127.0.0.1:0"), "needs a certificate"),
        (("--auto", "61616"), "must be HOST:PORT"),
        (("--auto-tls", "127.0.0.1:0"), "needs a certificate"),
        (("--ws", "61614"), "must be HOST:PORT"),
        (("--wss", "127.0.0.1:0"), "needs a certificate"),
        (("--stomp", "127.0.0.1:0", "--allowed-origins", "*"), "--allowed-origins needs --ws or --wss"),
        (("--ws", "127.0.0.1:0", "--allowed-origins", "https://a.example/"), "without a path"),
        (("--health", "x"), "health must be HOST:PORT"),
        (("--health", "127.0.0.1:99999"), "such as 127.0.0.1:8161, port 65535 at most"),
        (("--stomp", "127.0.0.1"), "--stomp must be HOST:PORT"),
        (("--openwire-tls", "127.0.0.1", "--certificate", "x"), "--openwire-tls must be HOST:PORT"),
    ],
)
def test_what_cannot_work(invoke: Invoke, arguments: tuple[str, ...], told: str) -> None:
    result = invoke("broker", *arguments)

    assert (result.code, result.out) == (2, "")
    assert told in result.err


def test_an_empty_folder_is_enough(tmp_path: Path) -> None:
    """As the container's own command, in its empty volume."""
    more = ("--openwire", "127.0.0.1:0", "--health", "127.0.0.1:0", "--log-format", "json", "--become-slave")
    with BrokerProcess(tmp_path, *more) as broker:
        assert broker.ready()
        assert (tmp_path / "activemq-data" / "jdbcstore.db").is_file()


def test_a_second_signal_ends_it_at_once() -> None:
    command = [sys.executable, "-c", STUBBORN]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 130
