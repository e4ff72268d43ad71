"""``journal refused``, ``retry``, ``drop``: messages that the journal has and the database does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jdbcstore.abc import Store
from jdbcstore.cli.journal_files import directory_of, folder_argument
from jdbcstore.cli.messages import facts_of
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import counted, local_time, print_table, printable, size, write_json, write_line
from jdbcstore.errors import CorruptMessage
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.journaled.refused import Refused, RefusedMessage

_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True, type=int)


@click.command(cls=Command)
@folder_argument
@click.pass_obj
def refused(settings: Settings, folder: Path | None) -> None:
    """List messages that the database did not take.

    They stand aside in the journal's folder, and others go on. With --json all that is in them is printed.
    """
    directory = directory_of(settings, folder)
    found = Refused(directory).every()
    if settings.json:
        for one in found:
            write_json(_facts(one))
        return
    columns = {"id": "right", "destination": "left", "message id": "left", "size": "right", "refused": "left"}
    rows: list[tuple[str, ...]] = [
        (str(one.sequence), one.destination, one.message_id, size(one.size), local_time(one.refused_ms))
        for one in found
    ]
    if rows:
        print_table("", columns, rows)
    for one in found:
        write_line(printable(f"{one.sequence}: {'new contents; ' if one.is_update else ''}{one.reason}"))
    write_line(printable(f"{directory}: {counted(len(found), 'message')} that the database refused"))


def _facts(one: RefusedMessage) -> dict[str, Any]:
    facts = {
        "id": one.sequence,
        "destination": one.destination,
        "message_id": one.message_id,
        "bytes": one.size,
        "is_update": one.is_update,
        "refused": one.refused_ms,
        "reason": one.reason,
    }
    try:
        return {**facts, "message": facts_of(one.message)}
    except CorruptMessage as error:
        return {**facts, "message": None, "problem": error.reason}


@click.command(cls=Command)
@_ids
@click.pass_obj
def retry(settings: Settings, ids: tuple[int, ...]) -> None:
    """Store refused messages anew, behind all others of their destinations.

    First mend what refused them, such as a column that is too narrow, and stop the broker.
    """
    with settings.open() as store:
        for sequence in ids:
            reference = _holder(store, sequence).retry_refused(sequence)
            stored = None if reference is None else reference.sequence
            if settings.json:
                write_json({"id": sequence, "stored": stored})
            elif stored is None:
                write_line(f"{sequence}: refused again; jdbcstore journal refused says why")
            else:
                write_line(f"{sequence}: stored with the ID {stored}")


@click.command(cls=Command)
@_ids
@click.pass_obj
def drop(settings: Settings, ids: tuple[int, ...]) -> None:
    """Remove refused messages for good."""
    with settings.open() as store:
        for sequence in ids:
            _holder(store, sequence).drop_refused(sequence)
            if settings.json:
                write_json({"id": sequence})
            else:
                write_line(f"{sequence}: removed")


def _holder(store: Store, sequence: int) -> JournaledStore:
    """The store that has a refused message of this ID: each of several counts for itself."""
    routes = getattr(store, "routes", None)
    found = [
        one
        for one in ((store,) if routes is None else routes.stores)
        if isinstance(one, JournaledStore) and any(sequence == each.sequence for each in one.refused())
    ]
    if len(found) != 1:
        problem = "no message" if not found else "a message in each of several stores"
        raise click.UsageError(f"there is {problem} with the ID {sequence} that the database refused")
    return found[0]
