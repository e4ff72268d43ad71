"""CPU time of this process and all processes that it started; Linux only."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def seconds(root: int | None = None) -> float:
    """Measure CPU seconds of the processes below this one, or below ``root``, ended ones included."""
    children, used = defaultdict(list), {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended
        children[int(fields[1])].append(int(path.parent.name))
        used[int(path.parent.name)] = sum(map(int, fields[11:15]))
    tree = [root or os.getpid()]
    for process in tree:
        tree += children[process]
    return sum(used.get(process, 0) for process in tree) / _TICKS
