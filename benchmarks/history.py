"""``python -m benchmarks.history``: the cost of recording removed messages, as a Markdown table.

A store without ``history_retention`` and one with it, both open on one database, acknowledge messages of 1 KB
in turns, in one thread. The figure is the 10th percentile of the commit times, which depends little on other
load of the machine.
"""

from __future__ import annotations

import time
from statistics import quantiles

import click

import jdbcstore
from benchmarks.fence import databases
from benchmarks.ours import BODY
from jdbcstore import Message, Store

_COMMITS = 300


@click.command(help=__doc__)
@click.option("--commits", default=_COMMITS, show_default=True, help="Of each store.")
def main(commits: int) -> None:
    click.echo("| | messages per commit | without a history | with it | ratio |\n|---|---|---|---|---|")
    for name, opened in databases():
        with (
            opened() as url,
            jdbcstore.open(url, cleanup_period=0.0) as bare,
            jdbcstore.open(url, cleanup_period=0.0, history_retention=3600.0) as recording,
        ):
            for messages in (1, 100):
                without, recorded = _compare(bare, recording, messages, commits)
                row = f"{without * 1000:.2f} ms | {recorded * 1000:.2f} ms | {recorded / without:.2f}"
                click.echo(f"| {name} | {messages} | {row} |")


def _compare(bare: Store, recording: Store, messages: int, commits: int) -> tuple[float, float]:
    """Measure seconds per commit of each store: the 10th percentile, without commits that were disturbed."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(commits):
        added = bare.queue("BENCHMARK").add_messages([Message(BODY) for _ in range(2 * messages)])
        ids = [reference.sequence for reference in added]
        halves = ids[:messages], ids[messages:]
        for store, mine, taken in zip((bare, recording), halves, times, strict=True):
            queue = store.queue("BENCHMARK")
            began = time.perf_counter()
            queue.acknowledge(*mine)
            taken.append(time.perf_counter() - began)
    without, recorded = (quantiles(taken, n=10)[0] for taken in times)
    return without, recorded


if __name__ == "__main__":
    main()
