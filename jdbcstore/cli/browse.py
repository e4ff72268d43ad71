"""``browse`` and ``consume``: reading the messages of a queue, a topic or a durable subscription."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import click

from jdbcstore.abc import Cursor, Page, Recoverable, Reference, Store, pages
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.messages import (
    CorruptMessages,
    Printer,
    TablePrinter,
    messages_of,
    print_blocks,
)
from jdbcstore.cli.options import COUNT, SELECTOR, destination_argument, subscription_options
from jdbcstore.cli.output import counted, note, print_json
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.facts import Facts, facts_of
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

_PAGE = 100
"""Messages in memory at a time. They may be large."""


class Consumable(Recoverable, Protocol):
    """A queue or a durable subscription."""

    def acknowledge(self, *messages: Reference) -> None: ...


_hex_option = click.option(
    "--hex", "as_hex", is_flag=True, help="Show bytes in hexadecimal, even if they are UTF-8."
)


@click.command(cls=CliCommand)
@destination_argument
@subscription_options
@click.option("--selector", type=SELECTOR, metavar="TEXT", help="Only messages that match a JMS selector.")
@click.option("--limit", type=COUNT, metavar="N", help="At most N messages; all by default.")
@_hex_option
@click.pass_obj
def browse(
    settings: Settings,
    destination: Destination,
    client_id: str | None,
    subscription: str | None,
    selector: Selector | None,
    limit: int | None,
    as_hex: bool,
) -> int:
    """Show the messages of a destination in delivery order, without removing them.

    For a topic, these are all stored messages; with --client-id and --subscription, the pending messages of
    that durable subscription. If a broker with --health is running, it reads the messages of a queue.
    """
    _check_options(destination, client_id, subscription)
    reader = _Reader(
        print_json if settings.json else TablePrinter(as_hex=as_hex).print, limit, selector=selector
    )
    broker = None if destination.is_topic else settings.broker_to_read()
    if broker is not None:
        text = None if selector is None else selector.text
        reader.print_facts(broker.pages(destination, reader.page_size, text))
    else:
        with settings.open(read_only=True) as store:
            for _ in reader.print(browsed(store, destination, client_id, subscription, reader.page_size)):
                pass
    if not reader.shown and not reader.count:
        note(f"no {'such ' if selector else ''}messages in {destination}")
    return reader.exit_code


def browsed(
    store: Store, destination: Destination, client_id: str | None, subscription: str | None, size: int
) -> Iterator[Page]:
    """Yield pages of consumable messages; for a whole destination, then those in prepared transactions."""
    source = _source(store, destination, client_id, subscription)
    yield from pages(source, size)
    recover_in_doubt = getattr(source, "recover_in_doubt", None)  # only destinations in databases have them
    if recover_in_doubt is not None:
        yield from pages(_InDoubt(recover_in_doubt), size)


class _InDoubt:
    """Messages of prepared XA transactions, read like a queue, with a note about each."""

    def __init__(self, recover: Callable[[int, Cursor | None], Page]) -> None:
        self._recover = recover

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        page = self._recover(limit, after)
        for message in page:
            note(
                f"ID {message.sequence} is in a prepared XA transaction, and is not delivered until that ends"
            )
        return page


@click.command(cls=CliCommand)
@destination_argument
@subscription_options
@click.option("--count", type=COUNT, metavar="N", default=1, show_default=True,
              help="At most N messages.")  # fmt: skip
@_hex_option
@click.pass_obj
def consume(
    settings: Settings,
    destination: Destination,
    client_id: str | None,
    subscription: str | None,
    count: int,
    as_hex: bool,
) -> int:
    """Print messages, then acknowledge them.

    Expired messages are skipped; "purge --expired" removes them. Does not wait for more messages to arrive.
    If a broker with --health is running, it hands over messages of the queue that are not with a consumer.
    """
    _check_options(destination, client_id, subscription)
    if destination.is_topic and subscription is None:
        raise click.UsageError(
            "a topic is consumed through a durable subscription; name one with --client-id and --subscription"
        )
    printer = print_json if settings.json else partial(print_blocks, as_hex=as_hex)
    with settings.store_or_broker(must_exist=True) as store:
        if isinstance(store, RemoteBroker):
            take = partial(store.consume, destination)
            if client_id is not None and subscription is not None:
                take = partial(store.consume_subscription, destination, client_id, subscription)
            return _consume_there(printer, store, destination, take, count)
        source = _source(store, destination, client_id, subscription)
        reader = _Reader(printer, count, skip_expired=True)
        for messages in reader.print(pages(source, reader.page_size)):
            # A message may be removed only once it has left this process.
            sys.stdout.flush()
            source.acknowledge(*messages)
    if reader.expired:
        expired = counted(reader.expired, "expired message")
        note(f"{expired} skipped; remove expired messages with 'jdbcstore purge --expired'")
    if not reader.shown and not reader.count:
        note(f"no messages in {destination}")
        return ExitCode.NOT_FOUND
    return reader.exit_code


def _consume_there(
    printer: Printer,
    broker: RemoteBroker,
    destination: Destination,
    take: Callable[[int], dict[str, Any]],
    count: int,
) -> int:
    """Make the broker hold the messages until they are printed."""
    reader, damaged = _Reader(printer, count), set[str]()
    while reader.shown < count:
        facts = take(min(count - reader.shown, _PAGE))
        reader.print_facts([{**facts, "damaged": {*facts["damaged"]} - damaged}])
        damaged |= {*facts["damaged"]}
        if facts["token"] is None:
            break
        # A message may be removed only once it has left this process.
        sys.stdout.flush()
        broker.call("acknowledge", facts["token"])
    if not reader.shown and not reader.count:
        note(f"no messages in {destination}")
        return ExitCode.NOT_FOUND
    return reader.exit_code


def _source(
    store: Store, destination: Destination, client_id: str | None, subscription: str | None
) -> Consumable:
    if client_id is None or subscription is None:
        return messages_of(store, destination)
    return store.topic(destination).subscription(client_id, subscription)


def _check_options(destination: Destination, client_id: str | None, subscription: str | None) -> None:
    if (client_id is None) != (subscription is None):
        raise click.UsageError("--client-id and --subscription must be given together")
    if client_id is not None and not destination.is_topic:
        raise click.UsageError(f"{destination} is a queue; only topics have durable subscriptions")


class _Reader(CorruptMessages):
    """Printer of messages up to the limit; it skips messages that cannot be decoded."""

    def __init__(
        self,
        printer: Printer,
        limit: int | None,
        *,
        skip_expired: bool = False,
        selector: Selector | None = None,
    ) -> None:
        super().__init__()
        self._printer = printer
        self._limit = limit
        self.page_size = min(_PAGE, limit or _PAGE)
        self.shown = 0
        self._skip_expired = skip_expired
        self._selector = selector
        self.expired = 0

    def print(self, pages: Iterable[Page]) -> Iterator[list[Message]]:
        """Yield the messages of each page once they are printed."""
        for page in pages:
            entries = self._read(page)[: None if self._limit is None else self._limit - self.shown]
            self._printer([facts for _, facts in entries])
            self.shown += len(entries)
            yield [message for message, _ in entries]
            if self.shown == self._limit:
                return

    def print_facts(self, pages: Iterable[dict[str, Any]]) -> None:
        """Print the messages of pages from a broker."""
        for page in pages:
            self.report(*page["damaged"])
            room = None if self._limit is None else self._limit - self.shown
            # These commands do not show the original destination.
            facts = [
                {k: v for k, v in facts.items() if k != "original_destination"}
                for facts in page["messages"][:room]
            ]
            self._printer(facts)
            self.shown += len(facts)
            if self.shown == self._limit:
                return

    def _read(self, page: Page) -> list[tuple[Message, Facts]]:
        self.report(*page.corrupt)
        entries = []
        now_ms = time.time_ns() // 1_000_000
        for message in page:
            if self._skip_expired and 0 < message.expiration_ms <= now_ms:
                self.expired += 1
                continue
            try:
                if self._selector is None or self._selector.matches(message):
                    entries.append((message, facts_of(message)))
            except CorruptMessage as error:
                self.report(error)
        return entries
