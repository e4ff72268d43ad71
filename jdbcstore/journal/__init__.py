"""An append-only log of records in files: group commit, recovery, damage. It knows nothing of messages."""

from jdbcstore.journal.api import Appender, Entry, Record, Span, Written
from jdbcstore.journal.directory import Kept
from jdbcstore.journal.inspection import (
    Damage,
    Known,
    SegmentFile,
    journal_of,
    kept,
    records,
    records_of,
    segments,
)
from jdbcstore.journal.log import Journal
from jdbcstore.journal.mending import Repaired, repair
from jdbcstore.journal.recovery import Torn, recover

__all__ = [
    "Appender",
    "Damage",
    "Entry",
    "Journal",
    "Kept",
    "Known",
    "Record",
    "Repaired",
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
