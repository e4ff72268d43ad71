"""What is printed: lines, tables, and bars while something takes long."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDTH_OF_A_PIPE = 160
_NARROWEST = 12
"""Characters of a column below which its words are cut into letters."""
READING_JOURNAL = "reading the journal"
"""What takes a store long to open."""


def prepare_streams() -> None:
    """Let no character that a terminal's encoding lacks stop the output."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def write_line(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.write("\n")


def write_json(value: object) -> None:
    """One line of JSON in plain ASCII: also half a surrogate pair is valid JSON then."""
    write_line(json.dumps(value, allow_nan=False))


def note(text: str) -> None:
    """One line for people, beside the output."""
    click.echo(f"jdbcstore: {printable(text)}", err=True)


def printable(text: str, *, keep: str = "") -> str:
    """The text with everything escaped that could steer a terminal, but the characters ``keep``."""
    if text.isprintable():
        return text
    return "".join(c if c in keep or c.isprintable() else repr(c)[1:-1] for c in text)


def console() -> Console:
    """Of the terminal's width; of a pipe, as wide as COLUMNS says.

    Where the reader of a pipe goes away, that is a BrokenPipeError as with any other output.
    """
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:  # rich ends the process there
            raise BrokenPipeError

    columns = os.environ.get("COLUMNS", "")
    width = None if sys.stdout.isatty() else int(columns) if columns.isdecimal() else _WIDTH_OF_A_PIPE
    return Output(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def new_table(*, header: bool = True) -> Table:
    from rich.table import Table

    return Table(box=None, show_header=header, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))


def print_table(title: str, columns: dict[str, str], rows: list[tuple[str, ...]]) -> None:
    """A table, under a title if there is one; ``columns`` says of each whether it goes "left" or "right".

    Where columns would become so narrow that words are cut, each row is a paragraph of its own.
    """
    table = new_table()
    for name, side in columns.items():
        justify: Literal["left", "right"] = "right" if side == "right" else "left"
        table.add_column(name, justify=justify, overflow="fold")
    cells = [tuple(map(printable, row)) for row in rows]
    for row in cells:
        table.add_row(*row)
    out = console()
    if title:
        out.print()
        out.print(title, style="bold")
    narrowest = [min(_NARROWEST, max(map(len, column))) for column in zip(columns, *cells, strict=True)]
    if sum(narrowest) + 2 * len(narrowest) <= out.width:
        out.print(table)
        return
    for row in cells:
        out.print(_paragraph([*columns], row), soft_wrap=True)


def _paragraph(names: list[str], row: tuple[str, ...]) -> str:
    width = max(map(len, names))
    return "\n".join(f"{name:{width}}  {cell}".rstrip() for name, cell in zip(names, row, strict=True)) + "\n"


def counted(count: int, what: str = "message") -> str:
    """``1 message``, ``2 messages``."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def local_time(time_ms: int | None) -> str:
    """A stored time in the time zone of this machine, or a dash."""
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # beyond year 9999
        return f"{time_ms} ms"


def duration(seconds: float | None) -> str:
    """Two units at most: ``3 d 4 h``."""
    if seconds is None:
        return "-"
    left = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def size(count: int) -> str:
    """Bytes for people."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{count} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's stderr, and nothing anywhere else; call what it gives with what was done."""
    if not sys.stderr.isatty():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def progress_if_any(description: str) -> Iterator[Callable[[int], None]]:
    """The same, and no bar before something is done."""
    with ExitStack() as stack:
        bars: list[Callable[[int], None]] = []

        def advance(count: int) -> None:
            if not bars:
                bars.append(stack.enter_context(progress(description)))
            bars[0](count)

        yield advance


def _nothing(_count: int) -> None:
    pass
