"""Prometheus in a process of its own, on loopback: Debian's, which is unpacked and not installed."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.ports import free_port
from tests.support.require import unavailable

_PERIOD = "2s"
_DOWNLOAD = 300.0
_IMPATIENT = ("-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0")
_CACHE = ROOT / ".build" / "prometheus"
_PROGRAMS = ("prometheus", "promtool")
"""Each is a package of its own since Debian 13; before, the first has both."""


def prometheus(program: str = "prometheus") -> str:
    """A program of Debian's package, installed or unpacked into ``.build``; without it the test is skipped.

    Installing it would start a server that all addresses of this machine reach.
    """
    installed = shutil.which(program)
    if installed is not None:
        return installed
    reason = _unpack()
    if reason:
        unavailable("prometheus", f"it is not installed, and {reason}")
    return str(_CACHE / "usr" / "bin" / program)


@cache
def _unpack() -> str:
    """Have the programs in the cache; why that is not possible, or nothing."""
    if _CACHE.is_dir():
        return ""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "there is no apt-get to fetch it"
    _CACHE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE.parent) as name:
        folder = Path(name, "unpacked")
        folder.mkdir()
        try:
            for program in _PROGRAMS:
                if (folder / "usr" / "bin" / program).exists():
                    continue
                for command in (
                    ["apt-get", "--quiet", *_IMPATIENT, "download", program],
                    ["sh", "-c", f"dpkg-deb --fsys-tarfile {program}_*.deb | tar -x -C unpacked ./usr/bin"],
                ):
                    done = subprocess.run(
                        command, cwd=name, capture_output=True, text=True, timeout=_DOWNLOAD
                    )
                    if done.returncode:
                        return f"{command} says {done.stderr[-300:]!r}"
        except subprocess.TimeoutExpired:
            return f"apt-get took {_DOWNLOAD} s"
        try:
            folder.rename(_CACHE)
        except OSError:  # another process was first
            if not _CACHE.is_dir():
                raise
    return ""


class Prometheus:
    """A server that scrapes brokers; each job is these, with another login.

    :param jobs: the options of each, ``basic_auth`` and the like
    :param period: between two scrapes, and two evaluations of the rules
    """

    def __init__(
        self,
        folder: Path,
        rules: Path,
        targets: Sequence[str],
        jobs: dict[str, dict[str, Any]],
        period: str = _PERIOD,
    ) -> None:
        config = folder / "prometheus.json"  # JSON is YAML
        where = {"static_configs": [{"targets": [*targets]}]}
        settings = {
            "global": {"scrape_interval": period, "scrape_timeout": period, "evaluation_interval": period},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": job, **where, **options} for job, options in jobs.items()],
        }
        config.write_text(json.dumps(settings))
        self._port = free_port()
        self._log = folder / "prometheus.log"
        command = [
            prometheus(),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with self._log.open("wb") as log:
            environment = {**os.environ, "GOMAXPROCS": "1"}
            self._process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        wait_until(self._is_ready, what="the state of Prometheus")
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.kill()
        self._process.wait(180)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            return self._get("/-/ready")[0] == 200
        except OSError:
            return False

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=180)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, what: str, **fields: str) -> Any:
        """An answer of its API, which must be a success."""
        status, text = self._get(f"/api/v1/{what}?{urlencode(fields)}")
        answer = json.loads(text)
        assert (status, answer["status"]) == (200, "success"), (what, fields, answer)
        assert not answer.get("warnings"), (what, fields, answer)
        return answer["data"]

    def values(self, query: str) -> list[float]:
        """The values that a query has now."""
        found = self.ask("query", query=query)
        assert found["resultType"] == "vector", (query, found)
        return [float(one["value"][1]) for one in found["result"]]

    def points(self, query: str, seconds: float) -> int:
        """The number of points that a query has had in the last seconds."""
        now = time.time()
        span = {"start": f"{now - seconds:.3f}", "end": f"{now:.3f}", "step": "1"}
        found = self.ask("query_range", query=query, **span)
        return sum(len(one["values"]) for one in found["result"])

    def targets(self) -> dict[str, dict[str, Any]]:
        """What it scrapes, by job."""
        return {one["labels"]["job"]: one for one in self.ask("targets")["activeTargets"]}

    def alerts(self) -> dict[str, dict[str, Any]]:
        """Each alert rule, by name."""
        groups = self.ask("rules", type="alert")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}
