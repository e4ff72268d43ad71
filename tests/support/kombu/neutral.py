"""kombu's own tests for every transport, from its source distribution, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

from tests.support import ROOT
from tests.support.require import unavailable

_CASES = Path(__file__).with_name("cases.py")
_COMMON = "t/integration/common.py"


def common() -> Path:
    """The folder of kombu's ``common.py``, of the version that is installed; the test is skipped without."""
    name = f"kombu-{version('kombu')}"
    folder = ROOT / ".build" / name
    if not (folder / "common.py").is_file():
        downloads = folder.with_name(f"{name}-{os.getpid()}")
        quiet = ("--quiet", "--disable-pip-version-check", "--retries", "1")
        wanted = ("--no-deps", "--no-binary", "kombu", name.replace("-", "==", 1))
        command = [sys.executable, "-m", "pip", "download", *quiet, "--dest", str(downloads), *wanted]
        done = subprocess.run(command, capture_output=True, text=True)
        found = [*downloads.glob("*.tar.gz")]
        if done.returncode or not found:
            unavailable("kombu", f"pip does not find the source of {name}: {done.stderr.strip()[-300:]}")
        with tarfile.open(found[0]) as archive:
            member = archive.extractfile(f"{name}/{_COMMON}")
            assert member is not None
            (downloads / "common.py").write_bytes(member.read())
        found[0].unlink()
        if folder.exists() or not _renamed(downloads, folder):
            return downloads
    return folder


def _renamed(old: Path, new: Path) -> bool:
    try:
        old.rename(new)
    except OSError:  # another process was faster
        return False
    return True


def run_common(url: str, unreachable: str) -> tuple[int, str]:
    """How many of the cases passed, and what pytest said."""
    own = {"PYTHONPATH": os.pathsep.join((str(common()), str(ROOT)))}
    urls = {"KOMBU_TEST_URL": url, "KOMBU_TEST_UNREACHABLE": unreachable}
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(_CASES)],
        env={**os.environ, **own, **urls},
        capture_output=True,
        text=True,
    )
    found = re.search(r"(\d+) passed", done.stdout)
    return int(found[1]) if found and not done.returncode else 0, done.stdout + done.stderr
