"""The Django project of docs/guide/django.md, in a directory and on a database of a test's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, cast

from sqlalchemy import make_url

from tests.support import ROOT
from tests.support.cli.zygote import Forked
from tests.support.docs.pages import Page

ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mariadb": "mysql", "mysql": "mysql"}


def settings_of(url: str) -> dict[str, Any]:
    """The entry of DATABASES for a URL."""
    of = make_url(url)
    names = {"NAME": of.database, "USER": of.username, "PASSWORD": of.password, "HOST": of.host}
    return {"ENGINE": f"django.db.backends.{ENGINES[of.get_backend_name()]}", **names, "PORT": of.port}


_PYTHON = """
import runpy, sys, warnings
warnings.simplefilter("error")
sys.warnoptions.append("error")
_, folder, kind, what, *rest = sys.argv
sys.path.insert(0, folder)
sys.argv = [what, *rest]
if kind == "-m":
    runpy.run_module(what, run_name="__main__", alter_sys=True)
else:
    exec(what)
"""


class Project:
    """The files of the page, and the settings of the page with the database of the test."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        for example in Page(ROOT / "docs" / "guide" / "django.md").examples("py"):
            place, _, code = example.code.partition("\n")
            path = directory / place.removeprefix("# ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{directory}",
            "DJANGO_SETTINGS_MODULE": "tests.support.django.settings",
            "DATABASE": json.dumps(settings_of(url)),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start python -W error with these arguments; it has the store imported already."""
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        given = (str(self.directory), *arguments)
        process = Forked(given, self.directory, self.environment, _PYTHON, **streams)
        return cast("subprocess.Popen[str]", process)

    def manage(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of manage.py."""
        return self.start("-m", "django", *arguments)


def output_of(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a process that succeeds; its output."""
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    return output
