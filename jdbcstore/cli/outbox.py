"""``outbox``: the table of messages that SQL statements insert."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from jdbcstore.cli.output import as_text, counted, duration, local_time, print_table, printable
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.cli.shared import looking
from jdbcstore.errors import SchemaError

if TYPE_CHECKING:
    from jdbcstore.database.session import DatabaseSession

_MOST = 1000


@contextlib.contextmanager
def _existing(settings: Settings) -> Iterator[DatabaseSession]:
    """Yield a read-only session of a database with an outbox."""
    with looking(settings) as session:
        if not session.has_outbox:
            table = session.tables.outbox.name
            raise SchemaError(f"{session.place} has no table {table}: run jdbcstore outbox create")
        yield session


@click.group()
def outbox() -> None:
    """Show or change the table of messages that SQL statements insert.

    A broker, or processes that claim, move its messages if their configuration has outbox = true.
    """


@outbox.command(cls=CliCommand)
@click.pass_obj
def create(settings: Settings) -> None:
    """Create the table, unless it exists."""
    from jdbcstore.database.session import DatabaseSession

    with contextlib.closing(DatabaseSession.configured(settings.configuration())) as session:
        session.prepare_outbox()
        facts = {"url": session.place, "table": str(session.tables.outbox.name)}
    settings.print(facts, f"{printable(facts['url'])} has {facts['table']}")


@outbox.command(cls=CliCommand)
@click.option("--force", is_flag=True, help="Drop its messages too.")
@click.pass_obj
def drop(settings: Settings, *, force: bool) -> None:
    """Drop the table, if it has no messages."""
    from jdbcstore.database.session import DatabaseSession
    from jdbcstore.stores.jdbc.outbox import read_numbers

    with _existing(settings) as session:
        numbers = read_numbers(session)
    messages = numbers.waiting + numbers.refused
    if messages and not force:
        raise click.UsageError(f"the outbox has {counted(messages)}; let them be moved, or add --force")
    with contextlib.closing(DatabaseSession.configured(settings.configuration())) as session:
        session.drop_outbox()
        facts = {"url": session.place, "table": str(session.tables.outbox.name), "messages": messages}
    settings.print(facts, f"dropped {facts['table']} with {counted(messages)}")


@outbox.command(cls=CliCommand)
@click.pass_obj
def status(settings: Settings) -> None:
    """Show the number of waiting messages, and the age of the oldest."""
    from jdbcstore.stores.jdbc.outbox import read_numbers

    with _existing(settings) as session:
        facts = read_numbers(session)._asdict()
    oldest = "" if facts["oldest"] is None else f", the oldest for {duration(facts['oldest'])}"
    refused = f"{counted(facts['refused'])} refused; see jdbcstore outbox list"
    settings.print(facts, f"{counted(facts['waiting'])} waiting{oldest}\n{refused}")


@outbox.command("list", cls=CliCommand)
@click.pass_obj
def list_(settings: Settings) -> None:
    """List the first 1,000 messages that were refused, with the reasons.

    They stay in the table. Correct a row and set its ERROR to NULL, or delete it.
    """
    from jdbcstore.stores.jdbc.outbox import read_refused

    with _existing(settings) as session:
        refused = [row._asdict() for row in read_refused(session, _MOST)]
    columns = ("id", "destination", "created", "send id", "error")
    rows = [
        tuple(map(printable, map(as_text, {**row, "created_ms": local_time(row["created_ms"])}.values())))
        for row in refused
    ]
    settings.print_each(refused, lambda: print_table("Refused messages", columns, rows, right=("id",)))
