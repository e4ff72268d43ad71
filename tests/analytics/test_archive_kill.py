"""Whenever archiving is killed: each message is in the archive once, and none is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jdbcstore.tools import archive
from jdbcstore.tools.archive import Window
from tests.support import ROOT
from tests.support.analytics.archives import BEFORE, archived, fill, place, stored
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The child is a process of its own that drives the Spark of this one, which takes as long to start as
# everything else here. When it dies, what it has asked of Spark goes on: worse than when both die.
# All children are forked from one that has everything imported.
PARENT = """
import os, signal, sys, threading, time
from pathlib import Path
from jdbcstore import Configuration, StoreConfig
from jdbcstore.tools import archive
from jdbcstore.tools.archive import Window, files
from jdbcstore.config import DataSourceConfig
from jdbcstore.database.connection import Connection
from jdbcstore.tools.transfer import Target
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

url, folder, before_ms = sys.argv[1:]
for line in sys.stdin:
    stage, child = line.strip(), os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

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

def watch():
    while not any(Path(folder, "_staging").glob("*/*")):
        time.sleep(0.001)
    kill()

match stage:
    case "while Spark writes": threading.Thread(target=watch, daemon=True).start()
    case "before it is described": dying(files.Archive, "commit", 1, before=True)
    case "manifest not in place": dying(files.os, "replace", 1, before=True)
    case "committed": dying(files.os, "replace", 1)
    case "half published": dying(files.os, "replace", 4)
    case "in a removal": dying(Connection, "remove_messages", 2)
    case "behind a removal": dying(archive.reading._Remover, "_remove_page", 2)
    case "before it is noted": dying(files.Archive, "note_removed", 1, before=True)

store = Configuration(data_source=DataSourceConfig(url=url), store=StoreConfig(cleanup_period=0.0))
window = Window(int(before_ms))
if "remov" in stage or "noted" in stage:
    archive.remove(store, folder, window)
else:
    gateway = launch_gateway()
    jvm = gateway.jvm
    java = jvm.org.apache.spark.api.java.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jvm=jvm, _jconf=java.getConf()))
    archive.write(SparkSession(context), store, folder, window, batch=15)
"""

STAGES = (
    "while Spark writes",
    "before it is described",
    "manifest not in place",
    "committed",
    "half published",
)
REMOVAL = ("in a removal", "behind a removal", "before it is noted")


@pytest.mark.timeout(900)  # ten processes, one after the other
@pytest.mark.backends("sqlite")
def test_archiving_is_killed_at_every_stage(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """One archive through all deaths, each met by the next run."""
    folder = tmp_path / "archive"
    fill(database)
    everything = stored(database)
    old = {row for row in everything if b"in doubt" not in row[4] and b"new" not in row[4]}
    window = Window(BEFORE)

    parameters = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
    }
    command = [sys.executable, "-c", PARENT, database.url, str(folder), str(BEFORE)]
    errors = tmp_path / "errors"

    def die(stage: str) -> None:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(f"{stage}\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == f"{-signal.SIGKILL}\n", (stage, errors.read_text())

    with (
        errors.open("w") as told,
        subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told
        ) as parent,
    ):
        for stage in STAGES:
            die(stage)
            assert stored(database) == everything, stage
            assert set(archived(folder).values()) <= {1}, stage
            assert set(archived(folder)) <= old, stage
        archive.write(spark, place(database), folder, window, batch=15)
        assert set(archived(folder)) == old
        assert set(archived(folder).values()) == {1}
        in_files = spark.read.parquet(str(folder)).select("id", "container").collect()
        assert sorted(map(tuple, in_files)) == sorted((row[0], row[1]) for row in old)

        for stage in REMOVAL:
            die(stage)
            assert stored(database) | set(archived(folder)) == everything, stage
            assert stored(database) >= everything - old, stage
        archive.remove(place(database), folder, window)
        assert stored(database) == everything - old
        assert archived(folder) == dict.fromkeys(old, 1)
