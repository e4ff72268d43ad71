"""Archiving processes that are killed: at a stage that they reach, or at some moment.

Each is a process of its own that drives the Spark of this one, which takes as long to start as everything
else here. When it dies, what it has asked of Spark goes on: worse than when both die. All are forked from one
that has everything imported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.support import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARENT = """
import os, signal, sys, threading, time
from pathlib import Path
from jdbcstore import Configuration, StoreConfig
from jdbcstore.analytics.hadoop import HadoopFolder
from jdbcstore.tools import archive
from jdbcstore.tools.archive import Window, files, folders
from jdbcstore.config import DataSourceConfig
from jdbcstore.database.connection import Connection
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

url, folder, before_ms, batch = sys.argv[1:]
for line in sys.stdin:
    stage, child = line.strip(), os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

is_url = "://" in folder
owner = HadoopFolder if is_url else folders.LocalFolder

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def dying(owner, name, at, before=False):
    function, counted = getattr(owner, name), [0]
    def call(*args, **more):
        counted[0] += 1
        if before and counted[0] == at:
            kill()
        result = function(*args, **more)
        if counted[0] == at:
            kill()
        return result
    setattr(owner, name, call)

def half(owner):
    function = owner.create
    def create(self, path, content):
        whole = not path.startswith("_manifest")
        function(self, path, content if whole else content[:len(content) // 2])
        if not whole:
            kill()
    owner.create = create

def watch():
    while not any(Path(folder.partition("://")[2] or folder).glob("batch=*/*")):
        time.sleep(0.001)
    kill()

begin = files.Archive.begin
begun = threading.Event()

def told(*arguments):
    if not begun.is_set():
        print("begun", flush=True)
        begun.set()
    return begin(*arguments)

files.Archive.begin = told

def wait(seconds):
    begun.wait()
    time.sleep(seconds)
    kill()

match stage.split(" after "):
    case ["killed", seconds]: threading.Thread(target=wait, args=[float(seconds)], daemon=True).start()
    case ["while Spark writes"]: threading.Thread(target=watch, daemon=True).start()
    case ["before it is described"]: dying(files.Archive, "commit", 1, before=True)
    case ["manifest not in place"]: dying(owner, "create", 1)
    case ["manifest half written"]: half(owner)
    case ["committed"]: dying(owner, "create", 2)
    case ["in a removal"]: dying(Connection, "remove_messages", 2)
    case ["behind a removal"]: dying(archive.reading._Remover, "_remove_page", 2)
    case ["before it is noted"]: dying(files.Archive, "note_removed", 1, before=True)

if is_url or not ("remov" in stage or "noted" in stage):
    gateway = launch_gateway()
    jvm = gateway.jvm
    java = jvm.org.apache.spark.api.java.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jvm=jvm, _jconf=java.getConf()))
    spark = SparkSession.builder.getOrCreate()
store = Configuration(data_source=DataSourceConfig(url=url), store=StoreConfig(cleanup_period=0.0))
window = Window(int(before_ms))
if "remov" in stage or "noted" in stage:
    archive.remove(store, folder, window)
else:
    archive.write(spark, store, folder, window, batch=int(batch))
"""

STAGES = (
    "while Spark writes",
    "before it is described",
    "manifest not in place",
    "manifest half written",
    "committed",
)
OF_FOLDERS = ("manifest not in place", "manifest half written", "committed")
"""Those at which a folder is what counts, and not Spark."""
REMOVAL = ("in a removal", "behind a removal", "before it is noted")
KILLED = -signal.SIGKILL


class Deaths:
    """Runs archiving of a store, once for each stage; folder is a path or a URL."""

    def __init__(
        self, spark: SparkSession, url: str, folder: str, before_ms: int, errors: Path, batch: int = 15
    ) -> None:
        parameters = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_GATEWAY_PORT": str(parameters.port),
            "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
        }
        self.errors = errors
        self.lasted = 0.0
        """Seconds that the last run has written, from its first batch on."""
        with errors.open("w") as told:
            self._parent = subprocess.Popen(
                [sys.executable, "-c", _PARENT, url, folder, str(before_ms), str(batch)],
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parent.communicate(timeout=180)

    def run(self, stage: str) -> int:
        """The exit code of a process with this end, :data:`KILLED` if it was killed.

        ``killed after 0.3``: so many seconds after it has begun the first batch.
        """
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{stage}\n")
        self._parent.stdin.flush()
        line, self.lasted = self._parent.stdout.readline(), 0.0
        if line == "begun\n":
            begin = time.monotonic()
            line = self._parent.stdout.readline()
            self.lasted = time.monotonic() - begin
        return int(line)
