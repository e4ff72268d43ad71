"""``python -m benchmarks.arrow``: ``read_arrow`` beside the database's own reading, as Markdown tables.

CPU is that of all processes together, the database's too, in microseconds a message. In each round each
figure follows its raw neighbour at once; what is printed is the median over the rounds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import click
import pyarrow.compute as pc

from benchmarks import cpu, readers
from jdbcstore import read_arrow

_FILTER = "table = 7"
_LONG = pc.struct_field(pc.map_lookup(pc.field("properties"), "table", "first"), "long")

_READ: dict[str, tuple[list[str] | None, Any]] = {
    "every MSG read: sizes of properties": (["id", "destination", "properties_size"], None),
    "a header of each": (["id", "timestamp"], None),
    "a property filter, a selector: ids": (["id"], _FILTER),
    "a property filter, a selector: all columns of those": (None, _FILTER),
    "a property filter, an expression: ids": (["id"], _LONG == 7),
    "bodies of all": (["id", "body_text"], None),
    "all columns of all": (None, None),
}
"""Columns and condition of each reading."""


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", "count", default=200_000, show_default=True)
@click.option("--only", type=click.Choice(["postgresql", "sqlite", "mariadb"]), multiple=True)
def main(rounds: int, count: int, only: tuple[str, ...]) -> None:
    databases = (("postgresql", readers.postgresql), ("sqlite", readers.sqlite), ("mariadb", readers.mariadb))
    for name, opened in databases:
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder, opened(Path(folder), count) as source:
            # The last is read by one connection, as ours is.
            raw = [scan for scan in source.scans.items() if "ADBC" not in scan[0]][-1]
            table = _measured(source.url, raw, rounds, count)
        click.echo(f"\n### {name}\n\n{count:,} messages, {rounds} rounds, load {os.getloadavg()[0]:.1f}\n")
        click.echo("| | s | CPU, µs a message |\n|---|---|---|")
        click.echo("\n".join(table))


def _measured(url: str, raw: tuple[str, Callable[[], Any]], rounds: int, count: int) -> list[str]:
    runs = {raw[0]: raw[1]} | {what: _reads(url, *asked) for what, asked in _READ.items()}
    costs: dict[str, list[tuple[float, float]]] = {what: [] for what in runs}
    for number in range(rounds + 1):
        for what, run in runs.items():
            used, start = cpu.seconds(), time.perf_counter()
            run()
            cost = time.perf_counter() - start, (cpu.seconds() - used) * 1e6 / count
            if number:  # the first is cold
                costs[what].append(cost)
    return [
        f"| {what} | {median(wall for wall, _ in each):.2f} | {median(used for _, used in each):.1f} |"
        for what, each in costs.items()
    ]


def _reads(url: str, columns: list[str] | None, where: Any) -> Callable[[], int]:
    return lambda: sum(len(batch) for batch in read_arrow(url, columns, where))


if __name__ == "__main__":
    main()
