"""Stores of which each broker has its own, and which follow the stream of the journal: nothing is shared."""
