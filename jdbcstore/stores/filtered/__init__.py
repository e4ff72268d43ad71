"""Several stores used as one, each for some destinations, as in ActiveMQ's mKahaDB."""

from jdbcstore.stores.filtered.routes import Route, StorePerDestination
from jdbcstore.stores.filtered.store import FilteredStore

__all__ = ["FilteredStore", "Route", "StorePerDestination"]
