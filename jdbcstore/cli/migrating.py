"""``migrate`` and ``schema``: what the database has, and what it should have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import counted, note, print_table, printable, progress, write_json, write_line
from jdbcstore.database.engine import Database

if TYPE_CHECKING:
    from jdbcstore.database.migrations import Advance, Migration, Planned


@click.command(cls=Command)
@click.option(
    "--to", "target", metavar="REVISION", default="head", show_default=True, help="'schema history'."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--sql", is_flag=True, help="Print the statements for an administrator to run, and do nothing.")
@click.pass_obj
def migrate(settings: Settings, target: str, dry_run: bool, sql: bool) -> None:
    """Bring the tables up to date, whichever ActiveMQ or jdbcstore made them.

    Every row is kept. '--to activemq' goes back to the tables that an ActiveMQ has. Stop what uses the
    tables first. It can be run again after whatever stopped it.
    """
    from jdbcstore.database.migrations import migration_of

    database = settings.database(must_exist=dry_run or sql)
    watch = None if settings.json or sql else _watch
    with migration_of(database, target, only_look=dry_run or sql, watch=watch) as migration:
        if sql:
            write_line(migration.sql() or "-- There is nothing to do.")
            return
        facts = _facts(database, migration, done=not dry_run)
        if not settings.json:
            _announce(database, migration)
        if not dry_run:
            migration.run()
    if settings.json:
        write_json(facts)
    elif not dry_run and migration.is_needed:
        write_line(f"{printable(database.place)} is at {migration.target.id}")


def _facts(database: Database, migration: Migration, *, done: bool) -> dict[str, Any]:
    return {
        "url": database.place,
        "recorded": migration.recorded,
        "from": migration.origin.id if migration.origin else None,
        "to": migration.target.id,
        "done": done,
        "forgotten_acknowledgements": migration.forgotten,
        "steps": [
            {
                "revision": planned.revision.id,
                "step": planned.step.title,
                "effect": planned.step.effect.value or None,
                "rows": planned.rows,
            }
            for planned in migration.plan
        ],
    }


def _announce(database: Database, migration: Migration) -> None:
    """The plan, before anything is done: what it means to large tables above all."""
    if not migration.is_needed:
        write_line(f"{printable(database.place)} is at {migration.target.id}: there is nothing to do")
        return
    if not migration.plan:
        write_line("the tables are as they should be; only the revision is not written down")
        return
    columns = {"revision": "left", "step": "left", "rows": "right", "what it means": "left"}
    print_table(
        f"From {migration.origin.id if migration.origin else 'nothing'} to {migration.target.id}",
        columns,
        [
            (
                planned.revision.id,
                planned.step.title,
                str(planned.rows or ""),
                planned.step.effect.value if planned.rows else "done at once",
            )
            for planned in migration.plan
        ],
    )
    if migration.forgotten:
        note(
            f"{counted(migration.forgotten, 'acknowledgement')} ahead of a gap will be forgotten: those"
            " messages are delivered again to their subscriptions; none is lost"
        )


@contextmanager
def _watch(planned: Planned) -> Iterator[Advance]:
    started = time.monotonic()
    with progress(planned.step.title, planned.rows or None) as advance:
        yield advance
    write_line(f"{planned.step.title}: {time.monotonic() - started:.1f} s")


@click.group
def schema() -> None:
    """Show what the tables are like; change nothing."""


@schema.command(cls=Command)
@click.pass_obj
def current(settings: Settings) -> None:
    """Show at which revision the tables are."""
    from jdbcstore.database.migrations import check

    database = settings.database(must_exist=True)
    report = check(database)
    if settings.json:
        write_json({"url": database.place, "recorded": report.revision, "found": report.found})
    else:
        write_line(f"written down  {report.revision or 'nothing'}")
        write_line(f"found         {report.found or 'nothing that is complete'}")


@schema.command(cls=Command)
@click.pass_obj
def history(settings: Settings) -> None:
    """List the revisions, the oldest first."""
    from jdbcstore.database.migrations import revisions

    rows = [(revision.id, revision.title) for revision in revisions()]
    if settings.json:
        write_json([{"revision": revision, "title": title} for revision, title in rows])
    else:
        width = max(len(revision) for revision, _ in rows)
        for revision, title in rows:
            write_line(f"{revision:{width}}  {title}")


@schema.command(cls=Command)
@click.pass_obj
def check(settings: Settings) -> int:
    """Check that the tables fit: exit code 0 if they do, 1 if not."""
    from jdbcstore.database.migrations import check as look

    database = settings.database(must_exist=True)
    report = look(database)
    if settings.json:
        write_json(
            {
                "url": database.place,
                "fits": report.fits,
                "recorded": report.revision,
                "missing": report.missing,
                "wrong": report.wrong,
                "notes": report.notes,
            }
        )
    else:
        for text in report.missing:
            write_line(f"missing    {printable(text)}")
        for text in report.wrong:
            write_line(f"wrong      {printable(text)}")
        for text in report.notes:
            write_line(f"different  {printable(text)}; left alone")
        verdict = "fits" if report.fits else "does not fit; jdbcstore migrate does what is missing"
        write_line(f"{printable(database.place)} {verdict}")
    return ExitCode.DONE if report.fits else ExitCode.FAILED
