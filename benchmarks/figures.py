"""The figures of a comparison, as cells of Markdown tables."""

from __future__ import annotations

from collections import defaultdict
from statistics import median


class Figures:
    """What was measured, by row and name."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._cpu: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, row: str, name: str, rate: float, cpu: float | None = None) -> None:
        self._rates[row, name].append(rate)
        if cpu is not None:
            self._cpu[row, name].append(cpu)

    def rate(self, row: str, name: str) -> str:
        """Return the median, with the lowest and the highest."""
        rates = self._rates.get((row, name))
        return f"{median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})" if rates else ""

    def ratio(self, row: str, name: str, other: str, other_row: str | None = None) -> str:
        """Return the median of the rounds' ratios."""
        mine, theirs = self._rates.get((row, name)), self._rates.get((other_row or row, other))
        if not mine or not theirs:
            return ""
        return f"{median(one / two for one, two in zip(mine, theirs, strict=True)):.2f}"

    def stored(self, row: str, other: str) -> dict[str, list[float]]:
        """Return each median with the lowest and highest, and those of the rounds' ratios to the other."""
        names = [name for label, name in self._rates if label == row]
        found = {name: [round(rate, 0) for rate in _spread(self._rates[row, name])] for name in names}
        if other in names and (mine := self._rates.get((row, "jdbcstore"))):
            ratios = [one / two for one, two in zip(mine, self._rates[row, other], strict=True)]
            return {**found, "ratio": [round(ratio, 2) for ratio in _spread(ratios)]}
        return found

    def microseconds(self, row: str, name: str) -> str:
        cpu = self._cpu.get((row, name))
        return f"{median(cpu) * 1e6:,.0f}" if cpu else ""


def _spread(figures: list[float]) -> list[float]:
    return [median(figures), min(figures), max(figures)]
