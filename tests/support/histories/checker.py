"""The one checker of histories: what was promised, in the face of every fault.

Rules have names, so that a test, a report and a shrinking search can tell violations apart:

================  =====================================================================================
``lost``          a confirmed message was not acknowledged and is nowhere
``resurrected``   a message came, or is left, after its acknowledgement was confirmed
``phantom``       a message came that was never sent, or whose sending certainly failed
``unmarked``      a message came again without the mark of a redelivery
``count``         a redelivery carries a lower count than rejections of the message were confirmed
``renamed``       a message came under two ids
``twice``         two clients have confirmed acknowledgements of one message of an exclusive scope
``order``         a first delivery is behind a later one of the same producer
``epoch``         an epoch began twice
``fenced``        a master's write was confirmed, or took effect, though a later epoch had begun before
``torn``          of a transaction, some has taken effect and some has not
``early``         a scheduled message came before its time
``repeated``      the database stored a message twice
``limit``         more was claimed at the same time than a limit allowed, or from a paused queue
``key``           more of a key was claimed at the same time than its limit, or not the first of it
``rate``          more was claimed in some time than a rate and its burst allowed
``stuck``         service was not back in time after a fault
``problem``       a client reported something wrong by itself
================  =====================================================================================
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from tests.support.histories.events import (
    Change,
    Delivery,
    Event,
    Fault,
    Held,
    Leave,
    Left,
    Master,
    Outcome,
    Problem,
    Return,
    Subscribe,
    Write,
)

Key = tuple[str, str]
"""Scope and name."""
_OK, _FAILED = Outcome.OK, Outcome.FAILED


@dataclass(frozen=True)
class Rules:
    """What holds in a history, apart from what holds in all."""

    alone: Collection[str] = ()
    """Scopes of one consumer at a time: first deliveries are in the producers' order across consumers."""
    unordered: Collection[str] = ()
    """Scopes without an order, such as queues with priorities or delays."""
    exclusive: Collection[str] = ()
    """Scopes in which a message is acknowledged by one client only, whatever its outcome: claims."""
    is_drained: bool = False
    """Nothing may be left in any scope, because all was consumed."""
    is_complete: bool = True
    """:class:`Left` says everything that is left; without, nothing can be missed."""
    back_within: float | None = None
    """The seconds after a fault within which an operation succeeds."""
    clock_error: float = 0.0
    """The seconds by which times of different clients may differ."""


class Violation(NamedTuple):
    """A broken rule."""

    rule: str
    text: str


def check(history: Iterable[Event], rules: Rules | None = None) -> list[Violation]:
    """Return what is wrong with a history; events may come in any order, and are judged by their times."""
    return _Checker(history, rules or Rules()).run()


