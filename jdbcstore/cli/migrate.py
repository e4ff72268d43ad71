"""``migrate`` and ``schema``: migration and inspection of the database schema."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.output import counted, note, print_table, printable, progress, write_json, write_line
from jdbcstore.cli.settings import CliCommand, Settings

if TYPE_CHECKING:
    from jdbcstore.database.engine import Database
    from jdbcstore.database.migrations import Advance, Migration, Planned


@click.command(cls=CliCommand)
@click.option("--to", "target", metavar="REVISION", default="head", show_default=True,
              help="Target revision; see 'schema history'.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the plan without changing anything.")
@click.option(
    "--sql", is_flag=True, help="Print the SQL for an administrator to run, without changing anything."
)
@click.pass_obj
def migrate(settings: Settings, target: str, dry_run: bool, sql: bool) -> None:
    """Migrate the tables of any ActiveMQ or jdbcstore version.

    Every row is kept. '--to activemq' returns to ActiveMQ's own tables. Stop all programs that use the tables
    first. Run an interrupted migration again to continue it.
    """
    from jdbcstore.database.migrations import migration_of

    database = settings.database(must_exist=dry_run or sql)
    watch = None if settings.json or sql else _watch
    with migration_of(database, target, only_look=dry_run or sql, watch=watch) as migration:
        if sql:
            write_line(migration.sql() or "-- nothing to do")
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
    """Print the plan before running it, with its effect on large tables."""
    if not migration.is_needed:
        write_line(f"{printable(database.place)} is at {migration.target.id}: nothing to do")
        return
    if not migration.plan:
        write_line("the tables are up to date; only the revision is not recorded")
        return
    print_table(
        f"From {migration.origin.id if migration.origin else 'nothing'} to {migration.target.id}",
        ("revision", "step", "rows", "effect"),
        [
            (
                planned.revision.id,
                planned.step.title,
                str(planned.rows or ""),
                planned.step.effect.value if planned.rows else "instant",
            )
            for planned in migration.plan
        ],
        right=("rows",),
    )
    if migration.forgotten:
        note(
            f"{counted(migration.forgotten, 'acknowledgement')} out of order will be lost, so these "
            "messages are delivered again to their subscriptions; no message is lost"
        )


@contextmanager
def _watch(planned: Planned) -> Iterator[Advance]:
    started = time.monotonic()
    with progress(planned.step.title, planned.rows or None) as advance:
        yield advance
    write_line(f"{planned.step.title}: {time.monotonic() - started:.1f} s")


@click.group
def schema() -> None:
    """Inspect the schema without changing it."""


@schema.command(cls=CliCommand)
@click.pass_obj
def current(settings: Settings) -> None:
    """Show the revision of the tables."""
    from jdbcstore.database.migrations import check

    database = settings.database(must_exist=True)
    report = check(database)
    settings.print(
        {"url": database.place, "recorded": report.revision, "found": report.found},
        f"recorded  {report.revision or 'nothing'}\nfound     {report.found or 'no complete schema'}",
    )


@schema.command(cls=CliCommand)
@click.pass_obj
def history(settings: Settings) -> None:
    """List the revisions, oldest first."""
    from jdbcstore.database.migrations import revisions

    every = [*revisions()]
    width = max(len(migration.id) for migration in every)
    settings.print(
        [{"revision": migration.id, "title": migration.title} for migration in every],
        "\n".join(f"{migration.id:{width}}  {migration.title}" for migration in every),
    )


@schema.command(cls=CliCommand)
@click.pass_obj
def check(settings: Settings) -> int:
    """Check the tables against the expected schema.

    Exits with 1 if they do not match.
    """
    from jdbcstore.database.migrations import check as check_schema

    database = settings.database(must_exist=True)
    report = check_schema(database)
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
        for name, texts in {"missing": report.missing, "wrong": report.wrong}.items():
            for text in texts:
                write_line(f"{name:9}  {printable(text)}")
        for text in report.notes:
            write_line(f"different  {printable(text)}; left unchanged")
        verdict = (
            "matches" if report.fits else "does not match; run jdbcstore migrate to add the missing parts"
        )
        write_line(f"{printable(database.place)} {verdict}")
    return ExitCode.DONE if report.fits else ExitCode.FAILED
