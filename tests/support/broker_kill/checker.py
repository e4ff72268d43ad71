"""What must not be in a history, whatever was killed when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.support.broker_kill.history import ALONE, SCOPES, Delivery, History, Transaction, scopes_of


def check(history: History, present: Mapping[str, Iterable[str]]) -> list[str]:
    """What is wrong. ``present`` are the messages that were left, by scope, when all was consumed."""
    left = {scope: set(present.get(scope, ())) for scope in SCOPES}
    seen: dict[str, set[str]] = defaultdict(set, {scope: set(names) for scope, names in left.items()})
    for delivery in history.deliveries:
        seen[delivery.scope].add(delivery.name)
    by_name = _by_name(history.deliveries)
    found = [*history.problems]
    for scope in SCOPES:
        found += _each(
            history.confirmed[scope] - history.acking[scope] - left[scope],
            f"was confirmed and is lost: {scope}",
        )
        found += _each(left[scope], f"is left in {scope} though all was consumed")
        found += _each(seen[scope] - history.tried[scope], f"was never sent, or given up, and is in {scope}")
    for (scope, name), deliveries in by_name.items():
        found += _repeated(history, scope, name, deliveries)
    found += _unordered(history)
    for transaction in history.transactions:
        found += _halved(transaction, seen)
    found += _half_moved(history, by_name, seen, left)
    return found


def _each(names: Iterable[str], what: str) -> list[str]:
    return [f"{name} {what}" for name in sorted(names)]


def _by_name(deliveries: Iterable[Delivery]) -> dict[tuple[str, str], list[Delivery]]:
    """Of each message in each scope, in the order of time."""
    result: dict[tuple[str, str], list[Delivery]] = defaultdict(list)
    for delivery in sorted(deliveries):
        result[delivery.scope, delivery.name].append(delivery)
    return result


def _repeated(history: History, scope: str, name: str, deliveries: list[Delivery]) -> Iterator[str]:
    """Nobody gets what was acknowledged, and what comes again says so."""
    for again in deliveries[1:]:
        if not again.redelivered:
            yield f"{name} came again from {scope}, not marked as redelivered: {again.when}"
    if len({delivery.message_id for delivery in deliveries}) > 1:
        yield f"{name} is in {scope} under several ids"
    acked = history.acked[scope].get(name)
    if acked is not None and deliveries[-1].when > acked:
        yield f"{name} of {scope} was acknowledged at {acked}, and came at {deliveries[-1].when}"


def _unordered(history: History) -> Iterator[str]:
    """Each producer's messages come in its order."""
    latest: dict[tuple[object, ...], int] = {}
    for delivery in sorted(history.deliveries):
        producer, number = delivery.name.rsplit(".", 1)
        scope = delivery.scope
        # What comes again goes back into its place, behind what others have got meanwhile.
        undisturbed = scope in ALONE or (scope, delivery.when.incarnation) not in history.left
        streams: list[tuple[object, ...]] = [(delivery.connection, scope, producer)] if undisturbed else []
        if not delivery.redelivered:
            streams.append(("new", delivery.connection, scope, producer))
            if scope in ALONE:
                streams.append(("new", scope, producer))
        for stream in streams:
            if latest.get(stream, -1) >= int(number):
                yield f"{delivery.name} came from {scope} behind {producer}.{latest[stream]}: {stream}"
            latest[stream] = max(latest.get(stream, -1), int(number))


def _halved(transaction: Transaction, seen: Mapping[str, set[str]]) -> Iterator[str]:
    sends = [(scope, name) for destination, name in transaction.sends for scope in scopes_of(destination)]
    there = [name for scope, name in sends if name in seen[scope]]
    if transaction.end in ("open", "aborting") and there:
        yield f"{transaction.name} was not committed, and {there} came"
    elif transaction.end in ("committing", "committed") and 0 < len(there) < len(sends):
        yield f"of {transaction.name} only {there} came"
    elif transaction.end == "committed" and not there:
        yield f"{transaction.name} was committed, and nothing of it came"


def _half_moved(
    history: History,
    by_name: Mapping[tuple[str, str], list[Delivery]],
    seen: Mapping[str, set[str]],
    left: Mapping[str, set[str]],
) -> Iterator[str]:
    """What is taken from WORK is put into OUT in the same transaction."""
    for name in sorted(seen["WORK"] | history.confirmed["WORK"]):
        taken, put = by_name.get(("WORK", name), []), by_name.get(("OUT", name), [])
        if name not in left["WORK"] and name not in seen["OUT"]:
            yield f"{name} is neither in WORK nor in OUT"
        if taken and put and taken[-1].when > put[0].when:
            yield f"{name} was in OUT at {put[0].when}, and in WORK at {taken[-1].when}"
    for name in sorted(seen["OUT"] - seen["WORK"]):
        yield f"{name} is in OUT, and was never in WORK"
