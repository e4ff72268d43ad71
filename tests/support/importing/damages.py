"""Damage to the files of a KahaDB, chosen at random, and the judge of what is still read of them."""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jdbcstore.message import openwire
from jdbcstore.message.jobs import JOBS
from jdbcstore.tools.importing.kahadb.commands import read_command
from jdbcstore.tools.importing.kahadb.logs import END, LogReader
from jdbcstore.tools.importing.kahadb.replaying import LogFolder
from jdbcstore.tools.importing.kahadb.source import KahaDbSource
from jdbcstore.tools.importing.logged import AddedMessage
from jdbcstore.tools.importing.numbered import numbered_files
from jdbcstore.tools.importing.rows import name_columns
from jdbcstore.tools.importing.source import Findings, NothingToImport
from jdbcstore.tools.transfer import MessageRow

Named = tuple[str, str | None, int | None]
"""Destination, producer and number of a message."""


@dataclass
class Result:
    """What is found in a folder."""

    messages: Counter[tuple[object, ...]]
    pending: dict[tuple[str, str, str], set[tuple[str, object]]]
    findings: Findings
    rows: list[MessageRow] = field(repr=False, default_factory=list)

    def same(self, other: Result) -> bool:
        return self.messages == other.messages and self.pending == other.pending


def look(folder: Path, source_of: Callable[[Path], Any] = KahaDbSource) -> Result:
    """Read everything in a folder."""
    with source_of(folder) as source:
        rows = [row for page in source.messages() for row in page]
        pending: dict[tuple[str, str, str], set[tuple[str, object]]] = {}
        for topic, subscriptions in source.replay.topics().items():
            for one in subscriptions:
                key = (str(topic), one.info.client_id, one.info.subscription_name)
                pending[key] = {
                    (state.name, state.xid)
                    for state in source.replay.states(topic, one)
                    if not state.is_acknowledged
                }
        return Result(Counter(row[1:] for row in rows), pending, source.findings, rows)


class Judge:
    """Knows what a folder had before it was damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = look(folder)
        assert self.before.findings.damages == []
        self.sent: dict[Named, set[bytes]] = defaultdict(set)
        """The bytes that each message had at some time."""
        for path, _, _ in _walk(folder):
            for log in numbered_files(path, LogFolder.NAME):
                for record in LogReader(log.path, lambda *_: None).records():
                    self._note(record.content)

    def _note(self, content: bytes) -> None:
        command = read_command(content)
        if not isinstance(command, AddedMessage):
            return
        _, at, size = command.place
        blob = content[at : at + size]
        if command.due is None:
            name = (command.destination.qualified_name, *name_columns(command.name))
            self.sent[name].add(blob)
        else:
            message = openwire.decode(blob)
            assert message.message_id is not None
            found = message.message_id
            name = (JOBS.qualified_name, str(found.producer_id), found.producer_sequence)
            self.sent[name].add(str(message.body).encode())

    def judge(self, folder: Path, touched: set[Path]) -> str:
        """Read a damaged copy; returns ``same`` or ``named``.

        :raises AssertionError: a message is not what was sent, or something is missing and not named
        """
        try:
            after = look(folder)
        except NothingToImport:
            return "refused"
        for row in after.rows:
            known = self.sent[(row.container, row.msgid_prod, row.msgid_seq)]
            content = row.msg
            if row.container == JOBS.qualified_name:
                content = str(openwire.decode(row.msg).body).encode()
            assert content in known, f"a message that nobody has sent: {row[:4]}"
        if after.same(self.before):
            return "same"
        findings = after.findings
        files = {Path(damage.file) for damage in findings.damages}
        # What is in a wrong place is noticed where something else follows.
        named = files & touched or findings.notes
        assert named, "something is missing or is there again, and nothing is named"
        return "named"


def _walk(folder: Path) -> Iterator[tuple[Path, list[Path], list[Path]]]:
    folders = [path for path in sorted(folder.rglob("*")) if path.is_dir()]
    for path in (folder, *folders):
        yield path, [], []


def _used(content: bytes | bytearray) -> int:
    """The size of what was written, without what was allocated beyond it."""
    return max(len(content.rstrip(b"\0").removesuffix(END).rstrip(b"\0")), 1)


def _flip(rng: random.Random, logs: list[Path]) -> set[Path]:
    path = rng.choice(logs)
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 3))):
        content[rng.randrange(_used(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return {path}


def _cut(rng: random.Random, logs: list[Path]) -> set[Path]:
    path = rng.choice(logs)
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(rng.choice((len(content), _used(content))))])
    return {path}


def _blank(rng: random.Random, logs: list[Path]) -> set[Path]:
    """A block of zeros, or of another file's content."""
    path = rng.choice(logs)
    content = bytearray(path.read_bytes())
    size = rng.choice((16, 512, 4096))
    at = rng.randrange(_used(content)) // size * size
    other = rng.choice(logs).read_bytes()
    filling = bytes(size) if rng.random() < 0.6 else other[at : at + size].ljust(size, b"\0")
    content[at : at + size] = filling[: len(content) - at]
    path.write_bytes(content)
    return {path}


def _swap(rng: random.Random, logs: list[Path]) -> set[Path]:
    one, other = rng.sample(logs, 2)
    aside = one.with_suffix(".aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    return {one, other}


def _remove(rng: random.Random, logs: list[Path]) -> set[Path]:
    path = rng.choice(logs)
    path.unlink()
    return {path}


def _double(rng: random.Random, logs: list[Path]) -> set[Path]:
    """A log is overwritten by another."""
    one, other = rng.sample(logs, 2)
    shutil.copyfile(one, other)
    return {one, other}


KINDS: dict[str, Callable[[random.Random, list[Path]], set[Path]]] = {
    "flip": _flip,
    "cut": _cut,
    "blank": _blank,
    "swap": _swap,
    "remove": _remove,
    "double": _double,
}
WEIGHTS = (8, 4, 5, 1, 1, 1)


def damage(seed: int, folder: Path) -> tuple[str, set[Path]]:
    """Damage the logs below a folder; returns what was done, and to which files."""
    rng = random.Random(seed)
    logs = sorted(folder.rglob("db-*.log"))
    kind = rng.choices([*KINDS], WEIGHTS)[0]
    return kind, KINDS[kind](rng, logs)
