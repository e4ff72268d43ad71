"""The token bucket of a queue: whatever its clock does, no more is claimed than the rate allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.stores.claims.buckets import checked
from jdbcstore.stores.claims.flow import Room, _Stored

START_MS = 1_800_000_000_000

rates = st.one_of(st.floats(1e-6, 1.0), st.floats(1.0, 1_000_000.0), st.integers(1, 1000))
steps = st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 20)), min_size=1, max_size=40)


def stored(rate: float, burst: int | None) -> _Stored:
    found = checked(rate, burst, "")
    assert found is not None
    return _Stored(0, None, found.per_million, found.burst)


def drawn_from(bucket: _Stored, room: Room) -> _Stored:
    """What is stored after a look that has claimed all it could."""
    return bucket._replace(drawn=room.drawn + room.claims * room.spacing)


def claims(bucket: _Stored, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The time of the clock and the number of claims, of processes that claim all they can."""
    now, made = START_MS, []
    for pause, limit in steps:
        now += pause
        room = bucket.room(limit, now, 0)
        bucket = drawn_from(bucket, room)
        assert bucket.drawn < 2**63
        made.append((now, room.claims))
    return made


@given(rates, st.integers(1, 50), steps)
def test_in_any_time_no_more_than_the_burst_and_what_arrives(
    rate: float, burst: int, steps: list[tuple[int, int]]
) -> None:
    bucket = stored(rate, burst)
    made = claims(bucket, steps)
    assert bucket.rate is not None
    for first, (begin, _) in enumerate(made):
        total = 0
        for at, count in made[first:]:
            total += count
            # In integers: claims in a million seconds, and milliseconds.
            assert (total - burst) * 10**9 <= bucket.rate * (at - begin)


@given(rates, st.integers(1, 50))
def test_all_that_the_rate_allows_is_claimed(rate: float, burst: int) -> None:
    bucket = stored(rate, burst)
    [(_, first), (_, second)] = claims(bucket, [(0, 10**6), (4000, 10**6)])
    assert first == burst
    assert bucket.rate is not None
    # Rounding costs a nanosecond for each.
    assert second >= min(burst, 4 * 10**9 // (10**15 // bucket.rate + 1) // 1000)
    assert second <= burst


@given(st.integers(-(10**12), 10**12), st.integers(1, 50))
def test_a_clock_that_jumps_leaves_between_nothing_and_a_burst(jump_ms: int, burst: int) -> None:
    bucket = stored(10.0, burst)
    bucket = drawn_from(bucket, bucket.room(burst, START_MS, 0))
    now = START_MS + jump_ms
    room = bucket.room(10**6, now, 0)
    assert 0 <= room.claims <= burst
    if not room.claims:
        assert room.opens_in <= 0.1
    # A second later there are ten more, whatever the clock was before. Not every look is stored.
    if room.claims or room.is_ahead:
        bucket = drawn_from(bucket, room)
    assert bucket.room(10**6, now + 1000, 0).claims == min(10, burst)


def test_room_is_what_the_tightest_setting_leaves() -> None:
    assert _Stored(1, None, None, None).room(9, START_MS, 0).claims == 0
    assert _Stored(0, 5, None, None).room(9, START_MS, 3).claims == 2
    assert _Stored(0, 5, None, None).room(1, START_MS, 3).claims == 1
    assert _Stored(0, 5, None, None).room(9, START_MS, 7).claims == 0
    assert _Stored(0, 5, 10_000_000, 1).room(9, START_MS, 3).claims == 1
    assert _Stored(0, None, None, None).room(9, START_MS, 3).claims == 9
