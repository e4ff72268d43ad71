"""``python -m benchmarks.crowds``: a broker on SQLite with very many queues, and very many clients at once.

``queues``: each gets a message, is drained and left. Printed are the broker's memory, the processor time that
it uses while nobody does anything, and how long a client waits for its CONNECTED meanwhile. ``logins``: that
many users connect at the same moment; a client that has waited longer than its patience starts again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import click

import jdbcstore
from benchmarks import cpu
from jdbcstore import Destination, Message
from jdbcstore.broker.security import hash_password

_DATABASE = "crowds.db"
_READY = re.compile(r"ready stomp=\S+:(\d+) ")
_AT_ONCE = 500
"""Frames that are sent before their answers are read."""
_FRAME_LIMIT = 1 << 20
_BODY = "x" * 1024


@dataclass(frozen=True)
class Broker:
    """A broker process, and a client's view of it."""

    port: int
    process: int

    @property
    def memory(self) -> str:
        """Its resident memory."""
        status = Path(f"/proc/{self.process}/status").read_text()
        [kilobytes] = re.findall(r"VmRSS:\s+(\d+)", status)
        return f"{int(kilobytes) / 1024:.0f} MB"

    async def connect(self, login: str = "", passcode: str = "") -> Client:
        """Connect a client and log it in."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=_FRAME_LIMIT))
        credentials = f"login:{login}\npasscode:{passcode}\n" if login else ""
        try:
            client.write(f"CONNECT\naccept-version:1.2\nhost:crowds\n{credentials}\n\0")
            await client.read("CONNECTED")
        except BaseException:
            client.writer.close()
            raise
        return client

    async def observe(self, what: str, seconds: float) -> None:
        """Print the CPU and memory of the idle broker, and the seconds that clients wait to connect."""
        before = cpu.seconds(self.process)
        await asyncio.sleep(seconds)
        used = (cpu.seconds(self.process) - before) / seconds
        waits = []
        for _ in range(50):
            start = time.perf_counter()
            (await self.connect()).writer.close()
            waits.append(1000 * (time.perf_counter() - start))
        times = f"median {median(waits):.1f} ms, at most {max(waits):.1f} ms"
        click.echo(f"| {what} | {self.memory} | {used:.1%} | {times} |")


@dataclass(frozen=True)
class Client:
    """A STOMP client that sends frames and expects their answers in order."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def write(self, frame: str) -> None:
        self.writer.write(frame.encode())

    async def read(self, command: str) -> None:
        """Read the next frame, which must have this command."""
        frame = (await self.reader.readuntil(b"\0")).lstrip(b"\n").decode()
        if not frame.startswith(command):
            raise ConnectionError(frame)

    async def drain(self) -> None:
        """Read and forget all that comes."""
        while await self.reader.read(_FRAME_LIMIT):
            pass

    async def ask(self, frames: Sequence[str], answer: str) -> None:
        """Send frames, and read an answer to each."""
        for start in range(0, len(frames), _AT_ONCE):
            some = frames[start : start + _AT_ONCE]
            for frame in some:
                self.write(frame)
            for _ in some:
                await self.read(answer)


