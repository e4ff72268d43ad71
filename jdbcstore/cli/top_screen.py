"""The screens of ``top``: a live table of the broker, the messages of a queue, and a confirmation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from rich.console import JustifyMethod
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static

from jdbcstore.cli.live import LiveView
from jdbcstore.cli.messages import body_text
from jdbcstore.cli.output import as_text, counted, local_time, printable
from jdbcstore.cli.readings import (
    COLUMNS,
    NUMBERS,
    TITLES,
    Readings,
    TopReading,
    TopSelection,
    alarm_line,
    broker_lines,
    cells,
    remainder,
)
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.facts import Facts
from jdbcstore.message.readable import indented
from jdbcstore.util.checkup import BAD

_MESSAGES = 100
"""Most messages of a queue that are shown."""
_ALARMS = 3
"""Most alarms that are shown."""
_LONGEST = 10_000
"""Most characters of a body that are shown."""
_COLORS = {
    "gray": "grey37",
    "red": "dark_red",
    "orange": "dark_orange3",
    "green": "dark_green",
    "blue": "navy_blue",
    "purple": "purple4",
}
"""Colours of environments in the terminal."""
_KEYS = """\
s, S     sort by the next or previous column; or click on a title
r        reverse the order
/        show only names that contain this text; escape shows all again
enter    show the messages of a queue; h there shows bytes in hexadecimal
p        pause or resume deliveries of a queue
x        purge a queue, or a topic's pending messages; you confirm by typing its name
space    read now
q        quit"""

T = TypeVar("T")


class _Question(ModalScreen[bool]):
    """A confirmation of an irreversible operation: the user must type the name."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(False)", "No")]

    def __init__(self, text: str, name: str) -> None:
        super().__init__()
        self._text = text
        self._typed = name

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(
                Text(f"{self._text}\n\nThis cannot be undone. Type {self._typed} to confirm; escape cancels"),
                id="question",
            )
            yield Input(id="typed", placeholder=self._typed)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip() == self._typed.strip():
            self.dismiss(True)
        else:
            self.notify("the name does not match", severity="warning", markup=False)


class _Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark", "dismiss", "Close"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(Text(_KEYS))


class Messages(Screen[None]):
    """The first messages of a queue, with the properties and the body of the one under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back"),
        Binding("h", "hex", "Hex"),
    ]

    def __init__(self, queue: Destination, messages: Sequence[Facts]) -> None:
        super().__init__()
        self._queue = queue
        self._messages = messages
        self._as_hex = False
        self._shown: Facts | None = None
        self._message = Static(id="message")  # it may be written before it is mounted

    def compose(self) -> ComposeResult:
        count = counted(len(self._messages))
        which = f"the first {count}" if len(self._messages) == _MESSAGES else count
        yield Static(Text(f"{printable(str(self._queue))}  {which}"), classes="title")
        yield DataTable(id="messages", cursor_type="row", zebra_stripes=True)
        with VerticalScroll(id="about"):
            yield self._message
        yield Footer()

    def on_mount(self) -> None:
        table = self.query_one("#messages", DataTable)
        table.add_columns("sent", "type", "priority", "redelivered", "message id")
        for number, facts in enumerate(self._messages):
            table.add_row(*map(Text, _message_cells(facts)), key=str(number))
        table.focus()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        if event.row_key.value is not None:
            self._shown = self._messages[int(event.row_key.value)]
            self._show()

    def action_hex(self) -> None:
        """Show bytes in hexadecimal, or as text again."""
        self._as_hex = not self._as_hex
        self._show()

    def _show(self) -> None:
        if self._shown is not None:
            self._message.update(Text(message_text(self._shown, as_hex=self._as_hex)))


def _message_cells(facts: Facts) -> tuple[str, ...]:
    if "error" in facts:
        return ("", "damaged", "", "", printable(str(facts["message_id"])))
    return (
        local_time(facts["timestamp"]),
        facts["type"],
        str(facts["priority"]),
        str(facts["redelivery_counter"]),
        printable(str(facts["message_id"])),
    )


def message_text(facts: Facts, *, as_hex: bool = False) -> str:
    """Format set headers, properties and body of a message, without a terminal's control characters."""
    if "error" in facts:
        return printable(str(facts["error"]))
    named = {
        "expiration": local_time(facts["expiration"]) if facts["expiration"] else None,
        "correlation id": facts["correlation_id"],
        "reply to": facts["reply_to"],
        "type": facts["jms_type"],
        **facts["properties"],
    }
    lines = [
        f"{printable(name)} = {printable(as_text(value))}"
        for name, value in named.items()
        if value is not None
    ]
    body = body_text(facts, as_hex=as_hex)
    body = body if as_hex else indented(body)
    more = f"\n(and {len(body) - _LONGEST} characters more)" if len(body) > _LONGEST else ""
    return "\n".join([*lines, "", printable(body[:_LONGEST], keep="\n\t") + more])


