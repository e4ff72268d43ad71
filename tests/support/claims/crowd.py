"""Processes that add and claim messages while some are killed, and what they wrote down."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise, takewhile
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

from jdbcstore import Message
from jdbcstore.errors import ClaimLost, StoreError
from jdbcstore.stores.claims import Claim, ClaimQueue, Claims
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT

QUEUE = "ORDERS"
_BATCH = 5
_UNFLUSHED = 2.0
"""Seconds for which a claim may not be on the disk."""
_TASKS = "tests.support.claims.tasks"
_FINAL = ("removing", "again", "removed", "lost", "done")


class Notes:
    """A file of lines, each written before what it announces or after what it reports."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, what: str, names: Iterable[object]) -> None:
        """Lines that outlive a kill of this process."""
        now = f"{time.time():.3f}"
        os.write(self._file, "".join(f"{now} {what} {name}\n" for name in names).encode())


def produce(claims: Claims, notes: Notes, name: str, rate: float) -> None:
    """Add messages at this rate until the process is killed; those that certainly exist are ``added``."""
    queue, begin, count = claims.queue(QUEUE), time.monotonic(), 0
    while True:
        body = f"{name}-{count}"
        try:
            queue.add(Message(body))
        except StoreError:
            time.sleep(0.1)
        else:
            notes.add("added", [body])
        count += 1
        time.sleep(max(0.0, begin + count / rate - time.monotonic()))


def work(claims: Claims, notes: Notes) -> None:
    """Claim messages and remove them until the process is killed."""
    queue = claims.queue(QUEUE)
    while True:
        try:
            found = queue.claim(_BATCH, wait=1.0)
        except StoreError:
            time.sleep(0.1)
            continue
        notes.add("taken", [claim.message.body for claim in found])
        remove(queue, notes, found)


def remove(queue: ClaimQueue, notes: Notes, found: list[Claim]) -> None:
    """Remove messages, however often it takes; of those that are lost, some may have been removed before."""
    removing = "removing"
    while found:
        notes.add(removing, [claim.message.body for claim in found])
        try:
            queue.acknowledge(*found)
        except ClaimLost as lost:
            gone = [claim for claim in found if claim.sequence in lost.sequences]
            notes.add("lost", [claim.message.body for claim in gone])
            found = [claim for claim in found if claim not in gone]
        except StoreError:
            removing = "again"
            time.sleep(0.1)
        else:
            notes.add("removed", [claim.message.body for claim in found])
            return


def main(kind: str, url: str, lease: str, path: str, name: str, rate: str) -> None:
    notes = Notes(path)
    with Claims(url, lease=float(lease), max_redeliveries=-1, name=name) as claims:
        notes.add("ready", [name])
        if kind == "producer":
            produce(claims, notes, name, float(rate))
        work(claims, notes)


def nurse() -> None:
    """Start a process of the crowd for each line that is read, without the time that Python's start takes.

    A line has its log and the arguments of :func:`main`, or of ``main`` in :mod:`tests.support.claims.tasks`;
    its process id is the answer.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    if is_broker(sys.stdin.readline().strip()):
        import_module(_TASKS)
    else:
        import_module("psycopg")
    gc.freeze()
    for line in sys.stdin:
        log, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            _live(log, arguments)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


def is_broker(url: str) -> bool:
    """Whether it is a URL of kombu's, for members that are of Celery."""
    return not url.startswith("postgresql")


