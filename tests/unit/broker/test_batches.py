"""How many messages an operation takes at once."""

from __future__ import annotations

from jdbcstore.broker.queues.selection import BatchSize


def after(size: BatchSize, seconds_each: float, *, overhead: float = 0.0, batches: int = 20) -> int:
    """The size after so many batches whose messages take so long each."""
    for _ in range(batches):
        size.took(size.value, overhead + size.value * seconds_each)
    return size.value


def test_a_batch_takes_a_few_hundredths_of_a_second() -> None:
    size = BatchSize(200)
    assert size.value == 50
    assert after(size, 0.00005) == 200  # never more than that
    assert after(size, 0.0005) == 40
    assert after(size, 0.0005, overhead=0.01) in range(18, 23)
    assert after(size, 0.1) == 5  # nor less
    assert after(size, 0.0001) == 200


def test_one_that_had_to_wait_halves_the_next() -> None:
    size = BatchSize(200)
    after(size, 0.0001)
    size.took(200, 1.5)
    assert size.value == 100
    size.took(100, 0.0)
    assert size.value == 200
    assert BatchSize(20).value == 20
