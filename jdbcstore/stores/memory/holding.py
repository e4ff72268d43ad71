"""What a prepared transaction holds in memory, and what becomes of it. The store's lock is held."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jdbcstore.abc import PreparedWrites
from jdbcstore.stores.memory.shared import Held, Shared
from jdbcstore.stores.memory.shelf import Shelf, Subscription


def hold_added(shared: Shared, shelf: Shelf, name: tuple[str, int], store: Callable[[], object]) -> Held:
    """A message that the commit stores."""
    shelf.in_doubt[name] += 1

    def commit() -> None:
        shelf.in_doubt[name] -= 1
        store()

    def rollback() -> None:
        shelf.in_doubt[name] -= 1
        if shared.audit is not None:
            shared.audit.forget(*name)

    return Held(PreparedWrites(shelf.destination, added=1), commit, rollback)


def hold_taken(shelf: Shelf, sequences: Sequence[int]) -> Held | None:
    """Messages of a queue that the commit removes; they are hidden."""
    taken = {number: shelf.stored[number] for number in sequences if number in shelf.stored}
    names = [stored.name for stored in taken.values()]
    for number in taken:
        shelf.remove(number)
    shelf.in_doubt.update(names)

    def rollback() -> None:
        shelf.in_doubt.subtract(names)
        for number, stored in taken.items():
            shelf.restore(number, stored)

    what = PreparedWrites(shelf.destination, acknowledged=len(taken))
    return Held(what, lambda: shelf.in_doubt.subtract(names), rollback) if taken else None


def hold_acknowledged(subscription: Subscription, sequences: Sequence[int]) -> Held | None:
    """Messages that the commit acknowledges for a subscription; they are hidden from it."""
    held = [sequence for sequence in sequences if subscription.hold(sequence)]

    def commit() -> None:
        for sequence in held:
            subscription.in_doubt.pop(sequence, None)

    def rollback() -> None:
        for sequence in held:
            subscription.give_back(sequence)

    info = subscription.info
    what = PreparedWrites(info.destination, 0, len(held), info.client_id, info.subscription_name)
    return Held(what, commit, rollback) if held else None
