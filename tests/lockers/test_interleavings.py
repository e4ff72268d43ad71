"""Every interleaving of two holders' obtain, renew and release with the passing of time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from jdbcstore.lockers.database import LeaseDatabaseLocker
from tests.support.databases import Database
from tests.support.lockers.leases import LEASE, SteppedDatabase, believes

LENGTH = 4
SERVER_LENGTH = 3
HOUR = 3600.0
SOME, MOST = LEASE * 0.45, LEASE * 0.95
"""Twice the one is within the time that a lease is believed in; the other is only within the lease."""
sqlite = pytest.mark.backends("sqlite")
STEPS = ("A obtains", "A renews", "A releases", "B obtains", "B renews", "B releases", "some", "most")


@pytest.fixture
def stepped(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedDatabase]:
    stepped = SteppedDatabase(database, monkeypatch.setattr)
    yield stepped
    stepped.close()


HOUR_MS = 3_600_000


class Model:
    """What the lock's row must be."""

    def __init__(self) -> None:
        self.holder: str | None = None
        self.expires = 0.0
        self.now = 0.0
        self.believed = {"A": -1.0, "B": -1.0}

    def step(self, who: str, what: str) -> bool | None:
        mine = self.holder == who
        if what == "obtains":
            # An attempt gives back what one before it may have left.
            if mine:
                self.holder, self.expires = None, 0.0
            if self.holder is not None and self.now <= self.expires:
                self.believed[who] = -1.0
                return False
            self._hold(who)
            return True
        if what == "renews":
            if not mine or self.now >= self.believed[who]:
                return False
            self._hold(who)
            return True
        if mine:
            self.holder, self.expires = None, 0.0
        self.believed[who] = -1.0
        return None

    def _hold(self, who: str) -> None:
        self.holder, self.expires = who, self.now + LEASE
        self.believed[who] = self.now + 0.9 * LEASE

    def believers(self) -> set[str]:
        return {who for who, until in self.believed.items() if self.now < until}


def run(stepped: SteppedDatabase, lockers: dict[str, LeaseDatabaseLocker], steps: tuple[str, ...]) -> None:
    model = Model()
    for step in steps:
        if step in ("some", "most"):
            seconds = SOME if step == "some" else MOST
            stepped.advance(seconds)
            model.now += seconds
        else:
            who, what = step.split()
            expected = model.step(who, what)
            locker = lockers[who]
            if what == "obtains":
                assert locker.do_start(0.0) is expected, steps
            elif what == "renews":
                assert locker.keep_alive() is expected, steps
            else:
                locker.do_stop()
        name, _ = stepped.row()
        assert (name.split("#")[0] if name else None) == model.holder, steps
        believers = {who for who, locker in lockers.items() if believes(locker)}
        assert believers == model.believers(), steps
        assert len(believers) <= 1, steps


@pytest.mark.parametrize("skews", [(0.0, 0.0), (HOUR, -HOUR)], ids=["clocks agree", "clocks differ by 2 h"])
@sqlite
def test_every_interleaving(stepped: SteppedDatabase, skews: tuple[float, float]) -> None:
    """At most one believes that it holds the lock, and then it does, whatever the holders' clocks say."""
    run_all(stepped, LENGTH, skews)


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_every_shorter_interleaving_on_a_server(stepped: SteppedDatabase) -> None:
    run_all(stepped, SERVER_LENGTH, (HOUR, -HOUR))


def run_all(stepped: SteppedDatabase, length: int, skews: tuple[float, float]) -> None:
    lockers = {who: stepped.locker(who, skew=skew) for who, skew in zip("AB", skews, strict=True)}
    for steps in itertools.product(STEPS, repeat=length):
        if not steps[0].endswith("obtains"):
            continue  # nothing is held yet
        run(stepped, lockers, steps)
        for locker in lockers.values():
            locker.do_stop()
        stepped.set_row(None, None)


@sqlite
def test_two_of_one_name(stepped: SteppedDatabase) -> None:
    one, other = stepped.locker("same"), stepped.locker("same")
    assert one.do_start(0.0)
    assert not other.do_start(0.0)
    other.do_stop()
    assert one.keep_alive()
    stepped.advance(LEASE + 0.001)
    assert other.do_start(0.0)
    assert not one.keep_alive()
    one.do_stop()
    assert other.keep_alive()


@sqlite
def test_a_lease_of_an_activemq_is_respected_and_followed(stepped: SteppedDatabase) -> None:
    locker = stepped.locker("ours")
    stepped.set_row("amq", stepped.now_ms + 5000)
    assert not locker.do_start(0.0)
    assert locker.holder == "amq"
    stepped.advance(5.001)
    assert locker.do_start(0.0)


@sqlite
def test_a_lease_that_a_clock_set_back_has_prolonged_ends(stepped: SteppedDatabase) -> None:
    """The holder may have died in that hour; one that lives renews its lease, which then ends earlier."""
    locker, other = stepped.locker("ours"), stepped.locker("other")
    stepped.set_row("dead", stepped.now_ms + HOUR_MS)
    assert not locker.do_start(0.0)
    stepped.advance(LEASE - 0.001)
    assert not locker.do_start(0.0)
    stepped.set_row("dead", stepped.now_ms + HOUR_MS)  # it lives, and its leases are longer
    stepped.advance(0.002)
    assert not locker.do_start(0.0)
    stepped.advance(LEASE + 0.001)
    assert locker.do_start(0.0)
    assert stepped.row()[1] == stepped.now_ms + LEASE * 1000
    assert not other.do_start(0.0)
    assert locker.keep_alive()


@sqlite
@pytest.mark.parametrize(
    ("allowed", "skew", "by_ours"),
    [(0.0, 3.0, False), (5.0, 3.0, True), (5.0, -6.0, False), (2.0, 3.0, False)],
)
def test_our_clock_counts_only_within_what_is_allowed(
    stepped: SteppedDatabase, allowed: float, skew: float, by_ours: bool
) -> None:
    locker = stepped.locker("ours", skew=skew, max_allowable_diff_from_db_time=allowed)
    assert locker.do_start(0.0)
    assert locker.skew_ms == skew * 1000
    _, expiry = stepped.row()
    assert expiry == stepped.now_ms + (skew * 1000 if by_ours else 0) + LEASE * 1000


@sqlite
def test_the_difference_is_measured_at_each_renewal(stepped: SteppedDatabase) -> None:
    locker = stepped.locker("ours")
    assert locker.do_start(0.0)
    stepped.clocks[0]._now_ms += 7000
    assert locker.keep_alive()
    assert locker.skew_ms == 7000
    assert stepped.row()[1] == stepped.now_ms + LEASE * 1000
