"""What somebody meets who types for the first time: help, the version, completion, narrow terminals."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click
import pytest

import jdbcstore
from jdbcstore.cli.app import _COMMANDS, attribute_of, commands
from jdbcstore.util.core import in_use
from tests.cli.conftest import Invoke
from tests.support.cli.command_line import CommandLine


@pytest.mark.parametrize("group", [[], ["config"], ["schema"], ["dlq"], ["journal"], ["manage"], ["xa"]])
def test_a_group_alone_prints_its_help(invoke: Invoke, group: list[str]) -> None:
    result = invoke(*group)

    assert result.code == 2
    assert result.out == ""
    assert (
        result.err.splitlines()[0] == f"Usage: {' '.join(['jdbcstore', *group])} [OPTIONS] COMMAND [ARGS]..."
    )
    assert "\n\nCommands:\n" in result.err


def test_help_is_a_command(invoke: Invoke) -> None:
    assert invoke("help").out.strip() == invoke("--help").out.strip()
    assert invoke("help", "send").out.strip() == invoke("send", "--help").out.strip()
    assert invoke("help", "schema", "check").out.strip() == invoke("schema", "check", "--help").out.strip()

    unknown = invoke("help", "schema", "chek")
    assert (unknown.code, unknown.out) == (2, "")
    assert "there is no command 'schema chek'" in unknown.err


def test_no_sentence_of_the_list_of_commands_is_cut(invoke: Invoke) -> None:
    listed = " ".join(invoke("--help").out.split())

    for name in commands.list_commands(click.Context(commands)):
        command = commands.get_command(click.Context(commands), name)
        assert command is not None
        sentence = " ".join((command.help or "").split("\n\n")[0].split()).rstrip(".")
        assert f"{name} {sentence.partition('. ')[0]}" in listed


def test_the_table_has_the_first_sentence_of_each_command() -> None:
    """The list shows the table's line until the command is imported, and its own help from then on."""
    for name, module, line in _COMMANDS:
        command = getattr(import_module(f"jdbcstore.cli.{module}"), attribute_of(name))
        sentence = " ".join(command.help.split("\n\n")[0].split()).rstrip(".").partition(". ")[0]
        assert line == sentence, f"{name}: make its line in cli/app.py and its docstring the same"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["completion", "bash"]])
def test_no_command_is_imported_before_it_runs(arguments: list[str]) -> None:
    code = (
        "import sys; from jdbcstore.cli import main; main(sys.argv[1:]);"
        " print(*(name for name in sys.modules if name.startswith('jdbcstore.cli.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, check=True, text=True
    )

    assert {*done.stderr.split()} == {
        f"jdbcstore.cli.{module}" for module in ("app", "exit_codes", "output", "settings")
    }


def test_the_version_has_a_short_option(invoke: Invoke) -> None:
    assert invoke("-V").out == invoke("--version").out

    first, *others = invoke("-V").out.splitlines()
    assert first == f"jdbcstore, version {jdbcstore.__version__}"
    assert f"  SQLAlchemy {version('SQLAlchemy')}" in others
    assert f"  {platform.python_implementation()} {platform.python_version()}" in others
    assert f"  core: {in_use()}" in others


def test_bash_completes_a_command(tmp_path: Path, invoke: Invoke) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(invoke("completion", "bash").out)
    # What bash itself does when somebody presses the tab key behind "jdbcstore subsc".
    pressed = (
        f"source {script}; COMP_WORDS=(jdbcstore subsc); COMP_CWORD=1;"
        " _jdbcstore_completion jdbcstore; echo ${COMPREPLY[@]}"
    )
    local = CommandLine(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{local.environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", pressed],
        env={**local.environment, "PATH": path},
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout.split() == ["subscriptions", "subscribe"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(invoke: Invoke, shell: str) -> None:
    assert f"_JDBCSTORE_COMPLETE={shell}_complete" in invoke("completion", shell).out


def test_a_narrow_terminal_cuts_no_word(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("send", "topic://NEWS", "x").code == 0
    options = ("--client-id", "reader", "--subscription", "evening")
    assert invoke("subscribe", "topic://NEWS", *options, "--selector", "region = 'north'").code == 0
    monkeypatch.setenv("COLUMNS", "40")

    lines = invoke("status").out.splitlines()

    for whole in ("topic://NEWS", "reader", "evening", "region = 'north'"):
        assert any(whole in line for line in lines), lines


def test_a_pipe_is_as_wide_as_columns_says(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("send", "Q", "x" * 300).code == 0
    for columns in (80, 240):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert {len(line) for line in invoke("browse", "Q").out.splitlines()} == {columns}
