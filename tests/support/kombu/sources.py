"""Other projects' source distributions from PyPI, and an environment for what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

from tests.support import ROOT

_QUIET = ("--quiet", "--disable-pip-version-check", "--retries", "1")
REGISTERED = Path(__file__).with_name("registered")
"""A folder for PYTHONPATH, with which kombu knows our URLs in every process."""


class SourceMissing(Exception):
    """pip does not find a source distribution, or cannot install a package."""


def source(name: str, version: str) -> Path:
    """The unpacked source distribution of a project, downloaded once for a checkout.

    :raises SourceMissing: pip does not find it
    """
    folder = ROOT / ".build" / "sources" / f"{name}-{version}"
    if folder.is_dir():
        return folder
    downloads = folder.with_name(f"{folder.name}-{os.getpid()}")
    command = [sys.executable, "-m", "pip", "download", *_QUIET, "--dest", str(downloads), "--no-deps"]
    done = subprocess.run(
        [*command, "--no-binary", name, f"{name}=={version}"], capture_output=True, text=True
    )
    found = [*downloads.glob("*.tar.gz")]
    if done.returncode or not found:
        raise SourceMissing(
            f"pip does not find the source of {name}=={version}: {done.stderr.strip()[-300:]}"
        )
    with tarfile.open(found[0]) as archive:
        archive.extractall(downloads, filter="data")
    [unpacked] = (one for one in downloads.iterdir() if one.is_dir())
    try:
        unpacked.rename(folder)
    except OSError:  # another process was faster
        return folder if folder.is_dir() else unpacked
    return folder


def environment(name: str, *packages: str) -> Path:
    """The Python of an environment that has these packages, above those of the environment that runs.

    :raises SourceMissing: pip cannot install them
    """
    folder = ROOT / ".build" / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    own = sysconfig.get_path("purelib")
    inside = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    Path(inside, "below.pth").write_text(f"{own}\n")
    installed = folder / "installed"
    if not installed.exists() or installed.read_text().split() != [*packages]:
        command = [str(python), "-m", "pip", "install", *_QUIET, *packages]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SourceMissing(f"pip cannot install {' '.join(packages)}: {done.stderr.strip()[-300:]}")
        installed.write_text("\n".join(packages))
    return python
