"""``top`` on queues that processes share: readings and their rates, the table, and the screen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Static

from jdbcstore import Claims, JdbcStore, Message
from jdbcstore.cli.claim_readings import ClaimReadings, signed
from jdbcstore.cli.claims_screen import ClaimsTop
from jdbcstore.errors import StoreUnavailable
from jdbcstore.stores.claims.numbers import read_last_id, read_shared
from jdbcstore.testing.clock import FakeClock
from jdbcstore.util.shared_queues import ClaimNumbers, SharedNumbers
from tests.cli.conftest import Invoke

WAIT = 120.0


@pytest.fixture
def claims(local_store: Callable[[], JdbcStore], local_url: str) -> Iterator[Claims]:
    local_store().close()  # makes its folder
    with Claims(local_url, name="w-1") as claims:
        yield claims


def test_rates_are_those_between_two_readings(claims: Claims) -> None:
    clock = FakeClock()
    orders, bills = claims.queue("ORDERS"), claims.queue("BILLS")
    orders.add(*[Message("x")] * 4)
    bills.add(Message("x"))
    readings = ClaimReadings(
        lambda: (read_shared(claims.database.session), read_last_id(claims.database.session)), 2.0, clock
    )

    first = readings.read()
    assert [one.queue for one in first.numbers.queues] == ["ORDERS", "BILLS"]
    assert (first.added_per_second, first.removed_per_second, first.changes) == (None, None, {})
    bills.add(*[Message("x")] * 6)
    orders.acknowledge(*orders.claim(3))
    clock.advance(2.0)
    second = readings.read()
    assert [one.queue for one in second.numbers.queues] == ["BILLS", "ORDERS"]
    assert (second.added_per_second, second.removed_per_second) == (3.0, 1.5)
    assert second.changes == {("BILLS",): 3.0, ("ORDERS",): -1.5}


def test_what_is_not_counted_has_no_rate() -> None:
    clock = FakeClock()
    found = [
        (
            SharedNumbers(
                [ClaimNumbers(queue="A", free=5, has_more=True), ClaimNumbers(queue="B", free=size)]
            ),
            size,
        )
        for size in (1, 3)
    ]
    readings = ClaimReadings(iter(found).__next__, 2.0, clock, text="b")
    readings.read()
    clock.advance(2.0)
    second = readings.read()
    assert (second.added_per_second, second.removed_per_second, second.changes) == (1.0, None, {("B",): 1.0})
    assert [one.queue for one in second.numbers.queues] == ["B"]


def test_keys_have_rates(claims: Claims) -> None:
    clock = FakeClock()
    queue = claims.queue("ORDERS")
    queue.flow.share()
    queue.add(*(Message("x", group_id=key) for key in "aab"))
    assert len(queue.claim(2)) == 2
    readings = ClaimReadings(lambda: (read_shared(claims.database.session, keys=True), None), 2.0, clock)
    readings.read()
    queue.add(*(Message("x", group_id=key) for key in "aac"))
    queue.acknowledge(*(one for one in queue.claim(9) if one.message.group_id == "c"))
    clock.advance(2.0)

    reading = readings.read()
    assert reading.changes == {("ORDERS",): 1.0, ("ORDERS", "a"): 1.0, ("ORDERS", "b"): 0.0}
    [one] = reading.facts()["queues"]
    assert [(key["key"], key["change_per_second"]) for key in one["keys"]] == [("a", 1.0), ("b", 0.0)]
    assert [row[5] for row in reading.rows()] == ["+1.0", "+1.0", "0"]


def test_a_change_as_text() -> None:
    assert [signed(value) for value in (None, 0.0, 2.5, -250.0)] == ["-", "0", "+2.5", "-250"]


def test_once(claims: Claims, invoke: Invoke) -> None:
    queue = claims.queue("ORDERS")
    queue.add(*(Message("x", group_id=key) for key in "aab"))
    queue.flow.share()
    queue.flow.set_key("b", paused=True)
    queue.flow.pause()
    claims.queue("PLAIN").add(Message("x"))
    claims.queue("PLAIN").claim()
    options = ("--once", "--interval", "0.1")

    found = json.loads(invoke("top", *options, "--filter", "ord", "--json").out)
    [one] = found["queues"]
    assert (one["queue"], one["free"], one["claimed"], one["change_per_second"]) == ("ORDERS", 3, 0, 0)
    [worker] = found["workers"]
    assert (worker["name"], worker["claims"], found["added_per_second"]) == ("w-1", 1, 0)
    text = invoke("top", *options).out
    assert text.startswith("2 queues  1 worker\nclaims 1  added/s 0  removed/s 0\n")
    lines = [line.split() for line in text.splitlines()]
    assert ["PLAIN", "0", "1", "0", "0", "0"] in [line[:6] for line in lines]
    assert ["ORDERS", "(paused)", "3", "0"] in [line[:4] for line in lines]


def test_the_screen(claims: Claims) -> None:
    queue = claims.queue("ORDERS[red]")
    queue.add(Message("x"), Message("x"))
    failing: list[StoreUnavailable] = []

    def read() -> tuple[SharedNumbers, None]:
        if failing:
            raise failing[0]
        return read_shared(claims.database.session, keys=True), None

    async def main() -> None:
        app = ClaimsTop(ClaimReadings(read, 3600.0), 3600.0)
        async with app.run_test(size=(120, 30)) as pilot:

            async def until(condition: Callable[[], object]) -> None:
                async with asyncio.timeout(WAIT):
                    while not condition():
                        await pilot.pause(0.05)

            def cells(name: str) -> list[str]:
                table = app.query_one(name, DataTable)
                if not table.row_count:
                    return []
                return [str(table.get_cell_at(Coordinate(0, at))) for at in range(3)]

            await until(lambda: cells("#queues") == ["ORDERS[red]", "2", "0"])
            queue.claim()
            await pilot.press("space")
            await until(lambda: cells("#queues") == ["ORDERS[red]", "1", "1"])
            assert cells("#workers")[0] == "w-1"
            failing.append(StoreUnavailable("the database is gone"))
            await pilot.press("space")
            await until(lambda: "retrying" in str(app.query_one("#state", Static).content))
            failing.clear()
            await pilot.press("space")
            await until(lambda: not str(app.query_one("#state", Static).content))
            await pilot.press("q")

    asyncio.run(main())
