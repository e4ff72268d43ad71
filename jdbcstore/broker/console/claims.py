"""The page of queues that processes share without a broker, and what can be done to them there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from jdbcstore.broker.console.confirmations import Affected
from jdbcstore.broker.console.rendering import url
from jdbcstore.broker.console.visits import Visit
from jdbcstore.broker.management.audit import audited
from jdbcstore.broker.management.texts import counted
from jdbcstore.broker.operations import NotARequest
from jdbcstore.errors import ConfigurationError, DestinationNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.util.clock import Clock
from jdbcstore.util.shared_queues import HeldMessage, SharedNumbers

_MOST = (1 << 63) - 1
_MOST_HELD = 100
"""Messages of a queue that are claimed or delayed, on its page."""


class SharedQueues(Protocol):
    """The queues that processes share; its methods are called in threads."""

    @property
    def may_change(self) -> bool:
        """Whether anything can be done to them here."""

    def numbers(self, keyed: str | None) -> SharedNumbers:
        """Return what is seen of them, for one queue also its keys."""

    def held(self, queue: Destination, limit: int) -> Sequence[HeldMessage]:
        """Return the first messages of a queue that are claimed or delayed."""

    def pause(self, queue: Destination, key: str | None) -> None:
        """Let nobody claim messages of a queue, or of one key of it."""

    def resume(self, queue: Destination, key: str | None) -> None:
        """Undo that."""

    def limit(
        self,
        queue: Destination,
        key: str | None,
        *,
        claims: int | None,
        rate: float | None,
        burst: int | None,
        weight: int,
    ) -> None:
        """Set all limits of a queue; or of one key of it, with its weight. None is without limit."""

    def share(
        self,
        queue: Destination,
        keys: str | None,
        *,
        claims: int | None,
        rate: float | None,
        burst: int | None,
    ) -> None:
        """Set the use that a queue makes of keys, and the limits of each key without its own."""

    def release_worker(self, worker: str) -> int:
        """End the leases of the processes of a name; return their number."""

    def release_message(self, queue: Destination, sequence: int) -> None:
        """Free a message that is claimed or delayed."""

    def purge(self, queue: Destination) -> int:
        """Remove the messages of a queue that nobody has claimed; return their number."""


@dataclass(frozen=True, slots=True)
class ClaimAction:
    """An operation on shared queues as a form; see :class:`jdbcstore.broker.console.actions.Action`."""

    name: str
    title: str
    text: str
    done: Callable[[Any], str]
    """The report of a result."""
    act: Callable[[SharedQueues, Visit], Any]
    is_final: bool = False
    parameters: frozenset[str] = frozenset()
    """The names of what it asks for."""
    typed: str = ""
    is_long: bool = field(default=False, init=False)

    async def run(self, shared: SharedQueues, clock: Clock, visit: Visit) -> tuple[str, str]:
        """Do what a form says; return what was done, and the page to go to.

        :raises NotARequest: a field is wrong
        :raises StoreError: it has failed
        """
        names = ("worker", "message", *sorted(self.parameters))
        given = {name: visit.text(name) or None for name in names} | {"key": _key(visit)}
        queue = str(visit.destination()) if visit.text("name") else None
        with audited(clock, visit.actor, self.name, destination=queue, **given) as line:
            result = await asyncio.to_thread(self.act, shared, visit)
            if isinstance(result, int):
                line["count"] = result
        return self.done(result), self.page_before(visit)

    async def affected(self, shared: SharedQueues, visit: Visit) -> Affected | None:
        """Count what it would remove now; None if it removes nothing.

        :raises NotARequest: a field is wrong
        :raises StoreError: the database cannot be read
        """
        if not self.is_final:
            return None
        queue = visit.destination().name
        numbers = await asyncio.to_thread(shared.numbers, None)
        one = next((found for found in numbers.queues if found.queue == queue), None)
        return None if one is None else Affected(one.free + one.delayed)

    def page_before(self, visit: Visit) -> str:
        """Return the page that its form was opened from."""
        return visit.came_from(url("claims", name=visit.text("name")))


def _key(visit: Visit) -> str | None:
    """Return the key that a form is about, which may be empty; None for the queue."""
    return visit.text("key") if "key" in visit.form else None


def _release_message(shared: SharedQueues, visit: Visit) -> None:
    sequence = visit.number("message", least=0, most=(1 << 63) - 1)
    if sequence is None:
        raise NotARequest("the form has no message; go back, and choose one")
    shared.release_message(visit.destination(), sequence)


def _limit(shared: SharedQueues, visit: Visit) -> None:
    limits = {name: visit.number(name, least=1, most=_MOST) for name in ("claims", "burst")}
    weight = visit.number("weight", least=1, most=_MOST) or 1
    try:
        shared.limit(visit.destination(), _key(visit), rate=_decimal(visit, "rate"), weight=weight, **limits)
    except ConfigurationError as error:
        raise NotARequest(str(error)) from error


def _share(shared: SharedQueues, visit: Visit) -> None:
    keys = visit.text("keys") or None
    if keys not in (None, "shared", "in order"):
        raise NotARequest('keys must be empty, "shared" or "in order"')
    limits = {name: visit.number(name, least=1, most=_MOST) for name in ("claims", "burst")}
    rate = _decimal(visit, "rate")
    if keys is None and (rate is not None or any(limits.values())):
        raise NotARequest("keys that are ignored have no limits: leave them empty, or share by keys")
    try:
        shared.share(visit.destination(), keys, rate=rate, **limits)
    except ConfigurationError as error:
        raise NotARequest(str(error)) from error


def _decimal(visit: Visit, name: str) -> float | None:
    text = visit.text(name).strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise NotARequest(f"{name} must be a number, such as 0.5") from None


CLAIM_ACTIONS = {
    action.name: action
    for action in (
        ClaimAction(
            "pause-claims",
            "Pause claims",
            "Nobody claims messages until you resume. Producers go on, and what is claimed stays claimed.",
            lambda _: "Claims are paused; producers go on.",
            lambda shared, visit: shared.pause(visit.destination(), _key(visit)),
        ),
        ClaimAction(
            "resume-claims",
            "Resume claims",
            "Messages are claimed again, within the limits.",
            lambda _: "Messages are claimed again.",
            lambda shared, visit: shared.resume(visit.destination(), _key(visit)),
        ),
        ClaimAction(
            "limit-claims",
            "Set the limits",
            "What is left empty is without limit. If more is claimed already, that stays so, and nothing is"
            " claimed until there is room.",
            lambda _: "The limits are set.",
            _limit,
            parameters=frozenset({"claims", "rate", "burst", "weight"}),
        ),
        ClaimAction(
            "share-claims",
            "Set the use of keys",
            "By keys, each that has messages gets its share. The limits are those of a key that has none of"
            " its own; what is left empty is without limit.",
            lambda _: "The use of keys is set.",
            _share,
            parameters=frozenset({"keys", "claims", "rate", "burst"}),
        ),
        ClaimAction(
            "release-worker",
            "Release the claims of a worker",
            "Its lease ends, and others can claim at once what it has. If it works on, its messages are"
            " processed twice: do this to a process that hangs.",
            lambda count: f"{counted(count, 'lease')} ended; others can claim what it had.",
            lambda shared, visit: shared.release_worker(visit.text("worker")),
        ),
        ClaimAction(
            "release-message",
            "Release the message",
            "Others can claim it at once, whatever its delay. If a worker has it and works on, it is"
            " processed twice.",
            lambda _: "The message is free.",
            _release_message,
        ),
        ClaimAction(
            "purge-free",
            "Purge",
            "All messages that nobody has claimed are removed, delayed ones, too.",
            lambda count: f"{counted(count, 'message')} {'was' if count == 1 else 'were'} removed.",
            lambda shared, visit: shared.purge(visit.destination()),
            is_final=True,
            typed="name",
        ),
    )
}
"""By the name in the address."""


async def claims_context(shared: SharedQueues, visit: Visit) -> dict[str, Any]:
    """Return what the page shows: all queues, or the one that the address names.

    :raises DestinationNotFound: it has neither messages nor settings
    """
    numbers = await asyncio.to_thread(shared.numbers, visit.text("name") or None)
    may_act = visit.may_manage and shared.may_change
    context: dict[str, Any] = {"numbers": numbers, "one": None, "held": (), "may_act": may_act}
    if not visit.text("name"):
        return context
    queue = visit.destination()
    one = next((found for found in numbers.queues if found.queue == queue.name), None)
    if one is None:
        raise DestinationNotFound(f"{queue} has neither messages nor claims; see all queues")
    held = await asyncio.to_thread(partial(shared.held, queue, _MOST_HELD))
    return context | {"one": one, "held": held}
