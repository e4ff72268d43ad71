"""Large messages older than many small ones, which every reader reads in a bounded memory; and Java's end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jdbcstore
from jdbcstore import Message, analytics
from jdbcstore.analytics.arrow import fetching
from jdbcstore.analytics.arrow.reading import database_of
from jdbcstore.analytics.arrow.views import rows_of_view
from jdbcstore.analytics.streaming import reading
from jdbcstore.analytics.streaming.options import read_options
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.tools.archive import Archive, Window, writing
from tests.support import tiers
from tests.support.analytics.large import BY_SPARK, WITHOUT_SPARK
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.jvm import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

LARGE, SMALL = 100, 200
SIZE = 1_000_000
BOUND = 200_000
HEAP = ("--conf", "spark.driver.memory=200m", "--conf", "spark.testing.reservedMemory=1")
"""Which Spark refuses otherwise."""


def filled(database: Database, large: int, size: int, small: int) -> None:
    """Store large messages, then small ones."""
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for _ in range(large):
            store.queue("FILES").add_message(Message(os.urandom(size)))
        store.queue("EVENTS").add_messages([Message("small") for _ in range(small)])


@pytest.fixture
def command(tmp_path: Path, spark_home: Path) -> CommandLine:
    """The command line, with a Java that starts quickly."""
    tiers.starts("spark")
    (tmp_path / "settings").mkdir()
    defaults = tmp_path / "settings" / "spark-defaults.conf"
    defaults.write_text(f"spark.driver.defaultJavaOptions {' '.join(QUICK)}\n")
    return CommandLine(tmp_path, SPARK_CONF_DIR=str(defaults.parent), SPARK_HOME=str(spark_home))


@pytest.mark.slow
@pytest.mark.backends("postgresql", "mariadb")
@pytest.mark.whole("mariadb")
def test_views_of_large_messages_older_than_small_ones(database: Database, command: CommandLine) -> None:
    filled(database, LARGE, SIZE, SMALL)
    question = "SELECT count(*) AS n, sum(octet_length(body_bytes)) AS bytes FROM messages_decoded"
    done = command.run_anew("sql", "--json", question, "--url", database.url, *HEAP)
    assert (done.code, done.err) == (0, "")
    assert done.json == {"n": LARGE + SMALL, "bytes": LARGE * SIZE}


READERS = {
    "arrow": """
reader = jdbcstore.read_arrow(url, ["id", "body_bytes"])
rows, size = 0, 0
for batch in reader:
    rows += len(batch)
    size += sum(map(len, filter(None, batch.column("body_bytes").to_pylist())))
""",
    "duckdb": """
from jdbcstore.analytics import duck
with duck.connect(url) as views:
    answer = views.query("SELECT count(*), sum(octet_length(body_bytes))::BIGINT FROM messages_decoded")
    rows, size = answer.read_all().to_pylist()[0].values()
