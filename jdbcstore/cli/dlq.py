"""``dlq list``, ``dlq retry`` and ``dlq purge``: the messages of dead letter queues."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TextIO

import click

from jdbcstore.abc import Store, pages
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.messages import CorruptMessages, messages_of
from jdbcstore.cli.options import COUNT, DESTINATION, SELECTOR, all_of, check_chosen, every_option
from jdbcstore.cli.output import counted, local_time, note, print_table, progress
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.config import Configuration
from jdbcstore.config.policy import SharedDeadLetterStrategy
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.dead_letters import CAUSE
from jdbcstore.message.destination import Destination
from jdbcstore.message.facts import Facts, facts_of
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.selector import Selector
from jdbcstore.tools.dead_letters import move_back

_PAGE = 100
_IDS = 1000
"""Most ids of one request to a broker."""
_CAUSE_WIDTH = 80


@dataclass(kw_only=True)
class DeadLetterSelection(CorruptMessages):
    """The dead letters that a command line selects."""

    queues: tuple[Destination, ...]
    """Queues to read; if empty, every dead letter queue of the configuration."""
    origin: Destination | None
    message_ids: list[str] | None
    """Their JMSMessageIDs, each once; None if messages are not selected by id."""
    selector: Selector | None
    limit: int | None

    @classmethod
    def of(cls, message_ids: tuple[str, ...], ids_file: TextIO | None, **given: Any) -> DeadLetterSelection:
        """Make a selection of the options of a command line, and note it if the file has no ids."""
        if ids_file is not None:
            try:
                message_ids = (*message_ids, *filter(None, map(str.strip, ids_file)))
            except UnicodeDecodeError:
                raise click.UsageError(f"{ids_file.name} is not UTF-8, as a file of ids must be") from None
            if not message_ids:
                note(f"{ids_file.name} has no ids, so no message is selected")
        given["message_ids"] = [*dict.fromkeys(message_ids)] if message_ids or ids_file is not None else None
        return cls(**given)

    def chosen_in(self, store: Store, configuration: Configuration) -> list[Destination]:
        """Return the queues to read."""
        return self.chosen(store.destinations(), configuration)

    def chosen(self, existing: Iterable[Destination], configuration: Configuration) -> list[Destination]:
        """Return the existing queues to read."""
        from jdbcstore.broker.queues.dead_letters import is_dead_letter_queue

        strategies = [
            SharedDeadLetterStrategy(),
            *(policy.dead_letter_strategy for policy in configuration.policies),
        ]
        return [*self.queues] or [
            queue
            for queue in existing
            if any(is_dead_letter_queue(strategy, queue) for strategy in strategies)
        ]

    def read(self, store: Store, queue: Destination) -> Iterator[Message]:
        """Yield the selected messages of a queue, without limit, skipping messages that cannot be decoded."""
        for page in pages(messages_of(store, queue), _PAGE):
            self.report(*page.corrupt)
            for message in page:
                try:
                    if self._includes(message):
                        yield message
                except CorruptMessage as error:
                    self.report(error)

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(self.message_ids or ())

    def has_id(self, message_id: str) -> bool:
        """Return whether this id is selected, or messages are not selected by id."""
        return self.message_ids is None or message_id in self._ids

    def requests(self) -> list[list[str] | None]:
        """Return the ids in parts that each fit into one request; None in place of ids selects any."""
        if self.message_ids is None:
            return [None]
        return [self.message_ids[at : at + _IDS] for at in range(0, len(self.message_ids), _IDS)]

    def _includes(self, message: Message) -> bool:
        if not self.has_id(str(message.message_id)):
            return False
        if self.origin is not None:
            pattern = DestinationPattern(self.origin)
            if not pattern.matches_any(message.original_destination):
                return False
        return self.selector is None or self.selector.matches(message)


_choosing = all_of(
    click.argument("queues", nargs=-1, type=DESTINATION, metavar="[DEST]..."),
    click.option("--from", "origin", type=DESTINATION, metavar="DEST",
                 help="Only messages sent to this destination; may contain * and >."),
    click.option("--id", "message_ids", multiple=True, metavar="ID",
                 help="Only the message with this JMSMessageID. Repeatable."),
    click.option("--ids", "ids_file", type=click.File(), metavar="FILE",
                 help="Only messages with the JMSMessageIDs in this file, one a line; - is standard input."),
    click.option("--selector", type=SELECTOR, metavar="TEXT",
                 help="Only messages that match this JMS selector."),
    click.option("--limit", type=COUNT, metavar="N",
                 help="At most N messages; all by default."),
)  # fmt: skip
"""The arguments of :class:`DeadLetterSelection`."""


@click.group()
def dlq() -> None:
    """List, retry or purge dead letters.

    DEST is a dead letter queue. By default all dead letter queues of the store are used: ActiveMQ.DLQ, and
    the dead letter queues of the configured policies.
    """


@dlq.command("list", cls=CliCommand)
@_choosing
@click.pass_obj
def list_(settings: Settings, /, **given: Any) -> int:
    """List dead letters with their original destination and cause."""
    dead, configuration = DeadLetterSelection.of(**given), settings.configuration()
    broker = settings.broker_to_read()
    if broker is not None:
        queues = dead.chosen(_queues(broker), configuration)
        _list(settings, dead, (facts for queue in queues for facts in _read_there(broker, dead, queue)))
        return dead.exit_code
    with settings.open(read_only=True) as store:
        queues = dead.chosen_in(store, configuration)
        _list(settings, dead, (facts for queue in queues for facts in _read_here(store, dead, queue)))
    return dead.exit_code


def _list(settings: Settings, dead: DeadLetterSelection, facts: Iterator[Facts]) -> None:
    chosen = itertools.islice(facts, dead.limit)
    columns = ("queue", "message id", "from", "time", "cause", "attempts", "consumer")
    settings.print_each(
        chosen, lambda: print_table("Dead letters", columns, [*map(_row, chosen)], right=columns[5:6])
    )


def _queues(broker: RemoteBroker) -> list[Destination]:
    return [Destination.parse(view["name"]) for view in broker.destinations() if not view["is_topic"]]


def _read_here(store: Store, dead: DeadLetterSelection, queue: Destination) -> Iterator[Facts]:
    for message in dead.read(store, queue):
        try:
            yield _facts(queue, message)
        except CorruptMessage as error:
            dead.report(error)


def _read_there(broker: RemoteBroker, dead: DeadLetterSelection, queue: Destination) -> Iterator[Facts]:
    """Yield the selected messages of a queue, read from the broker."""
    selector = None if dead.selector is None else dead.selector.text
    for page in broker.pages(queue, _PAGE, selector, dead.origin):
        dead.report(*page["damaged"])
        for facts in page["messages"]:
            if dead.has_id(facts["message_id"]):
                yield {**facts, "dead_letter_queue": str(queue), "cause": facts["properties"].get(CAUSE)}


def _row(facts: Facts) -> tuple[str, ...]:
    names = ("dead_letter_queue", "message_id", "original_destination")
    cause = str(facts["cause"] or "")[:_CAUSE_WIDTH]
    attempts = str(facts["properties"].get("dlqDeliveryAttempts", "")).splitlines()
    consumer = attempts[-1].partition(" by ")[2].partition(", connection ")[0] if attempts else ""
    said = (local_time(facts["timestamp"]), cause, str(len(attempts) or ""), consumer)
    return *(str(facts[name] or "") for name in names), *said


def _facts(queue: Destination, message: Message) -> Facts:
    origin = message.original_destination
    return {
        **facts_of(message),
        "dead_letter_queue": str(queue),
        "original_destination": None if origin is None else str(origin),
        "cause": message.properties.get(CAUSE),
    }


@dlq.command(cls=CliCommand)
@_choosing
@every_option
@click.pass_obj
def retry(settings: Settings, /, every: bool, **given: Any) -> int:
    """Send dead letters to their original destinations.

    Select them by the options, or use --all. Each message is moved in a transaction, so it is never lost and
    never in both places. If a broker with --health is running, it moves them; stop a broker without --health
    first.
    """
    return _process(settings, _chosen(every, **given), "retried", _move)


@dlq.command(cls=CliCommand)
@_choosing
@every_option
@click.pass_obj
def purge(settings: Settings, /, every: bool, **given: Any) -> int:
    """Remove dead letters.

    Select them by the options, or use --all. If a broker with --health is running, it removes them; stop a
    broker without --health first.
    """
    return _process(settings, _chosen(every, **given), "removed", _remove)


def _chosen(every: bool, **given: Any) -> DeadLetterSelection:
    dead = DeadLetterSelection.of(**given)
    by_id = dead.message_ids is not None
    check_chosen(dead.origin, by_id, dead.selector, dead.limit, every=every)
    return dead


def _process(
    settings: Settings,
    dead: DeadLetterSelection,
    done: str,
    act: Callable[[DeadLetterSelection, Store, Destination, list[Message]], int],
) -> int:
    if dead.message_ids == []:
        settings.print({done: 0, "left": 0}, f"{done} 0 dead letters")
        return ExitCode.DONE
    with settings.store_or_broker(audited=False, must_exist=True) as target:
        if isinstance(target, RemoteBroker):
            return _process_there(settings, target, dead, done)
        return _process_here(settings, target, dead, done, act)


def _process_there(settings: Settings, broker: RemoteBroker, dead: DeadLetterSelection, done: str) -> int:
    """Make the broker process the messages, and return their number."""
    count = left = 0
    queues = dead.chosen(_queues(broker), settings.configuration())
    for queue, ids in itertools.product(queues, dead.requests()):
        if count == dead.limit:
            break
        acted = broker.act(
            "retry" if done == "retried" else "remove",
            queue,
            ids=ids,
            selector=None if dead.selector is None else dead.selector.text,
            origin=dead.origin,
            limit=None if dead.limit is None else dead.limit - count,
        )
        count, left = count + acted.count, left + acted.left
    settings.print({done: count, "left": left}, f"{done} {counted(count, 'dead letter')}")
    if left:
        why = "the original destination is unknown, or consumers have them"
        note(f"{counted(left, 'message')} left: {why if done == 'retried' else 'consumers have them'}")
    return ExitCode.DONE if count else ExitCode.NOT_FOUND


def _process_here(
    settings: Settings,
    store: Store,
    dead: DeadLetterSelection,
    done: str,
    act: Callable[[DeadLetterSelection, Store, Destination, list[Message]], int],
) -> int:
    count = seen = 0
    with progress(done, dead.limit) as advance:
        for queue in dead.chosen_in(store, settings.configuration()):
            limit = None if dead.limit is None else dead.limit - seen
            chosen = itertools.islice(dead.read(store, queue), limit)
            while batch := [*itertools.islice(chosen, _PAGE)]:
                acted = act(dead, store, queue, batch)
                count, seen = count + acted, seen + len(batch)
                advance(acted)
    settings.print({done: count, "left": seen - count}, f"{done} {counted(count, 'dead letter')}")
    if seen > count:
        note(
            f"{counted(seen - count, 'message')} left: the original destination is unknown, or the "
            "message is damaged"
        )
    return dead.exit_code if seen or dead.count else ExitCode.NOT_FOUND


def _move(dead: DeadLetterSelection, store: Store, queue: Destination, batch: list[Message]) -> int:
    return move_back(store, queue, batch, dead.report)


def _remove(_: DeadLetterSelection, store: Store, queue: Destination, batch: list[Message]) -> int:
    messages_of(store, queue).acknowledge(*batch)
    return len(batch)
