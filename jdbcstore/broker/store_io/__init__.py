"""Writes to the store: batches of sends and acknowledgements, transactions, and their completion."""
