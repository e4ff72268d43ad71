"""Figures of the README and of the comparison are those of the tables in ``docs/benchmarks.md``."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT


def _table(header: str) -> dict[str, list[float]]:
    """Read the table with this beginning of its header: the number that each cell begins with, by row.

    A row whose text begins with an ellipsis has what it continues in front; an empty cell is not a number.
    """
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows, group = {}, ""
    for line in text[text.index(header) :].splitlines()[2:]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|"))
        if name.startswith("…"):
            name = f"{group} {name}"
        else:
            group = name.split(",")[0].split(";")[0]
        rows[name] = [float(cell.split()[0].replace(",", "")) if cell else float("nan") for cell in cells]
    return rows


def _said(page: str, pattern: str) -> list[float]:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    [said] = re.findall(pattern, text)
    return [float(one.replace(",", "")) for one in said]


def test_the_readme() -> None:
    rate, of_activemq, of_rabbitmq, consuming, beside_rabbitmq, of_inserts = _said(
        "README.md",
        r"send ([\d,]+) messages a second, ([\d.]+) times ActiveMQ's JDBC store and ([\d.]+) times RabbitMQ;"
        r" .* is ([\d.]+) times ActiveMQ's rate and ([\d.]+) times RabbitMQ's;"
        r" .* reach ([\d.]+) of the bare INSERTs",
    )
    peers = _table("| messages a second | jdbcstore ")
    ours, _, _, rabbitmq, ratio = peers["STOMP … 16 connections"]
    assert (rate, of_activemq, of_rabbitmq) == (round(ours, -2), round(ratio, 1), round(ours / rabbitmq, 1))
    ours, _, _, rabbitmq, ratio = peers["STOMP … `ack:client`, an ACK for each"]
    assert (consuming, beside_rabbitmq) == (round(ratio, 1), round(ours / rabbitmq, 1))
    library = _table("| messages a second | the library | the database alone")
    assert of_inserts == library["1 blocking thread … 16"][2]


@pytest.mark.parametrize(("database", "column"), [("MariaDB", 2), ("MySQL", 5)])
def test_the_comparison(database: str, column: int) -> None:
    said = _said("docs/compared.md", rf"([\d.]+) to ([\d.]+)(?:\](?:\S+))? on {database}")
    table = _table("| messages a second | jdbcstore, MariaDB")
    rows = ("STOMP, SEND with receipt, 1 connection", "OpenWire, persistent sends, 1 producer")
    assert said == sorted(table[row][column] for row in rows)


def test_the_comparison_of_consuming() -> None:
    text = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")
    [said] = re.findall(r"\[([\d.]+) times\]\(benchmarks\.md\) ActiveMQ's rate", text)
    peers = _table("| messages a second | jdbcstore ")
    assert float(said) == round(peers["STOMP, consume, `ack:auto`"][-1], 1)
