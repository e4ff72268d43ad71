"""Line charts as SVG: the points are computed here, and drawn by a template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isnan, log10

from jdbcstore.broker.management.history import HistorySpan

WIDTH, HEIGHT = 640.0, 160.0
_TOP = 6.0


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart."""

    label: str
    path: str
    """The ``d`` of an SVG path; empty without values."""
    latest: float | None
    """The current value."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with one scale, from 0 to ``top``, over a span that ends now."""

    title: str
    lines: tuple[ChartLine, ...]
    top: float
    span: HistorySpan
    is_rate: bool
    seconds: float
    """The length of the charted time, which begins with the first value."""
    points: str
    """The values of each line as JSON for the script, null where a value is missing."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not any(line.path for line in self.lines)


def chart(
    title: str,
    span: HistorySpan,
    lines: Sequence[tuple[str, Sequence[float], float | None]],
    *,
    is_rate: bool = False,
) -> Chart:
    """Return a chart from labels, values (the oldest first) and current values; NaN leaves a gap.

    It begins where the values begin.
    """
    count = len(lines[0][1])
    begin = min(
        (at for _, values, _ in lines for at, value in enumerate(values) if not isnan(value)), default=0
    )
    lines = [(label, values[begin:], latest) for label, values, latest in lines]
    known = [value for _, values, _ in lines for value in values if not isnan(value)]
    top = _rounded(max(known, default=0.0))
    points = [[None if isnan(value) else round(value, 1) for value in values] for _, values, _ in lines]
    drawn = tuple(_line(label, values, latest, top) for label, values, latest in lines)
    return Chart(
        title=title,
        lines=drawn,
        top=top,
        span=span,
        is_rate=is_rate,
        seconds=(count - 1 - begin) * span.interval,
        points=json.dumps(points, separators=(",", ":")),
    )


def _line(label: str, values: Sequence[float], latest: float | None, top: float) -> ChartLine:
    parts, drawing = [], False
    last = max(len(values) - 1, 1)
    for at, value in enumerate(values):
        if isnan(value):
            drawing = False
            continue
        x = WIDTH * at / last
        y = HEIGHT - (HEIGHT - _TOP) * value / top
        # A sample without neighbours is a dot.
        parts.append(f"{'L' if drawing else 'M'}{x:.1f} {y:.1f}" + ("" if drawing else "h.1"))
        drawing = True
    return ChartLine(label, "".join(parts), latest)


def _rounded(value: float) -> float:
    """Return the next round number."""
    if value <= 1:
        return 1.0
    power: float = 10 ** floor(log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def spark(values: Sequence[float]) -> str:
    """Return the ``d`` of a small SVG path of 60 by 16, without gaps; empty for less than two values."""
    known = [value for value in values if not isnan(value)]
    if len(known) < 2:
        return ""
    top, step = max(*known, 1.0), 60 / (len(known) - 1)
    return "M" + "L".join(f"{step * at:.0f} {15 - 14 * value / top:.0f}" for at, value in enumerate(known))


def bars(times: Sequence[int], first: int, last: int) -> str:
    """Return the ``d`` of an SVG path of 60 by 16: a histogram of times between two."""
    counts, width = [0] * 20, max(last - first, 1)
    for time in times:
        counts[min(20 * (time - first) // width, 19)] += 1
    top = max(*counts, 1)
    return "".join(f"M{3 * at} 16v{-15 * count / top:.0f}h2V16z" for at, count in enumerate(counts) if count)
