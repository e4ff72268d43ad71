"""Whether what the processes said and what the database recorded agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tests.support.failover.history import History
from tests.support.failover.recorder import Change, Lease, Recording


def check(history: History, recording: Recording, allowed: float) -> list[str]:
    """What must not be. ``allowed`` is how far the clocks that judge a lease may differ, in seconds."""
    written = [change.name for change in recording.stored]
    known = {*written}
    acknowledged = {*history.claims}
    added, acked, refused = (history.names[verb] for verb in ("added", "acked", "refused"))
    return [
        *_late(recording.stored),
        *_late_removals(recording.removed, history),
        *_overlapping([*recording.stored, *recording.removed]),
        *_stolen(recording.leases, allowed),
        *_each(added - recording.present - acknowledged, "was accepted and is lost"),
        *_each(acked & recording.present, "was acknowledged and is back"),
        *_each(added - known, "was accepted and never written"),
        *_each(refused & known, "was refused and is written"),
        *_each((name for name, count in Counter(written).items() if count > 1), "was written twice"),
    ]


def _each(names: Iterable[str], what: str) -> list[str]:
    return [f"{name} {what}" for name in sorted(names)]


def epoch_of(producer: str) -> int:
    """The epoch in which its process sent it; see the member."""
    return int(producer.removesuffix(":1:1").rpartition("-")[2])


def _late(stored: list[Change]) -> Iterator[str]:
    for change in stored:
        if epoch_of(change.producer) != change.epoch:
            yield f"{change.name} was written in epoch {change.epoch}"


def _late_removals(removed: list[Change], history: History) -> Iterator[str]:
    for change in removed:
        if change.epoch not in history.claims.get(change.name, ()):
            yield f"{change.name} was removed in epoch {change.epoch}, in which nobody acknowledged it"


def _overlapping(changes: list[Change]) -> Iterator[str]:
    """One master at a time: by the database's clock, an epoch ends before the next one writes."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for change in changes:
        first[change.epoch] = min(change.at, first.get(change.epoch, change.at))
        last[change.epoch] = max(change.at, last.get(change.epoch, change.at))
    epochs = sorted(first)
    for before, after in pairwise(epochs):
        if last[before] > first[after]:
            yield f"epoch {before} wrote until {last[before]}, and {after} since {first[after]}"


def _stolen(leases: list[Lease], allowed: float) -> Iterator[str]:
    """Nobody takes a lease that is running."""
    holder, expires = None, 0
    for lease in leases:
        taken = holder is not None and lease.holder not in (holder, None)
        if taken and lease.at + allowed < expires / 1000:
            yield f"{lease.holder} took the lease of {holder} at {lease.at}, which ran until {expires}"
        holder, expires = lease.holder, lease.expires
