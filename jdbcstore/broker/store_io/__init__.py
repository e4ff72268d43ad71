"""The broker's reads and writes of its store."""
