"""A Spark application in its own process: ``python -m tests.support.analytics.application URL FOLDER KIND``.

Its kind is that of its session: ``classic``, or ``connect`` with a server of its own, which dies with it.
Each line of its standard input is something to do, each line of its standard output what came of it:
``stream`` begins a stream into files; ``again`` waits for its failure, and begins others until one has done a
batch, and says how many; ``finish`` reads what there is to the end, and says the texts of all messages in the
files.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT, tiers
from tests.support.analytics.connecting import remote_session
from tests.support.analytics.streams import LONG, Streaming
from tests.support.jvm import QUICK

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SETTINGS = {
    "spark.driver.defaultJavaOptions": " ".join(QUICK),
    # Of the wait for a Python to start, on a machine that has much else to do.
    "spark.python.authenticate.socketTimeout": "120s",
}


class _Process(NamedTuple):
    id: int
    arguments: list[str]


class Application:
    """Such an application, as who starts and kills it sees it."""

    def __init__(self, url: str, folder: Path, kind: str = "classic", spark_home: Path | None = None) -> None:
        tiers.starts("spark")
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        if spark_home:
            environment["SPARK_HOME"] = str(spark_home)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.analytics.application", url, str(folder), kind],
            cwd=ROOT,
            env=environment,
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
        answer = self._process.stdout.readline()
        assert answer, "the application has ended; standard error says why"
        return json.loads(answer)

    def stop_when(self, condition: Callable[[], object], tries: int | None = None) -> bool:
        """Stop its Java at a moment at which this is so; whether it was in one of so many tries."""
        java = self._java()
        while tries != 0:
            wait_until(condition, LONG, "the moment")
            os.kill(java, signal.SIGSTOP)
            wait_until(lambda: _stands(java), LONG, "whether all of its threads stand")
            if condition():
                return True
            os.kill(java, signal.SIGCONT)
            tries = None if tries is None else tries - 1
        return False

    def _java(self) -> int:
        """The Java that answers it; one that only finds out a version, or starts another, ends at once."""
        javas: set[int] = set()

        def is_alone() -> bool:
            nonlocal javas
            javas = {one.id for one in self._processes() if one.arguments[0].endswith("java")}
            return len(javas) == 1

        wait_until(is_alone, LONG, "whether it has one Java")
        return javas.pop()

    def kill(self) -> int:
        """Kill it, its Java and the Pythons of that; how many processes they were."""
        killed: set[int] = set()
        if self._process.returncode is not None:
            return 0  # killed already, and others may have its number
        while alive := _kill(self._processes()):
            killed |= alive
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return len(killed)

    def kill_pythons(self) -> int:
        """Kill those that its Java has started; how many they were."""
        return len(_kill(one for one in self._processes() if _is_of_java(one)))

    def _processes(self) -> Iterator[_Process]:
        """All of its session, which Spark's processes stay in, though not in its group."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                state, _parent, _group, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self._process.pid and state not in "ZX":
                    arguments = (path / "cmdline").read_text().split("\0")
                    yield _Process(int(path.name), arguments)
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended


def _kill(processes: Iterable[_Process]) -> set[int]:
    chosen = {one.id for one in processes}
    for process in chosen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return chosen


def _stands(process: int) -> bool:
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    try:
        return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)
    except (FileNotFoundError, ProcessLookupError):
        return False  # one ended


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


def main(url: str, folder: Path, kind: str) -> None:
    from jdbcstore import analytics

    spark = remote_session() if kind == "connect" else analytics.session("local[2]", **SETTINGS)
    streaming = Streaming(spark, url, folder, rows=2000)
    for line in sys.stdin:
        answer: Any = None
        match line.strip():
            case "stream":
                streaming.start()
            case "again":
                answer = _begin_again(streaming, Checkpoint(folder))
            case "finish":
                streaming.finish()
                answer = streaming.texts()
        print(json.dumps(answer), flush=True)  # noqa: T201 - this is what it is for


def _begin_again(streaming: Streaming, checkpoint: Checkpoint) -> int:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    failed = streaming.queries[-1]
    wait_until(lambda: failed.exception() is not None, LONG, "whether the stream has failed")
    before = checkpoint.done()
    for number in range(1, 21):
        try:
            query = streaming.start()
        except (Py4JJavaError, PySparkException):
            continue  # Spark learns that a Python is gone when it asks it for something
        if _gets_behind(before, query, checkpoint):
            return number
    raise AssertionError(str(streaming.queries[-1].exception()))


def _gets_behind(batch: int, query: StreamingQuery, checkpoint: Checkpoint) -> bool:
    """Whether another batch is done before the stream fails."""
    wait_until(lambda: query.exception() is not None or checkpoint.done() > batch, LONG, "what came of it")
    return checkpoint.done() > batch


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
