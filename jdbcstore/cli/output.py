"""Output of the commands: lines, JSON, tables, quantities with units, and progress bars."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

_PIPE_WIDTH = 160
_MIN_COLUMN_WIDTH = 12
"""Characters. A narrower column would break words."""


def prepare_streams() -> None:
    """Escape characters that the terminal's encoding lacks, instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def write_line(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.write("\n")


def write_json(value: object) -> None:
    """Write one line of JSON in ASCII, so that even a lone surrogate is valid JSON."""
    import json

    write_line(json.dumps(value, allow_nan=False))


def print_json(values: Iterable[object]) -> None:
    """Write each value as one line of JSON."""
    for value in values:
        write_json(value)


def write_new(path: Path, text: str) -> None:
    """Write a file that must not exist yet."""
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists; remove it, or choose another file") from error


def note(text: str) -> None:
    """Write one line for the user to stderr."""
    click.echo(f"jdbcstore: {printable(text)}", err=True)


def printable(text: str, *, keep: str = "") -> str:
    """Escape characters that could control a terminal, except those in ``keep``."""
    if text.isprintable():
        return text
    return "".join(c if c in keep or c.isprintable() else repr(c)[1:-1] for c in text)


def console() -> Console:
    """Return a console as wide as the terminal; into a pipe, as wide as COLUMNS, else 160 characters.

    A closed pipe raises BrokenPipeError, as with any other output.
    """
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:  # rich would exit the process
            raise BrokenPipeError

    columns = os.environ.get("COLUMNS", "")
    width = None if sys.stdout.isatty() else int(columns) if columns.isdecimal() else _PIPE_WIDTH
    return Output(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def new_table(*, header: bool = True) -> Table:
    from rich.table import Table

    return Table(box=None, show_header=header, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))


def print_table(
    title: str, columns: Sequence[str], rows: list[tuple[str, ...]], *, right: Collection[str] = ()
) -> None:
    """Print a table, under a title unless that is empty; the columns in ``right`` are right-justified.

    If narrow columns would break words, each row becomes a paragraph.
    """
    table = new_table()
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    cells = [tuple(map(printable, row)) for row in rows]
    for row in cells:
        table.add_row(*row)
    out = console()
    if title:
        out.print()
        out.print(title, style="bold")
    narrowest = [
        min(_MIN_COLUMN_WIDTH, max(map(len, column))) for column in zip(columns, *cells, strict=True)
    ]
    if sum(narrowest) + 2 * len(narrowest) <= out.width:
        out.print(table)
        return
    for row in cells:
        out.print(_paragraph(columns, row), soft_wrap=True)


def _paragraph(names: Sequence[str], row: tuple[str, ...]) -> str:
    width = max(map(len, names))
    return "\n".join(f"{name:{width}}  {cell}".rstrip() for name, cell in zip(names, row, strict=True)) + "\n"


def as_text(value: object) -> str:
    """Format a value: a string as it is, None as nothing, other values as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


def counted(count: int, what: str = "message") -> str:
    """Format a count with its noun: ``1 message``, ``2 messages``."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def local_time(time_ms: int | None) -> str:
    """Format a stored time in the time zone of this machine, or as a dash."""
    if time_ms is None:
        return "-"
    from datetime import datetime

    try:
        return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # beyond year 9999
        return f"{time_ms} ms"
    except TypeError:  # SQLite keeps any value
        return str(time_ms)


def duration(seconds: float | None) -> str:
    """Format a duration in at most two units: ``3 d 4 h``."""
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
    """Format a number of bytes with a binary unit."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{count} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def progress_bars(*, transient: bool = False) -> Progress:
    """Return progress bars on stderr, which disappear at their end if they are ``transient``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=transient)


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if stderr is a terminal; call the yielded function with each increment."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    with progress_bars(transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def journal_progress() -> Iterator[Callable[[int], None]]:
    """Show a progress bar of journal records, from the first increment on."""
    with ExitStack() as stack:
        bars: list[Callable[[int], None]] = []

        def advance(count: int) -> None:
            if not bars:
                bars.append(stack.enter_context(progress("reading the journal")))
            bars[0](count)

        yield advance
