"""Operations in the console: the text and fields of each form, and the report.

They run the operations of :mod:`jdbcstore.broker.operations`, by the broker's own rules and in its audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from jdbcstore.broker.console.rendering import url
from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.performing import Affected, Performing
from jdbcstore.broker.management.requests import Fields, destination_of, expiration_of, sequence_of
from jdbcstore.broker.management.texts import bare, counted
from jdbcstore.broker.operations import MOST_CLAIMS, OPERATIONS, NotARequest, Operation, OperationOutcome
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.message import Message

_LONGEST = 1 << 53
_MOST_IDS = 1000
_VALUES: dict[str, Callable[[str], Any]] = {
    "string": str,
    "int": int,
    "long": int,
    "double": float,
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
}


@dataclass(frozen=True, slots=True)
class Action:
    """An operation as a form, by the name in its address."""

    name: str
    title: str
    text: str
    """The explanation above the confirmation."""
    done: str
    """The report. ``{counted}`` is the number of messages, as the subject of a sentence; ``{stayed}``
    says how many stayed, and why; ``{leases}`` is the number of leases."""
    why: str = "because consumers or transactions have them"
    """The reason why messages stay."""
    is_final: bool = False
    """Whether it cannot be undone."""
    back: str = ""
    """The next page; by default the destination's."""
    typed: str = ""
    """The field with the name to type; empty if messages are selected, or the operation can be undone."""

    @property
    def operation(self) -> str:
        """The name of its row in the table of operations."""
        return self.name.replace("-", "_")

    @property
    def is_long(self) -> bool:
        """Whether it may affect any number of messages, and continues in the background."""
        return self.name in ("purge", "delete") or "choice" in self.parameters

    @property
    def parameters(self) -> set[str]:
        """The names of its parameters."""
        return {parameter.name for parameter in self._operation("destination").parameters}

    def _operation(self, name: str) -> Operation:
        """Return the operation for a destination of this name, or for the broker."""
        resets_all = self.name == "reset" and not name
        return OPERATIONS["reset_all" if resets_all else self.operation]

    async def run(self, management: Performing, ctx: RequestContext) -> tuple[str, str]:
        """Run the operation of a form; return the report and the next page.

        :raises NotARequest: a field is wrong
        :raises StoreError: the operation failed
        """
        operation = self._operation(ctx.text("name"))
        arguments = {
            parameter.name: value
            for parameter in operation.parameters
            if parameter.name in _READERS and (value := _READERS[parameter.name](ctx)) is not None
        }
        if self.name == "remove" and arguments["choice"] == MessageChoice():
            raise NotARequest("enter a selector or a number; to remove all messages, purge the queue")
        values = [_path_value(name, ctx) for name in operation.path_names]
        outcome = await management.perform(operation, ctx.actor, *values, **arguments)
        return self._report(outcome, ctx.text("name"), arguments), self._next(ctx)

    def _report(self, outcome: object, name: str, arguments: Mapping[str, Any]) -> str:
        messages = leases = stayed = ""
        if isinstance(outcome, OperationOutcome):
            count = outcome.count
            messages = f"{count:,} {'message was' if count == 1 else 'messages were'}"
            leases = counted(count, "lease")
            stayed = f"; {outcome.left:,} stayed, {self.why}" if outcome.left else ""
            stayed += "; then it was stopped" if outcome.is_stopped else ""
        to = bare(arguments["to"]) if "to" in arguments else ""
        return self.done.format(counted=messages, leases=leases, stayed=stayed, name=name, to=to)

    def _next(self, ctx: RequestContext) -> str:
        if self.name == "delete":
            return url(f"{_kind(ctx)}s")
        before, sent_to = self.page_before(ctx), url(_kind(ctx), name=ctx.text("name"))
        return sent_to if self.name in ("send", "create") and not before.startswith(sent_to) else before

    def page_before(self, ctx: RequestContext) -> str:
        """Return the page that its form was opened from."""
        name = ctx.text("name")
        if ctx.text("group"):
            return ctx.came_from(url("dead-letters"))
        if self.back:
            return ctx.came_from(url(self.back, name=name))
        return ctx.came_from(url(_kind(ctx), name=name) if name else url())

    async def affected(self, management: Performing, ctx: RequestContext) -> Affected | None:
        """Count the affected messages; None if the operation does not affect messages.

        :raises NotARequest: a field is wrong
        :raises StoreError: the selector is invalid, or the store cannot be read
        """
        if "choice" in self.parameters:
            return await management.affected(ctx.destination(), _choice(ctx))
        if self.typed == "name":
            return await management.affected(ctx.destination(kind_of(ctx)), None)
        return None


def kind_of(ctx: RequestContext) -> DestinationKind:
    """Return the kind of the form's destination."""
    return DestinationKind.TOPIC if ctx.text("kind") == "topic" else DestinationKind.QUEUE


def _kind(ctx: RequestContext) -> str:
    return "topic" if kind_of(ctx) is DestinationKind.TOPIC else "queue"


