"""The kinds of sources that can be imported, by the scheme of their names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jdbcstore.tools.importing.amq.source import AmqSource
from jdbcstore.tools.importing.artemis.files import has_journal, open_files
from jdbcstore.tools.importing.artemis.source import ArtemisSource
from jdbcstore.tools.importing.artemis.tables import open_tables
from jdbcstore.tools.importing.folders import FolderSource
from jdbcstore.tools.importing.kahadb.source import KahaDbSource
from jdbcstore.tools.importing.leveldb.source import LevelDbSource
from jdbcstore.tools.importing.rows import ReplayedRows
from jdbcstore.tools.importing.source import Findings, NothingToImport

_URL = re.compile(r"[a-z][a-z0-9+]*:", re.IGNORECASE)
Progress = Callable[[int], None]


class SourceKind(NamedTuple):
    """One kind: ``kahadb:/var/lib/activemq/data``."""

    scheme: str
    what: str
    open: Callable[[str, Progress, Findings], ReplayedRows]
    """Opens what follows the scheme, calls with the bytes that were read until then, and reports findings."""
    recognises: Callable[[Path], bool]
    """Whether a folder that is named without a scheme is of this kind."""


def _open_artemis(place: str, progress: Progress, findings: Findings) -> ReplayedRows:
    if _URL.match(place):
        return ArtemisSource(open_tables(place, progress), findings)
    return ArtemisSource(open_files(Path(place), progress), findings)


def _of_folders(scheme: str, what: str, source: type[FolderSource]) -> SourceKind:
    return SourceKind(scheme, what, lambda folder, *more: source(Path(folder), *more), source.recognises)


KINDS = (
    _of_folders(
        "kahadb",
        "a folder of ActiveMQ's KahaDB or its job scheduler, or one above several (mKahaDB)",
        KahaDbSource,
    ),
    _of_folders(
        "leveldb",
        "a folder of ActiveMQ's LevelDB store, also of a replicated node, or one above several",
        LevelDbSource,
    ),
    _of_folders("amq", "a folder of ActiveMQ's AMQ message store, or one above several", AmqSource),
    SourceKind(
        "artemis",
        "the data folder of an Artemis, or the URL of the database with its tables",
        _open_artemis,
        has_journal,
    ),
)


def open_source(
    name: str, progress: Progress = lambda _: None, findings: Findings | None = None
) -> ReplayedRows:
    """Open a source by its name: a scheme and a place, or a folder whose kind is found out.

    :param findings: receives the findings
    :raises NothingToImport: there is none
    :raises SourceInUse: a running broker has it
    """
    scheme, _, place = name.partition(":")
    findings = Findings() if findings is None else findings
    for kind in KINDS:
        if scheme == kind.scheme:
            return kind.open(place.removeprefix("//"), progress, findings)
    folder = Path(name)
    if folder.is_dir():
        for kind in KINDS:
            if kind.recognises(folder):
                return kind.open(name, progress, findings)
    known = "; ".join(f"{kind.scheme}:PLACE, {kind.what}" for kind in KINDS)
    raise NothingToImport(f"{name} is nothing that can be imported; name {known}")
