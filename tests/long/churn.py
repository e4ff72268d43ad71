"""``python -m tests.long.churn --connections 1000000 --seed N``: OpenWire clients that vanish in the middle.

Each opens a connection to ``jdbcstore broker`` and gets as far as chance will have it: nothing, a part of its
offer, all of it, a login, a session, consumers of advisories and queues, half a message. Then it resets the
connection, or closes it. Meanwhile other clients are served; in the end
the broker's memory is bounded, and its open files are as many as at first.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import click

from jdbcstore import Destination
from jdbcstore.broker.openwire.commands import Type, write_command
from jdbcstore.broker.openwire.frames import wire_format_info
from jdbcstore.message.ids import ConnectionId, ConsumerId, MessageId, ProducerId, SessionId
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import encode
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire.client import Client
from tests.support.broker.programs import BrokerProcess
from tests.support.ports import free_port

BOUND = 64 * 1024 * 1024
"""How much the broker may grow."""
_RESET = struct.pack("ii", 1, 0)
_AT_ONCE = 50
_QUEUE, _TOPIC = Destination.queue("CHURN"), Destination.topic("CHURN")


@click.command(help=__doc__)
@click.option("--connections", default=1_000_000, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
def main(connections: int, seed: int | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="jdbcstore-churn-") as folder:
        wrong = run(Path(folder), connections, random.Random(seed))
    for one in wrong:
        click.echo(f"WRONG: {one}")
    sys.exit(1 if wrong else 0)


def run(folder: Path, connections: int, chance: random.Random) -> list[str]:
    """Open and drop so many connections; what was wrong."""
    port, begin, wrong = free_port(), time.monotonic(), list[str]()
    broker = BrokerProcess(folder, "--url", "memory:", "--openwire", f"127.0.0.1:{port}")
    try:
        broker.ready()
        first, files = memory(broker), open_files(broker)
        for done in range(0, connections, _AT_ONCE):
            held = [begun(port, done + number, chance) for number in range(_AT_ONCE)]
            for one in held:
                if chance.random() < 0.7:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.close()
            if done % (200 * _AT_ONCE) == 0:
                is_served(port)
                seconds, grown = time.monotonic() - begin, memory(broker) - first
                click.echo(f"{done} connections, {seconds:.0f} s, {grown >> 10} KiB more")
        wait_until(lambda: open_files(broker) <= files, 120, "that all are closed")
        is_served(port)
        grown = memory(broker) - first
        broker.end()
        if "Traceback" in (log := broker.log.read_text(errors="replace")):
            wrong.append(f"the broker logged: {log[log.index('Traceback') - 500 :][:3000]}")
    finally:
        broker.kill()
    seconds = time.monotonic() - begin
    click.echo(f"{connections} connections in {seconds:.0f} s, {grown >> 10} KiB more at the end")
    return wrong if grown < BOUND else [*wrong, f"{grown} bytes more of memory"]


def is_served(port: int) -> None:
    """Send as another client, and wait for the answer."""
    with Client(port) as other:
        other.send(Destination.queue("GOOD"), "it goes on", persistent=False)


def begun(port: int, number: int, chance: random.Random) -> socket.socket:
    """A connection whose client has got to some point."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=180)
    frames = b"".join(_frames(f"ID:churn-{number}"))
    offer = len(wire_format_info(1 << 20, 30_000, "churn"))
    ends = [0, chance.randrange(offer), offer, chance.randrange(len(frames)), len(frames)]
    with suppress(ConnectionError):
        opened.sendall(frames[: chance.choice(ends)])
    return opened


def _frames(name: str) -> list[bytes]:
    """What a client sends, from its offer to a message."""
    producer_id = ProducerId(name, 1, 1)
    message = Message("x" * 1000, destination=_TOPIC, message_id=MessageId(producer_id, 1), persistent=False)
    advisories = Destination.topic("ActiveMQ.Advisory.>")
    return [
        wire_format_info(1 << 20, 30_000, "churn"),
        write_command(Type.CONNECTION_INFO, connection_id=ConnectionId(name), client_id=name),
        write_command(Type.SESSION_INFO, session_id=SessionId(name, 1)),
        write_command(Type.CONSUMER_INFO, consumer_id=ConsumerId(name, -1, 1), destination=advisories),
        write_command(
            Type.CONSUMER_INFO, consumer_id=ConsumerId(name, 1, 1), destination=_QUEUE, prefetch=10
        ),
        write_command(Type.PRODUCER_INFO, producer_id=producer_id, destination=_TOPIC),
        encode(message),
    ]


def memory(broker: BrokerProcess) -> int:
    """Bytes that are resident."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def open_files(broker: BrokerProcess) -> int:
    return len([*Path(f"/proc/{broker.process.pid}/fd").iterdir()])


if __name__ == "__main__":
    main()
