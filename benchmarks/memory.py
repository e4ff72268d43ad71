"""``python -m benchmarks.memory``: the memory that a message of 1 KB takes, in bytes, as a Markdown table.

Each store is measured on SQLite in processes of its own: in one with tracemalloc, which counts Python's
objects, and in one without it for the resident memory. The messages are handed over all at once; the peak is
that of the hand-over, ``kept`` what is left after it. The broker is measured from outside.

Only public names are used, so that older trees can be measured too, from their own folder:
``PYTHONPATH=$PWD python .../benchmarks/memory.py``.
"""

from __future__ import annotations

import gc
import re
import socket
import subprocess
import sys
import tempfile
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click

import jdbcstore
from jdbcstore import Message

_READY = re.compile(r"ready stomp=\S+:(\d+) ")
_BODY = 1024
_DATABASE = 'url = "sqlite:///{folder}/memory.db"'
_SETTINGS = {
    "memory store": "",
    "database": _DATABASE,
    "journal before a database": f'{_DATABASE}\n[journal]\ndirectory = "{{folder}}/log"',
}


def _resident(process: int | str = "self", *, peak: bool = False) -> int:
    """Return the resident memory of a process, now or at its peak, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    name = "VmHWM" if peak else "VmRSS"
    return 1024 * int(next(line for line in status.splitlines() if line.startswith(name)).split()[1])


def _forget_peak(process: int | str = "self") -> int:
    """Reset the peak of a process to its current memory, and return that."""
    Path(f"/proc/{process}/clear_refs").write_text("5")
    return _resident(process)


def _of_a_store(settings: str, count: int, *, traced: bool) -> tuple[int, int]:
    """Measure the bytes at the peak and those that are kept: of Python's objects, or of resident memory."""
    with tempfile.TemporaryDirectory() as folder:
        where: str | jdbcstore.Configuration = "memory:"
        if settings:
            file = Path(folder, "jdbcstore.toml")
            file.write_text(settings.format(folder=folder))
            where = jdbcstore.load_config(file)
        with jdbcstore.open(where) as store:
            queue = store.queue("ORDERS")
            queue.add_message(Message("the first"))  # creates what is there once
            if traced:
                tracemalloc.start()
            before = _forget_peak()
            futures = [queue.add_message_async(Message(f"{number:{_BODY}}")) for number in range(count)]
            for future in futures:
                future.result()
            del future, futures
            gc.collect()
            if traced:
                kept, peak = tracemalloc.get_traced_memory()
                return peak, kept
            return _resident(peak=True) - before, _resident() - before


class _Client:
    """A STOMP client that counts the frames it receives."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self.send("CONNECT\naccept-version:1.2\nhost:localhost\n\n")
        self.receive(1)

    def send(self, frame: str) -> None:
        self._socket.sendall(f"{frame}\0".encode())

    def receive(self, frames: int) -> None:
        while frames > 0:
            data = self._socket.recv(1 << 16)
            assert data, "the broker closed the connection"
            frames -= data.count(b"\0")


def _of_the_broker(count: int) -> tuple[int, int]:
    """Measure the broker's resident bytes at their peak: while it stores messages, and after all are sent."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jdbcstore", "--url", f"sqlite:///{folder}/memory.db", "broker"]
        broker = subprocess.Popen(
            [*command, "--stomp", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert broker.stdout is not None
            ready = next(found for line in broker.stdout if (found := _READY.match(line)))
            client = _Client(int(ready[1]))
            client.send("SEND\ndestination:/queue/ORDERS\npersistent:true\nreceipt:first\n\nthe first")
            client.receive(1)
            before = _forget_peak(broker.pid)
            for number in range(count):
                receipt = "" if number < count - 1 else "receipt:last\n"
                client.send(f"SEND\ndestination:/queue/ORDERS\npersistent:true\n{receipt}\n{number:{_BODY}}")
            client.receive(1)
            stored = _resident(broker.pid, peak=True) - before
            prefetch = f"activemq.prefetchSize:{2 * count}"
            client.send(f"SUBSCRIBE\nid:1\ndestination:/queue/ORDERS\nack:client\n{prefetch}\n\n")
            client.receive(count + 1)
            return stored, _resident(broker.pid, peak=True) - before
        finally:
            broker.terminate()
            broker.communicate()


@click.command(help=__doc__)
@click.option("--messages", default=20_000, show_default=True)
def main(messages: int) -> None:
    click.echo("| | objects: peak | kept | resident: peak | kept |\n|---|---|---|---|---|")
    for name, settings in _SETTINGS.items():
        figures: list[int] = []
        for traced in (True, False):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                figures += process.submit(_of_a_store, settings, messages, traced=traced).result()
        _print(name, figures, messages)
    stored, sent = _of_the_broker(messages)
    _print("broker, storing", [stored], messages)
    _print("broker, all sent and none acknowledged", [sent], messages)


def _print(name: str, figures: list[int], messages: int) -> None:
    cells = [f"{figure / messages:,.0f}" for figure in figures]
    if len(cells) == 1:
        cells = ["", "", *cells, ""]
    click.echo(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