class Top(LiveView):
    """The live view: the broker in two lines, its destinations below.

    :param period: seconds between readings
    """

    CSS = """
    #broker, #alarms, #state, .title { height: auto; padding: 0 1; }
    #broker { text-style: bold; }
    #state { color: $text-muted; }
    #state.failed { background: $error; color: $text; text-style: bold; }
    #destinations { height: 1fr; }
    #filter { display: none; }
    #filter.shown { display: block; }
    #messages { height: 1fr; }
    #about { height: 1fr; border-top: solid $primary; padding: 0 1; }
    ModalScreen { align: center middle; }
    .box { width: 76; max-width: 95%; height: auto; padding: 1 2; }
    .box { border: round $primary; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "Sort back", show=False),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter"),
        Binding("escape", "all", "All", show=False),
        Binding("p", "pause", "Pause/resume"),
        Binding("x", "purge", "Purge"),
        Binding("space", "read", "Read now", show=False),
        Binding("question_mark", "help", "Keys"),
        Binding("q,ctrl+c", "quit", "Quit"),
    ]

    def __init__(self, readings: Readings, selection: TopSelection, period: float) -> None:
        super().__init__(period)
        self._readings = readings
        self._turn = asyncio.Lock()  # readings are not thread-safe
        self.selection = selection
        """Displayed rows and their order."""
        self.reading: TopReading | None = None
        """The last reading."""
        self.rows: tuple[Facts, ...] = ()
        """The rows of the table, in its order."""

    def compose(self) -> ComposeResult:
        yield Static(id="broker")
        yield Static(id="alarms")
        yield Static(id="state")
        yield DataTable(id="destinations", cursor_type="row", zebra_stripes=True)
        yield Input(
            id="filter", value=self.selection.text, placeholder="part of a name", select_on_focus=False
        )
        yield Footer()

    def on_mount(self) -> None:
        self._table.focus()
        self._arrange()
        self.run_worker(self.follow(), group="follow")

    @property
    def _table(self) -> DataTable[Text]:
        return self.screen_stack[0].query_one("#destinations", DataTable)

    # Readings

    async def read(self) -> None:
        selection = self.selection
        try:
            reading = await self._ask(lambda: self._readings.read(selection))
        except StoreError as error:
            self._state(f"{error}; retrying", failed=True)
            return
        if selection.text != self.selection.text:
            return  # the next reading is already wanted
        self.reading = reading
        self._main("#broker").update(_titled(reading.broker))
        self._main("#alarms").update(_alarmed(reading.alarms))
        text = f"  with {selection.text!r}" if selection.text else ""
        self._state(f"{remainder(reading)}{text}", failed=False)
        self._arrange()

    async def _ask(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(work)

    def _act(
        self, row: Facts, work: Callable[[RemoteBroker, Destination], T], done: Callable[[T], object]
    ) -> None:
        """Run an operation on the broker while readings continue; then call ``done``, or show the error."""

        async def act() -> None:
            try:
                broker = await self._ask(lambda: self._readings.broker)
                result = await asyncio.to_thread(work, broker, Destination.parse(row["destination"]))
            except StoreError as error:
                self.notify(printable(str(error)), severity="error", markup=False)
            else:
                done(result)
            self._wanted.set()

        self.run_worker(act(), group="act")

    def _done(self, text: str) -> None:
        self.notify(printable(text), markup=False)

    def _main(self, name: str) -> Static:
        return self.screen_stack[0].query_one(name, Static)

    def _state(self, text: str, *, failed: bool) -> None:
        shown = self._main("#state")
        shown.update(Text(printable(text)))
        shown.set_class(failed, "failed")

    def _arrange(self) -> None:
        """Show the rows of the last reading in the selected order, and keep the cursor on its row."""
        rows = () if self.reading is None else self.selection.arranged(self.reading.destinations)
        table, before = self._table, self.rows
        at = table.cursor_row
        chosen = before[at]["destination"] if at < len(before) else None
        left, above = table.scroll_x, table.scroll_y
        self.rows = rows
        arrow = "▼" if self.selection.descending else "▲"
        with self.batch_update():
            table.clear(columns=True)
            for column, title in zip(COLUMNS, TITLES, strict=True):
                mark = arrow if column is self.selection.column else ""
                side: JustifyMethod = "right" if title in NUMBERS else "left"
                table.add_column(Text(f"{title}{mark}", justify=side), key=title)
            for row in rows:
                table.add_row(*_styled(row), key=row["destination"])
            names = [row["destination"] for row in rows]
            if chosen in names:
                at = names.index(chosen)
            table.move_cursor(row=min(at, max(len(rows) - 1, 0)), animate=False, scroll=False)
            table.scroll_to(left, above, animate=False)

    # Keys

    def action_sort(self, step: int) -> None:
        at = COLUMNS.index(self.selection.column) + step
        self._sort(at % len(COLUMNS))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        if event.data_table.id == "destinations":
            if COLUMNS[event.column_index] is self.selection.column:
                self.action_reverse()
            else:
                self._sort(event.column_index)

    def _sort(self, at: int) -> None:
        self.selection = replace(self.selection, column=COLUMNS[at], descending=at > 0)
        self._arrange()
        self._wanted.set()

    def action_reverse(self) -> None:
        self.selection = replace(self.selection, descending=not self.selection.descending)
        self._arrange()
        self._wanted.set()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def action_all(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("shown")
        self._table.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        # The field also reports its first value.
        if event.input.id == "filter" and event.value != self.selection.text:
            self.selection = replace(self.selection, text=event.value)
            self._wanted.set()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        self._table.focus()

    def action_help(self) -> None:
        self.push_screen(_Help())

    def _chosen(self) -> Facts | None:
        at = self._table.cursor_row
        return self.rows[at] if at < len(self.rows) else None

    def _chosen_queue(self, what: str) -> Facts | None:
        row = self._chosen()
        if row is not None and row["is_topic"]:
            self.notify(f"only a queue {what}", severity="warning", markup=False)
            return None
        return row

    def action_pause(self) -> None:
        row = self._chosen_queue("can be paused")
        if row is None:
            return
        name = row["destination"]
        operation, done = ("resume", "resumed") if row["is_paused"] else ("pause", "paused")
        self._act(
            row,
            lambda broker, queue: broker.call(operation, queue),
            lambda _: self._done(f"{done} {name}"),
        )

    def action_purge(self) -> None:
        row = self._chosen()
        if row is None:
            return
        what = "the pending messages of its durable subscriptions without a consumer"
        if not row["is_topic"]:
            what = f"its {counted(row['size'] or 0)}, except unacknowledged ones"
        title = "" if self.reading is None else f" of {printable(self.reading.broker['title'])}"
        text = f"Purge {printable(row['destination'])}{title}? This removes {what}."

        def purge(broker: RemoteBroker, destination: Destination) -> int:
            return broker.act("purge", destination).count

        def answered(yes: bool | None) -> None:
            if yes:
                name = row["destination"]
                self._act(row, purge, lambda count: self._done(f"removed {counted(count)} from {name}"))

        self.push_screen(_Question(text, printable(row["destination"].partition("://")[2])), answered)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "destinations":
            row = self._chosen_queue("has messages to show")
            if row is not None:
                queue = Destination.parse(row["destination"])
                self._act(
                    row,
                    lambda broker, queue: broker.on_queue("browse", queue, [], limit=_MESSAGES),
                    lambda messages: self.push_screen(Messages(queue, messages)),
                )

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key is active: keys for destinations need the table on the screen."""
        return len(self.screen_stack) == 1 or action == "quit"


def _titled(broker: Facts) -> Text:
    """Return the lines above the table, the environment in its colour."""
    text = Text("\n".join(broker_lines(broker)))
    text.stylize(f"bold white on {_COLORS[broker['color']]}", 0, len(printable(broker["environment"])))
    return text


def _alarmed(alarms: Sequence[Facts]) -> Text:
    """Return the first alarms, one per line, and the number of the others."""
    lines = [
        Text(f"! {alarm_line(alarm)}", "bold red" if alarm["level"] == BAD else "yellow")
        for alarm in alarms[:_ALARMS]
    ]
    if len(alarms) > _ALARMS:
        lines.append(Text(f"  and {counted(len(alarms) - _ALARMS, 'alarm')} more: jdbcstore manage alarms"))
    return Text("\n").join(lines)


def _styled(row: Facts) -> list[Text]:
    name, *numbers = cells(row)
    texts = [Text(name), *(Text(number, justify="right") for number in numbers)]
    if row["is_paused"]:
        texts[0].stylize("yellow")
    if row["size"] and not row["consumers"]:
        texts[TITLES.index("consumers")].stylize("yellow")
    if row["dead"]:
        texts[TITLES.index("dead")].stylize("red")
    return texts
