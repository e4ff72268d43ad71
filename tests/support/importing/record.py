"""Records the files that a real ActiveMQ writes with KahaDB, for ``tests/fixtures/kahadb``.

``JDBCSTORE_ACTIVEMQ=6.3.1 python -m tests.support.importing.record`` starts that version. What should be
found in the files is asked of the broker itself, started again on a copy of them.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from jdbcstore.tools.importing.kahadb.logs import LogReader
from jdbcstore.tools.importing.kahadb.replaying import LogFolder
from jdbcstore.tools.importing.numbered import numbered_files
from tests.support import ROOT
from tests.support.interop.activemq import VERSION, Broker, Peer
from tests.support.interop.messages import ALL, text

FIXTURES = ROOT / "tests" / "fixtures" / "kahadb"
TOPICS: dict[str, list[tuple[str, str, str | None]]] = {
    "topic://NEWS": [("a", "all", None), ("b", "some", "n > 5"), ("c", "doubt", None)],
    "topic://RANKED": [("d", "half", None), ("e", "none", None)],
}
QUEUES = (
    "queue://KINDS",
    "queue://HALF",
    "queue://RANKED",
    "queue://DOUBT",
    "queue://MOVED",
    "queue://TIMED",
)
"""Those that have messages at the end."""
SIZE = 48 * 1024

Json = dict[str, Any]


def options(base: Path) -> Json:
    """The broker's."""
    return {
        "scheduler": True,
        "jobs": str(base / "data" / "localhost" / "scheduler"),
        "prioritized": ["queue://RANKED", "topic://RANKED"],
        "persist_redelivered": ["queue://HALF"],
        "file_length": SIZE,
        "checkpoint_ms": 100,
        "cleanup_ms": 200,
        "compact_after": 1,
    }


def write(broker: Broker) -> Json:
    """Have the broker do something of everything; returns what is known already."""
    for topic, subscriptions in TOPICS.items():
        for client_id, name, selector in subscriptions:
            broker.subscribe(topic, client_id, name, selector)
    broker.subscribe("topic://NEWS", "x", "deleted")
    broker.send("queue://KINDS", ALL.values())
    broker.send("queue://HALF", [text(f"message {n}") for n in range(60)])
    broker.send("topic://NEWS", [text(f"news {n}", properties={"n": n}) for n in range(12)])
    broker.send("topic://RANKED", [text(f"ranked {n}", priority=n % 10) for n in range(20)])
    broker.send("queue://RANKED", [text(f"ranked {n}", priority=n % 10) for n in range(20)])
    broker.receive("queue://HALF", 30)
    broker.receive("queue://HALF", 5, transaction="rollback")
    broker.send("queue://HALF", [text("committed")], transaction="commit")
    broker.send("queue://HALF", [text("rolled back")], transaction="rollback")
    broker.receive("queue://HALF", 2, transaction="commit")
    broker.durable_receive("topic://NEWS", "a", "all", 4)
    broker.durable_receive("topic://NEWS", "b", "some", 2, selector="n > 5")
    broker.durable_receive("topic://RANKED", "d", "half", 10)
    broker.unsubscribe("x", "deleted")
    broker.send("queue://GONE", [text(f"gone {n}") for n in range(10)])
    broker.destroy("queue://GONE")
    broker.subscribe("topic://OVER", "y", "only")
    broker.send("topic://OVER", [text("over")])
    broker.unsubscribe("y", "only")
    broker.send("queue://DOUBT", [text(f"doubt {n}") for n in range(5)])
    known: Json = {
        "queue": broker.xa_prepare(
            "queue", "queue://DOUBT", messages=[text("new 1"), text("new 2")], count=2
        ),
        "topic": broker.xa_prepare("topic", "topic://NEWS", count=3, client_id="c", name="doubt"),
    }
    broker.xa_prepare("committed", "queue://MOVED", messages=[text("moved 1"), text("moved 2")])
    broker.xa_finish("committed", "commit")
    broker.xa_prepare("rolled back", "queue://MOVED", messages=[text("never")])
    broker.xa_finish("rolled back", "rollback")
    broker.send("queue://TIMED", [text("a year", ttl_ms=365 * 86_400_000)])
    later = {"AMQ_SCHEDULED_DELAY": 50_000_000_000, "AMQ_SCHEDULED_PERIOD": 1000, "AMQ_SCHEDULED_REPEAT": 3}
    soon = {"AMQ_SCHEDULED_DELAY": 1, "AMQ_SCHEDULED_PERIOD": 40_000_000_000, "AMQ_SCHEDULED_REPEAT": 7}
    broker.send("queue://LATER", [text("later", properties=later), text("sent once", properties=soon)])
    broker.send("queue://LATER", [text("cron", properties={"AMQ_SCHEDULED_CRON": "0 0 1 1 *"})])
    [_] = broker.receive("queue://LATER", 1)  # the first of seven
    return known


