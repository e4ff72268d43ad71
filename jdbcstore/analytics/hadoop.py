"""Folders on any file system of Spark's, by URL, through Hadoop's ``FileSystem`` in the driver's JVM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError

from jdbcstore.analytics.java import scratch
from jdbcstore.analytics.spark_session import session
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ERRORS = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException": FileExistsError,
}
_ONLY_IF_ABSENT = "fs.option.create.conditional.overwrite"
"""S3 itself refuses to create an object twice only if it is asked to; other file systems ignore this."""
_CONNECTORS = {"abfs": "hadoop-azure", "abfss": "hadoop-azure", "s3a": "hadoop-aws"}
"""Packages of Hadoop that Spark does not have, by scheme."""


class Footer(NamedTuple):
    """Statistics in the footer of a Parquet file."""

    rows: int
    bytes: int
    bounds: dict[str, tuple[Any, Any]]
    """The least and the greatest value of each column that was asked for."""


def footer(spark: SparkSession, url: str, columns: Sequence[str]) -> Footer:
    """Read the footer of a Parquet file on any file system of Spark's, without a Spark job."""
    java: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    hadoop = java.org.apache.parquet.hadoop
    file = hadoop.util.HadoopInputFile.fromPath(
        java.org.apache.hadoop.fs.Path(url), context.hadoopConfiguration()
    )
    rows, bounds = 0, dict[str, tuple[Any, Any]]()
    with contextlib.closing(hadoop.ParquetFileReader.open(file)) as reader:
        for group in reader.getFooter().getBlocks():
            rows += group.getRowCount()
            wanted = {*columns}
            for chunk in group.getColumns():
                if (name := str(chunk.getPath().toDotString())) in wanted:
                    statistics = chunk.getStatistics()
                    ends = _value(statistics.genericGetMin()), _value(statistics.genericGetMax())
                    low, high = bounds.get(name, ends)
                    bounds[name] = min(low, ends[0]), max(high, ends[1])
                    wanted.remove(name)
                    if not wanted:
                        break  # each is several calls of the JVM
    return Footer(rows, file.getLength(), bounds)


def _value(least_or_greatest: Any) -> Any:
    """Convert a Parquet bound: numbers are kept, strings are decoded."""
    if isinstance(least_or_greatest, int):
        return least_or_greatest
    return str(least_or_greatest.toStringUsingUTF8())


class HadoopFolder:
    """A folder by its URL, such as ``s3a://bucket/mq``, as ``jdbcstore.tools.archive`` asks for it.

    Credentials and endpoints are Spark's settings: ``spark.hadoop.fs.s3a.endpoint``.

    :raises ConfigurationError: Spark does not know the scheme, or the file system does not answer
    """

    def __init__(self, url: str) -> None:
        self.place = url.rstrip("/")
        spark = session()
        self._java: Any = spark._jvm
        context: Any = spark.sparkContext._jsc
        self._copies: Path | None = None
        try:
            self._files = self._path("").getFileSystem(context.hadoopConfiguration())
        except Py4JJavaError as error:
            reason = _said(error)
            connector = _CONNECTORS.get(self.place.partition(":")[0])
            if connector is not None and "ClassNotFoundException" in reason:
                java: Any = self._java
                version = java.org.apache.hadoop.util.VersionInfo.getVersion()
                reason += f"; add --packages org.apache.hadoop:{connector}:{version}"
            raise ConfigurationError(f"Spark cannot use {self.place}: {reason}") from error

    def _path(self, path: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self.url(path))

    def url(self, path: str) -> str:
        return f"{self.place}/{path}".rstrip("/")

    def names(self, path: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError), self._translated(path):
            return sorted(status.getPath().getName() for status in self._files.listStatus(self._path(path)))
        return []

    def read(self, path: str) -> bytes:
        with self._translated(path), contextlib.closing(self._files.open(self._path(path))) as stream:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))

    def create(self, path: str, content: bytes) -> None:
        with self._translated(path):
            if self._files.exists(self._path(path)):
                raise FileExistsError(self.url(path))
            builder = self._files.createFile(self._path(path)).overwrite(False).recursive()
            with contextlib.closing(builder.opt(_ONLY_IF_ABSENT, True).build()) as stream:
                stream.write(content)
                if stream.hasCapability("hsync"):
                    stream.hsync()

    def keep(self, paths: Iterable[str]) -> None:
        """Do nothing: these file systems keep a file once it is closed."""

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._translated(path):
            self._files.delete(self._path(path), True)

    def checksum(self, path: str) -> str:
        with self._translated(path), contextlib.closing(self._files.open(self._path(path))) as stream:
            return str(self._java.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))

    def fetch(self, path: str) -> Path:
        if self._copies is None:
            self._copies = scratch("archive")
        copy = self._copies / path.replace("/", "~")
        if not copy.exists():
            local = self._java.org.apache.hadoop.fs.Path(f"file://{copy}")
            with self._translated(path):
                self._files.copyToLocalFile(False, self._path(path), local, True)
        return copy

    def drop(self, path: str) -> None:
        if self._copies is not None:
            (self._copies / path.replace("/", "~")).unlink(missing_ok=True)

    @contextmanager
    def writing(self) -> Iterator[bool]:
        # There are no locks: the second process that creates a manifest fails.
        yield False

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            kind = _ERRORS.get(error.java_exception.getClass().getName())
            if kind is not None:
                raise kind(self.url(path)) from error
            raise ConfigurationError(f"cannot access {self.url(path)}: {_said(error)}") from error


def _said(error: Py4JJavaError) -> str:
    return str(error.java_exception.getMessage()).partition("\n")[0]
