"""``dlq list``, ``dlq retry`` and ``dlq purge``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from jdbcstore import Store, pages
from jdbcstore.abc import MessageStore
from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.messages import Facts, JsonPrinter, facts_of
from jdbcstore.cli.options import Command, DestinationType, Settings
from jdbcstore.cli.output import counted, local_time, note, print_table, progress, write_json, write_line
from jdbcstore.config import Configuration
from jdbcstore.config.policy import SharedDeadLetterStrategy
from jdbcstore.errors import CorruptMessage, InvalidSelector
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern

F = TypeVar("F", bound=Callable[..., Any])

_PAGE = 100
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters."""

    queues: tuple[Destination, ...]
    """Where they are; nothing is every queue that the configuration calls one of dead letters."""
    origin: Destination | None
    message_ids: frozenset[str]
    selector: str | None
    limit: int | None

    def places(self, store: Store, configuration: Configuration) -> list[Destination]:
        return [*self.queues] or [
            one for one in store.destinations() if _is_of_dead_letters(one, configuration)
        ]

    def test(self) -> Callable[[Message], bool]:
        """Whether a message is one of them."""
        tests: list[Callable[[Message], bool]] = []
        if self.message_ids:
            tests.append(lambda message: str(message.message_id) in self.message_ids)
        if self.origin is not None:
            pattern = DestinationPattern(self.origin)
            tests.append(lambda message: any(map(pattern.matches, _origins(message))))
        if self.selector is not None:
            from jdbcstore.message.selector import Selector

            try:
                tests.append(Selector(self.selector).matches)
            except InvalidSelector as error:
                raise click.UsageError(str(error)) from error
        return lambda message: all(test(message) for test in tests)


def _origins(message: Message) -> tuple[Destination, ...]:
    return () if message.original_destination is None else message.original_destination.members


def _is_of_dead_letters(destination: Destination, configuration: Configuration) -> bool:
    from jdbcstore.broker.queues.dead_letters import is_dead_letter_queue

    strategies = [policy.dead_letter_strategy for policy in configuration.policies]
    return any(is_dead_letter_queue(one, destination) for one in [SharedDeadLetterStrategy(), *strategies])


def choosing(function: F) -> F:
    """The options that say which dead letters."""
    for option in (
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N; else all."),
        click.option("--selector", metavar="TEXT", help="Only those that a JMS selector matches."),
        click.option("--id", "message_ids", multiple=True, metavar="ID",
                     help="Only this JMSMessageID. May be repeated."),
        click.option("--from", "origin", type=DestinationType(), metavar="DEST",
                     help="Only those that were sent to this destination; may have * and >."),
        click.argument("queues", nargs=-1, type=DestinationType(), metavar="[DEST]..."),
    ):  # fmt: skip
        function = option(function)
    return function


def _choice(
    queues: tuple[Destination, ...],
    origin: Destination | None,
    message_ids: tuple[str, ...],
    selector: str | None,
    limit: int | None,
) -> Choice:
    return Choice(queues, origin, frozenset(message_ids), selector, limit)


@click.group()
def dlq() -> None:
    """Show dead letters, send them again, or drop them.

    DEST is a queue of dead letters; without, each one that the store has: ActiveMQ.DLQ, and those that the
    policies of the configuration name.
    """


@dlq.command("list", cls=Command)
@choosing
@click.pass_obj
def list_(settings: Settings, /, **given: Any) -> int:
    """Show dead letters, where they came from and why they died."""
    choice = _choice(**given)
    with settings.open(read_only=True) as store:
        reader = _Reader(choice)
        found = ((place, one) for place in choice.places(store, settings.configuration())
                 for one in reader.read(_messages(store, place)))  # fmt: skip
        facts = (_facts(place, one) for place, one in itertools.islice(found, choice.limit))
        _print(settings, facts)
    return reader.exit_code


def _print(settings: Settings, found: Iterable[Facts]) -> None:
    if settings.json:
        printer = JsonPrinter()
        for facts in found:
            printer.print([facts])
        return
    columns = {"queue": "left", "message id": "left", "from": "left", "time": "left", "cause": "left"}
    rows = [
        (
            *(str(facts[name] or "") for name in ("dead_letter_queue", "message_id", "original_destination")),
            local_time(facts["timestamp"]),
            str(facts["cause"] or "")[:_SHOWN],
        )
        for facts in found
    ]
    print_table("Dead letters", columns, rows)


