"""``python -m tests.fuzzing.keeping NAME FOLDER``: the inputs of a folder that are worth keeping in the tree.

They are small, and reach the steps from line to line of the package, as Python, that any of them does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzzing.target import Target, check
from tests.fuzzing.targets import TARGETS
from tests.support import ROOT

LARGEST = 600
"""Bytes of an input that is kept."""
MOST = 25
"""Inputs of a target that are kept."""
_PACKAGE = f"{ROOT}{os.sep}jdbcstore{os.sep}"

Steps = frozenset[tuple[str, int, int]]


def reached(target: Target, data: bytes) -> Steps:
    """Return the steps from line to line in the package that an input takes: file, and both lines."""
    steps: set[tuple[str, int, int]] = set()
    before: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE):
            return None
        if event == "line":
            steps.add((name, before.get(frame, 0), frame.f_lineno))
            before[frame] = frame.f_lineno
        elif event == "return":
            before.pop(frame, None)
        return trace

    sys.settrace(trace)
    try:
        check(target, data)
    finally:
        sys.settrace(None)
    return frozenset(steps)


def worth_keeping(target: Target, inputs: list[bytes]) -> list[bytes]:
    """Return the inputs to keep: each reaches most of what those before it do not, the smaller first."""
    small = sorted({data for data in inputs if len(data) <= LARGEST}, key=lambda data: (len(data), data))
    reach = [(data, reached(target, data)) for data in small]
    kept: list[bytes] = []
    done: frozenset[tuple[str, int, int]] = frozenset()
    while len(kept) < MOST:
        data, steps = max(reach, key=lambda pair: len(pair[1] - done), default=(b"", frozenset()))
        if not steps - done:
            break
        kept.append(data)
        done |= steps
    return kept


def main() -> None:
    """Replace the inputs in the tree that were kept for what they reach; those of defects stay."""
    target, folder = TARGETS[sys.argv[1]], Path(sys.argv[2])
    kept = worth_keeping(target, [path.read_bytes() for path in folder.iterdir()])
    target.corpus.mkdir(parents=True, exist_ok=True)
    for path in target.corpus.glob("reached-*"):
        path.unlink()
    for number, data in enumerate(kept, 1):
        (target.corpus / f"reached-{number:02}").write_bytes(data)


if __name__ == "__main__":
    main()