def _path_value(name: str, ctx: RequestContext) -> Destination | int | str:
    if name == "queue":
        return ctx.destination()
    if name == "sequence":
        return sequence_of(ctx.text("message"))
    kind = kind_of(ctx)
    if name == "target":
        return destination_of(ctx.destination(kind).name, kind)
    return ctx.destination(kind) if name == "destination" else ctx.text(name)


def _choice(ctx: RequestContext) -> MessageChoice:
    """Return the selection of messages of a form.

    :raises NotARequest: a field is wrong
    """
    ids: tuple[str, ...] | None = tuple(ctx.form.get("id", ())) or None
    if ids is not None and len(ids) > _MOST_IDS:
        raise NotARequest(f"at most {_MOST_IDS} messages can be selected; use a selector")
    return MessageChoice(
        ids=ids,
        group=ctx.text("group") or None,
        origin=Destination.named(ctx.text("origin").strip()) if ctx.text("origin").strip() else None,
        selector=ctx.text("selector").strip() or None,
        limit=ctx.number("limit", least=1, most=_LONGEST),
    )


def _target(ctx: RequestContext) -> Destination:
    text = ctx.text("to").strip()
    if not text:
        raise NotARequest("enter a destination, such as ORDERS or topic://PRICES")
    return Destination.named(text)


def _priority(ctx: RequestContext) -> int | None:
    return ctx.number("priority", least=0, most=9)


def _claims(ctx: RequestContext, name: str) -> int | None:
    return ctx.number(name, least=1, most=MOST_CLAIMS)


def _keys(ctx: RequestContext) -> str | None:
    keys = ctx.text("keys") or None
    if keys not in (None, "shared", "in order"):
        raise NotARequest('keys must be empty, "shared" or "in order"')
    return keys


def _rate(ctx: RequestContext) -> float | None:
    text = ctx.text("rate").strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise NotARequest("rate must be a number, such as 0.5") from None


def _ttl_ms(ctx: RequestContext, *, least: int) -> int | None:
    ttl = ctx.number("ttl", least=least, most=1 << 32)
    return None if ttl is None else ttl * 1000


def _messages(ctx: RequestContext) -> tuple[Message]:
    fields: dict[str, Any] = {
        "body": ctx.text("body").replace("\r\n", "\n"),
        "properties": _properties(ctx.text("properties")),
        "priority": _priority(ctx),
        "persistent": ctx.text("persistent") != "no",
        "ttl_ms": _ttl_ms(ctx, least=1),
    }
    fields |= {name: ctx.text(name) or None for name in ("correlation_id", "reply_to", "jms_type")}
    return Fields(fields).messages()


def _properties(text: str) -> dict[str, Any]:
    """Parse properties, one per line: ``name=value``, or ``name:type=value``."""
    properties: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        name, _, kind = name.partition(":")
        convert = _VALUES.get(kind.strip() or "string")
        if not equals or not name.strip() or convert is None:
            raise NotARequest("a property must be name=value or name:type=value, with the type "
                              f"{', '.join(_VALUES)}")  # fmt: skip
        try:
            properties[name.strip()] = convert(value if convert is str else value.strip())
        except (ValueError, KeyError):
            raise NotARequest(f"the value of the property {name.strip()} is not of the type {kind}") from None
    return properties


_READERS: Mapping[str, Callable[[RequestContext], Any]] = {
    "choice": _choice,
    "to": _target,
    "priority": _priority,
    "expiration_ms": lambda ctx: expiration_of(_ttl_ms(ctx, least=0)),
    "messages": _messages,
    # An empty key selects messages without a key.
    "key": lambda ctx: ctx.text("key") if "key" in ctx.form else None,
    "keys": _keys,
    "rate": _rate,
    **{name: partial(_claims, name=name) for name in ("claims", "burst", "weight")},
}
"""The fields of a form, by the parameters of operations."""

