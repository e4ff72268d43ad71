"""Imports of what a real Artemis has in its files: a million messages, or damaged a thousand times.

``python -m tests.long.importing_artemis load --count 1000000`` has a broker take that many messages over
STOMP, kills it, imports its files (``--kills``: with kill -9 of the import in between), and looks at each
message.

``... damages --count 1000 --seed 1`` damages copies of the recorded files as ``test_damage_is_named`` does.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from string import Template

import jdbcstore
from jdbcstore.errors import SchemaError
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.tools.importing.artemis.files import open_files
from jdbcstore.tools.importing.artemis.source import ArtemisSource
from tests.support.importing.artemis_recorded import unpack
from tests.support.interop.artemis import HOME, Artemis
from tests.support.stomp import Wire

_BATCH = 1000
_FILLING = b"x" * 200
Rows = dict[tuple[str, str | None, int | None], bytes]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def body(number: int) -> bytes:
    return b"%d " % number + _FILLING


def write(folder: Path, count: int) -> None:
    """Have a broker take the messages: nine of ten to a queue, others to a topic with two subscriptions."""
    configuration = folder.with_name("broker.xml")
    settings = {"directory": folder, "store": "", "high_availability": ""}
    configuration.write_text(Template((HOME / "broker.xml").read_text()).substitute(settings))
    broker = Artemis(configuration=configuration, jvm_options=("-Xmx4g",)).await_ready()
    for name in ("one", "two"):
        with Wire(broker.stomp_port) as wire:
            wire.connect({"client-id": name})
            headers = {"id": "0", "destination": "/topic/NEWS", "durable-subscription-name": name}
            wire.write("SUBSCRIBE", {**headers, "receipt": "there"})
            assert wire.read().command == "RECEIPT"
    with Wire(broker.stomp_port) as wire:
        wire.connect()
        for first in range(0, count, _BATCH):
            wire.write("BEGIN", {"transaction": str(first)})
            for number in range(first, min(first + _BATCH, count)):
                where = "/topic/NEWS" if number % 10 == 9 else "/queue/BULK"
                headers = {"destination": where, "persistent": "true", "transaction": str(first)}
                wire.write("SEND", headers, body(number))
            wire.write("COMMIT", {"transaction": str(first), "receipt": str(first)})
            assert wire.read().command == "RECEIPT"
    broker.kill()


def written(url: str) -> int:
    """Return how many messages are in the target, roughly."""
    try:
        with JdbcStore(url, read_only=True) as store:
            return store.last_sequence()
    except SchemaError:  # it is not there yet
        return 0


def import_(folder: Path, url: str, kills: list[int]) -> None:
    """Import with the command line, which is killed before, each time when so many messages are written."""
    command = [sys.executable, "-m", "jdbcstore", "import", f"artemis:{folder}", "--url", url]
    for some in sorted(kills):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while written(url) < some:
                assert process.poll() is None, "an import ended before it was killed"
                time.sleep(0.5)
            process.kill()
        say(f"an import was killed when {written(url)} messages were written")
    begun = time.monotonic()
    done = subprocess.run(
        ["/usr/bin/time", "-f", "%U s user, %M KiB at most", *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    say(f"{done.stdout}{done.stderr}{time.monotonic() - begun:.1f} s")
    assert done.returncode == 0


def load(options: argparse.Namespace, here: Path) -> int:
    """Return 0; a difference is an AssertionError."""
    begun, folder = time.monotonic(), here / "data"
    write(folder, options.count)
    say(f"{options.count} messages were written in {time.monotonic() - begun:.0f} s")
    url = options.url or f"sqlite:///{here}/imported.db"
    rng, most = random.Random(options.seed), options.count * 8 // 10
    import_(folder, url, [rng.randrange(1, most) for _ in range(options.kills)])
    with jdbcstore.open(url, cleanup_period=0.0) as store:
        expected = iter(number for number in range(options.count) if number % 10 != 9)
        for page in jdbcstore.abc.pages(store.queue("BULK")):
            assert page.corrupt == ()
            for message in page:
                assert message.body == body(next(expected)).decode()
        assert next(expected, None) is None
        for name in ("one", "two"):
            news = iter(range(9, options.count, 10))
            for page in jdbcstore.abc.pages(store.topic("NEWS").subscription(name, name)):
                for message in page:
                    assert message.body == body(next(news)).decode()
            assert next(news, None) is None
    say("each message is the one that was sent, in this order")
    return 0


def rows_of(folder: Path) -> tuple[Rows, bool]:
    """Return the messages in a folder, and whether something is named."""
    with ArtemisSource(open_files(folder, lambda _: None)) as source:
        rows = {row[1:4]: row.msg for page in source.messages() for row in page}
        return rows, bool(source.findings.damages)


def damages(options: argparse.Namespace, here: Path) -> int:
    """Return how many damages did not end as they should."""
    unpack("files", here)
    whole, _ = rows_of(here / "data")
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        copy = Path(shutil.copytree(here / "data", here / "damaged"))
        rng = random.Random(seed)
        path = rng.choice(sorted(p for p in copy.rglob("*") if p.suffix in (".amq", ".bindings", ".page")))
        raw = bytearray(path.read_bytes())
        used = len(raw.rstrip(b"J\0"))
        at, size = rng.randrange(16, max(used, 17)), rng.choice((1, 4, 300, 5000))
        if rng.random() < 0.3:
            del raw[at:]
        else:
            raw[at : at + size] = rng.choice((rng.randbytes(size), b"\xff" * size, bytes(size)))
        path.write_bytes(raw)
        try:
            found, is_named = rows_of(copy)
        except Exception:
            say(f"seed {seed}, {path.name}: {traceback.format_exc(limit=-1)}")
            counts["raised"] += 1
        else:
            changed = sum(whole[key] != found[key] for key in whole.keys() & found.keys())
            if is_named or (found == whole):
                counts["named" if is_named else "same"] += 1
            elif found.keys() == whole.keys():
                counts["changed inside a message"] += 1
            else:
                missing, more = len(whole.keys() - found.keys()), len(found.keys() - whole.keys())
                say(f"seed {seed}, {path.name} at {at} of {used}, {size}: {missing} missing, {more} more")
                counts["unnamed"] += 1
            assert changed <= 2 or is_named
        shutil.rmtree(copy)
    for name, count in sorted(counts.items()):
        say(f"{name:26} {count}")
    return counts["raised"] + counts["unnamed"]


def main() -> int:
    """Run one of both."""
    parser = argparse.ArgumentParser(description="see the head of this file")
    parser.add_argument("what", choices=["damages", "load"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--url", help="load: an empty database, in place of an SQLite file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return min({"damages": damages, "load": load}[options.what](options, Path(name)), 1)


if __name__ == "__main__":
    sys.exit(main())
