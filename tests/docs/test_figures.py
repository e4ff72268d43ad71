"""Every figure of the README and the comparison is one of ``benchmarks/results/latest.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import latest
from tests.support import ROOT

RESULTS = latest.results()
ROWS: list[dict[str, list[float]]] = [
    row
    for databases in (RESULTS["brokers"], RESULTS["library"])
    for rows in databases.values()
    for row in rows.values()
]
PAGES = ("README.md", "docs/compared.md")
NAMES = {"activemq": "ActiveMQ", "artemis": "Artemis", "rabbitmq": "RabbitMQ", "jdbcstore": "jdbcstore"}

every_page = pytest.mark.parametrize("page", PAGES)


def _text(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _is_rounded(text: str, figure: float) -> bool:
    """Whether the figure was rounded to the number: to hundreds above a thousand, as is usual."""
    return _number(text) in (round(figure), round(figure, -1), round(figure, -2), round(figure, -3))


def test_the_tables_of_the_page_are_those_of_the_results() -> None:
    assert latest.PAGE.read_text(encoding="utf-8") == latest.page(), "run python -m benchmarks.latest"


def _tables(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each row of a table of brokers: the broker of each column, and the cells."""
    names: list[str] = []
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            names = []
        elif not names:
            words = (re.match(r"\W*(\w+)", cell) for cell in cells)
            names = [NAMES.get(word[1].lower(), "") if word else "" for word in words]
        elif "jdbcstore" in names:
            yield names, cells


@every_page
def test_tables_of_rates(page: str) -> None:
    """Each row of rates is one row of the results: the same brokers, the same figures."""
    for names, cells in _tables(page):
        rates = {
            name: match[1]
            for name, cell in zip(names, cells, strict=True)
            if name and (match := re.fullmatch(r"\**([\d,]{3,})(?:/s| a second)?\**", cell))
        }

        def has(row: dict[str, list[float]], rates: dict[str, str] = rates) -> bool:
            return all(name in row and _is_rounded(rate, row[name][0]) for name, rate in rates.items())

        assert not rates or any(has(row) for row in ROWS), f"{page}: {cells}"


@every_page
def test_rates_in_sentences(page: str) -> None:
    said = re.findall(r"([\d,]{3,}) (?:durable )?(?:messages|sends|messages sent) a second", _text(page))

    assert [one for one in said if not any(_is_rounded(one, row["jdbcstore"][0]) for row in ROWS)] == []


@every_page
def test_ratios_in_sentences(page: str) -> None:
    said = re.findall(r"\[?([\d.]+) times(?:\]\(\S+\))? ActiveMQ's", _text(page))
    ratios = {round(row["ratio"][0], 1) for row in RESULTS["brokers"]["postgresql"].values()}

    assert [one for one in said if float(one) not in ratios] == []


def test_one_client_that_waits() -> None:
    rows = ("STOMP, SEND with receipt, 1 connection", "OpenWire, persistent sends, 1 producer")
    for database, name in (("postgresql", "PostgreSQL"), ("mariadb", "MariaDB"), ("mysql", "MySQL")):
        [said] = re.findall(rf"([\d.]+) to ([\d.]+) on {name}", _text("docs/compared.md"))
        brokers: dict[str, Any] = RESULTS["brokers"][database]
        assert [*map(float, said)] == sorted(brokers[row]["ratio"][0] for row in rows)
