"""Damage to the files of LevelDB and AMQ stores, chosen at random, and the judge of what is still read."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from jdbcstore.message import openwire
from jdbcstore.tools.importing.leveldb.logs import DATA, RecordLogs
from jdbcstore.tools.importing.leveldb.source import LevelDbSource
from jdbcstore.tools.importing.leveldb.store import unpacked
from jdbcstore.tools.importing.source import BodyFiles, NothingToImport
from tests.support.importing.damages import KINDS, WEIGHTS, look

Sent = dict[tuple[str | None, int | None], set[bytes]]
"""The bytes of the messages of a producer, by their numbers."""


def note(sent: Sent, blob: bytes) -> None:
    message = openwire.decode(blob)
    assert message.message_id is not None
    sent[str(message.message_id.producer_id), message.message_id.producer_sequence].add(blob)


def sent_to_leveldb(folder: Path) -> Sent:
    """Return all messages that a store's logs have."""
    sent: Sent = defaultdict(set)
    logs = RecordLogs(folder, BodyFiles(), lambda *_: None)
    for log in logs.logs:
        for unit in logs.units(log.position, lambda _: None):
            for record in unit:
                if record.kind == DATA:
                    note(sent, unpacked(record.content))
    return sent


class OldJudge:
    """Knows what a folder had before it was damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = look(folder, LevelDbSource)
        assert self.before.findings.damages == []
        self.sent = sent_to_leveldb(folder)

    def judge(self, folder: Path, kind: str, touched: set[Path]) -> str:
        """Read a damaged copy; returns ``same``, ``named`` or ``refused``.

        :raises AssertionError: a message is not what was sent, or something is missing and not named
        """
        try:
            after = look(folder, LevelDbSource)
        except NothingToImport:
            return "refused"
        for row in after.rows:
            known = self.sent[row.msgid_prod, row.msgid_seq]
            assert row.msg in known, f"a message that nobody has sent: {row[:4]}"
        if after.same(self.before):
            return "same"
        named = {Path(damage.file) for damage in after.findings.damages}
        if kind in ("flip", "cut", "blank"):
            named &= touched
        assert named or after.findings.notes, "something is missing or is there again, and nothing is named"
        return "named"


def damage(seed: int, folder: Path) -> tuple[str, set[Path]]:
    """Damage the files below a folder; returns what was done, and to which files."""
    rng = random.Random(seed)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size > 100]
    kind = rng.choices([*KINDS], WEIGHTS)[0]
    change: Callable[[random.Random, list[Path]], set[Path]] = KINDS[kind]
    return kind, change(rng, files)
