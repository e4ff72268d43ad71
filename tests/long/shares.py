"""``python -m tests.long.shares``: fair shares of keys on each database, with several that claim.

First 10,000 claims of keys with weights: printed is how far the share of a key is from its weight. Then one
key has 100,000 messages when another one gets one: printed is which claim after that is of the other one.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import click

from jdbcstore import Message
from jdbcstore.stores.claims import Claims
from tests.support.servers.alone import VENDORS, database_of

WEIGHTS = {"a": 1, "b": 2, "c": 3, "d": 5, "e": 10}
_PAGE = 1000


def shares(opened: list[Claims], claims: int) -> Counter[str]:
    """Count the claims of each key, by processes that claim as fast as they can."""
    queue = opened[0].queue("SHARES")
    queue.flow.share()
    for key, weight in WEIGHTS.items():
        queue.flow.set_key(key, weight=weight)
    enough = claims * max(WEIGHTS.values()) // sum(WEIGHTS.values()) + 500
    for key in WEIGHTS:
        for start in range(0, enough, _PAGE):
            queue.add(*(Message(key, group_id=key) for _ in range(min(_PAGE, enough - start))))

    def work(one: Claims) -> Counter[str]:
        mine, counts = one.queue("SHARES"), Counter[str]()
        while counts.total() < claims // len(opened):
            found = mine.claim()
            counts.update(str(claim.message.body) for claim in found)
            mine.acknowledge(*found)
        return counts

    with ThreadPoolExecutor(len(opened)) as pool:
        return sum(pool.map(work, opened), Counter[str]())


def flood(opened: list[Claims], messages: int) -> int:
    """Return the number of claims until one is of the key that came last."""
    queue, other = (one.queue("FLOOD") for one in opened[:2])
    queue.flow.share()
    for _ in range(messages // _PAGE):
        queue.add(*(Message("a", group_id="a") for _ in range(_PAGE)))
    queue.acknowledge(*queue.claim())
    other.add(Message("b", group_id="b"))
    for count in range(1, 100):
        [claim] = queue.claim()
        queue.acknowledge(claim)
        if claim.message.body == "b":
            return count
    return 100


@click.command(help=__doc__)
@click.option("--database", "names", multiple=True, default=VENDORS)
@click.option("--processes", default=4, show_default=True)
@click.option("--claims", default=10_000, show_default=True)
@click.option("--messages", default=100_000, show_default=True, help="Of the flood.")
def main(names: tuple[str, ...], processes: int, claims: int, messages: int) -> None:
    for name in names:
        with database_of(name) as url, ExitStack() as stack:
            opened = [stack.enter_context(Claims(url, name=f"p{number}")) for number in range(processes)]
            begun = time.perf_counter()
            counts = shares(opened, claims)
            seconds = time.perf_counter() - begun
            unit = counts.total() / sum(WEIGHTS.values())
            worst = max(abs(counts[key] / (unit * weight) - 1) for key, weight in WEIGHTS.items())
            click.echo(f"{name}: {dict(sorted(counts.items()))}, {100 * worst:.2f} % from the weights")
            click.echo(f"{name}: {seconds:.0f} s for {counts.total()} claims, with adding")
            waited = flood(opened, messages)
            click.echo(f"{name}: behind {messages} messages the other key was claimed as number {waited}")
        if worst > 0.05 or waited > 4:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
