"""The report: the named queries and their answers as one self-contained HTML page."""

from __future__ import annotations

import html
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.java import resource
from jdbcstore.analytics.questions import as_json, explained, named, purpose
from jdbcstore.errors import ConfigurationError, installation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 1000
"""Rows per answer: the page is for human readers."""
_BARS = 25
_LINES = 10
_LONGEST_LABEL = 70


@dataclass(frozen=True, slots=True)
class Plot:
    """The chart of an answer: one number per row, labelled with these columns."""

    value: str
    labels: tuple[str, ...]
    line: bool = False
    """A line over the first label, which is a time."""
    beside: str = ""
    """Another number, as a second line."""
    by: str = ""
    """A line for each value of this column; else the numbers of one time are added up."""


PLOTS = {
    "age-histogram": Plot("messages", ("age",)),
    "backlog": Plot("depth", ("destination",)),
    "dwell": Plot("median_seconds", ("hour",), line=True, by="destination"),
    "duplicates": Plot("duplicates", ("destination", "msgid_prod")),
    "gaps": Plot("missing", ("producer", "first_missing")),
    "lag": Plot("lag", ("destination", "client_id", "subscription_name")),
    "largest": Plot("message_size", ("destination", "id")),
    "poison": Plot("messages", ("destination", "original_destination", "cause")),
    "properties": Plot("messages", ("destination", "name", "type")),
    "rates": Plot("produced", ("minute",), line=True, beside="gone"),
    "reasons": Plot("messages", ("destination", "reason")),
    "redelivery": Plot("redeliveries", ("destination",)),
    "talkers": Plot("messages", ("producer",)),
    "throughput": Plot("messages", ("minute",), line=True),
}


@dataclass(frozen=True, slots=True)
class Section:
    """One query with its answer."""

    name: str
    purpose: str
    columns: list[str]
    rows: list[list[Any]]
    cut: bool
    """Whether the answer has more rows than these."""


def sections(spark: SparkSession) -> Iterator[Section]:
    """Yield the answers of the named queries over the connected views, in turn."""
    for name, question in named().items():
        with explained():
            frame = spark.sql(question)
            taken = [json.loads(row) for row in itertools.islice(as_json(frame), _ROWS + 1)]
        rows = [[row[column] for column in frame.columns] for row in taken[:_ROWS]]
        yield Section(name, purpose(question), frame.columns, rows, len(taken) > _ROWS)


def page(taken: list[Section], place: str, time: str) -> str:
    """Render HTML that loads nothing: style, script and charts are inline. Content of messages is escaped.

    :param place: the store, without secrets
    :raises ConfigurationError: jinja2 or plotly is not installed
    """
    try:
        from jinja2 import Environment
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ConfigurationError(f"{error}; run: {installation('spark')}") from error
    template = Environment(autoescape=True).from_string(resource("report.html"))
    plots = {section.name: _drawn(section) for section in taken if section.rows}
    return template.render(
        sections=taken, plots=plots, script=get_plotlyjs(), place=place, time=time, rows=_ROWS
    )


def _drawn(section: Section) -> str:
    """Render the chart as an element and a script, escaped by plotly."""
    from plotly import graph_objects
    from plotly.io import to_html

    plot = PLOTS[section.name]
    at = section.columns.index
    values = [row[at(plot.value)] for row in section.rows]
    # Plotly interprets markup in labels.
    labels = [html.escape(_short(row[at(name)] for name in plot.labels)) for row in section.rows]
    if plot.line:
        figure = graph_objects.Figure()
        for name, (times, numbers) in _lines(plot, section).items():
            figure.add_scatter(x=times, y=numbers, mode="lines+markers", name=html.escape(_short([name])))
        figure.update_layout(showlegend=bool(plot.by or plot.beside))
        figure.update_yaxes(title="" if plot.beside else plot.value.replace("_", " "), rangemode="tozero")
    else:
        bars = graph_objects.Bar(x=values[:_BARS], y=[*range(len(values[:_BARS]))], orientation="h")
        figure = graph_objects.Figure(bars)
        # Rows with the same label are separate bars.
        ticks = {"tickvals": [*range(len(labels[:_BARS]))], "ticktext": labels[:_BARS]}
        figure.update_yaxes(autorange="reversed", automargin=True, **ticks)
    figure.update_layout(
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        height=120 + (240 if plot.line else 22 * len(values[:_BARS])),
        template="plotly_white",
    )
    figure.update_xaxes(automargin=True)
    options = {"displaylogo": False, "displayModeBar": False, "responsive": True}
    return str(
        to_html(
            figure, full_html=False, include_plotlyjs=False, config=options, div_id=f"plot-{section.name}"
        )
    )


def _lines(plot: Plot, section: Section) -> dict[str, tuple[list[str], list[Any]]]:
    """Return the points of each line, by its name."""
    at = section.columns.index
    times = [row[at(plot.labels[0])] for row in section.rows]
    lines: dict[str, tuple[list[str], list[Any]]] = {}
    if plot.by:
        for row, time in zip(section.rows, times, strict=True):
            points = lines.setdefault(str(row[at(plot.by)]), ([], []))
            points[0].append(time)
            points[1].append(row[at(plot.value)])
        longest = sorted(lines, key=lambda name: -len(lines[name][0]))[:_LINES]
        return {name: lines[name] for name in lines if name in longest}
    for column in filter(None, (plot.value, plot.beside)):
        totals: dict[str | None, int] = {}
        for row, time in zip(section.rows, times, strict=True):
            totals[time] = totals.get(time, 0) + row[at(column)]
        lines[column] = with_empty_minutes([*totals], [*totals.values()])
    return lines


def with_empty_minutes(times: list[str | None], counts: list[int]) -> tuple[list[str], list[int]]:
    """Complete the points of a line, which drops to zero in minutes without messages."""
    minute = timedelta(minutes=1)
    points: list[tuple[str, int]] = []
    last: datetime | None = None
    for text, count in zip(times, counts, strict=True):
        if text is None:
            continue  # without a time it has no place on the line
        time = datetime.fromisoformat(text)
        if last is not None and time - last > minute:
            points.append(((last + minute).isoformat(), 0))
            if time - last > 2 * minute:
                points.append(((time - minute).isoformat(), 0))
        points.append((time.isoformat(), count))
        last = time
    return [time for time, _ in points], [count for _, count in points]


def _short(parts: Iterable[Any]) -> str:
    text = " ".join(str(part) for part in parts if part is not None)
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
