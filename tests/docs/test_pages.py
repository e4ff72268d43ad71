"""What README.md and docs/ show works, and what they link to is there."""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
import subprocess
import sys
from code import InteractiveConsole
from dataclasses import fields
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import jdbcstore
from jdbcstore import errors
from jdbcstore.broker.operations import OPERATIONS
from jdbcstore.cli.app import commands
from jdbcstore.config import load_file
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.config.statements import PROPERTIES
from jdbcstore.errors import StoreError
from tests.support import ROOT
from tests.support.cli.zygote import Forked
from tests.support.docs.pages import PAGES, Page, matches

_OF_SHELL = {*"|&;<>$`*?~\\"}

every_page = pytest.mark.parametrize("page", [Page(path) for path in PAGES], ids=lambda page: page.name)


@every_page
def test_python_examples(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page run one after another in one namespace; ``print(x)  # y`` must print y."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}
    try:
        for example in page.examples("python"):
            code = "\n" * (example.line - 1) + example.code
            exec(compile(code, page.name, "exec"), namespace)  # noqa: S102
            expected = re.findall(r"^ *print\(.*\)  # (.*)$", example.code, re.MULTILINE)
            printed = capsys.readouterr().out.splitlines()
            assert not expected or printed == expected
    finally:
        for value in namespace.values():
            if isinstance(value, jdbcstore.JdbcStore | jdbcstore.MemoryStore):
                value.close()
        if (sharing := sys.modules.get("jdbcstore.plugins.sharing")) is not None:
            sharing.open_claims.close()


@every_page
def test_console_examples(page: Page, tmp_path: Path) -> None:
    """The commands of a page's ``console`` blocks run one after another in one directory.

    They print what is shown below them, if something is shown. What needs a server, a clone or a network
    is in ``sh`` blocks, which are not run.
    """
    environment = {"PATH": f"{_program(tmp_path)}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "TZ": "UTC"}
    folder = tmp_path / "here"
    folder.mkdir()
    for example in page.examples("console"):
        for command, expected in _commands(example.code):
            code, printed = _run(command, folder, environment)
            assert not expected or matches(expected, printed), f"{command}\n{printed}"
            assert expected or code == 0, f"{command}\n{printed}"


def _run(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of a command, and what it printed; the shell is only started for what needs one."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    program, *arguments = shlex.split(command)
    if program == "jdbcstore" and not _OF_SHELL & {*command}:
        process: subprocess.Popen[bytes] = Forked(tuple(arguments), folder, environment, **streams)
    else:
        process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, **streams)
    printed, _ = process.communicate(timeout=180)
    return process.returncode, printed.decode()


def _program(directory: Path) -> Path:
    """A directory with the command ``jdbcstore`` of this source tree."""
    programs = directory / "bin"
    programs.mkdir()
    script = programs / "jdbcstore"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jdbcstore "$@"\n')
    script.chmod(0o755)
    return programs


def _commands(code: str) -> list[tuple[str, str]]:
    """Each command behind a ``$``, and the output shown below it."""
    parts = re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@every_page
def test_toml_examples(page: Page, tmp_path: Path) -> None:
    for example in page.examples("toml"):
        path = tmp_path / "jdbcstore.toml"
        path.write_text(example.code)
        found = load_file(path, {})
        assert found.data_source.url or found.stores


@every_page
def test_links(page: Page) -> None:
    broken = []
    for link in page.links():
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.path if not name else (page.path.parent / name).resolve()
        if not target.exists() or (anchor and anchor not in Page(target).anchors()):
            broken.append(link)
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [PAGES[0]]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md":
            continue
        reached.add(path)
        names = (link.partition("#")[0] for link in Page(path).links())
        waiting += [(path.parent / name).resolve() for name in names if name and ":" not in name]
    # The site shows the README in place of its index.
    assert set(PAGES) - {ROOT / "docs" / "index.md"} <= reached


def reference() -> str:
    return (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The pages that only the site has, by their names."""
    pages = runpy.run_path(str(ROOT / "docs" / "_ext" / "site_pages.py"))
    kinds = ("option", "http", "statement", "error")
    return {name: text for kind in kinds for name, text in pages[f"{kind}_pages"]().items()}


@pytest.mark.parametrize(
    "kind",
    [jdbcstore.StoreConfig, BrokerConfig, ConnectorConfig, JournalConfig, PolicyEntry],
    ids=lambda kind: kind.__name__,
)
def test_the_options_have_their_defaults_and_a_text(kind: type, generated: dict[str, str]) -> None:
    options = {
        one.name: repr(one.default)
        for one in fields(kind)
        if isinstance(one.default, bool | int | float | str)
    }
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)`[^|]* \| .*\S.* \|$", generated["options.md"], re.MULTILINE)

    assert [one for one in options.items() if one not in rows] == []


def test_every_option_of_a_configuration_is_explained(generated: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?!default)([^|]*) \| (.*)\|$", generated["options.md"], re.MULTILINE)

    assert [name for name, _, text in rows if not text.strip()] == []


def test_every_request_of_the_http_api_is_explained(generated: dict[str, str]) -> None:
    rows = [
        row.strip("| ").split(" | ") for row in generated["http.md"].splitlines() if row.startswith("| `")
    ]

    assert sum(1 for row in rows if "/api/" in row[0]) == len(OPERATIONS)
    assert [row[0] for row in rows if len(row[-1].strip()) < 8] == []


def test_the_page_of_the_command_line_has_every_command_in_one_row() -> None:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    table = text.partition("\n## Commands\n")[2].partition("\n## ")[0]
    named = [name for row in re.findall(r" \| (`.+) \|$", table, re.MULTILINE)
             for name in re.findall(r"`([\w-]+)`", row)]  # fmt: skip

    assert sorted(named) == sorted(commands.commands), "write them into the rows of docs/cli.md"


def test_the_tree_of_errors_is_whole(generated: dict[str, str]) -> None:
    """Each error is below its base class."""
    drawn, bases = {}, ["StoreError"]
    for indent, name in re.findall(r"^\| ((?:— )*)`(\w+)` \| .{8}", generated["errors.md"], re.MULTILINE):
        depth = len(indent) // 2
        bases[depth + 1 :] = [name]
        drawn[name] = bases[depth]
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    below = [each for each in classes if issubclass(each, StoreError) and each is not StoreError]

    assert drawn == {each.__name__: each.__bases__[0].__name__ for each in below}


def test_the_reference_has_every_public_name() -> None:
    assert [name for name in jdbcstore.__all__ if f"`{name}`" not in reference()] == []


def test_every_statement_is_listed(generated: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(\w+)` .* \| (?:yes|no: .+) \|$", generated["statements.md"], re.MULTILINE)

    assert rows == [one.name for one in PROPERTIES]


class _Prompt(InteractiveConsole):
    """Python's prompt, where a blank line ends a block; runs nothing."""

    def runcode(self, code: CodeType) -> None:
        pass

    def showsyntaxerror(self, filename: str | None = None, **_: Any) -> None:
        raise AssertionError(f"{filename} does not paste") from sys.exception()


@pytest.mark.parametrize(
    "page", [Page(ROOT / "README.md"), Page(ROOT / "docs" / "quickstart.md")], ids=lambda page: page.name
)
def test_first_examples_can_be_pasted_into_the_prompt(page: Page) -> None:
    for example in page.examples("python"):
        prompt = _Prompt(filename=page.name)
        for line in [*example.code.splitlines(), ""]:
            prompt.push(line)
