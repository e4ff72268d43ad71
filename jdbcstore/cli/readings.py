"""Readings of a running broker: its destinations, and their rates since the previous reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from jdbcstore.broker.condition import SERVES
from jdbcstore.broker.management.texts import short
from jdbcstore.cli.output import duration, local_time, printable
from jdbcstore.errors import NotMaster, StoreError
from jdbcstore.message.facts import Facts
from jdbcstore.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from jdbcstore.cli.remote import RemoteBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class TopReading:
    """A broker at ``time_ms``, with its alarms, and the first of ``total`` destinations.

    A rate is messages per second; None without an earlier reading, or if the counter was reset.
    """

    time_ms: int
    broker: Facts
    """The broker: its fields, its identity, its condition and its rates."""
    alarms: tuple[Facts, ...]
    """The fields of each :class:`~jdbcstore.broker.management.alarms.Alarm` that is not silenced, the most
    severe first."""
    total: int
    destinations: tuple[Facts, ...]
    """Fields of each :class:`~jdbcstore.broker.management.views.DestinationView`, and its rates."""


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def rate(value: float | None) -> str:
    """Format a rate, with one decimal if it is small."""
    if value is None:
        return "-"
    return f"{value:.1f}" if 0 < value < 100 else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class TopColumn:
    """A column of the table."""

    title: str
    name: str
    """The field of a row."""
    sort: str
    """The broker's column for this order, if it is another one."""
    text: Callable[[Any], str] = _count


COLUMNS = (
    TopColumn("destination", "destination", "name", str),
    TopColumn("size", "size", "size"),
    TopColumn("in/s", "enqueued_per_second", "enqueued", rate),
    TopColumn("out/s", "dequeued_per_second", "dequeued", rate),
    TopColumn("in flight", "in_flight", "in_flight"),
    TopColumn("consumers", "consumers", "consumers"),
    TopColumn("oldest", "oldest_age", "size", duration),
    TopColumn("dead", "dead", "dead"),
)
TITLES = tuple(column.title for column in COLUMNS)
NUMBERS = TITLES[1:]
"""The columns that are right-justified."""


_NAME = 34
"""The most characters of a name, so that the table fits 100 columns."""


def condition_line(condition: Mapping[str, Any]) -> str:
    """Format the condition of a broker: its state and since when, the reason, and what to do."""
    reason = f": {condition['reason']}" if condition["reason"] else ""
    todo = f"; {condition['what_to_do']}" if condition["what_to_do"] else ""
    next_ms = condition["next_attempt_ms"]
    attempt = "" if next_ms is None else f"; next attempt at {local_time(next_ms)}"
    return printable(f"{condition['state']} since {local_time(condition['since_ms'])}{reason}{todo}{attempt}")


def broker_lines(broker: Facts) -> tuple[str, str, str]:
    """Return the lines above the table: the broker, its condition, and its rates."""
    environment = f"{broker['environment']}  " if broker["environment"] else ""
    epoch = "" if broker["epoch"] is None else f"  epoch {broker['epoch']}"
    rates = {"in/s": "enqueued", "out/s": "dequeued", "commits/s": "commits"}
    shown = "  ".join(f"{title} {rate(broker[f'{name}_per_second'])}" for title, name in rates.items())
    state = f"{condition_line(broker['condition'])}{epoch}  up {duration(broker['uptime'])}"
    return (
        printable(f"{environment}{broker['title']}  {broker['database']}"),
        f"{printable(broker['url'])}  {state}",
        f"connections {broker['connections']}  {shown}",
    )


def alarm_line(alarm: Mapping[str, Any]) -> str:
    """Format an alarm with its advice."""
    names = ", ".join(name.partition("://")[2] for name in alarm["names"])
    more = f"and {alarm['more']} more" if alarm["more"] else ""
    said = " ".join(filter(None, (alarm["text"], names, more, alarm["after"])))
    return printable(f"{said}. {alarm['help'][:1].upper()}{alarm['help'][1:]}.")


def cells(row: Facts) -> tuple[str, ...]:
    """Return the cells of a row; names are escaped so that they cannot control a terminal."""
    name, *others = (column.text(row[column.name]) for column in COLUMNS)
    mark = " (paused)" if row["is_paused"] else ""
    return (f"{short(printable(name), _NAME - len(mark))}{mark}", *others)


def remainder(reading: TopReading) -> str:
    """Return the total number of destinations, the number shown, and the time of the reading."""
    shown = len(reading.destinations)
    whole = f"{reading.total} destination{'' if reading.total == 1 else 's'}"
    count = whole if shown == reading.total else f"{shown} of {whole}"
    return f"{count}  as of {local_time(reading.time_ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopSelection:
    """The destinations to show, and their order.

    If there are more than ``limit``, the broker sorts them and returns the first ones. It does not know rates
    or ages, so it sorts by the total number of messages instead of a rate, and by size instead of an age.
    """

    column: TopColumn = COLUMNS[1]
    descending: bool = True
    text: str = ""
    """Part of a destination's name, ignoring case."""
    limit: int = 200

    def query(self) -> dict[str, Any]:
        """Return the fields of the request to the broker."""
        order = "desc" if self.descending else "asc"
        asked = {"sort": self.column.sort, "order": order, "limit": self.limit, "ages": "true"}
        return {**asked, "search": self.text or None}

    def arranged(self, rows: Iterable[Facts]) -> tuple[Facts, ...]:
        """Return rows in this order; equal rows by name, rows without a value last."""
        value = itemgetter(self.column.name)
        by_name = sorted(rows, key=itemgetter("destination"))
        known = [row for row in by_name if value(row) is not None]
        unknown = [row for row in by_name if value(row) is None]
        return (*sorted(known, key=value, reverse=self.descending), *unknown)


