"""A folder with what an import leaves out: its bytes as they are in the source, and a list of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from jdbcstore.errors import ConfigurationError
from jdbcstore.util.closing import Closing

INDEX = "index.jsonl"
_OURS = re.compile(r"index\.jsonl|[0-9]{6,}\.record")
_CHUNK = 1 << 20


class KeptRecords(Closing):
    """The folder: ``000001.record`` and so on, each with a line of JSON in ``index.jsonl``.

    An import that continues makes it again. A context manager that closes the list.

    :raises ConfigurationError: the folder has other files
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = [path for path in folder.iterdir() if not _OURS.fullmatch(path.name)]
        if there:
            raise ConfigurationError(
                f"{folder} has other files, as {there[0].name}: name a folder for --keep"
            )
        for path in folder.iterdir():
            path.unlink()
        self._list = (folder / INDEX).open("x", encoding="utf-8")

    def close(self) -> None:
        self._list.close()

    def add(self, content: bytes, source: str, offset: int, reason: str, of: str | None = None) -> None:
        """Keep a record.

        :param of: the destination or the queue that it is of
        """
        path = self._next()
        path.write_bytes(content)
        self._note(path, source, offset, len(content), reason, of)

    def copy(self, source: Path, offset: int, length: int, reason: str) -> None:
        """Keep a part of a file, which may have become shorter.

        :raises OSError: it cannot be read
        """
        path = self._next()
        with source.open("rb") as file, path.open("wb") as kept:
            file.seek(offset)
            left = length
            while left and (chunk := file.read(min(left, _CHUNK))):
                kept.write(chunk)
                left -= len(chunk)
        self._note(path, str(source), offset, length - left, reason, None)

    def _next(self) -> Path:
        self.count += 1
        return self.folder / f"{self.count:06}.record"

    def _note(self, path: Path, source: str, offset: int, length: int, reason: str, of: str | None) -> None:
        facts = {"record": path.name, "file": source, "offset": offset, "bytes": length, "reason": reason}
        self._list.write(json.dumps(facts if of is None else {**facts, "of": of}) + "\n")
