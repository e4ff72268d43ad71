"""Destinations in several stores at once, ActiveMQ's mKahaDB idea."""

from jdbcstore.filtered.each import StorePerDestination
from jdbcstore.filtered.routes import Route
from jdbcstore.filtered.store import FilteredStore

__all__ = ["FilteredStore", "Route", "StorePerDestination"]
