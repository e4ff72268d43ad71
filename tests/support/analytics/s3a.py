"""S3 as a file system of a running Spark: ``s3a://``, by Hadoop's own connector."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import ROOT
from tests.support.maven import why_missing
from tests.support.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = ROOT / ".build" / "s3"
POM = ROOT / "tests" / "analytics" / "s3.xml"


class ConnectorMissing(Exception):
    """Hadoop's connector for S3 was not copied from Maven's repository."""


def add(spark: SparkSession, server: S3Server) -> None:
    """Teach a running Spark the scheme, and where the server is.

    :raises ConnectorMissing: the connector's jars are not there
    """
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        raise ConnectorMissing(f"no hadoop-aws.jar in {JARS}: {why_missing(JARS)}")
    java: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    has, needs = _version(), str(java.org.apache.hadoop.util.VersionInfo.getVersion())
    assert has == needs, f"{POM} names hadoop-aws {has}, but Spark has Hadoop {needs}"
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:  # of which the loader of the tasks is a child, in Spark's local mode
        loader.addURL(java.java.io.File(str(jar)).toURI().toURL())
    settings = context.hadoopConfiguration()
    settings.setClassLoader(loader)
    for name, value in options(server).items():
        settings.set(name, value)


def options(server: S3Server) -> dict[str, str]:
    """Hadoop's settings for the server."""
    return {
        "fs.s3a.access.key": "key",
        "fs.s3a.endpoint": server.url,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.secret.key": "secret",
    }


def url_of(server: S3Server, folder: Path) -> str:
    """Return the URL of a folder with this one's name in the server's bucket."""
    return f"s3a://{server.BUCKET}/{folder.name}"


def _version() -> str:
    [version] = re.findall(r"<artifactId>hadoop-aws</artifactId>\s*<version>(.*)</version>", POM.read_text())
    return str(version)
