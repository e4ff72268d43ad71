"""``demo``: a broker killed under load, and an account of every message."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jdbcstore import JdbcStore
from jdbcstore.cli.browse import browsed
from jdbcstore.cli.engines import answer, spark_views
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.messages import TablePrinter
from jdbcstore.cli.output import note, print_table, progress_bars, write_json, write_line
from jdbcstore.cli.settings import DEFAULT_FOLDER, CliCommand, Settings
from jdbcstore.cli.sql import print_rows
from jdbcstore.errors import ConfigurationError, StoreError, installation
from jdbcstore.message.facts import facts_of
from jdbcstore.stores.opening import make_folder

if TYPE_CHECKING:
    from jdbcstore.cli.demo.ledger import Counts, DemoOutcome
    from jdbcstore.cli.demo.scenario import DemoPlan, Listener


@click.command(cls=CliCommand)
@click.option("--messages", type=click.IntRange(min=1), default=3_000, show_default=True, metavar="N")
@click.option("--producers", type=click.IntRange(min=1), default=4, show_default=True, metavar="N",
              help="Number of producer processes.")  # fmt: skip
@click.option("--kills", type=click.IntRange(min=0), default=4, show_default=True, metavar="N",
              help="Number of times that the broker is killed.")  # fmt: skip
@click.option("--recording", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Rows recorded from a real ActiveMQ, browsed at the end.")  # fmt: skip
@click.option("--ask", is_flag=True, help="Query the messages with Spark SQL at the end.")
@click.pass_obj
def demo(
    settings: Settings, messages: int, producers: int, kills: int, recording: Path | None, ask: bool
) -> int:
    """Kill a broker repeatedly, and verify that no message is lost.

    All files are in a new folder below activemq-data. The store is on SQLite unless --url names another
    database.
    """
    if find_spec("stomp") is None:
        raise ConfigurationError(f"the clients of the demo need stomp.py; run: {installation('demo')}")
    from jdbcstore.cli.demo.scenario import DemoPlan, ProcessFailed, run

    folder = Path(DEFAULT_FOLDER) / time.strftime(f"demo-%Y%m%d-%H%M%S-{os.getpid()}")
    make_folder(folder)
    plan = DemoPlan(
        folder=folder,
        url=settings.url or f"sqlite:///{folder / 'store.db'}",
        queue=f"JDBCSTORE.{folder.name.upper()}",
        messages=messages,
        producers=producers,
        kills=kills,
    )
    try:
        with _watching(plan) as listener:
            outcome = run(plan, listener)
    except ProcessFailed as error:
        raise click.ClickException(f"{error}; its output is in {folder / 'processes.log'}") from error
    if settings.json:
        write_json({**asdict(outcome), "kept_the_promise": outcome.kept_the_promise, "folder": str(folder)})
    else:
        try:
            if recording is not None:
                _browse(recording, folder / "recording.db")
            if ask:
                _ask(plan.moved)
        finally:
            _print_outcome(outcome, plan)
    return ExitCode.DONE if outcome.kept_the_promise else ExitCode.FAILED


def _print_outcome(outcome: DemoOutcome, plan: DemoPlan) -> None:
    counts = {
        "sent": outcome.sent,
        "  sent again, because the broker died before confirming": outcome.retried,
        "confirmed by the broker": outcome.acknowledged,
        "received by the consumer": outcome.received,
        "  deliveries marked as possible duplicates": outcome.redelivered,
        "  duplicates without a mark": outcome.unmarked,
        "  with a damaged body": outcome.damaged,
        "  never sent": outcome.unknown,
        "left in the store": outcome.left_in_store,
        "lost": outcome.lost,
    }
    print_table(
        f"After killing the broker {_times(plan.kills)}, counted in {plan.folder}",
        ("messages", "count"),
        [(name, str(count)) for name, count in counts.items()],
        right=("count",),
    )
    write_line("")
    if outcome.kept_the_promise:
        write_line(
            "No message is lost: each confirmed one was received, and every duplicate is marked as such."
        )
    else:
        write_line("MESSAGES WERE LOST, DAMAGED OR DUPLICATED WITHOUT A MARK: see the counts above.")


def _browse(recording: Path, database: Path) -> None:
    from jdbcstore.cli.demo.epilogue import load_recording

    url = load_recording(recording, database)
    write_line(f"\nThe same tables, with rows that a real ActiveMQ wrote ({recording}), browsed in {url}:\n")
    sys.stdout.flush()
    printer = TablePrinter(with_destination=True)
    with JdbcStore(url, read_only=True) as store:
        for destination in store.destinations():
            for page in browsed(store, destination, None, None, size=100):
                printer.print([facts_of(message) for message in page])


def _ask(moved: Path) -> None:
    """Run three queries on the messages; if Spark cannot run, note why."""
    from jdbcstore.cli.demo.epilogue import QUESTIONS

    url = f"sqlite:///{moved}"
    write_line(f"\nThree questions to Spark SQL about every delivery, in {url}")
    sys.stdout.flush()
    try:
        with spark_views(url) as views:
            for title, query in QUESTIONS.items():
                with answer(views, query) as frame:
                    print_rows(frame, title)
    except StoreError as error:
        note(f"the Spark queries were skipped: {error}")


@contextmanager
def _watching(plan: DemoPlan) -> Iterator[Listener]:
    """Show progress bars if stderr is a terminal, otherwise a line for each kill."""
    from jdbcstore.cli.demo.scenario import Listener

    note(
        f"{plan.producers} producers send {plan.messages} persistent messages to a consumer, with the STOMP"
        f" client stomp.py; the broker between them is killed with SIGKILL {_times(plan.kills)}"
    )
    if not sys.stderr.isatty():
        yield Listener(lambda _counts: None, lambda *kill: note(_kill_text(plan, *kill)))
        return
    with progress_bars() as bars:
        names = {"sent": "sent", "acknowledged": "confirmed", "received": "received"}
        tasks = {name: bars.add_task(text, total=plan.messages) for name, text in names.items()}

        def show(counts: Counts) -> None:
            for name, task in tasks.items():
                bars.update(task, completed=getattr(counts, name))

        def report_kill(number: int, pid: int, counts: Counts) -> None:
            bars.console.print(_kill_text(plan, number, pid, counts))

        yield Listener(show, report_kill)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _kill_text(plan: DemoPlan, number: int, pid: int, counts: Counts) -> str:
    return (
        f"kill {number} of {plan.kills}: broker process {pid} is killed after {counts.sent} messages sent,"
        f" {counts.acknowledged} confirmed, {counts.received} received; a new one starts"
    )
