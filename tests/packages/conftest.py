"""The built wheel in an empty environment, outside of the clone."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT


@dataclass(frozen=True)
class Installed:
    """An environment that has the wheel and, linked, what this environment has of its dependencies."""

    wheel: Path
    programs: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.programs}:/usr/bin:/bin", "HOME": str(self.folder), "TZ": "UTC"}

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    built = folder / "built"
    # The core need not be quick here, and is compiled in a third of the time.
    compiler = folder / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    compiler.chmod(0o755)
    hatch = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built))
    _run(*hatch, CC=str(compiler))
    (wheel,) = built.glob("*.whl")
    environment = folder / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = str(environment / "bin" / "python")
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", "--python", python, "install", *options, str(wheel))
    # Last on its path, and without the editable installation of the clone, which is in a file of its own.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    home = folder / "home"
    home.mkdir()
    return Installed(wheel, environment / "bin", home)


def _run(*command: str, **variables: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env={**inherited, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
