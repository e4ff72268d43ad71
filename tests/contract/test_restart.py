"""A store that is opened again: everything is there, and no sequence comes twice."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from jdbcstore.testing import OpenStore
from jdbcstore.testing.contract.test_restart import *
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.without import NO_WAITING
from tests.support.cli.zygote import run_program

KILLED = """
import os, signal, sys
import jdbcstore
store = jdbcstore.open(sys.argv[1], cleanup_period=0)
queue = store.queue("ORDERS")
references = [queue.add_message(jdbcstore.Message(str(n))) for n in range(7)]
if sys.argv[2] == "drained":
    queue.acknowledge(*references)
print(references[-1].sequence, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.variants
@pytest.mark.slow
@pytest.mark.parametrize("end", ["filled", "drained"])
def test_sequences_go_on_behind_a_killed_process(open_store: OpenStore, url: str, end: str) -> None:
    last = 0
    expected: list[object] = []
    for _ in range(2):
        done = run_program(KILLED, url, end)
        assert done.returncode == -9, done.stderr
        assert int(done.stdout) >= last + 7
        last = int(done.stdout)
        expected += map(str, range(7))

    store = open_store()

    assert content(store.queue("ORDERS")) == ([] if end == "drained" else expected)
    assert fill(store.queue("ORDERS"), "next")[0].sequence > last


@NO_WAITING
@pytest.mark.variants
def test_another_process_sees_what_is_committed(store: Store, url: str) -> None:
    fill(store.queue("ORDERS"), "a", "b")
    code = (
        "import sys, jdbcstore\n"
        "with jdbcstore.open(sys.argv[1]) as store:\n"
        "    queue = store.queue('ORDERS')\n"
        "    print([message.body for message in queue.recover()])\n"
        "    queue.acknowledge(1)\n"
        "    queue.add_message(jdbcstore.Message('c'))\n"
    )

    done = run_program(code, url)
    assert done.returncode == 0, done.stderr

    assert done.stdout.strip() == "['a', 'b']"
    assert content(store.queue("ORDERS")) == ["b", "c"]
    fill(store.queue("ORDERS"), "d")
    assert sorted(map(str, content(store.queue("ORDERS")))) == ["b", "c", "d"]