def _facts(place: Destination, message: Message) -> Facts:
    from jdbcstore.broker.queues.dead_letters import CAUSE

    origin = message.original_destination
    return {
        **facts_of(message),
        "dead_letter_queue": str(place),
        "original_destination": None if origin is None else str(origin),
        "cause": message.properties.get(CAUSE),
    }


@dlq.command(cls=Command)
@choosing
@click.pass_obj
def retry(settings: Settings, /, **given: Any) -> int:
    """Send dead letters again, to where they came from.

    Each is moved in a transaction: it is in one of the two places, whatever happens. No broker may be
    serving the store.
    """
    return _work(settings, _choice(**given), "retried", _move)


@dlq.command(cls=Command)
@choosing
@click.pass_obj
def purge(settings: Settings, /, **given: Any) -> int:
    """Remove dead letters. No broker may be serving the store."""
    return _work(settings, _choice(**given), "removed", _remove)


Act = Callable[[Store, Destination, list[Message]], int]


def _work(settings: Settings, choice: Choice, done: str, act: Act) -> int:
    reader, count, seen = _Reader(choice), 0, 0
    with (
        settings.open(audited=False, must_exist=True) as store,
        progress(done, choice.limit) as tell,
    ):
        for place in choice.places(store, settings.configuration()):
            chosen = reader.read(_messages(store, place))
            for batch in _batches(
                itertools.islice(chosen, None if choice.limit is None else choice.limit - seen)
            ):
                acted = act(store, place, batch)
                count, seen = count + acted, seen + len(batch)
                tell(acted)
    if settings.json:
        write_json({done: count, "left": seen - count})
    else:
        write_line(f"{done} {counted(count, 'dead letter')}")
    if seen > count:
        note(f"{counted(seen - count, 'message')} left: nothing says where they came from")
    return reader.exit_code if seen or reader.corrupt else ExitCode.NOTHING


def _move(store: Store, place: Destination, batch: list[Message]) -> int:
    known = [message for message in batch if message.original_destination is not None]
    with store.transaction() as transaction:
        for message in known:
            for destination in _origins(message):
                target = (
                    transaction.topic(destination) if destination.is_topic else transaction.queue(destination)
                )
                target.add_message(_revived(message, destination))
        dead = transaction.topic(place) if place.is_topic else transaction.queue(place)
        if known:
            dead.acknowledge(*known)
    return len(known)


def _revived(message: Message, destination: Destination) -> Message:
    """As it was sent, but that it does not expire: it has."""
    from jdbcstore.broker.queues.dead_letters import CAUSE, ORIGINAL_DELIVERY_MODE, ORIGINAL_EXPIRATION

    of_death = (CAUSE, ORIGINAL_DELIVERY_MODE, ORIGINAL_EXPIRATION)
    properties = {name: value for name, value in message.properties.items() if name not in of_death}
    return message.replace(
        destination=destination,
        original_destination=None,
        redelivery_counter=0,
        properties=properties,
        sequence=None,
    )


def _remove(store: Store, place: Destination, batch: list[Message]) -> int:
    _messages(store, place).acknowledge(*batch)
    return len(batch)


def _messages(store: Store, place: Destination) -> MessageStore:
    return store.topic(place) if place.is_topic else store.queue(place)


def _batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    while batch := [*itertools.islice(messages, _PAGE)]:
        yield batch


class _Reader:
    """Reads dead letters, and reports the rows that do not decode."""

    def __init__(self, choice: Choice) -> None:
        self._test = choice.test()
        self.corrupt = 0

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.CORRUPT if self.corrupt else ExitCode.DONE

    def read(self, messages: MessageStore) -> Iterator[Message]:
        for page in pages(messages, _PAGE):
            for error in page.corrupt:
                self._report(error)
            for message in page:
                try:
                    if self._test(message):
                        yield message
                except CorruptMessage as error:
                    self._report(error)

    def _report(self, error: CorruptMessage) -> None:
        self.corrupt += 1
        note(str(error))
