"""Dead letters, sent to their original destinations again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jdbcstore.abc import Store, Transaction, TransactionalStore, pages
from jdbcstore.errors import CorruptMessage, LargeBodyMissing
from jdbcstore.message.dead_letters import DEAD_LETTERS, restored
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

_PAGE = 100


def retry(store: Store, message_ids: Iterable[str], queue: Destination = DEAD_LETTERS) -> int:
    """Send the dead letters with these JMSMessageIDs to their original destinations.

    Each message is moved in a transaction. Messages of unknown origin, and damaged ones, stay.

    >>> retry(store, [row.message_id for row in chosen.collect()])

    :returns: the number of moved messages
    """
    wanted = frozenset(message_ids)
    moved = 0
    for page in pages(store.queue(queue), _PAGE) if wanted else ():
        moved += move_back(store, queue, [each for each in page if str(each.message_id) in wanted])
    return moved


def move_back(
    store: Store,
    queue: Destination,
    letters: Sequence[Message],
    refused: Callable[[str], object] = lambda _: None,
) -> int:
    """Move dead letters of a queue to their original destinations, and return the number of moved ones.

    :param refused: called with the reason for each damaged message
    """
    known = [(letter, origin) for letter in letters if (origin := letter.original_destination) is not None]
    if not known:
        return 0
    try:
        with store.transaction() as transaction:
            for letter, origin in known:
                for destination in origin.members:
                    _of(transaction, destination).add_message(restored(letter, destination))
            _of(transaction, queue).acknowledge(*(letter for letter, _ in known))
    except (CorruptMessage, LargeBodyMissing) as error:
        if len(known) > 1:  # the other messages are moved without it
            return sum(move_back(store, queue, [letter], refused) for letter, _ in known)
        refused(str(error))
        return 0
    return len(known)


def _of(transaction: Transaction, destination: Destination) -> TransactionalStore:
    return transaction.topic(destination) if destination.is_topic else transaction.queue(destination)
