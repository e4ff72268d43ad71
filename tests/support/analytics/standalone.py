"""A standalone cluster of Spark on loopback: a master, and workers that each see files of their own.

Each worker has its own mount namespace, in which folders are empty that are full elsewhere: as on another
machine, the package, the tests and the database's files are not there."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from jdbcstore.analytics.java import find_java, make_shim
from jdbcstore.testing.polling import wait_until
from tests.support import tiers
from tests.support.jvm import QUICK

_WAIT = 300.0
_OPENED = ("java.lang", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch", "sun.security.action")
_ISOLATED = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))
# Where a folder is not there for a worker, an empty one is.
_HIDE = 'empty=$1; shift; while [ "$1" != -- ]; do mount --bind "$empty" "$1" || exit 1; shift; done; shift'
DECODING = ("numpy", "pandas", "pyarrow", "dateutil", "pytz", "six", "tzdata")
"""What a worker needs to decode, with what some versions of these need."""


def missing() -> str:
    """Why no worker can have files of its own; empty if it can."""
    return "" if _isolation() else "no mount namespace may be made here (unshare --mount)"


def _isolation() -> tuple[str, ...]:
    if shutil.which("unshare"):
        for command in _ISOLATED:
            script = "mount --bind /tmp /mnt"
            if subprocess.run([*command, "sh", "-c", script], capture_output=True).returncode == 0:
                return command
    return ()


def python_with(home: Path, names: Sequence[str] = ()) -> Path:
    """A Python with these packages of this one; by default with all of them but jdbcstore."""
    venv.create(home)
    [packages] = home.glob("lib/python*/site-packages")
    here = Path(_place("pyspark")).parent
    if not names:
        # Of a directory that is named like this, the .pth of an editable installation is not read.
        (packages / "others.pth").write_text(str(here))
    for name in filter(importlib.util.find_spec, names):
        found = Path(_place(name))
        (packages / found.name).symlink_to(found)
        if (libraries := here / f"{name}.libs").is_dir():
            (packages / libraries.name).symlink_to(libraries)
    return home / "bin" / "python"


def _place(name: str) -> str:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent) if spec.submodule_search_locations else spec.origin


class Cluster:
    """The master's URL, and what its processes wrote."""

    def __init__(self, folder: Path, pyspark: Path) -> None:
        self.url = ""
        self._folder = folder
        self._pyspark = pyspark
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._java = make_shim(find_java())

    def start(self, workers: int, hidden: Sequence[Path]) -> None:
        """Start the master, then the workers, and wait until all are registered."""
        self._start("master", (), "master.Master", "--port", "0")
        self.url = self._wait_for("master", r"Starting Spark master at (spark://\S+)")
        empty = self._folder / "empty"
        empty.mkdir()
        isolated = (*_isolation(), "sh", "-c", f'{_HIDE}; exec "$@"', "sh", str(empty))
        for number in range(workers):
            name = f"worker{number}"
            options = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name))
            prefix = (*isolated, *map(str, hidden), "--")
            self._start(name, prefix, "worker.Worker", *options, self.url)
        for number in range(workers):
            self._wait_for(f"worker{number}", "Successfully registered with master")

    def _start(self, name: str, prefix: Sequence[str], main: str, *options: str) -> None:
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        java = (
            str(self._java / "bin" / "java"),
            *QUICK,
            *opened,
            "-Xmx256m",
            "-Dspark.master.rest.enabled=false",
        )
        program = ("-cp", f"{self._pyspark}/jars/*", f"org.apache.spark.deploy.{main}")
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            "JAVA_HOME": str(self._java),
            "SPARK_HOME": str(self._pyspark),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        tiers.starts("spark")
        with self._log(name).open("wb") as log:
            self._started[name] = subprocess.Popen(
                [*prefix, *java, *program, "--host", "127.0.0.1", "--webui-port", "0", *options],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
            )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _wait_for(self, name: str, pattern: str) -> str:
        log, process = self._log(name), self._started[name]
        wait_until(lambda: re.search(pattern, log.read_text()) or process.poll() is not None, _WAIT)
        found = re.search(pattern, log.read_text())
        assert found is not None, log.read_text()
        return found[found.re.groups]

    def stop(self) -> None:
        for process in reversed(self._started.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def standalone(folder: Path, hidden: Sequence[Path], *, workers: int = 2) -> Iterator[Cluster]:
    """A cluster whose workers find nothing in the ``hidden`` folders."""
    folder.mkdir(exist_ok=True)
    cluster = Cluster(folder, Path(_place("pyspark")))
    try:
        cluster.start(workers, hidden)
        yield cluster
    finally:
        cluster.stop()


def run_application(
    script: Path, arguments: Sequence[str], *, before: Sequence[str] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """The application's end; it is killed with its JVM if it takes too long."""
    process = subprocess.Popen(
        [*(before or [sys.executable]), str(script), *arguments],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=600)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
