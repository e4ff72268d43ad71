"""A consumer that stops does not fill the broker. ``python -m benchmarks.backlog`` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker.backlog import CHUNK, Drain, Line, produce, resident
from tests.support.broker.programs import BrokerProcess
from tests.support.databases import Database

MESSAGES = 25_000
WARM = 4_000
GROWTH = 25_000_000
"""Bytes. Messages of this size take some 1,500 each in memory, so 37 million if all of them were there."""
MOST = 250_000_000
POLICY = """
[[policies]]
queue = "Q"
memory_limit = "{limit} mb"
pending_queue_policy = "{policy}"
"""


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    ("policy", "persistent"), [("storeCursor", True), ("fileQueueCursor", False)], ids=["store", "file"]
)
def test_messages_wait_outside_of_memory(
    database: Database, tmp_path: Path, policy: str, persistent: bool
) -> None:
    with _broker(tmp_path, database, policy, limit=4) as broker:
        port, pid = broker.ready(), broker.process.pid
        produce(port, "Q", 0, WARM, size=100, persistent=persistent)
        drain = Drain(port, "Q")
        drain.until(WARM)
        before = resident(pid)

        produce(port, "Q", WARM, MESSAGES, size=100, persistent=persistent)
        after = resident(pid)
        drain.until(WARM + MESSAGES)

        assert after - before < GROWTH
        assert resident(pid) < MOST
        drain.close()


@pytest.mark.backends("sqlite")
def test_large_messages_wait_outside_of_memory_and_so_do_those_of_a_consumer(
    database: Database, tmp_path: Path
) -> None:
    size, count = 4 << 20, 16
    with _broker(tmp_path, database, "storeCursor", limit=8) as broker:
        pid, line = broker.process.pid, Line(broker.ready())
        head = b"SEND\ndestination:/queue/Q\npersistent:true\nreceipt:r\n\n"
        for sent in range(count + 1):
            line.write(head + b"x" * size + b"\0")
            assert next(line).startswith(b"RECEIPT")
            if not sent:
                before = resident(pid)
        assert resident(pid) - before < size * count * 3 / 4

        line.write(b"SUBSCRIBE\nid:1\ndestination:/queue/Q\nack:client\n\n\0")
        for _ in range(count + 1):  # none is acknowledged
            assert len(next(line)) > size
        assert resident(pid) - before < size * count * 3 / 4
        line.close()


@pytest.mark.backends("sqlite")
def test_a_producer_waits_where_all_is_in_memory(database: Database, tmp_path: Path) -> None:
    with _broker(tmp_path, database, "vmQueueCursor", limit=4) as broker:
        port = broker.ready()
        drain = Drain(port, "Q")
        sent = _send_until_it_waits(port)
        drain.until(sent)
        drain.close()
        assert 1_000 < sent < MESSAGES


def _send_until_it_waits(port: int) -> int:
    """The messages whose receipt came; at most all."""
    for sent in range(0, MESSAGES, CHUNK):
        try:
            produce(port, "Q", sent, CHUNK, persistent=False, timeout=20.0)
        except TimeoutError:
            return sent
    return MESSAGES


def _broker(folder: Path, database: Database, policy: str, *, limit: int) -> BrokerProcess:
    configuration = folder / "broker.toml"
    configuration.write_text(POLICY.format(policy=policy, limit=limit))
    return BrokerProcess(folder, "--url", database.url, "--config", str(configuration))
