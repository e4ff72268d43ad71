"""``top``: a live view of the running broker, or one table of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

import click

from jdbcstore.cli.claim_readings import QUEUE_TITLES, ClaimReading, ClaimReadings
from jdbcstore.cli.options import Seconds
from jdbcstore.cli.output import print_table, write_line
from jdbcstore.cli.readings import (
    COLUMNS,
    NUMBERS,
    TITLES,
    Readings,
    TopReading,
    TopSelection,
    alarm_line,
    broker_lines,
    cells,
    remainder,
)
from jdbcstore.cli.settings import BrokerCommand, Settings
from jdbcstore.cli.shared import looking_at_claims, print_workers
from jdbcstore.errors import ConfigurationError, NotMaster, installation

T = TypeVar("T")


@click.command(cls=BrokerCommand)
@click.option("--once", is_flag=True, help="Print one table with the rates of one interval, and exit.")
@click.option(
    "--sort", type=click.Choice(TITLES), default="size", show_default=True, help="Sort by this column."
)
@click.option("--ascending", is_flag=True, help="Smallest first.")
@click.option("--filter", "text", metavar="TEXT", default="", help="Only names that contain this text.")
@click.option("--limit", type=click.IntRange(1, 1000), default=200, show_default=True, help="Destinations.")
@click.option("--interval", type=Seconds(0.1), default=2.0, show_default=True,
              help="Seconds between readings.")  # fmt: skip
@click.pass_obj
def top(
    settings: Settings, once: bool, sort: str, ascending: bool, text: str, limit: int, interval: float
) -> None:
    """Watch a running broker: its destinations and rates, with keys for operations.

    The broker must be the master of the selected store, and must have been started with --health. Press ? for
    the keys. Without a broker, this shows shared queues, the largest first.
    """
    selection = TopSelection(
        column=COLUMNS[TITLES.index(sort)], descending=not ascending, text=text, limit=limit
    )
    readings = Readings(settings.broker, interval)
    if not once and (settings.json or not sys.stdout.isatty()):
        raise click.UsageError("the live view needs a terminal; add --once for one table or its JSON")
    if not once:
        try:
            from jdbcstore.cli.claims_screen import ClaimsTop
            from jdbcstore.cli.top_screen import Top
        except ImportError as error:
            raise ConfigurationError(
                f"the live view needs textual; run: {installation('top')}, or print one table with --once"
            ) from error
    try:
        _ = readings.broker
    except NotMaster:
        with looking_at_claims(settings) as read:
            if read is None:
                raise
            shared = ClaimReadings(read, interval, text=text, limit=limit)
            if once:
                claims = _second(shared.read, interval)
                settings.print(claims.facts(), lambda: _print_claims(claims))
            else:
                ClaimsTop(shared, interval).run()
        return
    if once:
        reading = _second(lambda: readings.read(selection), interval)
        settings.print(asdict(reading), lambda: _print(reading))
    else:
        Top(readings, selection, interval).run()


def _second(read: Callable[[], T], interval: float) -> T:
    """Read twice, because rates need two readings."""
    read()
    time.sleep(interval)
    return read()


def _print_claims(reading: ClaimReading) -> None:
    for line in reading.summary:
        write_line(line)
    write_line("")
    print_table("", QUEUE_TITLES, reading.rows(), right=QUEUE_TITLES[1:])
    print_workers(reading.numbers.workers)


def _print(reading: TopReading) -> None:
    for line in broker_lines(reading.broker):
        write_line(line)
    for alarm in reading.alarms:
        write_line(alarm_line(alarm))
    write_line(remainder(reading))
    write_line("")
    print_table("", TITLES, [cells(row) for row in reading.destinations], right=NUMBERS)
