"""What the overview warns of."""

from __future__ import annotations

from jdbcstore.broker.console.alarms import alarms
from jdbcstore.broker.console.history import INTERVAL, CounterHistory
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.management.views import BrokerView, MastershipView, TransactionView
from jdbcstore.message.destination import Destination

DLQ = Destination.queue("ActiveMQ.DLQ")
LOCK = MastershipView(is_held=True, epoch=1, lost=None)


class Samples:
    """What a broker had at each tick, and the warnings after it."""

    def __init__(self, most: int = 500) -> None:
        self.history = CounterHistory(most=most)
        self._tick = 0

    def after(self, size: int, arrived: int, ticks: int = 1) -> list[str]:
        """The dead letter queue has this size after this many arrivals; what is said then."""
        own, total = Counters(), Counters()
        own.enqueued = total.dead = arrived
        tallies = {DLQ: (size, own)} if arrived else {}
        for _ in range(ticks):
            self._tick += 1
            self.history.add(self._tick * INTERVAL, tallies, (size, total))
        return said(self.history)


def said(history: CounterHistory, in_doubt: tuple[TransactionView, ...] = ()) -> list[str]:
    """The text of each warning, with its names."""
    found = alarms(BROKER, LOCK, (), [DLQ], history, (), in_doubt)
    return [" ".join((one.text, *one.names)).strip() for one in found]


BROKER = BrokerView(
    **dict.fromkeys(BrokerView.__dataclass_fields__, 0)  # type: ignore[arg-type]
    | {"obstacle": None, "name": "b", "version": "1", "addresses": ()}
)
ARRIVED = f"Dead letters have arrived within ten minutes in {DLQ}"


def test_the_first_dead_letters_are_an_alarm() -> None:
    samples = Samples()
    assert samples.after(0, 0) == []
    assert samples.after(20, 20) == [ARRIVED]
    assert samples.after(20, 20, ticks=61) == []


def test_dead_letters_after_a_purge_are_an_alarm() -> None:
    samples = Samples()
    samples.after(23, 23)
    samples.after(0, 23, ticks=61)
    assert samples.after(5, 28) == [ARRIVED]


def test_dead_letters_of_an_earlier_run_are_none() -> None:
    samples = Samples()
    samples.history.add(0, {DLQ: (23, Counters())}, (23, Counters()))
    assert said(samples.history) == []


def test_dead_letters_are_an_alarm_without_a_history_of_their_queue() -> None:
    samples = Samples(most=0)
    samples.after(0, 0)
    assert samples.after(20, 20) == ["Dead letters have arrived within ten minutes"]


def test_transactions_in_doubt_are_an_alarm() -> None:
    history = CounterHistory()
    one, two = (TransactionView(xid=f"XID:{number}", writes=()) for number in range(2))
    assert said(history, (one,)) == ["1 transaction is in doubt: prepared, and not decided"]
    assert said(history, (one, two)) == ["2 transactions are in doubt: prepared, and not decided"]
