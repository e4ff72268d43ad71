"""Damage to the files of LevelDB and AMQ stores, chosen at random, and the judge of what is still read."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from jdbcstore.message import openwire
from jdbcstore.tools.importing.amq.commands import read_command
from jdbcstore.tools.importing.amq.journal import DataFileReader
from jdbcstore.tools.importing.amq.source import AmqSource
from jdbcstore.tools.importing.amq.store import AmqStore
from jdbcstore.tools.importing.leveldb.logs import DATA, RecordLogs
from jdbcstore.tools.importing.leveldb.source import LevelDbSource
from jdbcstore.tools.importing.leveldb.store import unpacked
from jdbcstore.tools.importing.logged import AddedMessage
from jdbcstore.tools.importing.numbered import numbered_files
from jdbcstore.tools.importing.replay import BodyPlace
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


def sent_to_amq(folder: Path) -> Sent:
    """Return all messages that a store's journal has."""
    sent: Sent = defaultdict(set)
    for data in numbered_files(folder / "journal", AmqStore.NAME):
        for at, content in DataFileReader(data.path, lambda *_: None).records():
            if isinstance(read_command(content, BodyPlace(0, at, len(content))), AddedMessage):
                note(sent, content)
    return sent


class OldJudge:
    """Knows what a folder had before it was damaged.

    :param kind: ``leveldb`` or ``amq``
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self._source_of = {"leveldb": LevelDbSource, "amq": AmqSource}[kind]
        self.before = look(folder, self._source_of)
        assert self.before.findings.damages == []
        self.sent = {"leveldb": sent_to_leveldb, "amq": sent_to_amq}[kind](folder)

    def judge(self, folder: Path, kind: str, touched: set[Path]) -> str:
        """Read a damaged copy; returns ``same``, ``named``, ``refused``; or ``unseen``, without checksums.

        :raises AssertionError: a message is not what was sent, or something is missing and not named
        """
        try:
            after = look(folder, self._source_of)
        except NothingToImport:
            return "refused"
        is_changed = any(row.msg not in self.sent[row.msgid_prod, row.msgid_seq] for row in after.rows)
        if after.same(self.before):
            return "same"
        named = {Path(damage.file) for damage in after.findings.damages}
        if kind in ("flip", "cut", "blank"):
            named &= touched
        is_named = bool(named or after.findings.notes != self.before.findings.notes)
        if self.kind == "amq" and kind in ("flip", "blank") and not (is_named and not is_changed):
            return "unseen"
        assert not is_changed, "a message that nobody has sent"
        assert is_named, "something is missing or is there again, and nothing is named"
        return "named"


def damage(seed: int, folder: Path) -> tuple[str, set[Path]]:
    """Damage the files below a folder; returns what was done, and to which files."""
    rng = random.Random(seed)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size > 100]
    # Nothing else of AMQ's index is read.
    files = [path for path in files if "kr-store" not in path.parts or path.parent.name == "state"]
    kind = rng.choices([*KINDS], WEIGHTS)[0]
    change: Callable[[random.Random, list[Path]], set[Path]] = KINDS[kind]
    return kind, change(rng, files)
