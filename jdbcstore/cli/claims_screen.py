"""The screen of ``top`` for shared queues: their numbers, and the workers below."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from jdbcstore.cli.claim_readings import QUEUE_TITLES, ClaimReading, ClaimReadings
from jdbcstore.cli.live import LiveView
from jdbcstore.cli.output import printable
from jdbcstore.cli.shared import WORKER_TITLES, worker_cells
from jdbcstore.errors import StoreError


class ClaimsTop(LiveView):
    """The read-only live view of shared queues.

    :param period: seconds between readings
    """

    CSS = """
    #summary, #state { height: auto; padding: 0 1; }
    #summary { text-style: bold; }
    #state.failed { color: $text-error; text-style: bold; }
    #queues { height: 2fr; }
    #workers { height: 1fr; border-top: solid $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "read", "Read now"),
        Binding("tab", "app.focus_next", "Queues/workers"),
        Binding("q,ctrl+c", "quit", "Quit"),
    ]

    def __init__(self, readings: ClaimReadings, period: float) -> None:
        super().__init__(period)
        self._readings = readings
        self.reading: ClaimReading | None = None
        """The last reading."""

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        yield Static(id="state")
        yield DataTable(id="queues", cursor_type="row", zebra_stripes=True)
        yield DataTable(id="workers", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        for name, titles in (("#queues", QUEUE_TITLES), ("#workers", WORKER_TITLES)):
            table = self.query_one(name, DataTable)
            table.add_column(titles[0])
            for title in titles[1:]:
                table.add_column(Text(title, justify="right"))
        self.query_one("#queues", DataTable).focus()
        self.run_worker(self.follow())

    async def read(self) -> None:
        state = self.query_one("#state", Static)
        try:
            reading = await asyncio.to_thread(self._readings.read)
        except StoreError as error:
            state.update(Text(printable(f"{error}; retrying")))
            state.set_class(True, "failed")
            return
        self.reading = reading
        state.update("")
        self.query_one("#summary", Static).update(Text("\n".join(reading.summary)))
        self._fill("#queues", reading.rows())
        self._fill("#workers", [worker_cells(worker) for worker in reading.numbers.workers])

    def _fill(self, name: str, rows: Sequence[tuple[str, ...]]) -> None:
        """Show rows, the cursor where it was."""
        table = self.query_one(name, DataTable)
        at, above = table.cursor_row, table.scroll_y
        with self.batch_update():
            table.clear()
            for first, *numbers in rows:
                table.add_row(Text(first), *(Text(number, justify="right") for number in numbers))
            table.move_cursor(row=min(at, max(len(rows) - 1, 0)), animate=False, scroll=False)
            table.scroll_to(y=above, animate=False)
