"""pgmq, for which kombu has a transport: functions in PostgreSQL that its Python package brings along."""

from __future__ import annotations

import subprocess
from pathlib import Path

PACKAGE = "pgmq==1.1.4"
_PROGRAM = """
import sys
from pgmq import install

install.install_pgmq_sql(install.get_embedded_install_sql(), dsn=sys.argv[1])
"""


def install(python: Path, url: str) -> None:
    """Make the functions in a database; ``python`` is of an environment that has the package."""
    subprocess.run([str(python), "-c", _PROGRAM, url], check=True)
