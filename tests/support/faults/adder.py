"""A process that adds messages.

Prints a line for each message: its sequence, and its number among this process's.
"""

from __future__ import annotations

import sys

import jdbcstore
from jdbcstore import Message


def main(url: str, name: str, batches: str, size: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store:
        queue = store.queue(name)
        sys.stdin.readline()  # until the others are there too
        for batch in range(int(batches)):
            numbers = range(batch * int(size), (batch + 1) * int(size))
            for reference, number in zip(
                queue.add_messages([Message(str(number)) for number in numbers]), numbers, strict=True
            ):
                sys.stdout.write(f"{reference.sequence} {number}\n")
