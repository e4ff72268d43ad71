"""Archives on S3: written, killed, compared and restored over HTTP, with Hadoop's own connector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.analytics.hadoop import HadoopFolder
from jdbcstore.errors import ConfigurationError, NotMaster
from jdbcstore.tools import archive
from jdbcstore.tools.archive import Archive, Window
from tests.support.analytics import s3a
from tests.support.analytics.archives import BEFORE, OLD, archived, fill, place, stored
from tests.support.analytics.deaths import KILLED, Deaths
from tests.support.databases import Database, SqliteDatabase
from tests.support.require import unavailable
from tests.support.servers.process import ServerMissing
from tests.support.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first one starts Spark's workers, and compiles.
pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def s3(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that Spark reaches as ``s3a://``."""
    try:
        server = S3Server(tmp_path_factory.mktemp("s3"))
    except ServerMissing as missing:
        unavailable("s3", str(missing))
    try:
        s3a.add(spark, server)
        yield server
    except s3a.ConnectorMissing as missing:
        unavailable("s3", str(missing))
    finally:
        server.close()


@pytest.fixture
def url(s3: S3Server, tmp_path: Path) -> str:
    """A new folder there."""
    return s3a.url_of(s3, tmp_path)


@pytest.mark.backends("sqlite", "postgresql")
@pytest.mark.whole("sqlite")
def test_there_and_back(spark: SparkSession, url: str, database: Database, tmp_path: Path) -> None:
    """Written once, read, compared, removed from the store, and restored to it and to another."""
    fill(database)
    everything, store, window = stored(database), place(database), Window(BEFORE)
    old = {row for row in everything if b"in doubt" not in row[4] and b"new" not in row[4]}

    assert archive.write(spark, store, url, window).messages == len(old)
    assert archive.write(spark, store, url, window).messages == 0
    assert archived(url) == dict.fromkeys(old, 1)
    rows = archive.read(spark, url).select("id", "msg").collect()
    assert {(row.id, bytes(row.msg)) for row in rows} == {(row[0], row[4]) for row in old}
    comparison = archive.compare(spark, store, url)
    assert (comparison.archived, comparison.extra, comparison.different, comparison.doubled) == (
        len(old),
        0,
        0,
        0,
    )

    assert archive.remove(store, url, window).messages == len(old)
    assert stored(database) == everything - old
    (tmp_path / "other").mkdir()
    other = SqliteDatabase(tmp_path / "other")
    for database_, present in ((other, set()), (database, everything - old)):
        assert archive.restore(url, place(database_)).messages == len(old)
        assert archive.restore(url, place(database_)).present == len(old)
        assert stored(database_) == old | present
    other.close()


@pytest.mark.whole
@pytest.mark.backends("sqlite")
def test_archiving_is_killed(spark: SparkSession, url: str, database: Database, tmp_path: Path) -> None:
    """At each stage of a manifest, and at a moment of Spark's writing.

    ``python -m tests.analytics.archive_killing --system s3a`` does it at any moment.
    """
    fill(database)
    everything, window = stored(database), Window(BEFORE)
    old = {row for row in everything if b"in doubt" not in row[4] and b"new" not in row[4]}
    with Deaths(spark, database.url, url, BEFORE, tmp_path / "errors") as deaths:
        for stage in ("before it is described", "manifest not in place", "committed", "killed after 0.2"):
            assert deaths.run(stage) == KILLED, (stage, deaths.errors.read_text())
            assert set(archived(url).values()) <= {1}, stage
            assert set(archived(url)) <= old, stage
    archive.write(spark, place(database), url, window, batch=15)
    assert archived(url) == dict.fromkeys(old, 1)
    batches = {manifest.folder for manifest in Archive(url).manifests()}
    assert {name for name in HadoopFolder(url).names("") if name.startswith("batch=")} == batches


class Overtaken:
    """A file system, or a file's builder there, with what happens between its opening and its closing."""

    def __init__(self, real: Any, meanwhile: Callable[[], object]) -> None:
        self._real, self._meanwhile = real, meanwhile

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name in ("createFile", "opt", "overwrite", "recursive"):
            return lambda *arguments: Overtaken(method(*arguments), self._meanwhile)
        return method

    def build(self) -> Any:
        stream = self._real.build()
        self._meanwhile()
        return stream


@pytest.mark.backends("sqlite")
def test_the_second_to_commit_a_batch_changes_nothing(
    spark: SparkSession, url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it has opened the manifest before the first created it: S3 itself refuses."""
    store, window, create = place(database), Window(BEFORE), HadoopFolder.create
    with jdbcstore.open(store) as opened:
        opened.queue("Q").add_message(Message("x", timestamp_ms=OLD))

    def create_after_another(self: HadoopFolder, path: str, content: bytes) -> None:
        if path.startswith("_manifest/"):
            monkeypatch.undo()
            self._files = Overtaken(self._files, lambda: archive.write(spark, store, url, window))
        create(self, path, content)

    monkeypatch.setattr(HadoopFolder, "create", create_after_another)
    with pytest.raises(NotMaster, match="another process has written"):
        archive.write(spark, store, url, window)

    assert archived(url) == dict.fromkeys(stored(database), 1)
    assert archive.compare(spark, store, url).same


def test_a_bucket_that_does_not_exist(url: str) -> None:
    with pytest.raises(ConfigurationError, match="NoSuchBucket"):
        Archive.is_one(f"{url.replace(S3Server.BUCKET, 'nowhere')}")


@pytest.mark.usefixtures("spark")
def test_a_missing_connector_is_named() -> None:
    """With the line to add; Azure's is not there either way."""
    with pytest.raises(ConfigurationError, match=r"; add --packages org\.apache\.hadoop:hadoop-azure:\d"):
        HadoopFolder("abfss://container@account.dfs.core.windows.net/mq")
