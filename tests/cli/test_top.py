"""``top`` on a broker that serves: readings and their rates, the table, and the screens with their keys."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.coordinate import Coordinate
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

import jdbcstore
from jdbcstore import Message
from jdbcstore.broker.security import hash_password
from jdbcstore.cli.readings import COLUMNS, TITLES, Readings, TopSelection, cells, rate
from jdbcstore.cli.remote import LOGIN_VARIABLE, RemoteBroker
from jdbcstore.cli.settings import Settings
from jdbcstore.cli.top_screen import Messages, Top, message_text
from jdbcstore.config.broker import Address
from jdbcstore.config.locker import SharedFileLockerConfig
from jdbcstore.config.users import ROLES, write_user
from jdbcstore.errors import NotMaster, StoreUnavailable
from jdbcstore.message.facts import facts_of
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from tests.cli.conftest import Invoke
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.console import console_of
from tests.support.broker.programs import Client
from tests.support.cli.command_line import CommandLine
from tests.support.ports import closed_port

WAIT = 120.0
PASSWORD = "secret"


class Place:
    """A broker with a user of each role."""

    def __init__(self, folder: Path, url: str, address: Address, port: int) -> None:
        self.folder, self.url, self.address, self.port = folder, url, address, port
        self.api = ApiClient(address, ("manage", PASSWORD))

    def send(self, name: str, *bodies: str, **properties: Any) -> None:
        for body in bodies:
            self.api.post(queue(name, "messages"), body=body, properties=properties)

    def command_line(self) -> CommandLine:
        return CommandLine(self.folder, self.url, **{LOGIN_VARIABLE: f"manage:{PASSWORD}"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("top")
    url, users = f"sqlite:///{folder}/mq.db", folder / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password(PASSWORD), role=role)
    write_user(users, "test", hash_password("secret"))
    locker = SharedFileLockerConfig(directory=str(folder / "lock"))
    color = "red"
    with console_of(
        url, locker=locker, users_file=str(users), environment="tasting", environment_color=color
    ) as (client, port):
        found = Place(folder, url, client.api.address, port)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(LOGIN_VARIABLE, f"view:{PASSWORD}")
            wait_until(lambda: find(found), what="the address of the master")
        yield found


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def log_in(role: str) -> None:
        monkeypatch.setenv(LOGIN_VARIABLE, f"{role}:{PASSWORD}")

    return log_in


@pytest.fixture(autouse=True)
def _as_manager(login: Callable[[str], None]) -> None:
    login("manage")


def find(place: Place) -> RemoteBroker | None:
    settings = Settings()
    settings.url = place.url
    return settings.broker()


def only(text: str, **more: Any) -> TopSelection:
    return TopSelection(text=text, **more)


# Readings


def test_rates_are_those_between_two_readings(place: Place) -> None:
    clock = FakeClock()
    readings = Readings(lambda: find(place), 2.0, clock)
    place.send("RATES.A", "x")

    first = readings.read(only("rates."))
    assert [(row["destination"], row["size"], row["enqueued_per_second"]) for row in first.destinations] == [
        ("queue://RATES.A", 1, None)
    ]
    assert first.broker["commits_per_second"] is None
    place.send("RATES.A", *"abcde")
    clock.advance(2.0)
    second = readings.read(only("rates."))
    assert (second.destinations[0]["size"], second.destinations[0]["enqueued_per_second"]) == (6, 2.5)
    assert second.destinations[0]["dequeued_per_second"] == 0
    assert second.broker["enqueued_per_second"] == 2.5
    assert second.broker["commits_per_second"] is not None
    assert second.broker["commits_per_second"] > 0
    assert place.api.post(queue("RATES.A", "purge"))["count"] == 6
    clock.advance(0.4)  # the readings of a key pressed do not make rates of an instant
    third = readings.read(only("rates."))
    assert third.destinations[0]["dequeued_per_second"] == pytest.approx(6 / 2.4)
    place.api.post(queue("RATES.A", "reset-counters"))
    clock.advance(2.0)
    fourth = readings.read(only("rates."))
    assert [row["enqueued_per_second"] for row in fourth.destinations] == [None]
    assert (fourth.total, fourth.broker["epoch"] is None) == (1, False)
    assert fourth.broker["condition"]["state"] == "serving"


def test_the_largest_of_many(place: Place) -> None:
    for number in range(3):
        place.send(f"MANY.{number}", *("x" * (number + 1)))
    assert place.api.post(queue("MANY.0", "purge"))["count"] == 1
    readings = Readings(lambda: find(place), 2.0)

    found = readings.read(only("many.", limit=1))
    assert ([row["destination"] for row in found.destinations], found.total) == (["queue://MANY.2"], 3)
    by_name = readings.read(only("many.", column=COLUMNS[0], descending=False))
    assert [row["size"] for row in by_name.destinations] == [0, 2, 3]
    ages = [row["oldest_age"] for row in by_name.destinations]
    assert ages[0] is None
    assert None not in ages[1:]


def test_rows_without_a_value_are_last() -> None:
    rows = [{"destination": name, "size": size} for name, size in (("d", None), ("c", 2), ("b", 2), ("a", 0))]
    for descending, order in ((True, "bcad"), (False, "abcd")):
        arranged = TopSelection(descending=descending).arranged(rows)
        assert "".join(row["destination"] for row in arranged) == order


def test_a_table_with_a_long_name_fits_100_columns() -> None:
    row = {
        "destination": f"queue://{'Consumer.billing.VirtualTopic.' * 3}END", "is_paused": True,
        "size": 999_999, "enqueued_per_second": 99.9, "dequeued_per_second": 99.9, "in_flight": 99_999,
        "consumers": 999, "oldest_age": 86_000.0, "dead": 9_999,
    }  # fmt: skip
    found = cells(row)
    assert re.fullmatch(r"queue://Con.*…\S*END \(paused\)", found[0])
    widths = [max(len(title), len(cell)) for title, cell in zip(TITLES, found, strict=True)]
    assert sum(widths) + 2 * len(widths) <= 100


def test_a_rate_as_text() -> None:
    assert [rate(value) for value in (None, 0.0, 0.25, 99.94, 1234.5)] == ["-", "0", "0.2", "99.9", "1234"]


def test_after_an_error_the_master_is_looked_for_again(place: Place) -> None:
    with closed_port() as port:
        found = iter([RemoteBroker(f"http://127.0.0.1:{port}"), None, find(place)])
        readings = Readings(lambda: next(found), 2.0)
        with pytest.raises(StoreUnavailable, match="no answer from the broker"):
            readings.read(TopSelection())
    with pytest.raises(NotMaster, match="--health HOST:PORT"):
        readings.read(TopSelection())
    assert readings.read(TopSelection()).broker["name"]


# The command


def test_once(place: Place) -> None:
    place.send("ONCE", "x", "y")
    place.api.post(queue("ONCE", "pause"))
    cli = place.command_line()
    options = ("--once", "--interval", "0.1", "--filter", "once")

    found = cli("top", *options, "--json")
    facts = found.json
    assert found.err == ""
    [one] = facts["destinations"]
    assert (one["destination"], one["size"], one["is_paused"]) == ("queue://ONCE", 2, True)
    assert (facts["total"], one["enqueued_per_second"]) == (1, 0)
    assert facts["broker"]["url"] == f"http://{place.address}"
    lines = cli("top", *options, "--sort", "destination", "--ascending", "--limit", "5").out.splitlines()
    assert lines[0] == f"tasting  {place.address}  {place.url}"
    assert "serving since" in lines[1]
    paused = next(line for line in lines if line.startswith("ONCE is paused by manage since "))
    assert paused.endswith(" UTC. Resume it when its consumers work again.")
    assert "as of" in lines[-4]
    assert lines[-2].split()[:2] == ["destination", "size"]
    assert lines[-1].split()[:4] == ["queue://ONCE", "(paused)", "2", "0"]
    assert "JdbcstorePaused" in [alarm["rule"] for alarm in facts["alarms"]]
    listed = [json.loads(line) for line in cli("manage", "alarms", "--json").out.splitlines()]
    assert [one["rule"] for one in listed] == [alarm["rule"] for alarm in facts["alarms"]]
    place.api.post(queue("ONCE", "resume"))


def test_what_the_live_view_needs(
    invoke: Invoke, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = invoke("top", "--url", place.url)
    assert (refused.code, "add --once" in refused.err) == (2, True)
    assert invoke("top", "--url", "sqlite:///none.db", "--once").code == 5
    alone = f"sqlite:///{tmp_path}/alone.db"
    jdbcstore.open(alone).close()
    nobody = invoke("top", "--url", alone, "--once")
    assert (nobody.code, "no broker with a management" in nobody.err) == (8, True)

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "jdbcstore.cli.top_screen", None)
    missing = invoke("top", "--url", place.url)
    assert (missing.code, "pip install 'textual>=8'" in missing.err) == (3, True)


# The screens


class Noting(Top):
    """The live view, and the notes that it has shown, also those that have disappeared."""

    def __init__(self, readings: Readings, selection: TopSelection) -> None:
        super().__init__(readings, selection, 3600.0)
        self.notes: list[str] = []

    def notify(self, message: str, **more: Any) -> None:
        self.notes.append(message)
        super().notify(message, **more)


@asynccontextmanager
async def opened(place: Place, text: str) -> AsyncIterator[tuple[Noting, Pilot[None]]]:
    """The live view of the destinations whose names contain this; it reads when a key is pressed."""
    app = Noting(Readings(lambda: find(place), 3600.0), only(text))
    async with app.run_test(size=(110, 30)) as pilot:
        await until(lambda: app.reading is not None, pilot)
        yield app, pilot


async def until(condition: Callable[[], object], pilot: Pilot[None]) -> None:
    async with asyncio.timeout(WAIT):
        while not condition():
            await pilot.pause(0.05)


async def sees(app: Top, pilot: Pilot[None], *names: str) -> None:
    """Wait for these rows."""
    await until(lambda: shown(app) == [*names], pilot)


async def alone(app: Top, pilot: Pilot[None]) -> None:
    """Wait until no other screen is above the table."""
    await until(lambda: len(app.screen_stack) == 1, pilot)


def shown(app: Top) -> list[str]:
    """The first column of the table, without the scheme of a queue."""
    table = app.screen_stack[0].query_one("#destinations", DataTable)
    names = [str(table.get_cell_at(Coordinate(at, 0))) for at in range(table.row_count)]
    return [name.removeprefix("queue://") for name in names]


def text_of(app: Top, name: str) -> str:
    """The text of a widget of the topmost screen; nothing until it is there."""
    return "".join(str(found.content) for found in app.screen.query(name).results(Static))


def test_sorting_and_filtering(place: Place) -> None:
    place.send("SORT.A", *"123")
    place.send("SORT.B", "1")
    place.send("SORT.[red]", "1", "2")
    place.send("ANOTHER", "1")

    async def main() -> None:
        async with opened(place, "sort.") as (app, pilot):
            await sees(app, pilot, "SORT.A", "SORT.[red]", "SORT.B")
            assert "serving since" in text_of(app, "#broker")
            assert "commits/s" in text_of(app, "#broker")
            assert text_of(app, "#alarms").startswith("! ")
            assert "queues have messages but no consumer: " in text_of(app, "#alarms")
            assert text_of(app, "#state").startswith("3 destinations  as of ")
            assert text_of(app, "#state").endswith("  with 'sort.'")
            await pilot.press("r")
            await sees(app, pilot, "SORT.B", "SORT.[red]", "SORT.A")
            await pilot.press("S")
            await sees(app, pilot, "SORT.A", "SORT.B", "SORT.[red]")
            assert app.selection.column.title == "destination"
            table = app.query_one("#destinations", DataTable)
            await until(lambda: table.cursor_row == 0, pilot)
            await pilot.press("down")
            await until(lambda: table.cursor_row == 1, pilot)
            await pilot.press("s")  # the cursor stays on SORT.B
            await sees(app, pilot, "SORT.A", "SORT.[red]", "SORT.B")
            await until(lambda: table.cursor_row == 2, pilot)
            await pilot.click("#destinations", offset=(3, 0))
            await sees(app, pilot, "SORT.A", "SORT.B", "SORT.[red]")
            await pilot.press("slash", "b")
            await sees(app, pilot, "SORT.B")
            assert app.selection.text == "sort.b"
            await pilot.press("q")  # in the field, a key is a letter
            await sees(app, pilot)
            await pilot.press("backspace", "enter")
            await sees(app, pilot, "SORT.B")
            await until(lambda: app.focused is table, pilot)
            await pilot.press("escape")
            await until(lambda: "ANOTHER" in shown(app), pilot)
            await pilot.press("question_mark")
            await until(lambda: len(app.screen_stack) == 2, pilot)
            await pilot.press("x", "escape")
            await alone(app, pilot)

    asyncio.run(main())


def test_a_reading_follows_a_reading(place: Place) -> None:
    place.send("LATER.A", "1")

    async def main() -> None:
        async with opened(place, "later.") as (app, pilot):
            place.send("LATER.B", "1", "2")
            await pilot.press("space")
            await sees(app, pilot, "LATER.B", "LATER.A")
            client = Client(place.port, acknowledges=False)
            await asyncio.to_thread(client.connect)
            client.consume("/queue/LATER.A")
            await asyncio.to_thread(client.wait_for, 1)
            await pilot.press("space")
            await until(lambda: (app.rows[1]["in_flight"], app.rows[1]["consumers"]) == (1, 1), pilot)
            await asyncio.to_thread(client.close)

    asyncio.run(main())


def test_pausing_and_purging(place: Place) -> None:
    place.send("ACT.Q", "1", "2")
    place.api.post("/api/topics/ACT.T/messages", body="x")

    async def main() -> None:
        async with opened(place, "act.") as (app, pilot):
            await pilot.press("p")
            await sees(app, pilot, "ACT.Q (paused)", "topic://ACT.T")
            assert place.api.get(queue("ACT.Q"))["is_paused"]
            await pilot.press("p")
            await sees(app, pilot, "ACT.Q", "topic://ACT.T")
            asks = f"Purge queue://ACT.Q of {place.address}? This removes its 2 messages"
            for others in ("p", "y"), ("A", "enter"), ("enter",):
                await pilot.press("x")
                await until(lambda: asks in text_of(app, "#question"), pilot)
                await pilot.press(*others, "escape")  # other keys do not reach what is below
                await alone(app, pilot)
            found = place.api.get(queue("ACT.Q"))
            assert (found["size"], found["is_paused"]) == (2, False)
            await pilot.press("x")
            await until(lambda: text_of(app, "#question"), pilot)
            await pilot.press(*"ACT.Q", "enter")
            await until(lambda: app.rows[0]["size"] == 0, pilot)
            await pilot.press("down", "p", "enter", "x")
            await until(lambda: "Purge topic://ACT.T of" in text_of(app, "#question"), pilot)
            await pilot.press(*"ACT.T", "enter")
            await until(lambda: "removed 0 messages from topic://ACT.T" in app.notes, pilot)
            assert app.notes == [
                "paused queue://ACT.Q",
                "resumed queue://ACT.Q",
                *2 * ["the name does not match"],
                "removed 2 messages from queue://ACT.Q",
                "only a queue can be paused",
                "only a queue has messages to show",
                "removed 0 messages from topic://ACT.T",
            ]

    asyncio.run(main())


def test_looking_at_messages(place: Place) -> None:
    place.send("LOOK", "two pints\nof [bold]bitter[/bold]\x1b[2J", table=7)
    place.send("LOOK", "second")

    async def main() -> None:
        async with opened(place, "look") as (app, pilot):
            await pilot.press("enter")
            text = "table = 7\n\ntwo pints\nof [bold]bitter[/bold]\\x1b[2J"
            await until(lambda: text_of(app, "#message") == text, pilot)
            assert isinstance(app.screen, Messages)
            await pilot.press("down")
            await until(lambda: text_of(app, "#message").strip() == "second", pilot)
            await pilot.press("x", "p", "s")  # keys of the table
            assert isinstance(app.screen, Messages)
            await pilot.press("q")
            await alone(app, pilot)
            assert app.notes == []

    asyncio.run(main())


def test_bytes_of_a_message_are_text_if_they_can_be() -> None:
    facts = facts_of(Message(b'{"a": [1]}'))
    assert message_text(facts).strip() == '{\n  "a": [\n    1\n  ]\n}'
    assert message_text(facts, as_hex=True).strip() == "7b 22 61 22 3a 20 5b 31 5d 7d"


def test_roles(place: Place, login: Callable[[str], None]) -> None:
    place.send("ROLES", "a body")

    async def tried(*keys: str) -> list[str]:
        async with opened(place, "roles") as (app, pilot):
            await sees(app, pilot, "ROLES")
            if keys[-1] == "x":
                await pilot.press("x")
                await until(lambda: text_of(app, "#question"), pilot)
                keys = (*"ROLES", "enter")
            await pilot.press(*keys)
            await until(lambda: app.notes or isinstance(app.screen, Messages), pilot)
            return app.notes

    for role, keys, needed in (
        ("view", ["enter"], "browse"),
        ("view", ["p"], "manage"),
        ("browse", ["x"], "manage"),
    ):
        login(role)
        [note] = asyncio.run(tried(*keys))
        assert f"this user needs the role {needed}" in note
    assert asyncio.run(tried("enter")) == []
    found = place.api.get(queue("ROLES"))
    assert (found["size"], found["is_paused"]) == (1, False)


def test_a_broker_that_is_gone(place: Place) -> None:
    place.send("GONE.A", "x")

    async def main() -> None:
        broker = find(place)
        assert broker is not None
        found: list[RemoteBroker | None] = [broker]
        app = Noting(Readings(lambda: found[-1], 3600.0), only("gone."))
        async with app.run_test() as pilot:
            await until(lambda: app.reading is not None, pilot)
            found.append(None)
            with closed_port() as port:
                broker.url = f"http://127.0.0.1:{port}"
                await pilot.press("space")
                await until(lambda: "no answer from the broker" in text_of(app, "#state"), pilot)
            await pilot.press("space")
            await until(lambda: "no broker with a management" in text_of(app, "#state"), pilot)
            await pilot.press("p")
            await until(lambda: app.notes, pilot)
            found.append(find(place))
            await pilot.press("space")
            await until(lambda: "destination" in text_of(app, "#state"), pilot)
            await pilot.press("ctrl+c")
        assert not app.is_running

    asyncio.run(main())
