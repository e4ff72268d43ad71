"""kombu's own tests for every transport, from its source distribution, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.support import ROOT
from tests.support.kombu.sources import SourceMissing, source
from tests.support.require import unavailable

_CASES = Path(__file__).with_name("cases.py")


def common() -> Path:
    """The folder of kombu's ``common.py``, of the version that is installed; the test is skipped without."""
    try:
        return source("kombu", version("kombu")) / "t" / "integration"
    except SourceMissing as error:
        unavailable("kombu", str(error))


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
