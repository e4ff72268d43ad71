"""``python -m tests.long.xa``: a journaled store with distributed transactions is killed.

A process prepares transactions, and commits or rolls them back. It is killed, now and then while the
database is stopped, and again while it recovers. What it said is held against what is in doubt and stored.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from jdbcstore import JdbcStore, JournaledStore, Message, MessageReference, StoreConfig, XATransactionId
from jdbcstore.abc import Store, pages
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError
from tests.support.backends import BACKENDS
from tests.support.crash.work import say
from tests.support.databases import SqliteDatabase
from tests.support.places import a_folder

NAMES = ("sqlite", "postgresql", "mariadb", "mysql")
QUEUES = ("ONE", "TWO")
_FORMAT = 86

Mine = dict[str, list[tuple[MessageReference, str]]]
"""By queue: the messages that a thread has added, and their names."""


@dataclass
class Branch:
    """What is known of one transaction."""

    adds: list[str]
    acknowledges: str
    fates: set[str] = field(default_factory=lambda: {"nothing", "doubt"})
    """What may have become of it: nothing, doubt, or a commit; a rollback leaves nothing."""

    def is_visible(self, fate: str, seen: Counter[str], is_in_doubt: bool) -> bool:
        """Whether the store shows this fate."""
        copies = {seen[name] for name in self.adds}
        acknowledged = seen[self.acknowledges] if self.acknowledges else None
        match fate:
            case "doubt":
                return is_in_doubt and copies <= {0} and acknowledged in (0, None)
            case "commit":
                return not is_in_doubt and copies <= {1} and acknowledged in (0, None)
            case _:
                return not is_in_doubt and copies <= {0} and acknowledged in (1, None)


class Ledger:
    """All that was said, and what a store must show after it."""

    def __init__(self) -> None:
        self.said: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._plain: dict[str, bool] = {}
        """By name of a message: whether it was confirmed."""
        self._branches: dict[str, Branch] = {}

    def note(self, words: list[str]) -> None:
        self.said[" ".join(words[:2]) if words[0] == "failed" else words[0]] += 1
        match words:
            case ["add", name, _]:
                self._plain[name] = False
            case ["added", name, _]:
                self._plain[name] = True
            case ["prepare", name, _, adds, acknowledges]:
                self._branches[name] = Branch(
                    [] if adds == "-" else adds.split(","), "" if acknowledges == "-" else acknowledges
                )
            case ["prepared", name]:
                self._branches[name].fates = {"doubt"}
            case ["commit", name]:
                self._branches[name].fates |= {"commit"}
            case ["rollback", name]:
                self._branches[name].fates |= {"nothing"}
            case ["committed", name]:
                self._branches[name].fates = {"commit"}
            case ["rolledback", name]:
                self._branches[name].fates = {"nothing"}

    def check(self, store: Store) -> None:
        """Compare, and remember which fate it was where several were possible."""
        doubt = {one.xid.global_transaction_id.decode() for one in store.xa.recover()}
        seen = Counter(
            str(message.body).rstrip(".")
            for name in QUEUES
            for page in pages(store.queue(name))
            for message in page
        )
        taken = set()
        for name, branch in self._branches.items():
            fates = {one for one in branch.fates if branch.is_visible(one, seen, name in doubt)}
            if not fates:
                self.wrong.append(
                    f"{name} is one of {branch.fates}; in doubt: {name in doubt},"
                    f" {[(one, seen[one]) for one in (*branch.adds, branch.acknowledges)]}"
                )
            branch.fates = fates or branch.fates
            taken.add(branch.acknowledges)
        for name, is_confirmed in self._plain.items():
            if name not in taken and seen[name] not in ({1} if is_confirmed else {0, 1}):
                self.wrong.append(f"{name} is there {seen[name]} times")
            self._plain[name] = is_confirmed or bool(seen[name])
        unknown = doubt - self._branches.keys()
        if unknown:
            self.wrong.append(f"in doubt, and never prepared: {unknown}")


def open_store(url: str, directory: str, memory: int) -> Store:
    config = JournalConfig(
        directory=directory,
        journal_log_files=1,
        journal_log_file_size=1 << 18,
        checkpoint_interval=0.2,
        max_checkpoint_message_add_size=20_000,
        memory_limit=memory,
    )
    return JournaledStore(JdbcStore(url, StoreConfig(cleanup_period=0), journaled=True), config)


def work(url: str, directory: str, number: int, memory: int) -> None:
    """Work for ever, and say so: a word before each step, another after it."""
    with open_store(url, directory, memory) as store:
        say("ready")
        left = store.xa.recover()
        for thread in range(3):
            threading.Thread(target=_work, args=(store, number, thread), daemon=True).start()
        for prepared in left:
            if random.random() < 0.5:
                _decide(store, prepared.xid)
        threading.Event().wait()


def _work(store: Store, number: int, thread: int) -> None:
    chance = random.Random(f"{number}-{thread}")
    mine: Mine = {name: [] for name in QUEUES}
    for count in itertools.count():
        name = f"{number}.{thread}.{count}"
        try:
            _step(store, name, chance, mine)
        except StoreError as error:
            say("failed", type(error).__name__, str(error).replace("\n", " "))


def _step(
    store: Store, name: str, chance: random.Random, mine: dict[str, list[tuple[MessageReference, str]]]
) -> None:
    queue = chance.choice(QUEUES)
    say("add", f"{name}:plain", queue)
    reference = store.queue(queue).add_message(Message(f"{name}:plain" + "." * chance.choice((10, 3000))))
    say("added", f"{name}:plain", queue)
    mine[queue].append((reference, f"{name}:plain"))
    if chance.random() < 0.5:
        return
    xid = XATransactionId(_FORMAT, name.encode(), b"b")
    branch = store.xa.start(xid)
    adds = [f"{name}:{n}" for n in range(chance.choice((0, 1, 3)))]
    acknowledged = ""
    other = chance.choice(QUEUES)
    if mine[other] and (not adds or chance.random() < 0.7):
        reference, acknowledged = mine[other].pop(chance.randrange(len(mine[other])))
        branch.queue(other).acknowledge(reference)
    for one in adds:
        branch.queue(queue).add_message(Message(one + "." * chance.choice((10, 3000))))
    if not (adds or acknowledged):
        branch.rollback()
        return
    say("prepare", name, queue, ",".join(adds) or "-", acknowledged or "-")
    branch.prepare()
    say("prepared", name)
    if chance.random() < 0.9:
        _decide(store, xid, chance)


def _decide(store: Store, xid: XATransactionId, chance: random.Random | None = None) -> None:
    name = xid.global_transaction_id.decode()
    if (chance or random).random() < 0.5:
        say("commit", name)
        store.xa.commit(xid)
        say("committed", name)
    else:
        say("rollback", name)
        store.xa.rollback(xid)
        say("rolledback", name)


class Process:
    """A process that works, or dies while it recovers."""

    def __init__(self, url: str, directory: str, number: int, memory: int) -> None:
        arguments = [url, directory, str(number), str(memory)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.long.xa", "work", *arguments], stdout=subprocess.PIPE, text=True
        )

    def lines(self, count: int | None) -> Iterator[list[str]]:
        """So many of its lines, or those that are left."""
        assert self._process.stdout is not None
        yield from (line.split() for line in itertools.islice(self._process.stdout, count))

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()


@click.command(help=__doc__)
@click.option("--kills", default=50, show_default=True, help="On each database.")
@click.option("--seed", type=int, help="That of an earlier run.")
@click.option("--store", "names", type=click.Choice(NAMES), multiple=True)
def main(kills: int, seed: int | None, names: tuple[str, ...]) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    wrong = False
    for name in names or NAMES:
        with a_folder(None) as place:
            ledger = _run(name, kills, random.Random(seed), place)
        click.echo(f"{name}: {dict(ledger.said)}, {len(ledger.wrong)} wrong")
        for one in ledger.wrong[:20]:
            click.echo(f"  {one}")
        wrong |= bool(ledger.wrong)
    sys.exit(wrong)


def _run(name: str, kills: int, chance: random.Random, place: Path) -> Ledger:
    [backend] = [one for one in BACKENDS if one.id == name]
    server = backend.private() if backend.private else None
    database = backend.database(backend.private_url(server)) if server else SqliteDatabase(place)
    url, directory, ledger = database.url, str(place / "journal"), Ledger()
    try:
        for number in range(kills):
            # In so little memory, a recovery makes checkpoints.
            memory = chance.choice((100_000, 128 << 20))
            process = Process(url, directory, number, 128 << 20)
            for words in process.lines(chance.choice((5, 300, 3_000))):
                ledger.note(words)
            if server and chance.random() < 0.5:
                (server.kill if chance.random() < 0.5 else server.stop_at_once)()
                for words in process.lines(chance.choice((100, 3_000))):
                    ledger.note(words)
            process.kill()
            for words in process.lines(None):
                ledger.note(words)
            process.close()
            if server and server.pid is None:
                server.start()
            for _ in range(chance.choice((0, 1, 3))):
                _recover_partly(url, directory, memory, chance.random() * 0.3)
            with open_store(url, directory, memory) as store:
                ledger.check(store)
    finally:
        if server:
            server.close()
    return ledger


def _recover_partly(url: str, directory: str, memory: int, seconds: float) -> None:
    """Open the store in a process that is killed after so long, be it recovered or not."""
    code = (
        f"from tests.long.xa import open_store; print(flush=True);"
        f" store = open_store({url!r}, {directory!r}, {memory}); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
