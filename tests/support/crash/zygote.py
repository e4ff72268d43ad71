"""A process that has everything imported, and forks the storing processes that tests kill.

Run as ``python -m tests.support.crash.zygote``. The first line on its standard input is the store's URL, the
second its journal's directory, empty for none; each further line is a number that starts a storing process.
Those write to its standard output, a line for each thing they do; ``dead`` follows the last line of one that
has been killed.
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

from sqlalchemy import make_url

from jdbcstore import StoreConfig
from jdbcstore.database.session import DatabaseSession
from tests.support.compiling import compile_all
from tests.support.crash import work

_FIRST = 20
"""Processes that find nothing compiled."""


def main() -> None:
    url = sys.stdin.readline().strip()
    journal = sys.stdin.readline().strip()
    make_url(url).get_dialect().import_dbapi()
    gc.freeze()
    for number, line in enumerate(sys.stdin):
        if number == _FIRST and "pyodbc" not in url:  # whose manager of drivers is not made to be forked
            _compile(url)
        _fork(url, int(line), journal)
        os.wait()
        work.say("dead")


def _compile(url: str) -> None:
    """Have the statements compiled, for which a process takes a quarter of its short life."""
    with closing(DatabaseSession(url, StoreConfig())) as session:
        compile_all(session.statements)
    gc.freeze()


def _fork(url: str, incarnation: int, journal: str) -> None:
    if os.fork():
        return
    try:
        random.seed(incarnation)
        work.say("born", os.getpid())
        work.run(url, incarnation, journal)
    except BaseException as error:  # whatever it is, the test must hear of it
        work.say("error", repr(error).replace("\n", " "))
    finally:
        os._exit(1)


class StoringProcesses:
    """The test's end: one storing process after another, and what each said."""

    def __init__(self, url: str, journal: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.crash.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._tell(url)
        self._tell(journal)

    def start(self, incarnation: int) -> int:
        """Start one; its process id."""
        self._tell(str(incarnation))
        return int(next(self.lines())[1])

    def lines(self) -> Iterator[list[str]]:
        """What the current one says, word by word, up to the last before it died."""
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != "dead\n":
            assert line, "the zygote died"
            yield line.split()

    def close(self) -> None:
        """End the zygote. No storing process may be running."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(180.0)
        self._process.stdout.close()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")


if __name__ == "__main__":
    main()
