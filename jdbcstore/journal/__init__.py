"""An append-only log of records in files, with group commit, recovery and repair; not aware of messages."""

from jdbcstore.journal.inspection import (
    Damage,
    Known,
    SegmentFile,
    journal_of,
    kept,
    records,
    records_of,
    repair,
    segments,
)
from jdbcstore.journal.layout import Entry, Record, Written
from jdbcstore.journal.log import Journal
from jdbcstore.journal.recovery import Recovered, recover

__all__ = [
    "Damage",
    "Entry",
    "Journal",
    "Known",
    "Record",
    "Recovered",
    "SegmentFile",
    "Written",
    "journal_of",
    "kept",
    "records",
    "records_of",
    "recover",
    "repair",
    "segments",
]
