"""An append-only log of records in files, with group commit, recovery and repair; not aware of messages."""
