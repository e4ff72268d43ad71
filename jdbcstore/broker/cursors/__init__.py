"""Cursors: waiting messages for consumers, in the store, in memory or in temporary files."""
