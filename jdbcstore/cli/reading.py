"""``browse`` and ``consume``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import click

from jdbcstore import Store, pages
from jdbcstore.abc import Cursor, Page, Recoverable, Reference
from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.messages import BlockPrinter, Facts, JsonPrinter, Printer, TablePrinter, facts_of
from jdbcstore.cli.options import (
    Command,
    SelectorType,
    Settings,
    destination_argument,
    subscription_options,
)
from jdbcstore.cli.output import counted, note
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

_PAGE = 100
"""Messages in memory at a time; they may be large."""


class Consumable(Recoverable, Protocol):
    """A queue or a durable subscription."""

    def acknowledge(self, *messages: Reference) -> None: ...


@click.command(cls=Command)
@destination_argument
@subscription_options
@click.option("--selector", type=SelectorType(), metavar="TEXT", help="Only what this JMS selector selects.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N messages; else all.")
@click.pass_obj
def browse(
    settings: Settings,
    destination: Destination,
    client_id: str | None,
    subscription: str | None,
    selector: Selector | None,
    limit: int | None,
) -> int:
    """Show messages and leave them where they are.

    Of a topic, every stored message; with --client-id and --subscription, what that durable
    subscription has not acknowledged.
    """
    _check_options(destination, client_id, subscription)
    reader = _Reader(selector=selector)
    printer: Printer = JsonPrinter() if settings.json else TablePrinter()
    shown = 0
    with settings.open(read_only=True) as store:
        for page in browsed(store, destination, client_id, subscription, min(_PAGE, limit or _PAGE)):
            found = reader.read(page)[: None if limit is None else limit - shown]
            printer.print([facts for _, facts in found])
            shown += len(found)
            if shown == limit:
                break
    if not shown and not reader.corrupt:
        note(f"no {'such ' if selector else ''}messages in {destination}")
    return reader.exit_code


def browsed(
    store: Store, destination: Destination, client_id: str | None, subscription: str | None, size: int
) -> Iterator[Page]:
    """What consumers can get; of a whole destination also what an XA transaction still decides on."""
    yield from pages(_source(store, destination, client_id, subscription), size)
    if subscription is None:
        messages = store.topic(destination) if destination.is_topic else store.queue(destination)
        recover_in_doubt = getattr(messages, "recover_in_doubt", None)  # of a database
        if recover_in_doubt is not None:
            yield from pages(_InDoubt(recover_in_doubt), size)


class _InDoubt:
    """Reads those messages like a queue, and says what they are."""

    def __init__(self, recover: Callable[[int, Cursor | None], Page]) -> None:
        self._recover = recover

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        page = self._recover(limit, after)
        for message in page:
            note(f"ID {message.sequence} is in a prepared XA transaction; nobody gets it until that ends")
        return page


@click.command(cls=Command)
@destination_argument
@subscription_options
@click.option("--count", type=click.IntRange(min=1), metavar="N", default=1, show_default=True,
              help="At most N messages.")  # fmt: skip
@click.pass_obj
def consume(
    settings: Settings,
    destination: Destination,
    client_id: str | None,
    subscription: str | None,
    count: int,
) -> int:
    """Take messages: print them, then acknowledge them.

    Expired messages are left; "purge --expired" removes them. Does not wait for messages to come.
    """
    _check_options(destination, client_id, subscription)
    if destination.is_topic and subscription is None:
        raise click.UsageError(
            "a topic is consumed by its durable subscriptions; name one with --client-id and --subscription"
        )
    with settings.open(must_exist=True) as store:
        source = _source(store, destination, client_id, subscription)
        reader = _Reader(skip_expired=True)
        printer: Printer = JsonPrinter() if settings.json else BlockPrinter()
        taken = 0
        for page in pages(source, min(_PAGE, count)):
            found = reader.read(page)[: count - taken]
            printer.print([facts for _, facts in found])
            # Only what has left this process may be removed.
            sys.stdout.flush()
            source.acknowledge(*(message for message, _ in found))
            taken += len(found)
            if taken == count:
                break
    if reader.expired:
        expired = counted(reader.expired, "expired message")
        note(f"{expired} left in place; 'jdbcstore purge --expired' removes what has expired")
    if not taken and not reader.corrupt:
        note(f"no messages in {destination}")
        return ExitCode.NOTHING
    return reader.exit_code


def _source(
    store: Store, destination: Destination, client_id: str | None, subscription: str | None
) -> Consumable:
    if not destination.is_topic:
        return store.queue(destination)
    topic = store.topic(destination)
    if client_id is None or subscription is None:
        return topic
    return topic.subscription(client_id, subscription)


def _check_options(destination: Destination, client_id: str | None, subscription: str | None) -> None:
    if (client_id is None) != (subscription is None):
        raise click.UsageError("--client-id and --subscription belong together; give both")
    if client_id is not None and not destination.is_topic:
        raise click.UsageError(f"{destination} is a queue; durable subscriptions are on topics")


class _Reader:
    """Reads what is in pages, and reports the rows that do not decode."""

    def __init__(self, *, skip_expired: bool = False, selector: Selector | None = None) -> None:
        self._skip_expired = skip_expired
        self._selector = selector
        self.corrupt = 0
        self.expired = 0

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.CORRUPT if self.corrupt else ExitCode.DONE

    def read(self, page: Page) -> list[tuple[Message, Facts]]:
        self._report(page.corrupt)
        found = []
        now_ms = time.time_ns() // 1_000_000
        for message in page:
            if self._skip_expired and 0 < message.expiration_ms <= now_ms:
                self.expired += 1
                continue
            try:
                if self._selector is None or self._selector.matches(message):
                    found.append((message, facts_of(message)))
            except CorruptMessage as error:
                self._report([error])
        return found

    def _report(self, errors: Iterable[CorruptMessage]) -> None:
        for error in errors:
            self.corrupt += 1
            note(str(error))
