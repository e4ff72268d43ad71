"""CPU time and priority of this process and all processes that it started; Linux only."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def seconds(root: int | None = None) -> float:
    """Measure CPU seconds of the processes below this one, or below ``root``, ended ones included."""
    found = _tree(root or os.getpid())
    while True:
        again = _tree(root or os.getpid())
        if {process: ended for process, (_, ended) in found.items()} == {
            process: ended for process, (_, ended) in again.items()
        }:
            return sum(map(sum, found.values()))
        found = again  # one ended, and was in both or in neither


def nanoseconds(processes: Iterable[int]) -> int:
    """Measure the CPU time of all threads that are running in these processes."""
    used = 0
    for process in processes:
        for path in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with suppress(OSError):  # ended
                used += int(path.read_text().split()[0])
    return used


def below(root: int) -> list[int]:
    """Find the processes that were started by this one, or by those."""
    return [process for process in _tree(root) if process != root]


def realtime() -> bool:
    """Schedule these processes before those of others, and all that they start later, where this is allowed.

    The kernel leaves others a twentieth of each second. Return whether it is allowed.
    """
    try:
        for process in _tree(os.getpid()):
            for thread in Path(f"/proc/{process}/task").glob("*"):
                with suppress(ProcessLookupError):  # ended
                    os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(5))
    except PermissionError:
        return False
    return True


def _tree(root: int) -> dict[int, tuple[float, float]]:
    """Read what each process has used, and what those used that it started and that have ended."""
    children, used = defaultdict(list), {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            running = sum(map(int, fields[11:13])) / _TICKS
            if fields[17] == "1":
                # Of the only thread, and exact: of many processes, what is less than a tick is a lot.
                running = int(path.with_name("schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # ended
        children[int(fields[1])].append(int(path.parent.name))
        used[int(path.parent.name)] = (running, sum(map(int, fields[13:15])) / _TICKS)
    tree = [root]
    for process in tree:
        tree += children[process]
    return {process: used[process] for process in tree if process in used}
