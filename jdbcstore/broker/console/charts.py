"""Line charts as SVG: the points are computed here, and drawn by a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isnan, log10

WIDTH, HEIGHT = 640.0, 160.0
_TOP = 6.0


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart."""

    label: str
    path: str
    """The ``d`` of an SVG path; empty without values."""
    latest: float | None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with one scale, from 0 to ``top``, over the last hour."""

    title: str
    lines: tuple[ChartLine, ...]
    top: float

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not any(line.path for line in self.lines)


def chart(title: str, lines: Sequence[tuple[str, Sequence[float]]]) -> Chart:
    """Return a chart of values, the oldest first; NaN leaves a gap."""
    known = [value for _, values in lines for value in values if not isnan(value)]
    top = _rounded(max(known, default=0.0))
    return Chart(title, tuple(_line(label, values, top) for label, values in lines), top)


def _line(label: str, values: Sequence[float], top: float) -> ChartLine:
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
    known = [value for value in values if not isnan(value)]
    return ChartLine(label, "".join(parts), known[-1] if known else None)


def _rounded(value: float) -> float:
    """Return the next round number."""
    if value <= 1:
        return 1.0
    power: float = 10 ** floor(log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)
