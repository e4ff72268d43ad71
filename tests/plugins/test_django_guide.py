"""The commands and files of docs/guide/django.md, and nothing else, in an empty folder."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.docs.pages import Page

pytest.importorskip("django")

WORKER = "python manage.py jdbcstore_worker"
TASKS = ("shop.tasks.brew", "shop.tasks.thank")


def test_the_guide_as_it_is_printed(tmp_path: Path) -> None:
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": programs, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    page = Page(ROOT / "docs" / "guide" / "django.md")
    worked = False
    for example in sorted((*page.examples("sh"), *page.examples("py")), key=lambda one: one.line):
        if example.language == "py":
            place, _, code = example.code.partition("\n")
            (tmp_path / place.removeprefix("# ")).write_text(code)
            continue
        for line in example.code.splitlines():
            if line == WORKER:
                _see_it_work(tmp_path, environment)
                worked = True
            elif not line.startswith("pip "):
                done = subprocess.run(
                    ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True
                )
                assert done.returncode == 0, (line, done.stderr)
    assert worked


def _see_it_work(folder: Path, environment: dict[str, str]) -> None:
    """Start the worker; it prints a line at its start and one for each of the two tasks that are enqueued."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(
        shlex.split(WORKER),
        cwd=folder,
        env=environment,
        text=True,
        **streams,  # type: ignore[call-overload]
    ) as worker:
        started, *done = [worker.stdout.readline() for _ in range(1 + len(TASKS))]
        worker.send_signal(signal.SIGTERM)
        rest = worker.stdout.read()
    assert "default, letters" in started, (started, done, rest)
    assert all(any(task in line and "SUCCESSFUL" in line for line in done) for task in TASKS), done
    assert worker.returncode == 0, rest
