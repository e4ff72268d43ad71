"""Records the files of stores that only old versions of ActiveMQ have, for ``tests/fixtures``.

``python -m tests.support.importing.record_olds leveldb 5.16.7``; ``old_brokers.py`` says where the jars come
from. What should be found in the files is asked of the broker itself, started again on a copy of them.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.importing.old_brokers import OldPeer
from tests.support.interop.activemq import Broker
from tests.support.interop.messages import ALL, text

Json = dict[str, Any]

TOPIC: list[tuple[str, str, str | None]] = [("a", "all", None), ("b", "some", "n > 5"), ("c", "doubt", None)]
QUEUES = ("queue://KINDS", "queue://HALF", "queue://DOUBT", "queue://MOVED", "queue://TIMED", "queue://AFTER")
"""Those that have messages at the end."""
KILLED = {("leveldb", "5.16.7"), ("amq", "5.3.2")}
SETTINGS: dict[tuple[str, str], Json] = {
    ("leveldb", "5.16.7"): {"logSize": 48 * 1024, "indexWriteBufferSize": 65536},
    ("leveldb", "5.9.1"): {"logSize": 48 * 1024, "logCompression": "snappy"},
    ("amq", "5.7.0"): {"maxFileLength": 48 * 1024, "checkpointInterval": 300, "cleanupInterval": 500},
    ("amq", "5.3.2"): {"maxFileLength": 48 * 1024, "checkpointInterval": 300, "cleanupInterval": 500},
}


def write(broker: Broker, between: Callable[[], None]) -> Json:
    """Have the broker do something of everything; returns what is known already.

    :param between: called before there is something in doubt
    """
    for client_id, name, selector in TOPIC:
        broker.subscribe("topic://NEWS", client_id, name, selector)
    broker.subscribe("topic://NEWS", "x", "deleted")
    broker.send("queue://KINDS", ALL.values())
    broker.send("queue://HALF", [text(f"message {n}", priority=n % 10) for n in range(60)])
    broker.send("topic://NEWS", [text(f"news {n}", properties={"n": n}) for n in range(12)])
    broker.receive("queue://HALF", 30)
    broker.receive("queue://HALF", 5, transaction="rollback")
    broker.send("queue://HALF", [text("committed")], transaction="commit")
    broker.send("queue://HALF", [text("rolled back")], transaction="rollback")
    broker.receive("queue://HALF", 2, transaction="commit")
    broker.durable_receive("topic://NEWS", "a", "all", 4)
    broker.durable_receive("topic://NEWS", "b", "some", 2, selector="n > 5")
    broker.unsubscribe("x", "deleted")
    broker.send("queue://GONE", [text(f"gone {n}") for n in range(10)])
    broker.receive("queue://GONE", 10)
    between()
    broker.send("queue://DOUBT", [text(f"doubt {n}") for n in range(5)])
    known: Json = {
        "queue": broker.xa_prepare(
            "queue", "queue://DOUBT", messages=[text("new 1"), text("new 2")], count=2
        ),
        "topic": broker.xa_prepare("topic", "topic://NEWS", count=3, client_id="c", name="doubt"),
    }
    broker.xa_prepare("committed", "queue://MOVED", messages=[text("moved 1"), text("moved 2")])
    broker.xa_finish("committed", "commit")
    broker.send("queue://TIMED", [text("a year", ttl_ms=365 * 86_400_000)])
    return known


def remove_logs(broker: Broker, folder: Path, first: str) -> None:
    """Write and consume until the broker has removed a file without messages, and written others."""
    deadline = time.monotonic() + 60
    for _ in range(3):
        broker.send("queue://FILL", [text("x" * 2000) for _ in range(40)])
        broker.receive("queue://FILL", 40)
    while len(gaps(folder, first)) < 1:
        assert time.monotonic() < deadline, "no file was removed"
        time.sleep(0.5)
        broker.send("queue://FILL", [text("x" * 2000) for _ in range(2)])
        broker.receive("queue://FILL", 2)


def gaps(folder: Path, pattern: str) -> list[Path]:
    """Return the files behind which one is missing."""
    if pattern == "*.log":
        logs = sorted((int(path.stem, 16), path) for path in folder.glob(pattern))
        return [path for (start, path), (after, _) in pairwise(logs) if start + path.stat().st_size < after]
    found = {int(path.name[5:]): path for path in folder.glob(pattern) if path.name[5:].isdigit()}
    return [path for number, path in sorted(found.items()) if number + 1 not in found][:-1]


def ask(peer: OldPeer, base: Path, settings: Json) -> Json:
    """Return what the broker itself finds in a copy of its files."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(base, copy)
        with peer.old_broker(copy, **settings) as broker:
            return {
                "queues": {queue: broker.browse(queue) for queue in QUEUES},
                "subscriptions": [
                    {
                        "topic": "topic://NEWS", "client_id": client_id, "name": name, "selector": selector,
                        "messages": broker.durable_receive(
                            "topic://NEWS", client_id, name, 1000, timeout_ms=700, selector=selector
                        ),
                    }
                    for client_id, name, selector in TOPIC
                ],
            }  # fmt: skip


def record(kind: str, version: str, base: Path) -> Json:
    """Have a broker write its files to a folder, and return what is in them."""
    settings = SETTINGS[kind, version]
    writing = OldPeer(kind, version)
    broker = writing.old_broker(base, **settings)
    is_killed = (kind, version) in KILLED

    def remove() -> None:
        remove_logs(broker, *((base, "*.log") if kind == "leveldb" else (base / "journal", "data-*")))

    # AMQ keeps all files since something is in doubt.
    known = write(broker, remove if is_killed and kind == "amq" else lambda: None)
    if is_killed and kind == "leveldb":
        remove()
    broker.send("queue://AFTER", [text(f"after {n}") for n in range(5)])
    broker.receive("queue://AFTER", 2)
    if is_killed:
        writing.kill()
    else:
        writing.call("stop")
        writing.close()
    with OldPeer(kind, version) as peer:
        return {"version": version, "in_doubt": known, **ask(peer, base, settings)}


def main() -> None:
    """Record a version of a kind."""
    kind, version = sys.argv[1:]
    fixtures = ROOT / "tests" / "fixtures" / kind
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, kind)
        base.mkdir()
        expected = record(kind, version, base)
        Path(folder, "expected.json").write_text(json.dumps(expected))
        fixtures.mkdir(exist_ok=True)
        target = fixtures / f"{version}.tar.xz"
        with lzma.open(target, "wb", preset=9) as file, tarfile.open(fileobj=file, mode="w") as tar:
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and not {"dirty.index", "plist.index", "temp.index"} & {*path.parts}:
                    tar.add(path, path.relative_to(folder))
        sys.stdout.write(f"{target} {target.stat().st_size}\n")


if __name__ == "__main__":
    main()
