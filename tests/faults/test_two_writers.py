"""Two processes that store into the same tables at once."""

from __future__ import annotations

import subprocess
import sys

import jdbcstore
from jdbcstore.abc import pages
from tests.faults.effects import WAIT

BATCHES, SIZE = 60, 200
"""More than one block of sequences for each."""


def test_nothing_is_lost_and_no_sequence_given_twice(url: str) -> None:
    command = [sys.executable, "-m", "tests.faults.adder", url]
    adders = {
        name: subprocess.Popen(
            [*command, name, str(BATCHES), str(SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("ONE", "TWO")
    }
    for adder in adders.values():
        assert adder.stdin is not None
        adder.stdin.write("\n")
        adder.stdin.flush()
    said = {name: adder.communicate(timeout=WAIT * 2) for name, adder in adders.items()}
    told: dict[str, dict[int, str]] = {}
    for name, (output, errors) in said.items():
        assert not errors
        told[name] = {int(line.split()[0]): line.split()[1] for line in output.splitlines()}
        assert len(told[name]) == BATCHES * SIZE
    assert not told["ONE"].keys() & told["TWO"].keys()
    with jdbcstore.open(url, cleanup_period=0) as store:
        for name in adders:
            stored = {message.sequence: message.body for page in pages(store.queue(name)) for message in page}
            assert stored == told[name]
        assert store.last_sequence() >= max(max(of_one) for of_one in told.values())
