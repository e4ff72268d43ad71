"""Cursors: where messages wait for consumers, in the store, in memory or in temporary files."""
