"""The writer of a store in a database, and the group commit behind it."""
