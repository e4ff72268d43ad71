"""The programs that the pages about workers print: they run, stop, fail and are killed as the pages say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jdbcstore import Claims, Message
from tests.support import ROOT
from tests.support.docs.pages import Page


class Programs:
    """The files of a page in a folder, and the processes that run them there."""

    def __init__(self, page: str, folder: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        for example in Page(ROOT / "docs" / page).examples("py"):
            name, _, code = example.code.partition("\n")
            (folder / name.removeprefix("# ")).write_text(code)

    def start(self, name: str, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a program; the process, and the file of its output."""
        output = self.folder / f"output-{len(self._running)}.txt"
        command = [sys.executable, name, *arguments]
        variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        with output.open("wb") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=variables, stdout=log, stderr=log)
        self._running.append(process)
        return process, output

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs("guide/worker.md", tmp_path)
    yield programs
    programs.end()


@pytest.fixture
def quickstart(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs("quickstart-workers.md", tmp_path)
    yield programs
    programs.end()


@pytest.mark.slow
def test_a_worker_that_survives(worker: Programs) -> None:
    url = f"sqlite:///{worker.folder}/mq.db"
    with Claims(url) as claims:
        orders, dead = claims.queue("ORDERS"), claims.queue("ActiveMQ.DLQ")
        killed, log = worker.start("worker.py", JDBCSTORE_URL=url, LEASE="1")
        orders.add(Message("not JSON"), Message('{"seconds": 0}'), Message('{"table": 1, "seconds": 3}'))
        until(lambda: b"attempt 1" in log.read_bytes() and orders.count()[1] == 0)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        stopped, log = worker.start("worker.py", JDBCSTORE_URL=url, LEASE="1")
        orders.add(Message(json.dumps({"table": 2})))
        said = (b"attempt 2", b"served table 1", b"served table 2")
        until(lambda: all(line in log.read_bytes() for line in said))

        [letter] = dead.claim()
        cause = letter.message.properties["dlqDeliveryFailureCause"]
        assert cause == "Expecting value: line 1 column 1 (char 0)"
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(60) == 0
        assert orders.count()[0] == 1  # without a table
        dead.release(letter)
        retry, _ = worker.start("retry.py", JDBCSTORE_URL=url)
        assert retry.wait(60) == 0
        assert (orders.count()[0], dead.count()[0]) == (2, 0)


@pytest.mark.slow
def test_a_worker_finishes_its_message_when_it_is_stopped(worker: Programs) -> None:
    url = f"sqlite:///{worker.folder}/mq.db"
    with Claims(url) as claims:
        orders = claims.queue("ORDERS")
        process, log = worker.start("worker.py", JDBCSTORE_URL=url)
        orders.add(Message('{"table": 7, "seconds": 1}'))
        until(lambda: b"ready" in log.read_bytes() and orders.count()[1] == 0)
        process.send_signal(signal.SIGTERM)

        assert process.wait(60) == 0
        assert orders.count() == (0, 0)
    assert re.findall(r"served table \d|stopped", log.read_text()) == ["served table 7", "stopped"]


@pytest.mark.slow
def test_the_order_of_a_killed_worker_goes_to_the_other(quickstart: Programs) -> None:
    first, log = quickstart.start("worker.py")
    quickstart.start("shop.py", "a soup")
    until(lambda: b"begins a soup" in log.read_bytes())
    first.send_signal(signal.SIGKILL)
    first.wait()
    _, other = quickstart.start("worker.py")

    until(lambda: b"has done a soup" in other.read_bytes())
    assert b"has done" not in log.read_bytes()


@pytest.mark.slow
def test_the_consumer_of_the_broker(tmp_path: Path) -> None:
    pytest.importorskip("stomp")
    programs = Programs("quickstart-broker.md", tmp_path)
    try:
        url = f"sqlite:///{tmp_path}/mq.db"
        program = [sys.executable, "-m", "jdbcstore", "send", "ORDERS", "two pints"]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([*program, "--property", "table:int=7", "--url", url], env=variables)
        assert done.returncode == 0
        (tmp_path / "broker.py").write_text("from jdbcstore.cli.app import main\nmain()\n")
        _, log = programs.start("broker.py", "broker", "--url", url, "--stomp", "127.0.0.1:0")
        until(lambda: b"ready stomp=" in log.read_bytes())
        found = re.search(r"ready stomp=127\.0\.0\.1:(\d+) master=yes", log.read_text())
        assert found
        consumer, output = programs.start("consumer.py", found[1])

        assert consumer.wait(60) == 0
        assert output.read_text().splitlines() == ["two pints 7"]
    finally:
        programs.end()
