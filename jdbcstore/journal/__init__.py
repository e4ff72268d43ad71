"""An append-only log of records in files: group commit, recovery, damage. It knows nothing of messages."""