@contextlib.contextmanager
def _broker(folder: Path, *options: str, url: str | None = None) -> Iterator[Broker]:
    command = [sys.executable, "-m", "jdbcstore", "broker", "--stomp", "127.0.0.1:0", *options]
    process = subprocess.Popen(
        [*command, "--url", url or f"sqlite:///{folder}/{_DATABASE}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = next(found for line in process.stdout if (found := _READY.match(line)))
        yield Broker(int(ready[1]), process.pid)
    finally:
        process.terminate()
        process.communicate()


@click.group(help=__doc__)
def main() -> None: ...


@main.command()
@click.option("--number", default=10_000, show_default=True)
@click.option("--seconds", default=35.0, show_default=True, help="Of each observation.")
def queues(number: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with jdbcstore.open(f"sqlite:///{folder}/{_DATABASE}", cleanup_period=0) as store:
            store.add_each_async(
                [Message("hello", destination=Destination.queue(f"Q.{queue}")) for queue in range(number)]
            ).result()
        with _broker(Path(folder)) as broker:
            click.echo("| | memory | processor, idle | a client connects |\n|---|---|---|---|")
            asyncio.run(_observe_queues(broker, number, seconds))


async def _observe_queues(broker: Broker, number: int, seconds: float) -> None:
    await broker.observe(f"started, a message in each of {number} queues", seconds)
    client = await broker.connect()
    send = "SEND\ndestination:/queue/Q.{0}\npersistent:true\nreceipt:{0}\n\nhello\0"
    await client.ask([send.format(queue) for queue in range(number, 2 * number)], "RECEIPT")
    await broker.observe(f"a message in each of {number} more", seconds)
    number *= 2
    for start in range(0, number, _AT_ONCE):
        some = range(start, min(start + _AT_ONCE, number))
        subscribe = "SUBSCRIBE\nid:{0}\ndestination:/queue/Q.{0}\nack:auto\n\n\0"
        await client.ask([subscribe.format(queue) for queue in some], "MESSAGE")
        unsubscribe = "UNSUBSCRIBE\nid:{0}\nreceipt:{0}\n\n\0"
        await client.ask([unsubscribe.format(queue) for queue in some], "RECEIPT")
    await broker.observe("drained", 1.0)
    await broker.observe("a while later", 2 * seconds)


@main.command()
@click.option("--number", default=500, show_default=True)
@click.option("--patience", default=5.0, show_default=True, help="Seconds that a client waits.")
def logins(number: int, patience: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        users, password = Path(folder, "users.toml"), secrets.token_hex(8)
        # All at once: writing a user parses the file.
        entry = "[users.user-{}]\npassword = '{}'\nread = ['queue://>']\nwrite = ['queue://>']\n"
        users.write_text("".join(entry.format(user, hash_password(password)) for user in range(number)))
        with _broker(Path(folder), "--users", str(users)) as broker:
            click.echo("| | all are in | half | attempts | processor | memory |\n|---|---|---|---|---|---|")
            for what in ("first", "again"):
                asyncio.run(_log_in(broker, what, password, number, patience))


async def _log_in(broker: Broker, what: str, password: str, number: int, patience: float) -> None:
    attempts, before, start = 0, cpu.seconds(broker.process), time.perf_counter()

    async def log_in(user: int) -> tuple[float, Client]:
        nonlocal attempts
        while True:
            attempts += 1
            with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(patience):
                    client = await broker.connect(f"user-{user}", password)
                return time.perf_counter() - start, client

    entered = await asyncio.gather(*map(log_in, range(number)))
    times = sorted(seconds for seconds, _ in entered)
    used = cpu.seconds(broker.process) - before
    click.echo(
        f"| {what} | {times[-1]:.1f} s | {times[number // 2]:.1f} s | {attempts} | {used:.1f} s"
        f" | {broker.memory} |"
    )
    for _, client in entered:
        client.writer.close()


@main.command()
@click.option("--clients", default=1000, show_default=True)
@click.option("--queues", "queue_count", default=200, show_default=True)
@click.option("--seconds", default=20.0, show_default=True)
@click.option("--url", help="Of an empty database; a file of SQLite if none is given.")
def receipts(clients: int, queue_count: int, seconds: float, url: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder, _broker(Path(folder), url=url) as broker:
        asyncio.run(_send_and_consume(broker, clients, queue_count, seconds))


async def _send_and_consume(broker: Broker, clients: int, queue_count: int, seconds: float) -> None:
    connected = [await broker.connect() for _ in range(clients)]
    producers, consumers = connected[: clients // 2], connected[clients // 2 :]
    for number, consumer in enumerate(consumers):
        consumer.write(f"SUBSCRIBE\nid:0\ndestination:/queue/Q.{number % queue_count}\nack:auto\n\n\0")
    reading = [asyncio.create_task(consumer.drain()) for consumer in consumers]
    waits: list[float] = []
    start = time.perf_counter()
    before = cpu.seconds(broker.process)

    async def produce(number: int, producer: Client) -> None:
        frame = f"SEND\ndestination:/queue/Q.{number % queue_count}\npersistent:true\nreceipt:0\n\n{_BODY}\0"
        while (begun := time.perf_counter()) < start + seconds:
            await producer.ask([frame], "RECEIPT")
            if begun > start + seconds / 4:  # the first quarter is not counted
                waits.append(1000 * (time.perf_counter() - begun))

    await asyncio.gather(*(produce(number, producer) for number, producer in enumerate(producers)))
    used = cpu.seconds(broker.process) - before
    for task in reading:
        task.cancel()
    for client in connected:
        client.writer.close()
    rate, cuts = len(waits) / (0.75 * seconds), quantiles(waits, n=100)
    click.echo("| sends/s | receipt after, median | p95 | p99 | longest | broker's processor |")
    click.echo("|---|---|---|---|---|---|")
    click.echo(
        f"| {rate:,.0f} | {cuts[49]:.0f} ms | {cuts[94]:.0f} ms | {cuts[98]:.0f} ms"
        f" | {max(waits):.0f} ms | {used / seconds:.0%} |"
    )


if __name__ == "__main__":
    main()
