"""``python -m tests.long.celery``: Celery's own integration tests, with our transport and with Redis.

They come from Celery's source distribution, of the version that is installed. Redis keeps the results in all
runs. A test that fails only with our transport makes the exit code 1. One test file takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

import click

from tests.support import ROOT
from tests.support.kombu.sources import REGISTERED, environment, source
from tests.support.servers import MariadbServer, MysqlServer, PostgresqlServer
from tests.support.servers.redis import RedisServer

_PACKAGES = (
    "redis",
    "pytest-rerunfailures",
    "pytest-timeout",
    "pydantic",
    "django",
    "pymemcache",
    "cryptography",
)
_SERVERS = {"postgresql": PostgresqlServer, "mariadb": MariadbServer, "mysql": MysqlServer}
_ORDER = ("error", "failure", "skipped")


@click.command(help=__doc__)
@click.option("--only", type=click.Choice(["sqlite", *_SERVERS]), multiple=True, help="Some databases.")
@click.option("--file", "files", multiple=True, help="Some of Celery's files, such as test_inspect.py.")
@click.option("-k", "expression", default="", help="Some of the tests, as for pytest.")
@click.option("--at-once", default=1, show_default=True, help="How many brokers are tested at a time.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Where the output goes.")
def main(
    only: tuple[str, ...], files: tuple[str, ...], expression: str, at_once: int, keep: Path | None
) -> None:
    python = environment("celery-environment", *_PACKAGES)
    celery = source("celery", version("celery"))
    tests = [f"t/integration/{name}" for name in files] or ["t/integration"]
    options = [*tests, "-k", expression] if expression else tests
    with ExitStack() as opened:
        folder = keep or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        names = ("redis", *(only or ("sqlite", *_SERVERS)))
        with ThreadPoolExecutor(at_once) as pool:
            found = pool.map(lambda name: run(python, celery, options, name, folder), names)
            results = dict(zip(names, found, strict=True))
    sys.exit(1 if report(results) else 0)


@contextmanager
def broker_url(name: str, folder: Path) -> Iterator[str]:
    """The URL of an empty broker; that of Redis is empty, because its port is of the run."""
    if name == "redis":
        yield ""
    elif name == "sqlite":
        (folder / "sqlite.db").unlink(missing_ok=True)
        yield f"jdbcstore+sqlite:///{folder}/sqlite.db"
    else:
        server = _SERVERS[name]()
        try:
            yield f"jdbcstore+{server.url.render_as_string(hide_password=False)}"
        finally:
            server.close()


def run(python: Path, celery: Path, options: list[str], name: str, folder: Path) -> dict[str, str]:
    """The outcome of each test; its output is in the folder."""
    report, begin = folder / f"{name}.xml", time.monotonic()
    with (
        broker_url(name, folder) as url,
        tempfile.TemporaryDirectory() as data,
        (folder / f"{name}.log").open("wb") as log,
    ):
        redis = RedisServer(Path(data), "--save", "")
        environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "TEST_BROKER": url or redis.url(1),
            "TEST_BACKEND": redis.url(0),
            "REDIS_PORT": str(redis.port),
            "PYTHONPATH": os.pathsep.join((str(REGISTERED), str(ROOT), str(celery))),
        }
        command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-v"]
        command += ["-p", "celery.contrib.pytest", "--continue-on-collection-errors"]
        try:
            subprocess.run(
                [*command, f"--junitxml={report}", *options],
                cwd=celery,
                env=environment,
                stdout=log,
                stderr=log,
            )
        finally:
            redis.close()
    found = outcomes(report)
    click.echo(f"{name}: {dict(Counter(found.values()))} in {time.monotonic() - begin:.0f} s")
    return found


def outcomes(report: Path) -> dict[str, str]:
    """By test: passed, or what else there was."""
    if not report.exists():
        raise click.ClickException(f"the run wrote no report; see {report.with_suffix('.log')}")
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 (written by our own run)
        what = next((kind for kind in _ORDER if case.find(kind) is not None), "passed")
        found[f"{case.get('classname')}::{case.get('name')}"] = what
    return found


def report(results: dict[str, dict[str, str]]) -> list[str]:
    """Print a table of the counts, and of the tests that differ from Redis; those that fail only here."""
    kinds = ("passed", "failure", "error", "skipped")
    click.echo(f"\n| broker | {' | '.join(kinds)} |\n|---|---|---|---|---|")
    for name, found in results.items():
        counts = Counter(found.values())
        click.echo(f"| {name} | {' | '.join(str(counts[kind]) for kind in kinds)} |")
    reference = results["redis"]
    wrong = []
    for name, found in results.items():
        for test, what in found.items():
            if what == reference.get(test):
                continue
            click.echo(f"{name}: {test}: {what}, with redis {reference.get(test)}")
            if what not in ("passed", "skipped") and reference.get(test) == "passed":
                wrong.append(test)
    for test in sorted(
        {test for found in results.values() for test, what in found.items() if what == "skipped"}
    ):
        where = [name for name, found in results.items() if found.get(test) == "skipped"]
        click.echo(f"skipped with {', '.join(where)}: {test}")
    return wrong


if __name__ == "__main__":
    main()
