"""Which store has which destinations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jdbcstore.abc import Store
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.patterns import DestinationMap

_NAME_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The store of all destinations that a pattern matches; None is all that no other route has.

    ``name`` tells the stores of unfinished transactions apart after a restart; without one it is the
    pattern. A store that several routes lead to has the name of the first.
    """

    store: Store
    destination: Destination | None = None
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name if self.name is not None else str(self.destination or "")


class Routes:
    """The routes of one filtered store.

    :raises ConfigurationError: there is none, or two stores have one name
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_destination = DestinationMap(
            (route.destination, route.store) for route in routes if route.destination is not None
        )
        self._others = next((route.store for route in routes if route.destination is None), None)
        labels: dict[int, str] = {}
        for route in routes:
            labels.setdefault(id(route.store), route.label)
        self.stores: tuple[Store, ...] = tuple({id(route.store): route.store for route in routes}.values())
        self._labels = labels
        self._by_name = {self.name_of(store): store for store in self.stores}
        if not routes:
            raise ConfigurationError("a filtered store needs a route; give one without a destination")
        if len(self._by_name) < len(self.stores):
            raise ConfigurationError("two stores of a filtered store have one name; give each route another")

    def store_of(self, destination: Destination) -> Store:
        """The store of a destination, by the most specific pattern.

        :raises InvalidDestination: no route leads anywhere
        """
        store = self._by_destination.find(destination) or self._others
        if store is None:
            raise InvalidDestination(
                f"no store is there for {destination}; add a route for it, or one without a destination"
            )
        return store

    def leads_to(self, store: Store, destination: Destination) -> bool:
        """Whether a destination that a store has is that store's, and not another's or nobody's."""
        return (self._by_destination.find(destination) or self._others) is store

    def name_of(self, store: Store) -> bytes:
        """The store's name within an XID."""
        label = self._labels[id(store)]
        return hashlib.blake2b(label.encode(), digest_size=_NAME_BYTES).digest()

    def named(self, name: bytes) -> Store | None:
        """The store of a name within an XID."""
        return self._by_name.get(name)

    def label_of(self, store: Store) -> str:
        return self._labels[id(store)] or "the other destinations"

    def in_order(self, stores: Iterable[Store]) -> list[Store]:
        """These stores, in the order of the routes."""
        wanted = {id(store) for store in stores}
        return [store for store in self.stores if id(store) in wanted]
