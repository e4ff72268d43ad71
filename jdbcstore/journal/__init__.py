"""An append-only log of records in files, with group commit, recovery and repair; not aware of messages."""

from jdbcstore.journal.directory import Kept
from jdbcstore.journal.inspection import (
    Damage,
    Known,
    Repaired,
    SegmentFile,
    journal_of,
    kept,
    records,
    records_of,
    repair,
    segments,
)
from jdbcstore.journal.layout import Entry, Record, Written
from jdbcstore.journal.log import Accept, Committed, Failed, Journal, Review
from jdbcstore.journal.recovery import Recovered, Torn, recover
from jdbcstore.journal.storage import Span

__all__ = [
    "Accept",
    "Committed",
    "Damage",
    "Entry",
    "Failed",
    "Journal",
    "Kept",
    "Known",
    "Record",
    "Recovered",
    "Repaired",
    "Review",
    "SegmentFile",
    "Span",
    "Torn",
    "Written",
    "journal_of",
    "kept",
    "records",
    "records_of",
    "recover",
    "repair",
    "segments",
]
