"""The deadlines of answers, in a process that was forked in the middle of a statement."""

from __future__ import annotations

import subprocess
import sys

_FORKING = """
import os, threading
from jdbcstore.database.adapters.sending import WATCH

WATCH.begin(object(), 60.0, print)
with WATCH._lock:
    child = os.fork()
if child == 0:
    cut = threading.Event()
    WATCH.begin(object(), 0.01, cut.set)
    os._exit(0 if cut.wait(60.0) else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_watches_its_own_answers() -> None:
    """It has neither the thread of its parent, nor the one that held the lock."""
    ended = subprocess.run([sys.executable, "-c", _FORKING], timeout=120.0, check=False)
    assert ended.returncode == 0
