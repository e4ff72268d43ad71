"""``journal dump``: what each record of a journal does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.journal_files import directory_of, everything, folder_argument, said
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import note, printable, write_json, write_line
from jdbcstore.errors import CorruptJournal
from jdbcstore.journal import Damage, Record, segments
from jdbcstore.stores.journaled.operations import COMMIT, FORGET, PREPARE, ROLLBACK, WRITE, decode_record

_KINDS = {WRITE: "write", PREPARE: "prepare", COMMIT: "commit", ROLLBACK: "rollback", FORGET: "forget"}
_SHOWN = 3
"""Destinations of one record that are told to people; who wants all wants JSON."""


@click.command(cls=Command)
@folder_argument
@click.option("--kept", is_flag=True, help="Also of files that the journal keeps and needs no more.")
@click.pass_obj
def dump(settings: Settings, folder: Path | None, kept: bool) -> int:
    """Print what each record does: kinds, destinations, ids, sizes. Changes nothing."""
    directory = directory_of(settings, folder)
    files = [file for file in segments(directory) if kept or not file.kept]
    code = ExitCode.DONE
    for found, _ in everything(directory, files):
        if isinstance(found, Damage):
            note(said(found))
            code = code if found.torn else ExitCode.FAILED
            continue
        try:
            facts = _record_facts(found)
        except CorruptJournal as error:
            note(str(error))
            code = ExitCode.FAILED
            continue
        if settings.json:
            write_json(facts)
        else:
            write_line(printable(_line(facts)))
    return code


def _record_facts(record: Record) -> dict[str, Any]:
    xid, writes = decode_record(record)
    sequences = range(record.sequence, record.sequence + len(writes.adds))
    return {
        "record": record.number,
        "kind": _KINDS[record.kind],
        "segment": record.segment,
        "offset": record.offset,
        "bytes": len(record.body),
        "xid": None if xid is None else str(xid),
        "adds": [
            {
                "sequence": sequence,
                "destination": message.container,
                "message_id": str(message.message_id),
                "priority": message.priority,
                "bytes": len(message.blob),
            }
            for sequence, message in zip(sequences, writes.adds, strict=True)
        ],
        "updates": [
            {"sequence": sequence, "destination": message.container, "bytes": len(message.blob)}
            for sequence, message in writes.updates
        ],
        "removes": [
            {"destination": container, "sequences": [*sequences]} for container, sequences in writes.removes
        ],
        "acknowledgements": [
            {
                "destination": str(key.topic),
                "client_id": key.client_id,
                "subscription_name": key.subscription_name,
                "sequences": [sequence for sequence, _ in messages],
            }
            for key, messages in writes.acknowledgements
        ],
    }


def _line(facts: dict[str, Any]) -> str:
    """``12 write, 1,180 bytes: adds 1 to queue://ORDERS (ID:...)``"""
    parts = []
    for what, to in (("adds", "to"), ("updates", "of")):
        where = Counter(one["destination"] for one in facts[what])
        parts += [f"{what} {count} {to} {name}" for name, count in where.most_common(_SHOWN)]
    for one in facts["removes"]:
        parts.append(f"removes {len(one['sequences'])} of {one['destination']}")
    for one in facts["acknowledgements"]:
        subscription = f"{one['subscription_name']} of client {one['client_id']}"
        parts.append(f"acknowledges {len(one['sequences'])} of {one['destination']} for {subscription}")
    if len(facts["adds"]) == 1:
        parts[0] += f" ({facts['adds'][0]['message_id']})"
    xid = f" {facts['xid']}" if facts["xid"] else ""
    place = f"segment {facts['segment']} at {facts['offset']}"
    return f"{facts['record']:>9} {facts['kind']}{xid}, {facts['bytes']:,} bytes, {place}" + (
        f": {'; '.join(parts)}" if parts else ""
    )