ACTIONS = {
    action.name: action
    for action in (
        Action(
            "purge",
            "Purge",
            "Remove all messages except unacknowledged ones.",
            "{counted} removed{stayed}.",
            is_final=True,
            typed="name",
        ),
        Action(
            "remove",
            "Remove messages",
            "Remove the selected messages except unacknowledged ones.",
            "{counted} removed{stayed}.",
            is_final=True,
        ),
        Action(
            "move",
            "Move messages",
            "Each message is added to the target and removed from this queue in one transaction.",
            "{counted} moved to {to}{stayed}.",
        ),
        Action(
            "copy",
            "Copy messages",
            "Send copies to another destination. The original messages stay.",
            "{counted} copied to {to}{stayed}.",
        ),
        Action(
            "retry",
            "Retry dead letters",
            "Each message returns to its original destination. Messages without one stay.",
            "{counted} returned to the original destination{stayed}.",
            why="because consumers have them, or their original destination is unknown",
        ),
        Action(
            "change",
            "Change messages",
            "Each message is replaced by a new one with this priority or expiration and a new id, at "
            "the end of the queue.",
            "{counted} replaced by new ones{stayed}.",
        ),
        Action(
            "pause",
            "Pause deliveries",
            "Deliveries stop until you resume them, even after a restart or failover. Producers can "
            "still send, and consumers keep the messages that they have.",
            "Deliveries are paused. Producers can still send.",
        ),
        Action("resume", "Resume deliveries", "Messages are delivered again.", "Deliveries are resumed."),
        Action(
            "delete",
            "Delete",
            "A queue is removed with its messages, a topic with its durable subscriptions. It must "
            "not have consumers.",
            "{name} was deleted; {counted} removed{stayed}.",
            is_final=True,
            typed="name",
        ),
        Action(
            "create",
            "Create",
            "Like every destination, it is removed again after a minute without messages and clients.",
            "{name} was created.",
        ),
        Action(
            "cancel-scheduled",
            "Cancel the message",
            "The message and its repetitions are cancelled.",
            "{counted} cancelled.",
            is_final=True,
            back="scheduled",
        ),
        Action(
            "send-scheduled",
            "Send the message now",
            "It is sent immediately instead of at its scheduled time. Repetitions are counted from now.",
            "{counted} sent now.",
            back="scheduled",
        ),
        Action("send", "Send a message", "", "The message was sent."),
        Action(
            "drop",
            "Drop the connection",
            "Close the client's connection. Its unacknowledged messages are delivered again.",
            "The connection was closed. Its unacknowledged messages are delivered again.",
            back="connections",
        ),
        Action(
            "silence",
            "Silence for 1 h",
            "The problem stays at the end of the list, and comes back if it concerns other destinations.",
            "The problem is silenced for an hour.",
        ),
        Action(
            "unsubscribe",
            "Delete the subscription",
            "Remove the durable subscription and its pending messages. It must not have a consumer.",
            "The durable subscription was deleted.",
            is_final=True,
            typed="subscription",
            back="consumers",
        ),
        Action(
            "reset",
            "Reset the counters",
            "Counters start at 0 again for all users. Metrics and charts are not reset.",
            "The counters were reset.",
        ),
        Action(
            "commit",
            "Commit the transaction",
            "Messages that it adds become visible, and messages that it acknowledges are removed. "
            "Its transaction manager may have decided differently on other branches.",
            "The transaction was committed.",
            is_final=True,
            back="transactions",
        ),
        Action(
            "roll-back",
            "Roll the transaction back",
            "Messages that it adds are discarded, and messages that it acknowledges are delivered "
            "again. Its transaction manager may have decided differently on other branches.",
            "The transaction was rolled back.",
            is_final=True,
            back="transactions",
        ),
        Action(
            "stop-operation",
            "Stop the operation",
            "Finished work is kept. The other messages stay where they are.",
            "The operation stops after its current messages.",
            back="operations",
        ),
        Action(
            "checkpoint",
            "Checkpoint now",
            "Write the journal's contents to the database.",
            "The journal's contents are in the database.",
            back="broker",
        ),
        Action(
            "hand-over",
            "Hand over",
            "All connections are closed and the lock is released, so that another broker becomes the "
            "master. If no slave waits for the lock, there is no service for 15 seconds plus the "
            "time to open the store; then this broker serves again.",
            "Mastership is being handed over.",
            back="broker",
        ),
        Action(
            "pause-claims",
            "Pause claims",
            "No messages are claimed until you resume. Producers continue, and claimed messages stay"
            " claimed.",
            "Claims are paused; producers continue.",
            back="claims",
        ),
        Action(
            "resume-claims",
            "Resume claims",
            "Messages are claimed again, within the limits.",
            "Messages are claimed again.",
            back="claims",
        ),
        Action(
            "limit-claims",
            "Set the limits",
            "An empty field means no limit. Claims above a new limit stay, and no more are made until there"
            " is room.",
            "The limits are set.",
            back="claims",
        ),
        Action(
            "share-claims",
            "Set the use of keys",
            "With keys, every key that has messages gets a fair share. The limits apply to keys without"
            " their own; an empty field means no limit.",
            "The use of keys is set.",
            back="claims",
        ),
        Action(
            "release-worker",
            "Release the claims of a worker",
            "Its lease ends, so other workers can claim its messages immediately. If it is still "
            "working, they are processed twice, so release only a worker that hangs.",
            "{leases} ended; other workers can claim the messages.",
            back="claims",
        ),
        Action(
            "release-message",
            "Release the message",
            "Any worker can claim it immediately, even before its delay ends. If a worker is still "
            "processing it, it is processed twice.",
            "The message can be claimed again.",
            back="claims",
        ),
        Action(
            "purge-free",
            "Purge",
            "All unclaimed messages are removed, including delayed ones.",
            "{counted} removed.",
            is_final=True,
            typed="name",
            back="claims",
        ),
    )
}
"""Actions by their names in addresses."""
