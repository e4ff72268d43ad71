"""The upper limit of a journal: loops that only append records and sync.

``python -m benchmarks.append`` compares ways to write: as the journal does, and past the page cache.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import click

from benchmarks.ours import run, timed
from jdbcstore.util.futures import Waiter

_FILE = 20 << 20
_BLOCK = 4096
_TOGETHER = (1, 16, 64, 300)


class RawAppends:
    """A file of a fixed size, allocated in advance and written from its start again when it is full."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "raw", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._offset = 0
        for _ in range(_FILE >> 20):
            os.write(self._file, bytes(1 << 20))
        os.fsync(self._file)

    def append(self, records: bytes) -> None:
        """Write records in one write, and sync once."""
        if self._offset + len(records) > _FILE:
            self._offset = 0
        self._offset += os.pwrite(self._file, records, self._offset)
        os.fdatasync(self._file)

    def rate(self, size: int, together: int, seconds: float) -> float:
        """Measure records per second of this size, with ``together`` of them in one write and one sync."""
        records = os.urandom(size * together)
        syncs = 0
        start = time.perf_counter()
        while time.perf_counter() < start + seconds:
            self.append(records)
            syncs += 1
        return syncs * together / (time.perf_counter() - start)

    def close(self) -> None:
        os.close(self._file)


class GroupCommit:
    """The minimum for a group commit in Python: callers hand prepared records to a thread."""

    def __init__(self, appends: RawAppends) -> None:
        self._appends = appends
        self._queue: list[tuple[bytes, Waiter[None]]] = []
        self._lock = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._idle = self._ended = False

    def blocking(self, size: int, threads: int, seconds: float) -> float:
        """Measure records per second of this many callers that wait for each."""
        record, counts, end = os.urandom(size), [0] * threads, time.perf_counter() + seconds

        def produce(number: int) -> None:
            while time.perf_counter() < end:
                self._append(record).result()
                counts[number] += 1

        return self._timed([partial(produce, number) for number in range(threads)], counts)

    def futures(self, size: int, window: int, seconds: float) -> float:
        """Measure records per second of one caller with this many in flight."""
        record, counts, end = os.urandom(size), [0], time.perf_counter() + seconds

        def produce() -> None:
            waiting = deque[Waiter[None]]()
            while time.perf_counter() < end:
                for _ in range(100):
                    if len(waiting) >= window:
                        waiting.popleft().result()
                    waiting.append(self._append(record))
                counts[0] += 100
            while waiting:
                waiting.popleft().result()

        return self._timed([produce], counts)

    def _append(self, record: bytes) -> Waiter[None]:
        waiter: Waiter[None] = Waiter()
        with self._lock:
            self._queue.append((record, waiter))
            idle, self._idle = self._idle, False
        if idle:
            self._wake.release()
        return waiter

    def _timed(self, producers: Sequence[Callable[[], None]], counts: list[int]) -> float:
        self._ended = False
        writer = threading.Thread(target=self._write)
        writer.start()
        try:
            return timed(lambda: run(producers), lambda: sum(counts))
        finally:
            self._ended = True
            self._wake.release()
            writer.join()

    def _write(self) -> None:
        while True:
            with self._lock:
                taken, self._queue = self._queue, []
                self._idle = not taken
            if taken:
                self._appends.append(b"".join([record for record, _ in taken]))
                for _, waiter in taken:
                    waiter.set_result(None)
            elif self._ended:
                return
            else:
                self._wake.acquire()


class DirectAppends:
    """Whole blocks written past the page cache with ``O_DIRECT``: each synced, or durable when written."""

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        RawAppends(folder).close()
        self._synchronous = synchronous
        flags = os.O_RDWR | os.O_DIRECT | (os.O_DSYNC if synchronous else 0)
        self._file = os.open(folder / "raw", flags)

    def rate(self, size: int, together: int, seconds: float) -> float:
        """Measure as :class:`RawAppends` does, with each write padded to whole blocks."""
        blocks = mmap.mmap(-1, -(-size * together // _BLOCK) * _BLOCK)  # memory that begins at a block
        blocks.write(os.urandom(size * together))
        offset = syncs = 0
        start = time.perf_counter()
        while time.perf_counter() < start + seconds:
            if offset + len(blocks) > _FILE:
                offset = 0
            offset += os.pwritev(self._file, [blocks], offset)
            if not self._synchronous:
                os.fdatasync(self._file)
            syncs += 1
        return syncs * together / (time.perf_counter() - start)

    def close(self) -> None:
        os.close(self._file)


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="Of each measurement.")
@click.option("--size", default=1200, show_default=True, help="Bytes of a record.")
def main(rounds: int, seconds: float, size: int) -> None:
    rates: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("cached", "direct", "synchronous")]
        for place in places:
            place.mkdir()
        cached, direct, synchronous = places
        ways: dict[str, RawAppends | DirectAppends] = {
            "write, fdatasync": RawAppends(cached),
            "O_DIRECT, fdatasync": DirectAppends(direct, synchronous=False),
            "O_DIRECT, O_DSYNC": DirectAppends(synchronous, synchronous=True),
        }
        for _ in range(rounds):
            for together in _TOGETHER:
                for name, way in ways.items():
                    rates.setdefault((together, name), []).append(way.rate(size, together, seconds))
        for way in ways.values():
            way.close()
    click.echo(f"{rounds} rounds, load {os.getloadavg()[0]:.1f} at the end\n")
    click.echo(f"| records per second, by records in one write | {' | '.join(ways)} |")
    click.echo(f"|{'---|' * (1 + len(ways))}")
    for together in _TOGETHER:
        cells = [f"{median(rates[together, name]):,.0f}" for name in ways]
        click.echo(f"| {together:,} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