class _Checker:
    def __init__(self, history: Iterable[Event], rules: Rules) -> None:
        self.rules = rules
        self.writes: list[Write] = []
        self.deliveries: list[Delivery] = []
        self.returns: list[Return] = []
        self.held: list[Held] = []
        self.leaves: list[Leave] = []
        self.masters: list[Master] = []
        self.changes: list[Change] = []
        self.subscriptions: list[Subscribe] = []
        self.faults: list[Fault] = []
        self.left: list[Left] = []
        self.problems: list[Problem] = []
        rooms: dict[type, list[Any]] = {
            Write: self.writes,
            Delivery: self.deliveries,
            Return: self.returns,
            Held: self.held,
            Leave: self.leaves,
            Master: self.masters,
            Change: self.changes,
            Subscribe: self.subscriptions,
            Fault: self.faults,
            Left: self.left,
            Problem: self.problems,
        }
        for event in history:
            rooms[type(event)].append(event)
        self.writes.sort(key=lambda write: write.ended)
        self.deliveries.sort(key=lambda delivery: delivery.at)
        self.held.sort(key=lambda held: held.at)
        self.masters.sort(key=lambda master: master.at)
        self.scopes_of: dict[str, list[Subscribe]] = defaultdict(list)
        for subscription in self.subscriptions:
            self.scopes_of[subscription.topic].append(subscription)
        self.sent: dict[Key, tuple[Write, bool]] = {}
        """The best attempt at each send, and whether its scope certainly has it."""
        self.acked: dict[Key, Write] = {}
        """The first confirmed acknowledgement."""
        self.acking: set[Key] = set()
        """Those whose acknowledgement may have taken effect."""
        self.attempts: Counter[Key] = Counter()
        """How many writes may have acknowledged a message."""
        self.gone: set[Key] = set()
        """Those that are dead letters: by the scope that they were sent to."""
        self.here: set[Key] = set()
        self.came: dict[Key, list[Delivery]] = defaultdict(list)

    def run(self) -> list[Violation]:
        for write in self.writes:
            self._note(write)
        for left in self.left:
            (self.gone if left.dead_for else self.here).add((left.dead_for or left.scope, left.name))
        for delivery in self.deliveries:
            self.came[delivery.scope, delivery.name].append(delivery)
        return [*chain(*(rule(self) for rule in _RULES))]

    def places(self, write: Write) -> Iterator[tuple[Key, bool]]:
        """Yield where the sends of a write go to, and whether they certainly do, if it takes effect."""
        for scope, name in write.sends:
            if scope not in self.scopes_of:
                yield (scope, name), True
                continue
            for subscription in self.scopes_of[scope]:
                if subscription.at <= write.ended:
                    yield (subscription.scope, name), subscription.at <= write.begun

    def _note(self, write: Write) -> None:
        for key, certain in self.places(write):
            before = self.sent.get(key)
            if before is None or _RANK[before[0].outcome] < _RANK[write.outcome]:
                self.sent[key] = write, certain
        if write.outcome is not _FAILED:
            self.acking.update(write.acks)
            for key in write.acks:
                self.attempts[key] += 1
        if write.outcome is _OK:
            for key in write.acks:
                self.acked.setdefault(key, write)

    def has_seen(self, key: Key) -> bool:
        """Return whether the message certainly was in its scope."""
        return key in self.came or key in self.here or key in self.gone

    def lost(self) -> Iterator[Violation]:
        if not self.rules.is_complete:
            return
        for key, (write, certain) in self.sent.items():
            if write.outcome is not _OK or not certain or key in self.acking:
                continue
            if key not in self.here and key not in self.gone:
                yield Violation("lost", f"{_text(key)} was confirmed at {write.ended:.3f} and is nowhere")
        for key in self.came:
            if key not in self.acking and key not in self.here and key not in self.gone:
                sent = self.sent.get(key)
                if sent is not None and sent[0].outcome is Outcome.UNKNOWN:
                    yield Violation("lost", f"{_text(key)} came, was not acknowledged and is nowhere")

    def resurrected(self) -> Iterator[Violation]:
        slack = self.rules.clock_error
        for key, write in self.acked.items():
            if key in self.here or key in self.gone:
                yield Violation("resurrected", f"{_text(key)} was acknowledged at {write.ended:.3f}, is left")
            for delivery in self.came.get(key, ()):
                if delivery.at > write.ended + slack:
                    text = f"{_text(key)} was acknowledged at {write.ended:.3f}, came at {delivery.at:.3f}"
                    yield Violation("resurrected", text)
        if self.rules.is_drained:
            for key in sorted(self.here):
                yield Violation("lost", f"{_text(key)} is left, and nobody gets it")

    def phantom(self) -> Iterator[Violation]:
        for key in {*self.came, *self.here, *self.gone}:
            sent = self.sent.get(key)
            if sent is None:
                yield Violation("phantom", f"{_text(key)} is there, and was never sent")
            elif sent[0].outcome is _FAILED:
                yield Violation("phantom", f"{_text(key)} is there, and its sending failed")

    def marks(self) -> Iterator[Violation]:
        returned: dict[Key, list[float]] = defaultdict(list)
        for back in self.returns:
            if back.outcome is _OK:
                returned[back.scope, back.name].append(back.at)
        for key, deliveries in self.came.items():
            rejections = returned.get(key, ())
            for number, delivery in enumerate(deliveries):
                if number and not delivery.redelivered:
                    text = f"{_text(key)} came again at {delivery.at:.3f} to {delivery.client}, not marked"
                    yield Violation("unmarked", text)
                if delivery.failures is not None:
                    least = sum(at <= delivery.at - self.rules.clock_error for at in rejections)
                    if delivery.failures < least:
                        text = f"{_text(key)} came at {delivery.at:.3f} with {delivery.failures}, not {least}"
                        yield Violation("count", text)
            if len({delivery.message_id for delivery in deliveries}) > 1:
                yield Violation("renamed", f"{_text(key)} came under several ids")

    def twice(self) -> Iterator[Violation]:
        by: dict[Key, Write] = {}
        for write in self.writes:
            if write.outcome is not _OK:
                continue
            for key in write.acks:
                if key[0] not in self.rules.exclusive:
                    continue
                if key in by:
                    text = f"{_text(key)} was acknowledged by {by[key].client} and by {write.client}"
                    yield Violation("twice", text)
                by[key] = write

    def order(self) -> Iterator[Violation]:
        latest: dict[tuple[str, ...], int] = {}
        for delivery in self.deliveries:
            producer, _, number = delivery.name.rpartition(".")
            if delivery.redelivered or not number.isdigit() or delivery.scope in self.rules.unordered:
                continue
            streams: list[tuple[str, ...]] = [(delivery.scope, delivery.client, producer)]
            if delivery.scope in self.rules.alone:
                streams.append((delivery.scope, producer))
            for stream in streams:
                if latest.get(stream, -1) > int(number):
                    text = f"{delivery.name} came from {delivery.scope} behind {producer}.{latest[stream]}"
                    yield Violation("order", f"{text} at {delivery.at:.3f}")
                    break
                latest[stream] = int(number)

    def epochs(self) -> Iterator[Violation]:
        # A paused process may notice late that it was the master, when the next one is.
        seen: dict[int, Master] = {}
        for master in self.masters:
            before = seen.setdefault(master.epoch, master)
            if before is not master:
                text = f"epoch {master.epoch} began for {before.client} and for {master.client}"
                yield Violation("epoch", f"{text} at {master.at:.3f}")

    def fenced(self) -> Iterator[Violation]:
        slack = self.rules.clock_error
        begun = [(master.epoch, master.at) for master in self.masters]
        for write in self.writes:
            if not write.epoch or write.outcome is not _OK or not (write.sends or write.acks):
                continue
            for epoch, at in begun:
                if epoch > write.epoch and at + slack < write.begun:
                    text = f"{write.client} wrote in epoch {write.epoch} at {write.begun:.3f}"
                    yield Violation("fenced", f"{text}; {epoch} had begun at {at:.3f}: {_content(write)}")
                    break
        for change in self.changes:
            for epoch, at in begun:
                if epoch > change.epoch and at + slack < change.at:
                    text = f"{change.name} of {change.scope} changed in epoch {change.epoch}"
                    yield Violation("fenced", f"{text} at {change.at:.3f}; {epoch} began at {at:.3f}")
                    break

    def torn(self) -> Iterator[Violation]:
        for write in self.writes:
            if write.outcome is _FAILED or len(write.sends) + len(write.acks) < 2:
                continue
            # A message that was acknowledged since has been there; one that came later has not been removed.
            sends = {key: self.has_seen(key) for key, certain in self.places(write) if certain}
            there = [key for key, seen in sends.items() if seen]
            kept = [key for key in write.acks if self._came_after(key, write.ended)]
            absent = [key for key, seen in sends.items() if not seen and key not in self.acking]
            if write.outcome is Outcome.UNKNOWN:
                if there and (absent and self.rules.is_complete):
                    yield Violation("torn", f"of {_content(write)} only {_texts(there)} took effect")
                if there and kept:
                    yield Violation("torn", f"{_texts(there)} was sent, and {_texts(kept)} is still there")
                gone = [key for key in write.acks if self.attempts[key] == 1 and key not in kept]
                gone = [key for key in gone if self._is_certain(key)]
                if gone and absent and self.rules.is_complete:
                    yield Violation("torn", f"{_texts(gone)} is gone, and {_texts(absent)} was not sent")
            elif kept:
                yield Violation("torn", f"{_texts(kept)} is still there after {_content(write)}")

    def _is_certain(self, key: Key) -> bool:
        """Return whether the message was certainly there once."""
        return key in self.came or (key in self.sent and self.sent[key][0].outcome is _OK)

    def _came_after(self, key: Key, at: float) -> bool:
        if key in self.here or key in self.gone:
            return True
        return any(delivery.at > at + self.rules.clock_error for delivery in self.came.get(key, ()))

    def early(self) -> Iterator[Violation]:
        for key, deliveries in self.came.items():
            sent = self.sent.get(key)
            if sent is not None and deliveries[0].at + self.rules.clock_error < sent[0].due:
                text = f"{_text(key)} came at {deliveries[0].at:.3f}, due at {sent[0].due:.3f}"
                yield Violation("early", text)

    def repeated(self) -> Iterator[Violation]:
        stored: set[Key] = set()
        for change in self.changes:
            key = change.scope, change.name
            if not change.is_removed:
                if key in stored:
                    yield Violation("repeated", f"{_text(key)} was stored again at {change.at:.3f}")
                stored.add(key)

    def limits(self) -> Iterator[Violation]:
        for held in self.held:
            text = f"{held.client} claimed {', '.join(held.names)} of {held.scope} at {held.at:.3f}"
            if held.is_paused:
                yield Violation("limit", f"{text}, which was paused")
            elif held.most is not None and held.held > held.most:
                yield Violation("limit", f"{text}: {held.held} are claimed, {held.most} allowed")

    def keys(self) -> Iterator[Violation]:
        for held in self.held:
            text = f"{held.client} claimed {', '.join(held.names)} of {held.scope} at {held.at:.3f}"
            most = 1 if held.in_order else held.most_of_key
            counts = Counter(key for key, _, _ in held.keys)
            for key, name, place in held.keys:
                if name not in held.names:
                    continue
                if most is not None and counts[key] > most:
                    yield Violation("key", f"{text}: {counts[key]} of {key} are claimed, {most} allowed")
                elif held.in_order and place:
                    yield Violation("key", f"{text}: {name} is not the first of {key}")

    def rates(self) -> Iterator[Violation]:
        earlier: dict[str, list[Held]] = defaultdict(list)
        for held in self.held:
            since = earlier[held.scope]
            # A rate that was changed begins with another burst.
            if since and (since[-1].rate, since[-1].burst) != (held.rate, held.burst):
                since.clear()
            since.append(held)
            if held.rate is None:
                continue
            total = 0
            for one in reversed(since):
                total += len(one.names)
                if total > held.burst + held.rate * (held.at - one.at) + _ROUNDED:
                    text = f"{total} claims of {held.scope} from {one.at:.3f} to {held.at:.3f}"
                    yield Violation("rate", f"{text} at a rate of {held.rate:g} and a burst of {held.burst}")
                    break

    def stuck(self) -> Iterator[Violation]:
        within = self.rules.back_within
        if within is None:
            return
        done = [write.ended for write in self.writes if write.outcome is _OK]
        done += [delivery.at for delivery in self.deliveries]
        for fault in self.faults:
            if not any(fault.ended <= at <= fault.ended + within for at in done):
                text = f"nothing succeeded for {within:g} s after {fault.kind} ended at {fault.ended:.3f}"
                yield Violation("stuck", text)

    def problem(self) -> Iterator[Violation]:
        for problem in self.problems:
            yield Violation("problem", problem.text)


_ROUNDED = 1e-6
_RANK = {Outcome.FAILED: 0, Outcome.UNKNOWN: 1, Outcome.OK: 2}
_RULES = (
    _Checker.lost,
    _Checker.resurrected,
    _Checker.phantom,
    _Checker.marks,
    _Checker.twice,
    _Checker.order,
    _Checker.epochs,
    _Checker.fenced,
    _Checker.torn,
    _Checker.early,
    _Checker.repeated,
    _Checker.limits,
    _Checker.keys,
    _Checker.rates,
    _Checker.stuck,
    _Checker.problem,
)


def _text(key: Key) -> str:
    return f"{key[1]} of {key[0]}"


def _texts(keys: Iterable[Key]) -> str:
    return ", ".join(map(_text, keys))


def _content(write: Write) -> str:
    sends = [f"send {_text(key)}" for key in write.sends]
    return ", ".join([*sends, *(f"acknowledge {_text(key)}" for key in write.acks)])