def compact(broker: Broker, logs: Path) -> None:
    """Write and consume until the broker has rewritten the acknowledgements of a log."""
    deadline = time.monotonic() + 60
    while not compacted(logs):
        assert time.monotonic() < deadline, "no log was compacted"
        broker.send("queue://FILL", [text("x" * 2000) for _ in range(20)])
        broker.receive("queue://FILL", 20)


def compacted(logs: Path) -> bool:
    """Return whether a log begins with the mark of a compaction."""
    for log in numbered_files(logs, LogFolder.NAME):
        first = next(LogReader(log.path, lambda *_: None).records(), None)
        if first is not None and first.content[0] == 16:
            return True
    return False


def ask(peer: Peer, base: Path) -> Json:
    """Return what the broker itself finds in a copy of its files."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(base, copy)
        with peer.file_broker(copy / "data" / "kahadb", **options(copy)) as broker:
            return {
                "queues": {queue: broker.browse(queue) for queue in QUEUES},
                "subscriptions": [
                    {
                        "topic": topic, "client_id": client_id, "name": name, "selector": selector,
                        "messages": broker.durable_receive(
                            topic, client_id, name, 1000, timeout_ms=700, selector=selector
                        ),
                    }
                    for topic, subscriptions in TOPICS.items()
                    for client_id, name, selector in subscriptions
                ],
            }  # fmt: skip


def record(base: Path, *, kill: bool) -> Json:
    """Have a broker write its files below a folder, and return what is in them."""
    writing = Peer()
    broker = writing.file_broker(base / "data" / "kahadb", **options(base))
    known = write(broker)
    compact(broker, base / "data" / "kahadb")
    if kill:
        writing.kill()
    else:
        writing.call("stop")
        writing.close()
    with Peer() as peer:
        return {"in_doubt": known, **ask(peer, base)}


def record_many(base: Path) -> Json:
    """The same with mKahaDB: a store for each destination."""
    several = "queue://M.1,queue://M.2"
    with Peer() as peer, peer.file_broker(base, per_destination=True, file_length=SIZE) as broker:
        broker.subscribe("topic://M.T", "m", "sub")
        broker.send(several, [text("both 1"), text("both 2")], transaction="commit")
        broker.send(several, [text("none")], transaction="rollback")
        broker.send("queue://M.1", [text(f"one {n}") for n in range(5)])
        broker.send("topic://M.T", [text(f"topic {n}") for n in range(5)])
        broker.receive("queue://M.1", 1)
        broker.durable_receive("topic://M.T", "m", "sub", 2)
        prepared = broker.xa_prepare("many", several, messages=[text("doubt")])
        found: Json = {
            "in_doubt": prepared,
            "queues": {queue: broker.browse(queue) for queue in ("queue://M.1", "queue://M.2")},
        }
    return found


def main() -> None:
    """Record the version that JDBCSTORE_ACTIVEMQ names, Debian's if none."""
    version = VERSION or "5.17.2"
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, version)
        base.mkdir()
        expected = {"version": version, "one": record(base, kill=version == "5.17.2")}
        if version != "5.17.2":
            expected["many"] = record_many(base / "mKahaDB")
        (base / "expected.json").write_text(json.dumps(expected))
        FIXTURES.mkdir(exist_ok=True)
        target = FIXTURES / f"{version}.tar.xz"
        with lzma.open(target, "wb", preset=9) as file, tarfile.open(fileobj=file, mode="w") as tar:
            for path in sorted(base.rglob("*")):
                if path.is_file() and path.suffix not in (".redo", ".free"):
                    tar.add(path, path.relative_to(base))
        sys.stdout.write(f"{target} {target.stat().st_size}\n")


if __name__ == "__main__":
    main()