""",
}
MEASURED = """
import resource, sys
import duckdb, numpy, pyarrow, pyarrow.dataset
import jdbcstore
from jdbcstore.analytics.arrow import fetching
fetching.PAGE_BYTES = 1 << 20
url = sys.argv[1]
jdbcstore.read_arrow(url, ["id"]).read_all()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{reads}
print(rows, size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.backends("sqlite", "postgresql", "mariadb")
@pytest.mark.parametrize("reader", READERS)
def test_a_process_reads_more_than_its_memory(database: Database, reader: str, tmp_path: Path) -> None:
    filled(database, LARGE, SIZE, SMALL)
    program = tmp_path / "program.py"
    program.write_text(MEASURED.format(reads=READERS[reader]))
    done = subprocess.run([sys.executable, program, database.url], stdout=subprocess.PIPE, check=True)
    rows, size, more = map(int, done.stdout.split())
    assert (rows, size) == (LARGE + SMALL, LARGE * SIZE)
    assert more * 1024 < LARGE * SIZE * 2 // 3


@pytest.mark.slow
@pytest.mark.backends("sqlite", "postgresql", "mariadb")
@pytest.mark.whole
@pytest.mark.parametrize("reader", [*WITHOUT_SPARK, *BY_SPARK])
def test_a_reader_of_more_than_its_memory(database: Database, reader: str, tmp_path: Path) -> None:
    """Messages of 800 MB, by a Java of 700 MB and a Python of 500 MB."""
    filled(database, 400, 2_000_000, 300)
    tiers.starts("spark")
    command = [sys.executable, "-m", "tests.support.analytics.large", reader, database.url, str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, start_new_session=True)
    read = json.loads(done.stdout)
    assert read["found"] == [700, 800_000_000]
    assert read["python"] < 500


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_pages_of_a_stream_are_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first one, and those behind small messages, and those of messages that came late."""
    monkeypatch.setattr(reading, "_PAGE_BYTES", BOUND)
    filled(database, 10, BOUND // 2 - 1000, 120)
    filled(database, 10, BOUND // 2 - 1000, 1)
    options = read_options({"url": database.url, "startingoffsets": "earliest"})
    with closing(reading.StreamDatabase(options)) as stream:
        last = stream.sight().highest
        for pages in ([*stream.pages(0, last)], [*stream.pages_of(range(1, last + 1))]):
            assert [row.id for page in pages for row in page] == [*range(1, last + 1)]
            assert all(sum(len(row.msg) for row in page) <= BOUND for page in pages)
            assert len(pages) < 24


@pytest.mark.backends("sqlite", "postgresql", "mariadb")
def test_pages_of_pending_messages_are_bounded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAGE_ROWS", 20)
    with jdbcstore.open(url, cleanup_period=0.0) as store:
        for name in ("ann", "ben"):
            store.topic("NEWS").subscribe(name, name)
        store.topic("NEWS").add_messages([Message("small") for _ in range(50)])
    _, *batches = rows_of_view("pending", database_of(url))
    assert [len(batch) for batch in batches if batch is not None] == [20] * 5


@pytest.mark.backends("sqlite", "postgresql", "mariadb")
def test_batches_of_an_archive_are_bounded(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_TASK_BYTES", BOUND)
    filled(database, 10, BOUND // 2 - 1000, 120)
    store = Configuration(data_source=DataSourceConfig(url=database.url))
    with analytics.stored_in(spark, store) as stored:
        batches = [*writing._batches(stored, Archive(tmp_path / "archive"), Window(), None)]
    ranges = [each for batch in batches for each in batch]
    assert [start for start, _ in ranges] == [-1, *(end for _, end in ranges[:-1])]
    size = f"SELECT coalesce(sum({database.length}(MSG)), 0) FROM ACTIVEMQ_MSGS WHERE ID > :a AND ID <= :b"
    assert all(database.rows(size, a=start, b=end)[0][0] <= BOUND for start, end in ranges)
    assert len(ranges) < 10


def java_of(process: subprocess.Popen[bytes]) -> int | None:
    """The Java that a command has started, once it answers."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            arguments = (path / "cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended
        if int(parent) == process.pid and "org.apache.spark.deploy.SparkSubmit" in arguments:
            return int(path.name)
    return None


def exists(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


@pytest.mark.slow
def test_java_without_memory_ends_and_so_does_the_command(command: CommandLine) -> None:
    """With one sentence beside Java's, and an exit code."""
    command("init")
    large = "SELECT octet_length(repeat(id, 1000000000)) AS bytes FROM range(9)"
    done = command.run_anew("sql", "--json", large, *HEAP)
    assert (done.code, done.out) == (1, "")
    java, *ours = done.err.splitlines()
    assert java == "Terminating due to java.lang.OutOfMemoryError: Java heap space"
    assert [line.partition("; ")[0] for line in ours] == [
        "jdbcstore: Spark's Java has ended, most likely for lack of memory"
    ]
    assert "spark.driver.memory" in done.err


@pytest.mark.slow
def test_a_command_that_is_terminated_leaves_no_java(command: CommandLine) -> None:
    """Even one that does nothing any more, as Java that only looks for memory."""
    command("init")
    with command.start(
        "sql", "--engine", "spark", "--shell", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(b"SELECT 1 AS one;\n")
        shell.stdin.flush()
        assert b"one" in shell.stdout.readline()
        java = java_of(shell)
        assert java is not None
        os.kill(java, signal.SIGSTOP)
        shell.send_signal(signal.SIGTERM)
        try:
            assert shell.wait(60) == 128 + signal.SIGTERM
            assert not exists(java)
        finally:
            if exists(java):
                os.kill(java, signal.SIGKILL)
