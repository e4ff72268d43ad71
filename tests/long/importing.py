"""Imports of what a real ActiveMQ has in KahaDB: damaged a thousand times, or killed under load.

``python -m tests.long.importing damages --count 1000 --seed 1`` damages copies of the recorded files, or of
``--folder``. No message may be another than its broker stored, nothing may crash, and what is missing, or
there again, is named.

``python -m tests.long.importing pieces --step 64`` cuts each file of each recorded store, Artemis's too, at
each place, and takes a piece out of it there, or blanks it. Fewer or other messages without a line are a
failure; but a change inside of a message, in a store without checksums, is counted only. One thing shows
nothing: an AMQ store that is cut between two records.

``python -m tests.long.importing load --count 100000`` has a broker write that many messages, kills it while
it takes more, imports its files (``--kills``: with kill -9 of the import in between), and has the broker
deliver everything from a copy: each message and subscription is compared. ``JDBCSTORE_ACTIVEMQ=6.3.1``
starts that version. ``--kind leveldb`` and ``--kind amq`` do the same with stores that only old versions
have, of ``--version``; ``tests/support/importing/old_brokers.py`` says where their jars come from.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import jdbcstore
from jdbcstore.message.jobs import JOBS
from jdbcstore.message.selector import Selector
from tests.support.importing import old_damages, olds_recorded
from tests.support.importing.damages import Judge
from tests.support.importing.damages import damage as damages_of_kahadb
from tests.support.importing.lost import STORES, RecordedStore, changes
from tests.support.importing.old_brokers import OldPeer
from tests.support.importing.old_damages import OldJudge
from tests.support.importing.recorded import VERSIONS, unpack
from tests.support.interop.activemq import Broker, Peer, PeerError
from tests.support.interop.messages import text
from tests.support.interop.typed import describe

SUBSCRIPTIONS = (("A", None), ("B", None), ("C", "n > 500"))
QUEUES = ("BULK", "RANKED", "EXPIRING", "LOAD")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def damages(options: argparse.Namespace, here: Path) -> int:
    """Return how many damages did not end as they should."""
    counts: Counter[str] = Counter()
    judges: list[Any] = []
    damage = damages_of_kahadb if options.kind == "kahadb" else old_damages.damage
    if options.kind != "kahadb":
        for version in olds_recorded.VERSIONS[options.kind]:
            olds_recorded.unpack(options.kind, version, here / version)
            judges.append(OldJudge(options.kind, here / version / options.kind))
    elif options.folder:
        judges.append(Judge(options.folder))
    else:
        for version in VERSIONS:
            unpack(version, here / version)
            folders = (here / version / name for name in ("data", "mKahaDB"))
            judges += [Judge(path) for path in folders if path.exists()]
    for seed in range(options.seed, options.seed + options.count):
        judge = judges[seed % len(judges)]
        copy = Path(shutil.copytree(judge.folder, here / "damaged"))
        kind, touched = damage(seed, copy)
        try:
            outcome = (
                judge.judge(copy, touched) if options.kind == "kahadb" else judge.judge(copy, kind, touched)
            )
        except Exception:
            outcome = "WRONG"
            files = sorted(path.name for path in touched)
            say(f"seed {seed}, {kind} of {files}: {traceback.format_exc(limit=-1)}")
        counts[f"{kind} {outcome}"] += 1
        shutil.rmtree(copy)
    for name, count in sorted(counts.items()):
        say(f"{name:16} {count}")
    return sum(count for name, count in counts.items() if name.endswith("WRONG"))


def pieces(options: argparse.Namespace, here: Path) -> int:
    """Return how many changes of one place did not end as they should."""
    counts: Counter[str] = Counter()
    for name in STORES:
        store = RecordedStore(name, here / name)
        say(f"{name}: {len(store.files)} files")
        for path in store.files:
            for what, changed in changes(path.read_bytes(), options.step):
                outcome = f"{name:15} {what.partition(' ')[0]:8}"
                try:
                    found = store.without(path, changed)
                    lost = store.silence(found)
                except Exception:
                    lost, found = traceback.format_exc(limit=-1), store.whole
                if lost is not None:
                    counts[f"{outcome} WRONG"] += 1
                    say(f"{name}, {path.name} {what}: {lost}")
                elif found.rows == store.whole.rows:
                    counts[f"{outcome} same"] += 1
                else:
                    is_inside = store.is_inside(found)
                    counts[f"{outcome} {'inside of a message, or named' if is_inside else 'named'}"] += 1
    for line, count in sorted(counts.items()):
        say(f"{line:42} {count}")
    return sum(count for line, count in counts.items() if line.endswith("WRONG"))


def new_peer(options: argparse.Namespace) -> Peer:
    java: dict[str, Any] = {"jvm_options": ("-Xmx3g",), "patience": 3600}
    return Peer(**java) if options.kind == "kahadb" else OldPeer(options.kind, options.version, **java)


def start(peer: Peer, base: Path) -> Broker:
    """Start a broker on its files."""
    if isinstance(peer, OldPeer):
        # LevelDB's broker cannot start on what a prepared transaction has acknowledged since its last index,
        # which it writes with each log.
        settings: dict[str, Any] = {"logSize": 4 << 20} if peer.kind == "leveldb" else {}
        return peer.old_broker(base / "old", **settings)
    scheduler = {"scheduler": True, "jobs": str(base / "scheduler")}
    return peer.file_broker(base / "kahadb", prioritized=["queue://RANKED"], **scheduler)


def write(options: argparse.Namespace, base: Path) -> dict[str, Any]:
    """Have a broker write its files, and kill it while it takes messages; returns the branch in doubt."""
    count, peer = options.count, new_peer(options)
    broker = start(peer, base)
    for name, selector in SUBSCRIPTIONS:
        broker.subscribe("topic://NEWS", f"client-{name}", name, selector)
    broker.fill("queue://BULK", count * 7 // 10)
    broker.fill("queue://RANKED", count // 10)
    broker.fill("topic://NEWS", count // 10)
    broker.fill("queue://EXPIRING", count // 20, ttl_ms=10**9)
    broker.durable_receive("topic://NEWS", "client-A", "A", count // 20)
    broker.durable_receive("topic://NEWS", "client-C", "C", 100, selector="n > 500")
    broker.receive("queue://BULK", count // 20)
    prepared = broker.xa_prepare("doubt", "queue://BULK", messages=[text("in doubt")], count=3)
    if options.kind == "kahadb":
        later = {"AMQ_SCHEDULED_DELAY": 50_000_000_000}
        broker.send("queue://LATER", [text(f"later {n}", properties=later) for n in range(100)])
    threading.Timer(3.0, lambda: peer._process.send_signal(signal.SIGKILL)).start()
    try:
        broker.fill("queue://LOAD", 10**9, batch=50)
    except PeerError:
        peer.kill()
    return prepared


def import_(source: str, url: str, kills: int, rng: random.Random) -> int:
    """Import with the command line, which is killed that many times before."""
    command = [sys.executable, "-m", "jdbcstore", "import", source, "--url", url]
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(rng.uniform(1.0, 12.0))
                say("an import ended before it was killed")
            except subprocess.TimeoutExpired:
                process.kill()
    begun = time.monotonic()
    done = subprocess.run(
        ["/usr/bin/time", "-f", "%U s user, %M KiB at most", *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    say(f"{done.stdout}{done.stderr}{time.monotonic() - begun:.1f} s")
    return done.returncode


def without_redelivery(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("redelivered", "redelivery_counter", "transacted")
    return [{k: v for k, v in message.items() if k not in names} for message in messages]


def compare(kind: str, broker: Broker, url: str, prepared: dict[str, Any]) -> None:
    """Compare everything that the broker delivers with what was imported."""
    with jdbcstore.open(url, cleanup_period=0.0) as store:
        [branch] = store.xa.recover()
        assert sum(one.added for one in branch.writes) == len(prepared["sent"])
        if kind == "amq":
            # ActiveMQ 5.7 acknowledges others than those received if it sorts by priority; and once started
            # again, it does not hold them back.
            store.xa.rollback(branch.xid)
        else:
            assert sum(one.acknowledged for one in branch.writes) == len(prepared["received"])
        for queue in QUEUES:
            found = everything(store.queue(queue))
            there = broker.receive(f"queue://{queue}", 10**9, timeout_ms=5000)
            key = "message_id"
            assert without_redelivery(sorted(found, key=lambda m: m[key])) == without_redelivery(
                sorted(there, key=lambda m: m[key])
            ), queue
            say(f"{queue}: {len(found)} messages are the same")
        for name, selector in SUBSCRIPTIONS:
            wanted = Selector(selector) if selector else None
            left = everything(store.topic("NEWS").subscription(f"client-{name}", name), wanted)
            there = broker.durable_receive(
                "topic://NEWS", f"client-{name}", name, 10**9, timeout_ms=5000, selector=selector
            )
            left, there = without_redelivery(left), without_redelivery(there)
            if kind == "amq" and left != there:  # it loses what one of several has acknowledged at once
                more = {one["message_id"] for one in left} - {one["message_id"] for one in there}
                left = [one for one in left if one["message_id"] not in more]
                say(f"subscription {name}: {len(more)} messages that its broker has lost are here")
            assert left == there, name
            say(f"subscription {name}: {len(left)} messages are the same")
        assert store.queue(JOBS).message_count() == (100 if kind == "kahadb" else 0)


def everything(source: Any, selector: Selector | None = None) -> list[dict[str, Any]]:
    found = []
    for page in jdbcstore.abc.pages(source):
        assert page.corrupt == ()
        found += [describe(message) for message in page if selector is None or selector.matches(message)]
    return found


def load(options: argparse.Namespace, here: Path) -> int:
    """Return 0; a difference is an AssertionError."""
    base, copy = here / "data", here / "copy"
    base.mkdir()
    prepared = write(options, base)
    shutil.copytree(base, copy)
    url = options.url or f"sqlite:///{here}/imported.db"
    code = import_(f"{options.kind}:{base}", url, options.kills, random.Random(options.seed))
    # A store may have been killed in the middle of a write, which is named.
    assert code in ((0,) if options.kind == "kahadb" else (0, 7))
    if not options.quick:
        with new_peer(options) as peer, start(peer, copy) as broker:
            compare(options.kind, broker, url, prepared)
    return 0


def main() -> int:
    """Run one of them."""
    parser = argparse.ArgumentParser(description="see the head of this file")
    parser.add_argument("what", choices=["damages", "pieces", "load"])
    parser.add_argument("--kind", choices=["kahadb", "leveldb", "amq"], default="kahadb")
    parser.add_argument(
        "--version", default="5.16.7", help="load: that of a kind that only old versions have"
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="damages: a broker's files, in place of the recorded")
    parser.add_argument("--step", type=int, default=64, help="pieces: their size")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--url", help="load: an empty database, in place of an SQLite file")
    parser.add_argument("--quick", action="store_true", help="load: do not ask the broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return min({"damages": damages, "pieces": pieces, "load": load}[options.what](options, Path(name)), 1)


if __name__ == "__main__":
    sys.exit(main())
