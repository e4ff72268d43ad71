"""Operations: what each needs, what it says before it is confirmed, and what it does.

Everything goes through the management, by the broker's own rules and into its audit log.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from jdbcstore.broker.console.rendering import bare, url
from jdbcstore.broker.console.visits import Visit
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.requests import Fields, NotARequest, destination_of, message_of
from jdbcstore.broker.management.views import OperationOutcome
from jdbcstore.message.destination import Destination, DestinationKind

_LONGEST = 1 << 53
_MOST_IDS = 1000
_VALUES: dict[str, Callable[[str], Any]] = {
    "string": str,
    "int": int,
    "long": int,
    "double": float,
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
}
Done = tuple[str, str]
"""What was done, and the page to go to."""


@dataclass(frozen=True, slots=True)
class Action:
    """An operation."""

    title: str
    text: str
    """What will happen."""
    run: Callable[[Management, Visit], Awaitable[Done]]
    chooses: bool = False
    """Whether it is for all messages of a queue, or some."""
    moves: bool = False
    """Whether it needs another destination."""
    changes: bool = False
    """Whether it asks for a priority and an expiration."""
    is_final: bool = False
    """Whether what it removes is lost."""
    back: str = ""
    """The page to go to if it is not confirmed; that of the destination by default."""


def kind_of(visit: Visit) -> DestinationKind:
    """Whether a form is about a queue or a topic."""
    return DestinationKind.TOPIC if visit.text("kind") == "topic" else DestinationKind.QUEUE


def place_of(visit: Visit) -> str:
    """The page of the destination that a form is about."""
    name = visit.text("name")
    return url("topic" if kind_of(visit) is DestinationKind.TOPIC else "queue", name=name) if name else url()


def choice_of(visit: Visit) -> MessageChoice:
    """The messages that a form is about.

    :raises NotARequest: a field is wrong
    """
    ids: tuple[str, ...] | None = tuple(visit.form.get("id", ())) or None
    if ids is not None and len(ids) > _MOST_IDS:
        raise NotARequest(f"at most {_MOST_IDS} messages can be chosen; use a selector")
    return MessageChoice(
        ids=ids,
        group=visit.text("group") or None,
        selector=visit.text("selector").strip() or None,
        limit=visit.number("limit", least=1, most=_LONGEST),
    )


def _counted(
    outcome: OperationOutcome, done: str, why: str = "because consumers or transactions have them"
) -> str:
    count = outcome.count
    text = f"{count:,} {'message was' if count == 1 else 'messages were'} {done}"
    if outcome.left:
        text += f"; {outcome.left:,} stayed, {why}"
    return text + "."


async def _purge(management: Management, visit: Visit) -> Done:
    outcome = await management.purge(visit.actor, visit.destination())
    return _counted(outcome, "removed"), place_of(visit)


async def _remove(management: Management, visit: Visit) -> Done:
    choice = choice_of(visit)
    if choice == MessageChoice():
        raise NotARequest("name a selector or a number; to remove all messages, purge the queue")
    return _counted(await management.remove(visit.actor, visit.destination(), choice), "removed"), place_of(
        visit
    )


async def _move(management: Management, visit: Visit) -> Done:
    choice, to = choice_of(visit), _target(visit)
    outcome = await management.move(visit.actor, visit.destination(), choice, to)
    return _counted(outcome, f"moved to {bare(to)}"), place_of(visit)


async def _copy(management: Management, visit: Visit) -> Done:
    choice, to = choice_of(visit), _target(visit)
    outcome = await management.copy(visit.actor, visit.destination(), choice, to)
    return _counted(outcome, f"copied to {bare(to)}"), place_of(visit)


async def _retry(management: Management, visit: Visit) -> Done:
    choice = choice_of(visit)
    outcome = await management.retry(visit.actor, visit.destination(), choice)
    where = url("dead-letters") if visit.text("group") else place_of(visit)
    why = "because consumers have them, or where they came from is unknown"
    return _counted(outcome, "sent again to where they came from", why), where


async def _pause(management: Management, visit: Visit) -> Done:
    management.pause(visit.actor, visit.destination())
    return "Deliveries are paused; producers go on.", place_of(visit)


async def _resume(management: Management, visit: Visit) -> Done:
    management.resume(visit.actor, visit.destination())
    return "Deliveries go on.", place_of(visit)


async def _delete(management: Management, visit: Visit) -> Done:
    kind = kind_of(visit)
    name = visit.destination(kind)
    outcome = await management.delete(visit.actor, name)
    where = url("topics" if kind is DestinationKind.TOPIC else "queues")
    return f"{name.name} was deleted; {_counted(outcome, 'removed')}", where


async def _send(management: Management, visit: Visit) -> Done:
    kind = kind_of(visit)
    name = destination_of(visit.destination(kind).name, kind)
    fields: dict[str, Any] = {
        "body": visit.text("body").replace("\r\n", "\n"),
        "properties": _properties(visit.text("properties")),
        "priority": visit.number("priority", least=0, most=9),
        "persistent": visit.text("persistent") != "no",
    }
    ttl = visit.number("ttl", least=1, most=1 << 32)
    if ttl is not None:
        fields["ttl_ms"] = ttl * 1000
    for field in ("correlation_id", "reply_to", "jms_type"):
        if visit.text(field):
            fields[field] = visit.text(field)
    await management.send(visit.actor, [message_of(Fields(fields), name)])
    return "The message was sent.", place_of(visit)


def _properties(text: str) -> dict[str, Any]:
    """One property on each line: ``name=value``, or ``name:type=value``."""
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        name, _, kind = name.partition(":")
        convert = _VALUES.get(kind.strip() or "string")
        if not equals or not name.strip() or convert is None:
            raise NotARequest("a property must be name=value or name:type=value, with the type "
                              f"{', '.join(_VALUES)}")  # fmt: skip
        try:
            found[name.strip()] = convert(value if convert is str else value.strip())
        except (ValueError, KeyError):
            raise NotARequest(f"the value of the property {name.strip()} is not of the type {kind}") from None
    return found


def _target(visit: Visit) -> Destination:
    text = visit.text("to").strip()
    if not text:
        raise NotARequest("name the destination to go to, such as ORDERS or topic://PRICES")
    return Destination.named(text)


async def _reset(management: Management, visit: Visit) -> Done:
    management.reset(visit.actor, visit.destination(kind_of(visit)) if visit.text("name") else None)
    return "The counters begin at 0 again.", place_of(visit)


async def _change(management: Management, visit: Visit) -> Done:
    choice = choice_of(visit)
    priority = visit.number("priority", least=0, most=9)
    ttl = visit.number("ttl", least=0, most=1 << 32)
    expiration_ms = None if ttl is None else time.time_ns() // 1_000_000 + ttl * 1000 if ttl else 0
    outcome = await management.change(
        visit.actor, visit.destination(), choice, priority=priority, expiration_ms=expiration_ms
    )
    return _counted(outcome, "replaced by new ones"), place_of(visit)


async def _commit(management: Management, visit: Visit) -> Done:
    await management.end_transaction(visit.actor, visit.text("xid"), commit=True)
    return "The transaction was committed.", url("transactions")


async def _roll_back(management: Management, visit: Visit) -> Done:
    await management.end_transaction(visit.actor, visit.text("xid"), commit=False)
    return "The transaction was rolled back.", url("transactions")


async def _drop(management: Management, visit: Visit) -> Done:
    management.drop_connection(visit.actor, visit.text("connection"))
    return "The connection was closed; what was in flight is delivered again.", url("connections")


async def _unsubscribe(management: Management, visit: Visit) -> Done:
    await management.destroy_subscription(visit.actor, visit.text("client"), visit.text("subscription"))
    return "The durable subscription was deleted.", url("subscribers")


async def _checkpoint(management: Management, visit: Visit) -> Done:
    await management.checkpoint(visit.actor)
    return "What was in the journal is in the database.", url("broker")


async def _hand_over(management: Management, visit: Visit) -> Done:
    management.hand_over(visit.actor)
    return "The mastership is being handed over.", url("broker")


ACTIONS = {
    "purge": Action(
        "Purge", "All messages are removed, except those that consumers have.", _purge, is_final=True
    ),
    "remove": Action(
        "Remove messages",
        "The chosen messages are removed, except those that consumers have.",
        _remove,
        chooses=True,
        is_final=True,
    ),
    "move": Action(
        "Move messages",
        "Each message is added there and removed here in one transaction.",
        _move,
        chooses=True,
        moves=True,
    ),
    "copy": Action("Copy messages", "Copies are sent; the messages stay.", _copy, chooses=True, moves=True),
    "retry": Action(
        "Retry dead letters",
        "Each message goes back to the destination that it was sent to. Those that do not name one stay.",
        _retry,
        chooses=True,
    ),
    "change": Action(
        "Change messages",
        "Each message is replaced by a new one with this priority or expiration, at the end of the queue and"
        " with another id.",
        _change,
        chooses=True,
        changes=True,
    ),
    "pause": Action(
        "Pause deliveries",
        "Nothing is delivered until you resume. Producers go on, and consumers keep what they have.",
        _pause,
    ),
    "resume": Action("Resume deliveries", "Messages are delivered again.", _resume),
    "delete": Action(
        "Delete",
        "The messages of a queue, or the durable subscriptions of a topic, are removed, and it is forgotten."
        " It must not have consumers.",
        _delete,
        is_final=True,
    ),
    "send": Action("Send a message", "", _send),
    "drop": Action(
        "Drop the connection",
        "The client's connection is closed. What it has not acknowledged is delivered again.",
        _drop,
        back="connections",
    ),
    "unsubscribe": Action(
        "Delete the subscription",
        "The durable subscription and its pending messages are removed. It must not have a consumer.",
        _unsubscribe,
        is_final=True,
        back="subscribers",
    ),
    "reset": Action(
        "Reset the counters",
        "What was counted begins at 0 again, for everybody. Metrics and charts go on.",
        _reset,
    ),
    "commit": Action(
        "Commit the transaction",
        "What it adds becomes visible, and what it acknowledges is removed. Its transaction manager may have "
        "decided otherwise elsewhere.",
        _commit,
        is_final=True,
        back="transactions",
    ),
    "roll-back": Action(
        "Roll the transaction back",
        "What it adds is discarded, and what it acknowledges is delivered again. Its transaction manager may"
        " have decided otherwise elsewhere.",
        _roll_back,
        is_final=True,
        back="transactions",
    ),
    "checkpoint": Action(
        "Checkpoint now", "What is in the journal is written to the database.", _checkpoint, back="broker"
    ),
    "hand-over": Action(
        "Hand over",
        "All connections are closed and the lock is released, so that another broker becomes the master."
        " Without a slave that waits for it there is no service for 15 seconds and until the store is open;"
        " then this one serves again.",
        _hand_over,
        back="broker",
    ),
}
"""By the name in the address."""
