"""An append-only log of records in files: group commit, recovery, damage. It knows nothing of messages."""

from jdbcstore.journal.api import Appender, Entry, Record, Written
from jdbcstore.journal.log import Journal

__all__ = ["Appender", "Entry", "Journal", "Record", "Written"]
