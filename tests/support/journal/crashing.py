"""A file system on a machine that goes down: what was not synced is lost, in part, or in another order."""

from __future__ import annotations

import errno
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from jdbcstore.util.files import Files

T = TypeVar("T")

State = dict[str, bytes]
"""What a disk has: names, and contents."""

SECTOR = 512


class Crash(OSError):
    """The machine is down; whoever asks it for something gets nothing any more."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the machine is down")


class Write(NamedTuple):
    offset: int
    data: bytes

    def apply(self, content: bytes) -> bytes:
        content = content.ljust(self.offset, b"\0")
        return content[: self.offset] + self.data + content[self.offset + len(self.data) :]


class Truncate(NamedTuple):
    size: int

    def apply(self, content: bytes) -> bytes:
        return content[: self.size].ljust(self.size, b"\0")


@dataclass(slots=True, eq=False)
class Inode:
    durable: bytes = b""
    pending: list[Write | Truncate] = field(default_factory=list)


class Name(NamedTuple):
    """A change of a directory: a name that goes, and one that comes."""

    gone: str | None
    come: str | None
    inode: Inode | None

    def apply(self, names: dict[str, Inode]) -> None:
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.come is not None and self.inode is not None:
            names[self.come] = self.inode


class CrashingFiles(Files):
    """Files under ``root``, on a disk that has ``state`` and goes down before operation ``stop_at``.

    Syncs are not passed on: nothing here is to outlive the process.
    """

    def __init__(self, root: Path, state: State, stop_at: int | None = None) -> None:
        self.root = root
        self.stop_at = stop_at
        self.operations = 0
        self.down = False
        self.names = {name: Inode(content) for name, content in state.items()}
        """Durable ones."""
        self.now = dict(self.names)
        self.pending: list[Name] = []
        self._open: dict[int, Inode] = {}
        self._lock = threading.RLock()
        for name, content in state.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _step(self) -> None:
        if self.operations == self.stop_at:
            self.down = True
        if self.down:
            raise Crash
        self.operations += 1

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def create(self, path: Path) -> int:
        with self._lock:
            self._step()
            file = super().create(path)
            self._open[file] = inode = Inode()
            self.now[self._name(path)] = inode
            self.pending.append(Name(None, self._name(path), inode))
            return file

    def open(self, path: Path) -> int:
        with self._lock:
            if self.down:
                raise Crash
            file = super().open(path)
            self._open[file] = self.now[self._name(path)]
            return file

    def write(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        with self._lock:
            self._step()
            self._open[file].pending.append(Write(offset, bytes(data)))
            return super().write(file, data, offset)

    def sync(self, file: int) -> None:
        with self._lock:
            self._step()
            inode = self._open[file]
            for change in inode.pending:
                inode.durable = change.apply(inode.durable)
            inode.pending.clear()

    def truncate(self, file: int, size: int) -> None:
        with self._lock:
            self._step()
            self._open[file].pending.append(Truncate(size))
            super().truncate(file, size)

    def close(self, file: int) -> None:
        with self._lock:
            del self._open[file]
            os.close(file)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self._step()
            super().rename(source, target)
            inode = self.now.pop(self._name(source))
            self.now[self._name(target)] = inode
            self.pending.append(Name(self._name(source), self._name(target), inode))

    def remove(self, path: Path) -> None:
        with self._lock:
            self._step()
            super().remove(path)
            del self.now[self._name(path)]
            self.pending.append(Name(self._name(path), None, None))

    def sync_directory(self, path: Path) -> None:
        with self._lock:
            self._step()
            left = []
            for change in self.pending:
                named = change.come or change.gone
                assert named is not None
                if (self.root / named).parent == path:
                    change.apply(self.names)
                else:
                    left.append(change)
            self.pending = left

    def start_again(self, stop_at: int | None) -> None:
        """The process was killed, and not the machine: nothing is lost, and nothing more is durable."""
        with self._lock:
            self.down = False
            self.operations, self.stop_at = 0, stop_at

    def go_down(self) -> None:
        with self._lock:
            self.down = True

    def everything(self) -> State:
        """What a process finds that was only killed."""
        with self._lock:
            return {name: _applied(inode.durable, inode.pending) for name, inode in self.now.items()}

    def after_some(self, chance: random.Random) -> State:
        """What the disk has: of the changes that were not synced, any."""
        with self._lock:
            names = dict(self.names)
            for change in _some(self.pending, chance):
                change.apply(names)
            return {name: _some_of(inode, chance) for name, inode in names.items()}

    def after_each(self, cuts: Callable[[int], Sequence[int]]) -> Iterator[State]:
        """All that the disk may have. ``cuts``: where a write of so many bytes is torn."""
        seen = set()
        for kept in _subsets(self.pending):
            names = dict(self.names)
            for change in kept:
                change.apply(names)
            inodes = [*{id(inode): inode for inode in names.values()}.values()]
            for contents in itertools.product(*(_each_of(inode, cuts) for inode in inodes)):
                of = {id(inode): content for inode, content in zip(inodes, contents, strict=True)}
                state = {name: of[id(inode)] for name, inode in names.items()}
                key = frozenset((name, hash(content)) for name, content in state.items())
                if key not in seen:
                    seen.add(key)
                    yield state


def _applied(content: bytes, changes: Sequence[Write | Truncate]) -> bytes:
    for change in changes:
        content = change.apply(content)
    return content


def _in_sectors(changes: Sequence[Write | Truncate]) -> list[Write | Truncate]:
    pieces: list[Write | Truncate] = []
    for change in changes:
        if isinstance(change, Truncate):
            pieces.append(change)
            continue
        start = 0
        while start < len(change.data):
            end = start + SECTOR - (change.offset + start) % SECTOR
            pieces.append(Write(change.offset + start, change.data[start:end]))
            start = end
    return pieces


def _subsets(changes: Sequence[T]) -> Iterator[tuple[T, ...]]:
    for count in range(len(changes) + 1):
        yield from itertools.combinations(changes, count)


def _some(changes: Sequence[T], chance: random.Random) -> list[T]:
    share = chance.choice((0, 0.1, 0.5, 0.9, 1))
    return [change for change in changes if chance.random() < share]


def _some_of(inode: Inode, chance: random.Random) -> bytes:
    kept = _some(_in_sectors(inode.pending), chance)
    if kept and isinstance(last := kept[-1], Write) and chance.random() < 0.5:
        kept[-1] = last._replace(data=last.data[: chance.randrange(len(last.data))])
    return _applied(inode.durable, kept)


def _each_of(inode: Inode, cuts: Callable[[int], Sequence[int]]) -> set[bytes]:
    """Every subset of the sectors, or of the whole writes where those are many; the last of each is torn."""
    pieces = _in_sectors(inode.pending)
    if len(pieces) > 4:
        pieces = inode.pending
    found = {inode.durable}
    for kept in _subsets(pieces):
        found.add(_applied(inode.durable, kept))
        if kept and isinstance(last := kept[-1], Write):
            before = _applied(inode.durable, kept[:-1])
            found |= {Write(last.offset, last.data[:cut]).apply(before) for cut in cuts(len(last.data))}
    return found
