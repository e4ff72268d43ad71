"""NumberedStore: a store whose log is in numbered files, and what tells that one is missing or misplaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple

from jdbcstore.errors import CorruptMessage, InvalidDestination
from jdbcstore.message import openwire
from jdbcstore.tools.importing.logged import AddedMessage, Command, LoggedStore, Reading
from jdbcstore.tools.importing.protobuf import MalformedLog
from jdbcstore.tools.importing.replay import BodyPlace

_CHUNK = 1 << 16
OnDamage = Callable[[int, int, str], None]
"""(offset, bytes, reason)"""


class LogFile(NamedTuple):
    """A file of a log by its number."""

    number: int
    path: Path


def numbered_files(folder: Path, name: str) -> list[LogFile]:
    """Return the files of a log in a folder, in their order.

    :param name: of a file, with braces in place of its number
    """
    pattern = re.compile(re.escape(name).replace(r"\{\}", "([0-9]{1,9})"))
    names = ((pattern.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted(LogFile(int(match[1]), path) for match, path in names if match and path.is_file())


class CommandRecord(NamedTuple):
    """The bytes of a command, and their offset in the file."""

    at: int
    content: bytes


class FileReader:
    """Reads one file of a log.

    :param damaged: called with offset, bytes and reason of each damage
    """

    def __init__(self, path: Path, damaged: OnDamage) -> None:
        self._path = path
        self._damaged = damaged
        self._size = 0
        self.end = 0
        """The offset behind the last record that is intact."""
        self.checksum = 0
        """The checksum of all records."""

    def records(self) -> Iterator[CommandRecord]:
        """Yield intact records, and report the bytes between them."""
        with self._path.open("rb", buffering=_CHUNK) as file:
            self._size = file.seek(0, 2)
            file.seek(0)
            try:
                yield from self._records(file)
            except OSError as error:
                self._damaged(file.tell(), self._size - file.tell(), f"it cannot be read: {error.strerror}")

    def _records(self, file: BinaryIO) -> Iterator[CommandRecord]:
        raise NotImplementedError


class NumberedStore(LoggedStore):
    """A store whose log is in numbered files."""

    NAME: ClassVar[str]
    """The name of a file, with braces in place of its number."""
    WITNESS: ClassVar[str]
    """The name, in messages, of a file beside the log, which has noted records of it."""
    VERSION: ClassVar[int | None] = None
    """The version of OpenWire; None if that is not known."""

    def __init__(self, folder: Path, reading: Reading) -> None:
        super().__init__(folder, reading)
        self.logs = numbered_files(folder, self.NAME)
        self.file_count = len(self.logs)
        self._noted = self.noted()
        self._begun: dict[int, tuple[str, int]] = {}
        """The id of the first message in each file, and when its broker took it (epoch ms)."""
        self._checksums: dict[int, Path] = {}

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        return bool(numbered_files(folder, cls.NAME))

    def noted(self) -> list[tuple[int, int]]:
        """Return records that ``WITNESS`` has noted, by file and offset."""
        raise NotImplementedError

    def reader(self, path: Path) -> FileReader:
        """Return a reader of a file."""
        raise NotImplementedError

    def read(self, content: bytes, place: BodyPlace) -> Command | None:
        """Return the command in these bytes; None if it changes nothing.

        :raises MalformedLog: it is none
        """
        raise NotImplementedError

    def run(self) -> None:
        """Replay all files. Afterwards ``prepared`` has the transactions in doubt.

        :raises NothingToImport: a folder before has the same messages
        """
        self.find_missing()
        for log in self.logs:
            for command in self.commands_of(log):
                self.apply(command)
            self.progress(log.path.stat().st_size)

    def find_missing(self) -> None:
        """Name files that are not there, or have no byte but zeros."""
        numbers = [log.number for log in self.logs]
        for before, after in pairwise([0, *numbers]):
            if after - before > 1:
                between = self.NAME.format(before + 1)
                if after - before > 2:
                    between += f" to {self.NAME.format(after - 1)}"
                self.findings.note(
                    f"{self.folder} does not have {between}: the broker removes files that it does not need,"
                    " so nothing is missing unless another program removed them"
                )
        *full, last = self.logs
        for log in full:
            if _is_blank(log.path):
                self.findings.damage(log.path, 0, 0, "it is empty: its content is missing")
        if _is_blank(last.path):  # a broker that is killed as it creates it leaves that
            self.findings.note(
                f"{last.path} is empty: if the broker had written to it, messages are missing or are there"
                " again"
            )
        for number in sorted({number for number, _ in self._noted}.difference(numbers)):
            path = self.folder / self.NAME.format(number)
            self.findings.damage(path, 0, 0, f"it is missing, and {self.WITNESS} has noted it")

    def commands_of(self, log: LogFile) -> Iterator[Command]:
        """Yield the commands in a file; report and skip damage."""
        number = self.files.number(log.path)
        reader = self.reader(log.path)
        for at, content in reader.records():
            place = BodyPlace(number, at, len(content))
            try:
                command = self.read(content, place)
            except (MalformedLog, InvalidDestination) as error:
                self.findings.damage(log.path, *place[1:], str(error))
                continue
            if command is not None:
                self.commands += 1
                yield command
        self.end_file(log, reader)

    def end_file(self, log: LogFile, reader: FileReader) -> None:
        """Report a file that is a copy of another, or shorter than its recorded size."""
        other = self._checksums.setdefault(reader.checksum, log.path)
        if reader.checksum and other != log.path:
            self.findings.damage(log.path, 0, reader.end, f"it has the content of {other.name}")
        offset = max((offset for number, offset in self._noted if number == log.number), default=-1)
        if offset >= reader.end and not self.findings.is_damaged(log.path):
            self.findings.damage(log.path, reader.end, 0, f"{self.WITNESS} has noted a record at {offset}")

    def apply(self, command: Command) -> None:
        """Apply a command; the first message of a file shows whether the file is in its place."""
        if isinstance(command, AddedMessage) and command.place.file not in self._begun:
            self._note_order(command)
        super().apply(command)

    def _note_order(self, first: AddedMessage) -> None:
        """Report a file whose first message is older than that of one before, or the same as one's."""
        path = self.files.paths[first.place.file]
        if first.is_update or first.due is not None:
            return
        try:
            message = openwire.decode(self.files.read(*first.place), version=self.VERSION)
        except (CorruptMessage, OSError):
            return
        taken_ms = message.broker_in_time_ms or 0
        for other, (name, _) in self._begun.items():
            if name == first.name:
                self.findings.note(f"{path} begins with the same message as {self.files.paths[other].name}")
        if taken_ms < max((taken for _, taken in self._begun.values()), default=taken_ms):
            self.findings.note(
                f"{path} begins with an older message than a {self.FILE} before it: their names may be"
                " wrong, or the clock was put back"
            )
        self._begun[first.place.file] = first.name, taken_ms


def _is_blank(path: Path) -> bool:
    with path.open("rb", buffering=0) as file:
        return is_zero(file, 0)


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield what follows, in larger and larger parts: where much is looked for, it is mostly near."""
    size = 256
    while chunk := file.read(size):
        yield chunk
        size = min(2 * size, _CHUNK)


def is_zero(file: BinaryIO, at: int) -> bool:
    """Return whether only zeros follow an offset of a file."""
    file.seek(at)
    return not any(chunk.strip(b"\0") for chunk in chunks(file))
