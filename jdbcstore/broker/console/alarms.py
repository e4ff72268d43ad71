"""Alarms: what an operator should look at first."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from jdbcstore.broker.console.history import History
from jdbcstore.broker.management.views import BrokerView, DestinationView, LockView
from jdbcstore.message.destination import Destination

BAD, WARNING = "bad", "warning"
_FULL = 0.8
_FREE = 0.1
_TEN_MINUTES = 60
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that is wrong."""

    level: str
    text: str
    """In words of ours."""
    names: tuple[str, ...] = ()
    """The destinations that it is about, the first ones."""
    more: int = 0
    """How many others there are."""


def alarms(
    broker: BrokerView,
    lock: LockView,
    views: Sequence[DestinationView],
    dead: Iterable[Destination],
    history: History,
    folders: Iterable[Path],
) -> Iterator[Alarm]:
    """All that is wrong now, the worst first."""
    if lock.lost is not None:
        yield Alarm(BAD, f"The lock is lost: {lock.lost}")
    if broker.obstacle is not None:
        yield Alarm(BAD, f"The broker does not serve: {broker.obstacle}")
        return
    yield from _of_space(broker, folders)
    dead = {*dead}
    growing = [str(name) for name in dead if history.has(name) and _growth(history, name) > 0]
    yield from _about("Dead letters have arrived within ten minutes in", growing)
    yield from _about("Deliveries are paused of", [view.name for view in views if view.is_paused])
    names = {str(name) for name in dead}
    alone = [view for view in views if view.size and not (view.consumers or view.is_paused)]
    alone.sort(key=lambda view: -(view.size or 0))
    waiting = [view.name for view in alone if view.name not in names]
    yield from _about("Messages wait and there is no consumer of", waiting)


def _growth(history: History, name: Destination) -> float:
    known = [one for one in history.sizes(name)[-_TEN_MINUTES:] if not isnan(one)]
    return known[-1] - known[0] if known else 0.0


def _of_space(broker: BrokerView, folders: Iterable[Path]) -> Iterator[Alarm]:
    for folder in folders:
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        if usage.free < _FREE * usage.total:
            yield Alarm(BAD, f"The disk of {folder} has only {100 * usage.free // usage.total} % free")
    for used, limit, what in (
        (broker.memory_used, broker.memory_limit, "memory_limit"),
        (broker.temp_used, broker.temp_limit, "temp_limit"),
    ):
        if limit and used > _FULL * limit:
            yield Alarm(
                WARNING, f"{100 * used // limit} % of {what} are used: producers have to wait when it is full"
            )


def _about(text: str, names: Sequence[str]) -> Iterator[Alarm]:
    if names:
        yield Alarm(WARNING, text, tuple(names[:_NAMED]), max(len(names) - _NAMED, 0))
