"""A Spark application with processes of its own: ``python -m tests.analytics.application URL FOLDER``.

Each line of its standard input is something to do, each line of its standard output what came of it:
``stream`` begins a stream into files, ``again`` waits for its failure and begins another, ``finish`` reads
what there is to the end and answers with the texts of all messages in the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import StreamingQueryException

from jdbcstore import analytics
from tests.analytics.streams import LONG, Streaming
from tests.polling import wait_until

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Of the wait for a Python to start, on a machine that has much else to do.
    "spark.python.authenticate.socketTimeout": "120s",
}


class _Process(NamedTuple):
    id: int
    state: str
    arguments: list[str]


class Application:
    """Such an application, as who starts and kills it sees it."""

    def __init__(self, url: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.analytics.application", url, str(folder)],
            cwd=ROOT,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, command: str) -> Any:
        """Have something done, and wait for what came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop_when(self, condition: Callable[[], object], tries: int | None = None) -> bool:
        """Stop all of it at a moment at which this is so; whether it was in one of so many tries."""
        while tries != 0:
            wait_until(condition, LONG, "the moment")
            self._signal(signal.SIGSTOP)
            wait_until(lambda: all(one.state == "T" for one in self._processes()), LONG, "whether all stand")
            if condition():
                return True
            self._signal(signal.SIGCONT)
            tries = None if tries is None else tries - 1
        return False

    def kill(self) -> int:
        """Kill it, its Java and the Pythons of that; how many processes they were."""
        killed: set[int] = set()
        if self._process.returncode is not None:
            return 0  # killed already, and others may have its number
        while alive := self._signal(signal.SIGKILL):
            killed |= alive
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return len(killed)

    def kill_pythons(self) -> int:
        """Kill those that its Java has started; how many they were."""
        return len(self._signal(signal.SIGKILL, _is_of_java))

    def _signal(self, number: int, which: Callable[[_Process], bool] = lambda _one: True) -> set[int]:
        chosen = {one.id for one in self._processes() if which(one)}
        for process in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        return chosen

    def _processes(self) -> Iterator[_Process]:
        """All of its session, which Spark's processes stay in, though not in its group."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                state, _parent, _group, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self._process.pid and state not in "ZX":
                    arguments = (path / "cmdline").read_text().split("\0")
                    yield _Process(int(path.name), state, arguments)
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended


def _is_of_java(process: _Process) -> bool:
    return process.arguments[1:2] == ["-m"] and process.arguments[2].startswith("pyspark.")


class Checkpoint:
    """What a stream has written down, beside it and beside its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def planned(self) -> int:
        """The last batch whose offsets are known, which is not done yet; -1 where there is none."""
        last = self._last("checkpoint/offsets")
        return last if last > self.done() else -1

    def in_sink(self) -> int:
        """The last batch that is among the files, and not known to be; -1 where there is none."""
        last = self._last("files/_spark_metadata")
        return last if last > self.done() else -1

    def done(self) -> int:
        """The last batch that is done, -1 before the first."""
        return self._last("checkpoint/commits")

    def offsets(self, batch: int) -> str:
        """Where a batch begins and ends, as it is written down."""
        return (self._folder / "checkpoint" / "offsets" / str(batch)).read_text()

    def _last(self, log: str) -> int:
        names = (path.stem for path in (self._folder / log).glob("[0-9]*"))
        return max((int(name) for name in names), default=-1)


def main(url: str, folder: Path) -> None:
    spark = analytics.session("local[2]", **SETTINGS)
    streaming = Streaming(spark, url, folder)
    for line in sys.stdin:
        answer: Any = None
        match line.strip():
            case "stream":
                streaming.start()
            case "again":
                with contextlib.suppress(StreamingQueryException):
                    assert streaming.queries[-1].awaitTermination(int(LONG))
                streaming.start()
            case "finish":
                streaming.queries[-1].stop()
                streaming.finish()
                answer = streaming.texts()
        print(json.dumps(answer), flush=True)  # noqa: T201 - this is what it is for


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
