"""``--master``, ``--conf``, ``--packages`` and ``--remote``: the cluster of the commands that use Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import click

from jdbcstore.cli.options import Parsed, all_of

WITHOUT_SPARK = "Spark is used only if the archive is named by a URL"
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The given cluster and settings of Spark; by default the cores of this machine."""

    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict, repr=False)
    """May contain secrets."""
    remote: str | None = field(default=None, repr=False)
    """A server of Spark Connect; its URL may contain secrets."""

    def __bool__(self) -> bool:
        return self.master is not None or bool(self.conf) or self.remote is not None

    def refuse(self, reason: str) -> None:
        """Fail if an option was given to a command that does not use Spark."""
        if self:
            given = "--remote" if self.remote is not None else "--master, --conf and --packages"
            raise click.UsageError(f"{reason}; omit {given}")


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        # The message does not quote the text, which may be a secret.
        raise ValueError("write KEY=VALUE, for example spark.executor.memory=4g")
    return name.strip(), value


def _packages(text: str) -> str:
    if not all(_COORDINATES.fullmatch(each) for each in text.split(",")):
        raise ValueError("write GROUP:ARTIFACT:VERSION, for example org.postgresql:postgresql:42.7.4")
    return text


_OPTIONS = all_of(
    click.option("--master", metavar="URL", help="Spark cluster: spark://HOST:7077, yarn; or local[2]."),
    click.option("--conf", type=Parsed("setting", _setting), metavar="KEY=VALUE", multiple=True,
                 help="Spark setting. Repeatable."),
    click.option("--packages", type=Parsed("packages", _packages), metavar="GROUP:ARTIFACT:VERSION",
                 multiple=True, help="Maven package for Spark, such as a JDBC driver. Repeatable."),
)  # fmt: skip


_REMOTE = click.option("--remote", metavar="sc://HOST:PORT", help="Spark Connect server.")


def spark_or_remote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command that Spark Connect can run too, which gets them as ``spark``."""

    @wraps(command)
    def with_remote(*arguments: Any, remote: str | None, spark: SparkOptions, **more: Any) -> Any:
        if remote is not None:
            if spark:
                raise click.UsageError(
                    "--remote already selects a cluster; omit --master, --conf and --packages"
                )
            spark = SparkOptions(remote=remote)
        return command(*arguments, spark=spark, **more)

    return spark_options(_REMOTE(with_remote))


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as ``spark``."""

    @wraps(command)
    def with_spark(
        *arguments: Any,
        master: str | None,
        conf: tuple[tuple[str, str], ...],
        packages: tuple[str, ...],
        **more: Any,
    ) -> Any:
        settings = dict(conf)
        if twice := [name for name, value in conf if settings[name] != value]:
            raise click.UsageError(f"--conf {twice[0]} is given twice, with different values")
        if packages:
            named = settings.get("spark.jars.packages")
            settings["spark.jars.packages"] = ",".join([*([named] if named else []), *packages])
        return command(*arguments, spark=SparkOptions(master, settings), **more)

    return _OPTIONS(with_spark)
