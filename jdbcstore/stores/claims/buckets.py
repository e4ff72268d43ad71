"""Token buckets by the database's clock, and the rates that are set for them.

Stored is the time up to which the tokens of a bucket are drawn: each claim draws the time that one token
takes to arrive, and a claim may draw ahead by a burst. So an idle bucket needs no writes to be filled, and a
clock that is set back leaves an empty bucket, which does not wait for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jdbcstore.database.statements.flow import NS_PER_MS, RATE_NS
from jdbcstore.errors import ConfigurationError

MOST = 1_000_000
"""The most that a limit, a burst, or a rate per second can be."""
_MILLION = 1_000_000
_LONGEST_FILL = 10**18
"""Nanoseconds in which a bucket must fill: times stay within 64 bits."""


class Rate(NamedTuple):
    """A rate as it is stored."""

    per_million: int
    """The claims in a million seconds."""
    burst: int
    """The claims that can be made at once."""

    @property
    def per_second(self) -> float:
        """The claims in a second."""
        return self.per_million / _MILLION

    @property
    def spacing(self) -> int:
        """The nanoseconds between two claims, rounded up: a rate is never exceeded."""
        return -(-RATE_NS // self.per_million)


class Bucket(NamedTuple):
    """The tokens that there are at a time."""

    tokens: int
    drawn: int
    """The nanoseconds of the database's clock up to which tokens are drawn."""
    opens_in: float
    """Seconds until there is a token, if there is none."""
    is_ahead: bool
    """Whether the bucket is overdrawn: the clock was set back, or the burst lowered."""


def rate_of(per_million: int | None, burst: int | None) -> Rate | None:
    """Return the rate that is stored in two columns; None without one."""
    return None if per_million is None or burst is None else Rate(per_million, burst)


def look_into(rate: Rate, drawn: int, now_ms: int) -> Bucket:
    """Return the content of a bucket, of which ``drawn`` is stored."""
    now, spacing = now_ms * NS_PER_MS, rate.spacing
    full = now + rate.burst * spacing
    begin = min(max(drawn, now), full)
    tokens = (full - begin) // spacing
    opens_in = float("inf") if tokens else (begin + spacing - full) / 1e9
    return Bucket(tokens, begin, opens_in, drawn > full)


def checked(rate: float | None, burst: int | None, advice: str) -> Rate | None:
    """Return the rate as it is stored, rounded to claims in a million seconds; None without one.

    :param advice: what to do for no claims at all
    :raises ConfigurationError: it is not valid
    """
    check_whole("burst", burst, "leave it out for the claims of one second")
    if rate is None:
        if burst is not None:
            raise ConfigurationError(f"burst={burst} needs a rate", option="burst")
        return None
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if not is_number or not 1 / _MILLION <= rate <= MOST:
        raise ConfigurationError(
            f"rate={rate!r} must be a number of claims per second, from one in {_MILLION} seconds to {MOST};"
            f" {advice}",
            option="rate",
        )
    bucket = Rate(round(rate * _MILLION), max(1, math.floor(rate)) if burst is None else burst)
    if bucket.burst * bucket.spacing > _LONGEST_FILL:
        raise ConfigurationError(
            f"a burst of {bucket.burst} takes more than thirty years to come back at a rate of {rate:g} per"
            " second: lower the burst",
            option="burst",
        )
    return bucket


def check_whole(option: str, value: object, advice: str) -> None:
    """Make sure that an option is a whole number, or None.

    :raises ConfigurationError: it is not valid
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST
    if value is not None and not is_whole:
        raise ConfigurationError(
            f"{option}={value!r} must be a whole number from 1 to {MOST}; {advice}", option=option
        )
