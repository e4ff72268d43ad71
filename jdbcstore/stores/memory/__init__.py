"""MemoryStore: the store contract without a database, for non-persistent brokers and for tests."""

from jdbcstore.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
