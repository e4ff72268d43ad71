"""Java machines of tests, which run for a short time: their options, and classes compiled for all of them."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support import ROOT

QUICK = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # compiled once, and quickly
    # That classes of jars are well made is looked at as each is loaded, and takes a sixth of a short life.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    # There is room for all that is compiled: else a thread looks for what could be thrown away.
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:-UseCodeCacheFlushing",
)

NO_TRACES = "-XX:-UsePerfData"  # else each JVM writes under /tmp/hsperfdata_*
_CLASSES = ROOT / ".build" / "classes"


class NotCompiled(Exception):
    """The compiler refuses the sources; the text is what it says."""


def compiled(sources: Mapping[str, str], jars: str) -> Path:
    """Return the folder of the classes of Java sources by file name; all processes and runs have the same.

    :raises NotCompiled: they are not Java, or do not fit the jars
    """
    named = repr((sorted(sources.items()), jars, Path(shutil.which("javac") or "").resolve()))
    folder = _CLASSES / hashlib.sha256(named.encode()).hexdigest()[:16]
    _CLASSES.mkdir(parents=True, exist_ok=True)
    with (_CLASSES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _compile(sources, jars, folder)
    return folder


def _compile(sources: Mapping[str, str], jars: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=_CLASSES) as made:
        for name, source in sources.items():
            Path(made, name).write_text(source)
        # The bundle of ActiveMQ 5.19 also has sources, which must not be compiled.
        options = [f"-J{NO_TRACES}", "-nowarn", "-cp", jars, "-sourcepath", made, "-d", f"{made}/classes"]
        command = ["javac", *options, *(f"{made}/{name}" for name in sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotCompiled(done.stderr)
        Path(made, "classes").rename(folder)
