"""A journal in front of any store: many small commits become few large ones."""

from jdbcstore.stores.journaled.store import JournaledStore

__all__ = ["JournaledStore"]
