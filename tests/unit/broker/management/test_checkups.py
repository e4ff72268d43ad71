"""Checkups of a database that answers, fails, or takes long: one at a time, and not for each page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from jdbcstore.broker.management import checkups
from jdbcstore.broker.management.checkups import Checkups
from jdbcstore.errors import StoreUnavailable
from jdbcstore.testing.clock import FakeClock
from jdbcstore.util.checkup import Checkup


class Patient:
    """A store whose database is looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.fails = False

    def examine(self) -> Checkup:
        self.looks += 1
        if self.fails:
            raise StoreUnavailable("cannot reach it")
        return Checkup({"dead_rows": self.looks})


async def at_once(look: Callable[[], Checkup]) -> Checkup:
    return look()


def test_it_is_looked_at_every_fifteen_seconds() -> None:
    async def main() -> None:
        clock, patient = FakeClock(), Patient()
        found = Checkups(clock)
        assert await found.of(patient, at_once) == Checkup({"dead_rows": 1})
        clock.advance(14)
        assert await found.of(patient, at_once) == Checkup({"dead_rows": 1})
        clock.advance(2)
        assert await found.of(patient, at_once) == Checkup({"dead_rows": 2})
        patient.fails = True
        clock.advance(16)
        failed = await found.of(patient, at_once)
        assert failed is not None
        [one] = failed.diagnoses
        assert (one.name, "cannot reach it" in one.text) == ("not examined", True)
        assert await found.of(object(), at_once) is None

    asyncio.run(main())


def test_nobody_waits_long_and_nobody_looks_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkups, "_PATIENCE", 0.01)

    async def main() -> None:
        clock, patient, answered = FakeClock(), Patient(), asyncio.Event()

        async def late(look: Callable[[], Checkup]) -> Checkup:
            found = look()
            await answered.wait()
            return found

        found = Checkups(clock)
        assert await found.of(patient, late) is None
        clock.advance(60)
        assert await found.of(patient, late) is None
        assert patient.looks == 1
        answered.set()
        assert await found.of(patient, late) == Checkup({"dead_rows": 1})

    asyncio.run(main())
