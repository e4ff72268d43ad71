"""Artemis's data in files: the folders of its bindings, its journal, its large messages, and its pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from jdbcstore.errors import CorruptMessage
from jdbcstore.tools.importing.artemis.journal import JournalReader, Records, journal_files
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.source import BodyFiles, NothingToImport, SharedLocks

LOCKS = ("server.lock", "serverlock.1", "serverlock.2")
_NODE_AT, _NODE = 3, 16
PAGE_NAME = re.compile(r"([0-9]{9,19})\.page")
_FRAME = Struct(">ci")
_BEGIN, _END = b"{", b"}"

Damaged = Callable[[int, int, int, str], None]


class PagedRecord(NamedTuple):
    """A message in a page."""

    page: int
    number: int
    place: BodyPlace
    body: bytes


class ArtemisFiles:
    """The files of a stopped broker. Close it after use.

    :param folder: the one above, ``data`` of a broker
    :param progress: called with numbers of bytes that were read
    :raises NothingToImport: there is no journal below it
    :raises SourceInUse: a running broker has locked it
    """

    def __init__(self, folder: Path, damaged: Damaged, progress: Callable[[int], None]) -> None:
        self._damaged = damaged
        self._progress = progress
        self._files = BodyFiles()
        self._resources = ExitStack()
        journals, bindings = _folders(folder, ".amq"), _folders(folder, ".bindings")
        for kind, folders in (("journal, files *.amq", journals), ("bindings, files *.bindings", bindings)):
            if len(folders) != 1:
                many = "no" if not folders else f"{len(folders)} folders with a"
                raise NothingToImport(
                    f"{folder} has {many} {kind}; name the data folder of one Artemis, in which all of its"
                    " files are, as journal-directory and bindings-directory of broker.xml tell"
                )
        self._journal, self._bindings = journals[0], bindings[0]
        locks = [self._journal / name for name in LOCKS]
        self._large = {int(p.stem): p for p in sorted(folder.rglob("*.msg")) if p.stem.isdigit()}
        self._pages = _folders(folder, ".page")
        self.shares = self._resources.enter_context(SharedLocks(locks))
        self._resources.callback(self._files.close)
        self.place = str(folder)
        self.node = _node(self._journal / LOCKS[0])
        self.has_all = False
        self.count = 0
        """Files of the two journals."""

    def close(self) -> None:
        self._resources.close()

    def bindings(self) -> Records:
        """Yield the records of the journal of the queues."""
        yield from self._records(self._bindings, "bindings")

    def messages(self) -> Records:
        """Yield the records of the journal of the messages."""
        yield from self._records(self._journal, "amq")

    def _records(self, folder: Path, extension: str) -> Records:
        def broken(path: Path, reason: str) -> None:
            self._damaged(self._files.number(path), 0, path.stat().st_size, reason)

        logs = journal_files(folder, extension, broken)
        longest = max((log.path.stat().st_size for log in logs), default=0)
        for log in logs:
            number, end = self._files.number(log.path), 0
            self.count += 1

            def damaged(offset: int, length: int, reason: str, number: int = number) -> None:
                self._damaged(number, offset, length, reason)

            try:
                for record, data in JournalReader(log.path, damaged).records():
                    end = record.offset + record.size
                    yield record, number, lambda at, size, data=data: data[at : at + size]  # type: ignore[misc]
            except OSError as error:
                damaged(0, 0, f"it cannot be read: {error.strerror}")
            if end == log.path.stat().st_size < longest:
                damaged(
                    end, longest - end, "it ends with this record, and others are longer: more is missing"
                )
            self._progress(log.path.stat().st_size)

    def pages(self) -> Iterator[PagedRecord]:
        """Yield the messages in pages, in their order."""
        for folder in self._pages:
            files = [
                (int(name[1]), path) for path in folder.iterdir() if (name := PAGE_NAME.fullmatch(path.name))
            ]
            for page, path in sorted(files):
                yield from self._page(page, path)

    def _page(self, page: int, path: Path) -> Iterator[PagedRecord]:
        file = self._files.number(path)
        data = path.read_bytes()
        self._progress(len(data))
        yield from read_page(data, page, file, self._damaged)

    def read(self, _id: int, place: BodyPlace) -> bytes:
        """Return the bytes of a message at a place.

        :raises OSError: they cannot be read
        """
        return self._files.read(*place)

    def large_body(self, id_: int) -> bytes:
        """Return the body of a large message.

        :raises OSError: it cannot be read
        :raises CorruptMessage: it is not there
        """
        path = self._large.get(id_)
        if path is None:
            raise CorruptMessage(f"there is no {id_}.msg, the file with the body of this large message")
        return path.read_bytes()

    def name(self, file: int) -> str:
        """Return the name of a file by its number."""
        return str(self._files.paths[file])


def open_files(folder: Path, progress: Callable[[int], None]) -> Callable[[Damaged], ArtemisFiles]:
    """Return what opens the files of a folder, for a source that says where to report damages."""
    return partial(ArtemisFiles, folder, progress=progress)


def read_page(data: bytes, page: int, file: int, damaged: Damaged) -> Iterator[PagedRecord]:
    """Yield the messages of a page; a damaged one ends it, because later numbers are unknown."""
    at, number = 0, 0
    if not data.strip(b"\0"):
        reason = "it is empty: its content is missing, unless the broker was killed as it created it"
        damaged(file, 0, 0, reason)
        return
    while at < len(data):
        if at + _FRAME.size < len(data):
            begin, size = _FRAME.unpack_from(data, at)
            start = at + _FRAME.size
            if (
                begin == _BEGIN
                and 0 <= size < len(data) - start
                and data[start + size : start + size + 1] == _END
            ):
                yield PagedRecord(page, number, BodyPlace(file, start, size), data[start : start + size])
                at, number = start + size + 1, number + 1
                continue
        if data[at:].strip(b"\0"):
            damaged(file, at, len(data) - at, f"no message of the page begins here, after {number}")
        return


class PageOrder:
    """The order and the sizes of the pages of each address: notes where messages may be missing.

    The broker begins a page when the next message would exceed the size of pages, which is at least that of
    the largest page of several messages. Nothing else shows that a page ends too early, after a message.

    :param name: returns the name of a file
    """

    def __init__(self, name: Callable[[int], str], note: Callable[[str], None]) -> None:
        self._name = name
        self._note = note
        self._address = ""
        self._pages: list[_PageExtent] = []

    def add(self, record: PagedRecord) -> None:
        """Add the next message."""
        file, at, size = record.place
        if not self._pages or self._pages[-1].file != file:
            address = self._name(file).removesuffix(f"{record.page:09}.page")
            if address != self._address:
                self.end()
                self._address = address
            self._pages.append(_PageExtent(record.page, file, first=size + _FRAME.size + 1))
        self._pages[-1].end = at + size + 1
        self._pages[-1].count += 1

    def end(self) -> None:
        """Look at the pages of the last address."""
        limit = max((page.end for page in self._pages if page.count > 1), default=0)
        for page, following in pairwise(self._pages):
            if following.number > page.number + 1:
                self._note(
                    f"{self._address} does not have the pages {page.number + 1} to"
                    f" {following.number - 1}: the broker removes those that were consumed, so nothing is"
                    " missing unless another program removed them"
                )
            elif page.end + following.first <= limit:
                self._note(
                    f"{self._name(page.file)} ends before the broker ends a page: messages may be missing"
                )
        self._pages = []


@dataclass(slots=True)
class _PageExtent:
    number: int
    file: int
    first: int
    """The size of the first message with its frame."""
    end: int = 0
    count: int = 0


def has_journal(folder: Path) -> bool:
    """Return whether there is a journal of Artemis in a folder, or below it."""
    return bool(_folders(folder, ".bindings"))


def _folders(folder: Path, extension: str) -> list[Path]:
    """Return the folders with files of this kind, by name."""
    folders = []
    for path, names, files in os.walk(folder):
        names.sort()
        if any(name.endswith(extension) for name in files):
            folders.append(Path(path))
    return folders


def _node(path: Path) -> str:
    """Return the UUID of the broker, which is in its lock file; empty if it is not."""
    try:
        raw = path.read_bytes()[_NODE_AT : _NODE_AT + _NODE]
    except OSError:
        return ""
    return str(UUID(bytes=raw)) if len(raw) == _NODE and any(raw) else ""
