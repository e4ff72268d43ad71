"""Output of ``journal check`` and ``journal dump``: a journal's files, their damage, and its records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jdbcstore.cli.output import counted, print_table, printable, size, write_line
from jdbcstore.errors import StoreError
from jdbcstore.journal.inspection import Damage, SegmentFile
from jdbcstore.journal.layout import Record
from jdbcstore.stores.journaled.records import (
    COMMIT,
    FORGET,
    OPERATE,
    PREPARE,
    ROLLBACK,
    WRITE,
    decode_record,
)

_KINDS = {
    WRITE: "write",
    PREPARE: "prepare",
    COMMIT: "commit",
    ROLLBACK: "rollback",
    FORGET: "forget",
    OPERATE: "operate",
}
_SHOWN = 3
"""Most destinations of a record in human-readable output; --json has all of them."""


def damage_sentence(damage: Damage) -> str:
    """Describe damage and the records that it cost."""
    where = f"segment {damage.segment} at {damage.offset}: {damage.reason}"
    if damage.torn:
        return f"{where}; no acknowledged message is lost; the journal is truncated there when it opens"
    if not damage.number:
        return f"{where}; the number of lost records is unknown"
    if damage.next_number is None:
        return f"{where}; lost from record {damage.number} on"
    last = damage.next_number - 1
    if last < damage.number:
        return where
    return f"{where}; lost: " + (
        f"record {last}" if last == damage.number else f"records {damage.number} to {last}"
    )


@dataclass(slots=True)
class CheckedFile:
    """A file of a journal, and the result of reading it."""

    file: SegmentFile
    records: int = 0
    first: int = 0
    last: int = 0
    damages: list[Damage] = field(default_factory=list)

    def add(self, record: Record | Damage) -> None:
        """Count a record, or add a damage."""
        if isinstance(record, Record):
            self.records += 1
            self.first = self.first or record.number
            self.last = record.number
        else:
            self.damages.append(record)

    @property
    def state(self) -> str:
        """The state of the file in a word."""
        if any(not damage.torn for damage in self.damages):
            return "damaged"
        return "torn" if self.damages else "kept" if self.file.kept else "sound"


def print_checked(
    directory: Path, checked: list[CheckedFile], lost: list[Damage], refusal: StoreError | None
) -> None:
    """Print the files that were read, the damage, and the verdict."""
    columns = ("file", "records", "first", "last", "size", "state")
    rows: list[tuple[str, ...]] = [
        (file.file.path.name, str(file.records), str(file.first or "-"), str(file.last or "-"),
         size(file.file.size), file.state)
        for file in checked
    ]  # fmt: skip
    print_table("", columns, rows, right=columns[1:5])
    for damage in lost:
        write_line(printable(damage_sentence(damage)))
    count = counted(sum(file.records for file in checked if not file.file.kept), "record")
    damaged = {damage.path for damage in lost if not damage.torn}
    kept = {file.file.path for file in checked if file.file.kept}
    if damaged - kept:
        verdict = f"{count}, and damage; jdbcstore journal repair makes the journal open again"
    elif damaged:
        verdict = f"{count}, all sound; a replay of the retained files stops at the damage"
    elif refusal is not None:
        verdict = f"{count}, all sound, but the journal does not open: {printable(str(refusal))}"
    else:
        verdict = f"{count}, all sound"
    write_line(f"{printable(str(directory))}: {verdict}")


def damage_facts(damage: Damage) -> dict[str, Any]:
    """Return a damage for --json."""
    return {
        "file": damage.path.name,
        "segment": damage.segment,
        "offset": damage.offset,
        "first_record": damage.number or None,
        "next_record": damage.next_number,
        "lost": damage.lost,
        "torn": damage.torn,
        "reason": damage.reason,
    }


def file_facts(file: CheckedFile) -> dict[str, Any]:
    """Return a file that was read for --json."""
    return {
        "file": file.file.path.name,
        "segment": file.file.number,
        "first_record": file.first or None,
        "last_record": file.last or None,
        "records": file.records,
        "bytes": file.file.size,
        "kept": file.file.kept is not None,
        "state": file.state,
    }


def record_facts(record: Record) -> dict[str, Any]:
    """Return the contents of a record.

    :raises CorruptJournal: it cannot be decoded
    """
    xid, writes = decode_record(record)
    sequences = range(record.sequence, record.sequence + len(writes.adds))
    return {
        "record": record.number,
        "kind": _KINDS[record.kind],
        "segment": record.segment,
        "offset": record.offset,
        "bytes": len(record.body),
        "xid": None if xid is None else str(xid),
        "operation": writes.operation and {"kind": writes.operation.kind, **writes.operation.facts},
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


def record_line(facts: dict[str, Any]) -> str:
    """Format a record as a line: ``12 write, 1,180 bytes: adds 1 to queue://ORDERS (ID:...)``."""
    parts = []
    for what, to in (("adds", "to"), ("updates", "of")):
        where = Counter(entry["destination"] for entry in facts[what])
        parts += [f"{what} {count} {to} {name}" for name, count in where.most_common(_SHOWN)]
    for part in facts["removes"]:
        parts.append(f"removes {len(part['sequences'])} of {part['destination']}")
    for part in facts["acknowledgements"]:
        subscription = f"{part['subscription_name']} of client {part['client_id']}"
        parts.append(f"acknowledges {len(part['sequences'])} of {part['destination']} for {subscription}")
    if len(facts["adds"]) == 1:
        parts[0] += f" ({facts['adds'][0]['message_id']})"
    if facts["operation"]:
        parts.append(
            " ".join(map(str, (facts["operation"]["kind"], facts["operation"].get("destination", ""))))
        )
    xid = f" {facts['xid']}" if facts["xid"] else ""
    place = f"segment {facts['segment']} at {facts['offset']}"
    return f"{facts['record']:>9} {facts['kind']}{xid}, {facts['bytes']:,} bytes, {place}" + (
        f": {'; '.join(parts)}" if parts else ""
    )
