"""Numbers, sizes and times for people."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isnan

from jdbcstore.broker.management.views import DestinationView

NONE = "\u2013"
"""A dash, for unknown values."""
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_DURATIONS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_STEADY = 0.05
"""Messages per second below which a queue neither grows nor shrinks."""


def number(value: float | None) -> str:
    """Format a number with commas; a dash for None."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return NONE
    return (
        f"{value:,.0f}" if isinstance(value, int) or value >= 100 or value == int(value) else f"{value:,.1f}"
    )


def counted(value: int, noun: str, nouns: str = "") -> str:
    """Format a number with its noun: ``1 message``, ``2,000 messages``."""
    return f"{number(value)} {noun if value == 1 else nouns or f'{noun}s'}"


def rate(value: float | None) -> str:
    """Format a number per second."""
    return NONE if value is None else f"{number(round(value, 1))}/s"


def size(value: float | None) -> str:
    """Return a number of bytes with its unit."""
    if value is None:
        return NONE
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def duration(seconds: float | None) -> str:
    """Format seconds, such as ``3 min``."""
    if seconds is None:
        return NONE
    for length, unit in _DURATIONS:
        if seconds >= length:
            return f"{number(round(seconds / length, 0 if seconds >= 10 * length else 1))} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds * 1000:.3g} ms"


def age(seconds: float | None) -> str:
    """Format an age: ``now`` below a second."""
    return "now" if seconds is not None and seconds < 1 else duration(seconds)


def idle(seconds: float | None) -> str:
    """Format an idle time, which is known in steps of ten seconds."""
    return "< 10 s" if seconds is not None and seconds < 10 else duration(seconds)


def share(value: float | None) -> str:
    """Format a share in percent."""
    return NONE if value is None else f"{100 * value:.0f} %"


def trend(view: DestinationView) -> str:
    """Format the growth of a queue, or the time in which it will be empty."""
    growth = view.growth_per_second
    if growth is None:
        return NONE
    if growth >= _STEADY:
        return f"+{rate(growth)}"
    if growth <= -_STEADY and view.size:
        return f"empty in {duration(view.size / -growth)}"
    return "steady" if view.size else ""


def short(text: str, most: int = 44) -> str:
    """Shorten a name in the middle if it has more than ``most`` characters."""
    begin = most // 2
    return text if len(text) <= most else f"{text[:begin]}…{text[begin + 1 - most :]}"


def moment(time_ms: int | None) -> str:
    """Format a time, in UTC."""
    if not time_ms:
        return NONE
    try:
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
    return time.strftime("%Y-%m-%d %H:%M:%S")


def bare(destination: object) -> str:
    """Return the name of a destination without its kind."""
    return str(destination).partition("://")[2]