def _live(log: str, arguments: list[str]) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        said = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        if is_broker(arguments[1]):
            import_module(_TASKS).main(*arguments)
        else:
            main(*arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


@dataclass(frozen=True)
class Member:
    """A process of a crowd."""

    pid: int

    def has_ended(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        wait_until(self.has_ended, what="that a process has ended")


class Note(NamedTuple):
    """A line of a process's notes."""

    at: float
    what: str
    body: str
    process: str


@dataclass
class Crowd:
    """Producers and workers, each with a name that no other has or had."""

    url: str
    folder: Path
    lease: float
    rate: float
    """Messages a second of each producer."""
    python: str = sys.executable
    """For brokers whose packages are not in this environment."""
    running: dict[str, Member] = field(default_factory=dict)
    killed: dict[str, float] = field(default_factory=dict)
    """By name, when it was killed."""
    replaced: list[str] = field(default_factory=list)
    """What :meth:`ended` said of those that were replaced."""
    _count: int = 0
    _nurse: subprocess.Popen[str] | None = None

    def start(self, kind: str) -> str:
        """Start a producer or a worker; its name."""
        self._count += 1
        name = f"{kind}{self._count}"
        arguments = [kind, self.url, str(self.lease), str(self.folder / name), name, str(self.rate)]
        if self._nurse is None:
            self._nurse = self._start_nurse()
        assert self._nurse.stdin is not None
        assert self._nurse.stdout is not None
        self._nurse.stdin.write(f"{json.dumps([str(self.folder / f'{name}.log'), *arguments])}\n")
        self._nurse.stdin.flush()
        self.running[name] = Member(int(self._nurse.stdout.readline()))
        return name

    def _start_nurse(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [self.python, "-m", "tests.support.claims.crowd"]
        nurse = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        assert nurse.stdin is not None
        nurse.stdin.write(f"{self.url}\n")
        return nurse

    def names(self, kind: str) -> list[str]:
        """Those that are running."""
        return [name for name in self.running if name.startswith(kind)]

    def replace_ended(self) -> None:
        """Start one for each that has ended by itself, as a supervisor does."""
        for said in self.ended():
            name = said.split()[0]
            self.kill(name)
            self.start(name.rstrip("0123456789"))
            self.replaced.append(said)

    def kill(self, name: str) -> None:
        """End a process without its knowledge."""
        self.running.pop(name).kill()
        self.killed[name] = time.time()

    def ended(self) -> list[str]:
        """Those that have ended by themselves, with what they said last."""
        over = [name for name, process in self.running.items() if process.has_ended()]
        return [f"{name} has ended: {(self.folder / f'{name}.log').read_text()[-500:]}" for name in over]

    def notes(self) -> list[Note]:
        """What all have written, in the order of time."""
        found = []
        for path in self.folder.iterdir():
            if path.suffix == ".log":
                continue
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # else the process was killed while it wrote
                    at, what, body = line.split()
                    found.append(Note(float(at), what, body, path.name))
        return sorted(found, key=lambda note: note.at)  # those of one process stay in their order

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for name in [*self.running]:
            self.kill(name)
        if self._nurse is not None:
            self._nurse.communicate()


@dataclass
class Verdict:
    """What became of all messages, once the queue is empty."""

    added: int
    taken: int
    reruns: Counter[str]
    """Messages that were taken again, by why they were."""
    wrong: list[str]


def verdict(
    notes: list[Note], killed: Mapping[str, float], crashes: Iterable[tuple[float, float]] = ()
) -> Verdict:
    """Whether each message that was added was removed, and only such messages taken again as may be.

    These are what a process that was killed had taken, and what was taken shortly before the database
    crashed: it does not wait for the disk when a message is claimed. A task that begins before the database
    is back was claimed before the crash.

    :param crashes: from when to when the database was down
    """
    added = {note.body for note in notes if note.what == "added"}
    histories: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        if note.what not in ("added", "ready"):
            histories[note.body].append(note)
    finished = {body for body, history in histories.items() if any(one.what in _FINAL for one in history)}
    wrong = [f"lost: {body}" for body in sorted(added - finished)]
    reruns: Counter[str] = Counter()
    for body, history in histories.items():
        times = [note for note in history if note.what == "taken"]
        for earlier, later in pairwise(times):
            end = _end(history, earlier)
            if end == "lost":
                reruns["its lease had expired: ClaimLost"] += 1
            elif end != "removed" and killed.get(earlier.process, float("inf")) <= later.at:
                reruns["its worker was killed"] += 1
            elif any(down - _UNFLUSHED <= earlier.at <= up for down, up in crashes):
                reruns["the database crashed"] += 1
            else:
                said = [f"{note.at} {note.process} {note.what}" for note in history]
                wrong.append(f"taken twice: {body}: {said}")
    taken = sum(any(one.what == "taken" for one in history) for history in histories.values())
    return Verdict(len(added), taken, reruns, wrong)


def _end(history: list[Note], taken: Note) -> str | None:
    """What a process wrote last of a message, before it took the same one again."""
    after = [note for note in history[history.index(taken) + 1 :] if note.process == taken.process]
    mine = takewhile(lambda note: note.what != "taken", after)
    return next((note.what for note in reversed([*mine])), None)


def rates(notes: list[Note], begin: float, end: float) -> list[int]:
    """Messages removed, or tasks done, in each second of this time."""
    counts = [0] * max(1, round(end - begin))
    for note in notes:
        if note.what in ("removed", "done") and 0 <= int(note.at - begin) < len(counts):
            counts[int(note.at - begin)] += 1
    return counts


if __name__ == "__main__":
    nurse()
