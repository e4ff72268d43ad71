"""``python -m benchmarks.latest``: write the tables of docs/benchmarks.md from ``results/latest.json``.

Each figure is a median, then the lowest and the highest. ``python -m benchmarks.peers --json`` renews them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results") / "latest.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- python -m benchmarks.latest {} -->", "<!-- end -->"
_TO = "\N{EN DASH}"
BROKERS = ("jdbcstore", "ActiveMQ", "Artemis", "RabbitMQ")

SENDING = {
    "STOMP, SEND with receipt, 1 connection": "1 STOMP client",
    "… 4 connections": "4 STOMP clients",
    "… 16 connections": "16 STOMP clients",
    "… transactions of 100, 1 connection": "1 STOMP client, transactions of 100",
    "OpenWire, persistent sends, 1 producer": "1 JMS producer",
    "… 4 producers": "4 JMS producers",
    "… 16 producers": "16 JMS producers",
    "… 64 producers": "64 JMS producers",
    "… transactions of 100, 1 producer": "1 JMS producer, transactions of 100",
}
"""Rows of the result file, and how the page calls them."""
CONSUMING = {
    "STOMP, consume, `ack:auto`": "STOMP, `ack:auto`",
    "… `ack:client`, an ACK for each": "STOMP, an ACK for each message",
    "… transactions of 100 ACKs": "STOMP, transactions of 100 ACKs",
    "OpenWire, consume, transactions of 100": "JMS, transactions of 100",
}
LIBRARY = {
    "1 blocking thread; pgbench, 1 client": "1 thread that waits for each message",
    "… 4": "4 threads",
    "… 16": "16 threads",
    "futures, 1,000 in flight; COPY, 1,000 rows a commit": "1,000 futures in flight",
    "batches of 100, 1,000 in flight; COPY, 1,000 rows a commit": "batches of 100, 1,000 in flight",
}


def results() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return loaded


def tables() -> dict[str, str]:
    """Return each table of the page by its name."""
    found = results()
    brokers = found["brokers"]
    heads = [f"{name} {found['versions'][name]}" for name in BROKERS]
    library = found["library"]["postgresql"]
    return {
        "sending": _brokers(SENDING, brokers["postgresql"], heads),
        "consuming": _brokers(CONSUMING, brokers["postgresql"], heads),
        "library": _table(
            ("messages a second", "the library", "PostgreSQL alone", "ratio"),
            (
                [name, _rate(row["jdbcstore"]), _rate(row["the database alone"]), _ratio(row["ratio"])]
                for label, name in LIBRARY.items()
                for row in (library[label],)
            ),
        ),
        "databases": _table(
            ("jdbcstore ÷ ActiveMQ", *found["databases"].values()),
            (
                [name, *(_ratio(brokers[database][label]["ratio"]) for database in found["databases"])]
                for label, name in (SENDING | CONSUMING).items()
                if "transactions" not in name
            ),
        ),
    }


def page() -> str:
    """Return the page with the tables of the result file."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables().items():
        before, begin, rest = text.partition(BEGIN.format(name))
        _, end, after = rest.partition(END)
        text = f"{before}{begin}\n{table}\n{end}{after}"
    return text


def _brokers(names: Mapping[str, str], rows: Mapping[str, Any], heads: Sequence[str]) -> str:
    return _table(
        ("messages a second", *heads, "jdbcstore ÷ ActiveMQ"),
        (
            [name, *(_rate(rows[label].get(broker)) for broker in BROKERS), _ratio(rows[label]["ratio"])]
            for label, name in names.items()
        ),
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _rate(figures: Sequence[float] | None) -> str:
    if figures is None:
        return ""
    middle, low, high = figures
    return f"{middle:,.0f} ({low:,.0f}{_TO}{high:,.0f})"


def _ratio(figures: Sequence[float]) -> str:
    middle, *spread = figures
    return f"{middle:.2f} ({spread[0]:.2f}{_TO}{spread[1]:.2f})" if spread else f"{middle:.2f}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
