"""Alarms: what an operator should look at first."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jdbcstore.broker.console.history import DEAD, ENQUEUED, CounterHistory
from jdbcstore.broker.management.views import BrokerView, DestinationView, MastershipView, TransactionView
from jdbcstore.message.destination import Destination
from jdbcstore.util.checkup import BAD, WARNING, Checkup

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
    """The number of others."""
    after: str = ""
    """The sentence about the destinations, after their names."""
    page: str | None = None
    """The page that shows more."""


def alarms(
    broker: BrokerView,
    lock: MastershipView,
    views: Sequence[DestinationView],
    dead: Iterable[Destination],
    history: CounterHistory,
    folders: Iterable[Path],
    in_doubt: Sequence[TransactionView] = (),
    checkup: Checkup | None = None,
) -> Iterator[Alarm]:
    """Yield all that is wrong now, the worst first.

    :param dead: the dead letter queues
    :param in_doubt: the prepared transactions
    :param checkup: the state of the database
    """
    if lock.lost is not None:
        yield Alarm(BAD, f"The lock is lost: {lock.lost}")
    if broker.obstacle is not None:
        if not broker.is_slave:
            yield Alarm(BAD, f"The broker does not serve: {broker.obstacle}")
        return
    for one in () if checkup is None else checkup.diagnoses:
        yield Alarm(one.severity, f"The database: {one.name}. {one.text}", page="database")
    yield from _of_space(broker, folders)
    if in_doubt:
        what = "1 transaction is" if len(in_doubt) == 1 else f"{len(in_doubt):,} transactions are"
        yield Alarm(WARNING, f"{what} in doubt: prepared, and not decided", page="transactions")
    dead = {*dead}
    growing = [str(name) for name in dead if history.growth(ENQUEUED, name, _TEN_MINUTES) > 0]
    if growing:
        yield from _about("Dead letters have arrived within ten minutes in", growing)
    elif history.growth(DEAD, samples=_TEN_MINUTES) > 0:  # in a queue without a history of its own
        yield Alarm(WARNING, "Dead letters have arrived within ten minutes", page="dead-letters")
    yield from _about("", [view.name for view in views if view.is_paused], "is paused", "are paused")
    names = {str(name) for name in dead}
    alone = [view for view in views if view.size and not (view.consumers or view.is_paused)]
    alone.sort(key=lambda view: -(view.size or 0))
    waiting = [view.name for view in alone if view.name not in names]
    yield from _about("", waiting, "has messages but no consumer", "have messages but no consumer")


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


def _about(text: str, names: Sequence[str], one: str = "", several: str = "") -> Iterator[Alarm]:
    if names:
        after = one if len(names) == 1 else several
        yield Alarm(WARNING, text, tuple(names[:_NAMED]), max(len(names) - _NAMED, 0), after)
