"""Destinations in several stores at once, ActiveMQ's mKahaDB idea."""

from jdbcstore.stores.filtered.each import StorePerDestination
from jdbcstore.stores.filtered.routes import Route
from jdbcstore.stores.filtered.store import FilteredStore

__all__ = ["FilteredStore", "Route", "StorePerDestination"]
