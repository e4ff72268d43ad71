"""A reader that is fuzzed: its inputs, its refusals, and what must hold of whatever it reads."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
MOST_SECONDS = 1.0
"""CPU time of one input, of this thread."""
MOST_MEMORY = 128 * 1024 * 1024
"""Bytes that the process may grow by because of one input: ten times more than any reader needs."""


@dataclass(frozen=True)
class Target:
    """A reader of bytes."""

    name: str
    read: Callable[[bytes], object]
    """Reads an input, and asserts what must hold of the result."""
    refusals: tuple[type[Exception], ...]
    """The product's own errors for an input that is not valid. Any other exception is a defect."""
    holds: str
    """What ``read`` asserts, for the table."""
    begin: Callable[[], Iterable[bytes]]
    """Valid inputs to begin with."""
    words: str = ""
    """Words that are worth trying, separated by blanks, with libFuzzer's escapes."""
    largest: int = 4096
    """Bytes of an input."""

    @property
    def corpus(self) -> Path:
        """The folder of the inputs that are replayed in the tests."""
        return CORPUS / self.name


def check(target: Target, data: bytes) -> bool:
    """Return whether the reader accepts an input.

    :raises AssertionError: something does not hold
    :raises Exception: the reader raises what is not one of its refusals
    """
    try:
        target.read(data)
    except target.refusals as error:
        text = str(error)
    else:
        return True
    assert len(text) < 100_000, f"the error has {len(text)} characters"
    return False


def check_bounded(target: Target, data: bytes) -> bool:
    """As :func:`check`, within bounds of time and memory.

    :raises AssertionError: it takes more
    """
    begin, peak = time.thread_time(), peak_memory()
    accepted = check(target, data)
    seconds, grown = time.thread_time() - begin, peak_memory() - peak
    assert seconds < MOST_SECONDS, f"{len(data)} bytes took {seconds:.1f} s"
    assert grown < MOST_MEMORY, f"{len(data)} bytes took {grown} bytes of memory"
    return accepted


def peak_memory() -> int:
    """Return the most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