Counts = Mapping[tuple[str, ...], int]
"""Counters of one moment, by destination and name; counters of the broker have no destination."""


class Rates:
    """Differences per second between two readings.

    :param period: seconds between readings. An earlier reading has the rates since the last but one
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self.forget()

    def forget(self) -> None:
        """Forget the previous readings, so that the next reading has no rates."""
        self._last: tuple[float, Counts] | None = None
        self._base: tuple[float, Counts] | None = None

    def since(self, now: float, counts: Counts) -> dict[tuple[str, ...], float]:
        """Return the differences of the counters that existed before."""
        last = self._last
        if last is None or now - last[0] >= self._period / 2:
            self._base, self._last = last, (now, counts)
        if self._base is None:
            return {}
        before, earlier = self._base
        return {
            key: (count - earlier[key]) / (now - before)
            for key, count in counts.items()
            if key in earlier and now > before
        }


class Readings:
    """Consecutive readings of the master; not for several threads at the same time.

    :param find: finds the broker that is the master, before the first reading and after an error
    :param period: as for :class:`Rates`
    """

    def __init__(
        self, find: Callable[[], RemoteBroker | None], period: float, clock: Clock | None = None
    ) -> None:
        self._find = find
        self._rates = Rates(period)
        self._clock = clock or SystemClock()
        self._broker: RemoteBroker | None = None

    @property
    def broker(self) -> RemoteBroker:
        """The master of the last reading.

        :raises NotMaster: no broker offers its management
        """
        if self._broker is None:
            self._broker = self._find()
        if self._broker is None:
            from jdbcstore.cli.remote import NO_BROKER

            raise NotMaster(NO_BROKER)
        return self._broker

    def read(self, selection: TopSelection) -> TopReading:
        """Return the current state of the broker.

        :raises NotMaster: no broker offers its management
        :raises NotAuthorized: it needs a login
        :raises StoreError: it does not answer; the next reading finds the master again
        """
        broker = self.broker
        try:
            return self._read(broker, selection)
        except StoreError:
            self._broker = None
            self._rates.forget()
            raise

    def _read(self, broker: RemoteBroker, selection: TopSelection) -> TopReading:
        whole = broker.call("broker")
        serves = whole["condition"]["state"] in SERVES
        store = broker.call("store") if serves else {"timings": {}}
        lock = broker.call("lock")
        alarms = [alarm for alarm in broker.call("alarms") if alarm["silenced_until_ms"] is None]
        page: dict[str, Any] = {"total": 0, "destinations": []}
        if serves:
            page = broker.call("destinations", **selection.query())
        now = self._clock.monotonic()
        counts = _counts(whole, store, page["destinations"])
        # A smaller counter was reset, or belongs to another broker.
        rates = {key: value for key, value in self._rates.since(now, counts).items() if value >= 0}
        seen = {
            "name": whole["name"],
            "title": whole["identity"]["name"],
            **{key: whole["identity"][key] for key in ("database", "environment", "color")},
            "url": broker.url,
            **{key: whole[key] for key in ("version", "uptime", "connections", "condition")},
            "epoch": lock["epoch"],
            **_rates_of("", rates, *_COUNTED, "commits"),
        }
        return TopReading(
            time_ms=self._clock.now_ms(),
            broker=seen,
            alarms=tuple(alarms),
            total=page["total"],
            destinations=selection.arranged(_row(facts, rates) for facts in page["destinations"]),
        )


_COUNTED = ("enqueued", "dequeued")
_SHOWN = ("is_topic", "is_paused", "size", "in_flight", "consumers", "producers", "oldest_age", "dead")
"""Fields of a destination that are shown as they are."""


def _counts(whole: Mapping[str, Any], store: Mapping[str, Any], destinations: list[Facts]) -> Counts:
    counts: dict[tuple[str, ...], int] = {
        (view["name"], name): view[name] for view in destinations for name in _COUNTED
    }
    counts |= {("", name): whole[name] for name in _COUNTED}
    if "commit" in store["timings"]:
        counts["", "commits"] = store["timings"]["commit"]["count"]
    return counts


def _row(view: Facts, rates: Mapping[tuple[str, ...], float]) -> Facts:
    shown = {key: view[key] for key in _SHOWN}
    return {"destination": view["name"], **shown, **_rates_of(view["name"], rates, *_COUNTED)}


def _rates_of(of: str, rates: Mapping[tuple[str, ...], float], *names: str) -> dict[str, float | None]:
    return {f"{name}_per_second": rates.get((of, name)) for name in names}
