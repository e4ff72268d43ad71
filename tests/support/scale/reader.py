"""A process that pages through a queue: ``python -m tests.support.scale.reader URL NAME``.

Prints as JSON how many messages there were, and the most memory the process has had, in bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jdbcstore
from jdbcstore import pages


def main(url: str, name: str) -> None:
    with jdbcstore.open(url, cleanup_period=0) as store:
        count, last = 0, 0
        for page in pages(store.queue(name)):
            for message in page:
                assert message.sequence is not None
                assert message.sequence > last
                last = message.sequence
            count += len(page)
    json.dump({"count": count, "memory": _most_memory()}, sys.stdout)


def _most_memory() -> int:
    """Not getrusage: its figure counts the process that started this one, up to the exec."""
    status = Path("/proc/self/status").read_text()
    [kilobytes] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
