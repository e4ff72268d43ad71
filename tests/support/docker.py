"""Test servers from docker-compose.yml, where a docker engine answers."""

from __future__ import annotations

import functools
import shutil
import subprocess

PROBE_TIMEOUT = 20.0
SERVICE_PASSWORD = "Throw-away-1"
"""Of every administrator in docker-compose.yml; SQL Server insists on upper case and digits."""


@functools.cache
def missing() -> str | None:
    """Why no compose service can be started here; None when one can."""
    if shutil.which("docker") is None:
        return "no docker here"
    if not _succeeds("docker", "info"):
        return "the docker engine does not answer"
    if not _succeeds("docker", "compose", "version"):
        return "docker has no compose plugin"
    return None


def _succeeds(*command: str) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=PROBE_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
