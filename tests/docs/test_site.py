"""What `make docs` builds the site from: complete, and without building it."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore.cli.app import _COMMANDS
from jdbcstore.config import load_config
from tests import versions
from tests.cli.conftest import Invoke, invoke
from tests.support import ROOT
from tests.support.docs.pages import Page

__all__ = ["invoke"]

DEPLOY = ROOT / "docs" / "deploy"


@pytest.fixture(scope="module")
def pages() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "_ext" / "site_pages.py"))


def test_the_api_has_every_public_name(pages: dict[str, Any]) -> None:
    written = pages["api_pages"]()
    described = set(re.findall(r"^\.\. auto\w+:: (\S+)$", "\n".join(written.values()), re.MULTILINE))

    assert {f"jdbcstore.{name}" for name in jdbcstore.__all__} <= described
    for module, names in pages["public_names"]().items():
        assert not names or any(f"{module}.{name}" in described for name in names), module


def test_the_page_of_settings_has_every_setting(pages: dict[str, Any]) -> None:
    listed = (ROOT / "docs/guide/settings.csv").read_text(encoding="utf-8").splitlines()[1:]
    text = pages["settings_page"]()

    assert text.partition("\nbroker\n")[2].count("\n   * - ``") == len(listed)


def test_every_command_has_a_page(pages: dict[str, Any]) -> None:
    written = pages["command_pages"]()

    assert {f"commands/{name}.rst" for name, *_ in _COMMANDS} <= written.keys()


def test_the_navigation_names_pages_that_exist(pages: dict[str, Any]) -> None:
    named = [page for names in pages["NAVIGATION"].values() for page in names]
    generated = {Path(page).with_suffix("").as_posix() for page in pages["COPIES"].values()}
    own = (
        "api/index",
        "commands/index",
        "json",
        "options",
        "http",
        "settings",
        "statements",
        "errors",
        "locks",
        "metrics",
        "artemis",
        "packages",
        "columns",
    )
    generated |= {f"generated/{page}" for page in own}

    assert sorted(named) == sorted({*pages["written_pages"](), *generated} - {"index"})
    assert len(named) == len(set(named))


def test_pictures_are_those_that_are_drawn() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "_ext" / "pictures.py"))["pictures"]()
    stored = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs/pictures").glob("*.svg")}

    assert stored.pop("top").startswith("<svg")  # photographed, by tests.docs.terminal
    assert stored == {picture.name: picture.svg() for picture in drawn}


def test_the_first_screen_of_the_readme() -> None:
    """At most 40 lines: the purpose, a picture, two commands, and an example for several processes."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = text.partition("\n## ")[0]
    commands = Page(ROOT / "README.md").examples("sh")[0].code.splitlines()

    assert len(first.splitlines()) <= 40
    assert first.count("![") == 1
    assert len(commands) == 2
    assert "with Claims(" in Page(ROOT / "README.md").examples("python")[0].code


def test_files_outside_of_docs_have_links_that_lead_somewhere() -> None:
    broken = []
    folders = ("*.md", "benchmarks/**/*.md", "tests/**/*.md", "sql/*.md")
    for page in (Page(path) for folder in folders for path in sorted(ROOT.glob(folder))):
        for link in page.links():
            target, _, anchor = link.partition("#")
            path = (page.path.parent / target).resolve() if target else page.path
            if re.match(r"[a-z]+:", link):
                continue
            if not path.exists() or (anchor and path.suffix == ".md" and anchor not in Page(path).anchors()):
                broken.append(f"{page.name}: {link}")

    assert broken == []


def test_every_row_of_compatibility_names_its_run() -> None:
    table = versions.PAGE.read_text(encoding="utf-8").partition(versions.BEGIN)[2].partition(versions.END)[0]
    rows = table.strip().splitlines()[2:]
    named = [re.fullmatch(r"\|.*\d passed.*\| `(\S+)` \|", row) for row in rows]

    assert len(rows) >= 1
    assert [row for row, match in zip(rows, named, strict=True) if match is None] == []
    assert {match[1] for match in named if match} <= {row.name for row in versions.ROWS}


def test_what_else_was_run_names_tests_that_exist() -> None:
    text = (
        (ROOT / "docs" / "compatibility.md")
        .read_text(encoding="utf-8")
        .partition("\n## Others\n")[2]
        .partition("\n## ")[0]
    )
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ")][1:]
    named = {cells[0]: re.findall(r"`(tests[\w/.]*)`", cells[1]) for cells in rows}

    assert [what for what, paths in named.items() if not paths] == []
    assert [one for paths in named.values() for one in paths if not (ROOT / one).exists()] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "jdbcstore.service"
    text = (DEPLOY / "jdbcstore.service").read_text(encoding="utf-8")
    # It also looks for the program, which is somewhere else here.
    unit.write_text(text.replace("/opt/jdbcstore/bin/jdbcstore", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)

    assert (done.returncode, str(unit) in done.stderr) == (0, False), done.stderr


def test_the_image_runs_options_that_exist(invoke: Invoke) -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    match = re.search(r"^CMD \[(.*)\]$", text, re.MULTILINE)
    assert match is not None
    options = re.findall(r'"(--[\w-]+)"', match[1])
    known = invoke("broker", "--help").out
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"'\.\[([\w,]+)\]'", text)

    copied = re.findall(r"^COPY ((?!--).*) \S+$", text, re.MULTILINE)
    built = {"pyproject.toml", ".ci/wheel.py", "jdbcstore", "migrations"}

    assert built <= {*" ".join(copied).split()}
    assert options != []
    assert [option for option in options if option not in known] == []
    assert [one for one in ",".join(extras).split(",") if f"\n{one} = [" not in project] == []


def test_the_pair_has_consoles_and_users() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    variables = dict(re.findall(r"^    (JDBCSTORE_\w+): (.*)$", text, re.MULTILINE))
    configuration = load_config(None, environment=variables)

    assert configuration.problems == {}
    assert configuration.broker.users_file == "/etc/jdbcstore/users.toml"
    ports = re.findall(r'"([\d.]+):\d+:(\d+)"', text)
    assert {host for host, _ in ports} == {"127.0.0.1"}
    assert [port for _, port in ports].count("8161") == 2


def test_the_unit_needs_no_file_that_may_be_missing() -> None:
    unit = (DEPLOY / "jdbcstore.service").read_text(encoding="utf-8")
    page = (DEPLOY / "index.md").read_text(encoding="utf-8")
    [group] = re.findall(r"^SupplementaryGroups=(.+)$", unit, re.MULTILINE)

    assert "LoadCredential" not in unit
    assert f"groupadd --system {group}\n" in page
    assert f"install -d -m 2750 -g {group} /etc/jdbcstore" in page
