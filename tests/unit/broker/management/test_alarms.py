"""What the overview warns of."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from jdbcstore.abc import JournalState
from jdbcstore.broker.condition import BrokerCondition, BrokerState
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.management import alarms as module
from jdbcstore.broker.management.alarms import Watched, alarms
from jdbcstore.broker.management.history import INTERVAL, CounterHistory
from jdbcstore.broker.management.views import (
    BrokerView,
    DestinationView,
    MastershipView,
    SubscriptionView,
    TransactionView,
)
from jdbcstore.message.destination import Destination
from jdbcstore.util.checkup import BAD, WARNING, Checkup, Diagnosis
from jdbcstore.util.stream_health import StreamHealth, StreamMember
from tests.support import ROOT

DLQ, Q = Destination.queue("ActiveMQ.DLQ"), Destination.queue("Q")
LOCK = MastershipView(is_held=True, epoch=1, lost=None)
BROKER = BrokerView(condition=BrokerCondition(state=BrokerState.SERVING), uptime=1.0)
NOON = 1_800_014_400_000
"""12:00 UTC of some day."""
NOT_SEEN = {"JdbcstoreTwoMasters", "JdbcstoreDestinationsWithoutLabels", "JdbcstoreSlowCommits"}
"""Alerts of several brokers, of the metrics themselves, and of a rate that only Prometheus knows."""


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
        return said(history=self.history, dead=[DLQ])


def said(**found: Any) -> list[str]:
    """The text of each warning, with its names."""
    given = {"broker": BROKER, "lock": LOCK, "now_ms": NOON, "history": CounterHistory(), **found}
    seen = alarms(Watched(**given))
    assert all(one.help for one in seen)
    return [" ".join(filter(None, (one.text, *one.names, one.after))) for one in seen]


def test_the_first_dead_letters_are_an_alarm() -> None:
    samples = Samples()
    assert samples.after(0, 0) == []
    assert samples.after(20, 20) == [f"20 dead letters since 11:59 UTC in {DLQ}"]
    assert samples.after(21, 21, ticks=30) == [f"21 dead letters since 11:54 UTC in {DLQ}"]
    assert samples.after(21, 21, ticks=61) == []


def test_dead_letters_after_a_purge_are_an_alarm() -> None:
    samples = Samples()
    samples.after(23, 23)
    samples.after(0, 23, ticks=61)
    assert samples.after(5, 28) == [f"5 dead letters since 11:59 UTC in {DLQ}"]


def test_dead_letters_of_an_earlier_run_are_none() -> None:
    samples = Samples()
    samples.history.add(0, {DLQ: (23, Counters())}, (23, Counters()))
    assert said(history=samples.history, dead=[DLQ]) == []


def test_dead_letters_are_an_alarm_without_a_history_of_their_queue() -> None:
    samples = Samples(most=0)
    samples.after(0, 0)
    assert samples.after(1, 1) == ["1 dead letter since 11:59 UTC"]


def test_transactions_in_doubt_are_an_alarm() -> None:
    one, two = (TransactionView(xid=f"XID:{number}", writes=()) for number in range(2))
    assert said(in_doubt=(one,)) == ["1 transaction is prepared, but neither committed nor rolled back"]
    assert said(in_doubt=(one, two)) == ["2 transactions are prepared, but neither committed nor rolled back"]


def test_a_backlog_that_grows_is_an_alarm() -> None:
    view = DestinationView(name=str(Q), is_topic=False, size=2000, consumers=1)

    def after(sizes: list[int], arrived: int = 1, **changes: Any) -> list[str]:
        history = CounterHistory()
        for tick, size in enumerate(sizes):
            counters = Counters()
            counters.enqueued = size * arrived
            history.add(tick * INTERVAL, {Q: (size, counters)}, (size, counters))
        return said(history=history, views=[replace(view, **changes)])

    growing = [10 + 10 * number for number in range(19)]
    assert after(growing) == [f"{Q} grows by 1/s, and has 2,000 messages"]
    assert after(growing, size=9) == [f"{Q} grows by 1/s, and has 9 messages"]  # the trend counts
    assert after(growing, arrived=9) == [f"{Q} grows by 1/s, and has 2,000 messages"]
    assert after(growing, arrived=11) == []  # most is consumed
    assert after(growing, is_paused=True) == [f"{Q} is paused"]
    since: dict[str, Any] = {"paused_by": "op", "paused_since_ms": NOON}
    assert after(growing, is_paused=True, **since) == [f"{Q} is paused by op since 2027-01-15 12:00:00 UTC"]
    assert after(growing, consumers=0) == [f"{Q} has messages but no consumer"]
    assert after(growing[1:]) == []  # not for three minutes yet
    assert after([10] * 10 + [100] * 9) == []
    assert after([2000] * 19) == []
    several = [replace(view, name=f"queue://{name}", consumers=0) for name in "ABCD"]
    assert said(views=several) == ["4 queues have messages but no consumer: queue://A queue://B queue://C"]
    old = replace(view, oldest_age=7200.0)
    assert said(views=[old], largest=[old]) == [f"Messages are up to 2 h old in {Q}"]


def test_a_journal_that_is_behind_is_an_alarm() -> None:
    state = JournalState(
        directory="j", first_record=1, last_record=2, applied=1, segments=1, pending_bytes=79,
        memory_limit=100, checkpoint_age=1.0, failure=None, refused=0, in_doubt=0,
    )  # fmt: skip
    assert said(journal=state) == []
    wrong = replace(state, pending_bytes=81, failure="no answer", refused=1)
    assert said(journal=wrong) == [
        "The last checkpoint of the journal failed: no answer",
        "The journal is 81 % full because the database is behind; when it is full, writers must wait",
        "The database rejected 1 message of the journal",
    ]


def test_a_stream_that_stops_degrades_or_fills_is_an_alarm() -> None:
    well = StreamHealth(
        name="mq", place="", sync="quorum_mem", replicas=3, present=3, current=3, size=80, limit=100
    )
    assert said(streams=[well]) == []
    degraded, stopped = replace(well, current=2, size=81), replace(well, problem="no quorum", current=1)
    assert said(streams=[degraded, stopped]) == [
        "The stream of the journal cannot be written: no quorum",
        "The stream of the journal has 2 current replicas, and 3 are asked for",
        "The stream of the journal is full to 81 %: writes are refused when it is full",
    ]
    follower = StreamMember(
        name="b", role="follower", applied=1, lag=0, silent=60.0, is_alive=False, trouble=""
    )
    assert said(streams=[replace(well, members=(follower, replace(follower, is_alive=True)))]) == [
        "The broker b does not follow the stream: it has said nothing for 60 s"
    ]


def test_consumers_that_acknowledge_nothing_are_an_alarm() -> None:
    one = SubscriptionView(destination="queue://A", unsettled=90.0, is_slow=True)
    text = "1 consumer has held messages for 1.5 min without acknowledging any, from queue://A"
    assert said(failing_consumers=[one]) == [text]
    others = [replace(one, destination=f"queue://{name}") for name in "AABCD"]
    assert said(failing_consumers=others) == [
        "5 consumers have held messages for 1.5 min without acknowledging any, from"
        " queue://A queue://B queue://C"
    ]


def test_consumers_that_reject_most_are_an_alarm_with_the_name_of_the_client() -> None:
    one = SubscriptionView(destination="queue://A", dispatched=3, rejected=2, client="billing", is_slow=True)
    slow, rejecting = said(failing_consumers=[replace(one, unsettled=90.0)])
    assert slow.startswith("1 consumer has held")
    assert rejecting == (
        "1 consumer has rejected more than half of the messages from queue://A (client billing)"
    )
    assert said(failing_consumers=[replace(one, is_slow=False), replace(one, is_slow=False)]) == [
        "2 consumers have rejected more than half of the messages from queue://A"
    ]
    assert said(failing_consumers=[replace(one, is_slow=False, dispatched=4)]) == []


def test_alarms_are_in_the_order_of_their_harm() -> None:
    queue = DestinationView(name=str(Q), is_topic=False, size=1)
    stuck = SubscriptionView(destination="queue://A", unsettled=90.0, is_slow=True, connection_id="c1")
    sick = Diagnosis(name="bloat", severity=BAD, text="large", cure="vacuum")
    samples = Samples()
    samples.after(0, 0)
    samples.after(20, 20)
    found = alarms(
        Watched(
            broker=replace(BROKER, memory_used=81, memory_limit=100),
            lock=LOCK,
            now_ms=NOON,
            history=samples.history,
            views=[queue, replace(queue, name="queue://P", is_paused=True)],
            dead=[DLQ],
            failing_consumers=[stuck, replace(stuck, is_slow=False, rejected=1, connection_id="c2")],
            checkup=Checkup({}, (sick,)),
        )
    )
    assert [alarm.rule.removeprefix("Jdbcstore") for alarm in found] == [
        *(
            "DatabaseSick",
            "MemoryFull",
            "SlowConsumer",
            "RejectingConsumer",
            "DeadLetters",
            "NoConsumer",
            "Paused",
        ),
    ]
    helps = {alarm.rule: (alarm.operation, alarm.target) for alarm in found if alarm.operation}
    assert helps == {
        "JdbcstoreSlowConsumer": ("drop", "c1"),
        "JdbcstoreRejectingConsumer": ("drop", "c2"),
        "JdbcstoreDeadLetters": ("retry", "ActiveMQ.DLQ"),
        "JdbcstorePaused": ("resume", "P"),
    }
    assert next(alarm for alarm in found if alarm.operation == "drop").since_ms == NOON - 90_000


def test_clients_that_do_not_read_are_an_alarm() -> None:
    assert said(slow_clients=["a"]) == ["1 client does not read its messages: a"]
    assert said(slow_clients=[*"abcd"]) == ["4 clients do not read their messages: a, b, c and 1 more"]


def test_full_memory_and_disks_are_alarms(tmp_path: Path) -> None:
    full = replace(BROKER, memory_used=81, memory_limit=100, temp_used=99, temp_limit=100)
    found = said(broker=full, folders=[tmp_path, tmp_path / "missing"])
    assert [one.split(" is ")[0] for one in found[-2:]] == ["81 % of memory_limit", "99 % of temp_limit"]


def test_a_broker_that_does_not_serve_has_no_other_alarms() -> None:
    lost = MastershipView(is_held=False, epoch=1, lost="another master")
    assert (
        said(broker=replace(BROKER, condition=BrokerCondition(state=BrokerState.WAITING)), slow_clients=["a"])
        == []
    )
    starting = replace(BROKER, condition=BrokerCondition(state=BrokerState.STARTING, reason="recovery"))
    assert said(broker=starting, lock=lost, slow_clients=["a"]) == [
        "The lock is lost: another master",
        "The broker is not serving: starting: recovery",
    ]


def test_what_is_wrong_with_the_database_has_its_cure() -> None:
    sick = Diagnosis(name="missing index", severity=BAD, text="There is none", cure="CREATE INDEX i")
    watched = Watched(
        broker=BROKER, lock=LOCK, now_ms=NOON, history=CounterHistory(), checkup=Checkup({}, (sick,))
    )
    [alarm] = alarms(watched)
    assert (alarm.level, alarm.help, alarm.page) == (BAD, "CREATE INDEX i", "database")


def test_alarms_and_alerts_are_the_same() -> None:
    rules = {*re.findall(r"- alert: (\w+)", (ROOT / "docs/monitoring/alerts.yml").read_text())}
    used = {*re.findall(r'"(Jdbcstore\w+)"', Path(module.__file__).read_text())}
    assert used == rules - NOT_SEEN


def test_the_worst_is_first() -> None:
    read_only = replace(BROKER, condition=BrokerCondition(state=BrokerState.READ_ONLY, reason="full"))
    warning = Diagnosis(name="lock waits", severity=WARNING, text="One waits", cure="end it")
    watched = Watched(
        broker=read_only,
        lock=LOCK,
        now_ms=NOON,
        history=CounterHistory(),
        checkup=Checkup({}, (warning,)),
        journal=None,
        in_doubt=(),
        folders=(),
        streams=(),
        slow_clients=["a"],
    )
    sick = Diagnosis(name="missing index", severity=BAD, text="There is none", cure="CREATE INDEX i")
    both = replace(watched, checkup=Checkup({}, (warning, sick)))
    assert [alarm.level for alarm in alarms(both)] == [BAD, BAD, WARNING, WARNING]
