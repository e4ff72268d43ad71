"""``python -m tests.long.openwire --frames 1000000 --seed N``: frames of OpenWire that are nearly right.

Most are read in this process, and passed to sessions if they can be read; one in fifty goes to ``jdbcstore
broker`` over a socket. Nothing may be logged with a traceback, other clients are served, memory is bounded.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import click

from jdbcstore import Destination
from jdbcstore.stores.memory import MemoryStore
from tests.support.broker.openwire.client import Client
from tests.support.broker.openwire.fuzzing import VERSIONS, Fuzzer, InProcess, failures, reads
from tests.support.broker.openwire.serving import Served
from tests.support.broker.programs import BrokerProcess
from tests.support.ports import free_port

BOUND = 300 * 1024 * 1024
"""How much a process may grow."""
_AT_ONCE = 500
_OF_A_BROKER = 50_000
"""Frames for a broker in this process; names that they make up would otherwise add up."""


@click.command(help=__doc__)
@click.option("--frames", default=1_000_000, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
def main(frames: int, seed: int | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    logging.disable(logging.INFO)
    over_sockets = frames // 50
    wrong = in_process(frames - over_sockets, seed) + over_the_socket(over_sockets, seed)
    for one in wrong[:30]:
        click.echo(f"WRONG: {one}")
    click.echo(f"{len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


def in_process(frames: int, seed: int) -> list[str]:
    """Read so many frames, and pass to sessions those that can be read and some others; what was wrong."""
    begin, wrong, first = time.monotonic(), list[str](), memory("self")
    done = passed = sessions = most = 0
    while done < frames:
        version = VERSIONS[done // _OF_A_BROKER % len(VERSIONS)]
        fuzzer, end = Fuzzer(seed + done, version), min(done + _OF_A_BROKER, frames)
        with MemoryStore() as store, Served(store) as served, failures() as found:
            fed = InProcess(served)
            while done < end:
                some = [fuzzer.frame() for _ in range(_AT_ONCE)]
                some = [
                    frame for number, frame in enumerate(some) if reads(frame, version) or number % 50 == 0
                ]
                fed.feed(some, version)
                done += _AT_ONCE
                passed += len(some)
            with Client(served.openwire_port) as client:
                client.send(Destination.queue("GOOD"), "it goes on")
            most = max(most, memory("self") - first)
            fed.close()
        sessions += fed.sessions
        wrong += found
        seconds = time.monotonic() - begin
        click.echo(f"{done} frames, {passed} to {sessions} sessions, {len(wrong)} wrong, {seconds:.0f} s")
    click.echo(f"in process: {most >> 20} MiB more at most")
    return wrong if most < BOUND else [*wrong, f"{most} bytes more of memory"]


def over_the_socket(frames: int, seed: int) -> list[str]:
    """Write so many frames to a broker's process; what was wrong."""
    wrong, fuzzer, done, connections = list[str](), Fuzzer(seed, 12), 0, 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jdbcstore-fuzz-") as folder:
        port = free_port()
        broker = BrokerProcess(Path(folder), "--url", "memory:", "--openwire", f"127.0.0.1:{port}")
        try:
            broker.ready()
            first = memory(broker.process.pid)
            with Client(port) as other:
                while done < frames:
                    connections += 1
                    with Client(port) as client, suppress(ConnectionError):
                        for _ in range(10):
                            client.socket.sendall(fuzzer.frame())
                            done += 1
                        client.socket.shutdown(1)
                        client.ends()
                    if connections % 50 == 0:
                        other.send(Destination.queue("GOOD"), "it goes on")
            grown = memory(broker.process.pid) - first
            broker.end()
            if "Traceback" in (log := broker.log.read_text(errors="replace")):
                wrong.append(f"the broker logged: {log[log.index('Traceback') - 500 :][:3000]}")
        finally:
            broker.kill()
    click.echo(
        f"over sockets: {done} frames on {connections} connections in {time.monotonic() - begin:.0f} s,"
        f" {grown >> 20} MiB more"
    )
    return wrong if grown < BOUND else [*wrong, f"{grown} bytes more of memory"]


def memory(process: int | str) -> int:
    """Bytes that are resident."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


if __name__ == "__main__":
    main()
