"""Facts that pages state by hand, compared with the code: commands, defaults, alerts, loggers, errors."""

from __future__ import annotations

import ast
import csv
import re
import runpy
import shlex
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module

import click

from jdbcstore.cli.app import commands
from jdbcstore.cli.exit_codes import ExitCode
from tests.support import ROOT
from tests.support.docs.pages import PAGES, Page

TEXTS = [Page(path) for path in PAGES]
ALERTS = ROOT / "docs" / "monitoring" / "alerts.yml"
GUIDE = ROOT / "docs" / "guide"
_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_AFTER_COMMANDS = {"|", "&&", "||", ";", ">", "2>&1", "&", "#"}


def command_lines(page: Page) -> Iterator[list[str]]:
    """The arguments of each call of jdbcstore in the page's shell blocks."""
    for example in (*page.examples("sh"), *page.examples("console")):
        code = example.code.replace("\\\n", " ")
        for line in code.splitlines():
            if example.language == "console" and not line.startswith("$ "):
                continue
            if line.startswith("docker ") or line.count("'") % 2 or line.count('"') % 2:
                continue  # the name of an image, or a string of several lines
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while (at := next((at for at, one in enumerate(words) if one.endswith("jdbcstore")), -1)) >= 0:
                words = words[at + 1 :]
                end = next((at for at, one in enumerate(words) if one in _AFTER_COMMANDS), len(words))
                yield words[:end]


def unknown(arguments: list[str]) -> str | None:
    """The first word of a command line that is neither a command nor an option of it."""
    command: click.Command = commands
    skipped = False
    for word in arguments:
        context = click.Context(command)
        options = {name: one for one in command.get_params(context) for name in one.opts}
        if skipped or word.startswith("$"):
            skipped = False
        elif word.startswith("--"):
            if (option := options.get(word.partition("=")[0])) is None:
                return word
            skipped = "=" not in word and not getattr(option, "is_flag", False)
        elif word.startswith("-") and word in options:
            skipped = not getattr(options[word], "is_flag", False)
        elif isinstance(command, click.Group):
            if (found := command.get_command(context, word)) is None:
                return word
            command = found
    return None


def test_commands_and_their_options_exist() -> None:
    found = [
        f"{page.name}: {' '.join(line)}: {wrong}"
        for page in TEXTS
        for line in command_lines(page)
        if (wrong := unknown(line)) is not None
    ]

    assert sum(1 for page in TEXTS for _ in command_lines(page)) > 100
    assert found == []


def test_commands_in_sentences_exist() -> None:
    named = [
        (page.name, name) for page in TEXTS for name in re.findall(r"`jdbcstore ([a-z][a-z-]+)", page.prose)
    ]

    assert [one for one in named if commands.get_command(click.Context(commands), one[1]) is None] == []


def test_exit_codes_exist() -> None:
    named = [
        (page.name, int(code))
        for page in TEXTS
        for code in re.findall(r"\bexit code (?:is )?(\d+)", page.prose)
    ]

    assert named
    assert [one for one in named if one[1] not in {*map(int, ExitCode)}] == []


def defaults() -> dict[str, set[object]]:
    """The defaults of each option; several classes may have one of that name."""
    pages = runpy.run_path(str(ROOT / "docs" / "_ext" / "site_pages.py"))
    found: dict[str, set[object]] = defaultdict(set)
    for _, _, kinds in pages["_option_classes"]():
        for kind in kinds:
            for one in fields(kind):
                if isinstance(one.default, bool | int | float | str | None):
                    found[one.name].add(one.default)
    return found


def test_a_number_behind_an_option_is_its_default() -> None:
    known, wrong, seen = defaults(), [], 0
    pattern = re.compile(r"`(\w+)`(?: seconds)? \((-?[\d,]+(?:\.\d+)?) ?(s|seconds|KiB|MiB|GiB)?\)")
    for page in TEXTS:
        for name, number, unit in pattern.findall(page.prose):
            if name in known:
                seen += 1
                value = float(number.replace(",", "")) * _SIZES.get(unit, 1)
                if value not in known[name]:
                    wrong.append(f"{page.name}: {name} ({number} {unit}), and not {known[name]}")

    assert seen > 10
    assert wrong == []


def test_alerts_are_those_of_prometheus() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8")))
    named = {name for page in TEXTS for name in re.findall(r"\bJdbcstore[A-Z]\w+", page.prose)}
    cured = "".join((GUIDE / name).read_text("utf-8") for name in ("troubleshooting.md", "monitoring.md"))

    assert named <= alerts
    assert [name for name in alerts if name not in cured] == []


def test_loggers_are_modules() -> None:
    text = (GUIDE / "monitoring.md").read_text(encoding="utf-8").partition("\n## Logs\n")[2]
    named = re.findall(r"^\| \w+ \| `([\w.]+)`", text.partition("\n## ")[0], re.MULTILINE)

    assert len(named) > 5
    for name in named:
        import_module(name)


def strings() -> str:
    """The text of all strings of the product, without the values in f-strings."""
    parts = []
    for path in sorted((ROOT / "jdbcstore").rglob("*.py")):
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                parts.append(one.value)
    return "\n".join(parts)


def test_messages_in_troubleshooting_are_those_of_the_code() -> None:
    text = (GUIDE / "troubleshooting.md").read_text(encoding="utf-8")
    section = text.partition("### Cannot reach the database")[2].partition("\n#")[0]
    messages = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    known = strings()

    assert len(messages) > 3
    assert [
        part for one in messages for part in re.split(r" ?\.\.\.;? ?", one) if part and part not in known
    ] == []


def fates() -> dict[str, set[str]]:
    """The fates of each setting of an activemq.xml, by its name."""
    found: dict[str, set[str]] = defaultdict(set)
    with (GUIDE / "settings.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["file"] == "activemq.xml":
                found[row["setting"] or row["element"]].add(row["fate"])
    return found


def rows(page: Page) -> Iterator[list[str]]:
    for line in page.text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("| ").split(" | ")]


def test_settings_that_stop_the_broker_do() -> None:
    """A row of a table whose last cell says so agrees with the list of all settings."""
    known = fates()
    wrong = [
        f"{page.name}: {name}: {known[name]}"
        for page in TEXTS
        for cells in rows(page)
        if len(cells) > 1 and cells[-1].startswith("the broker does not start")
        for name in re.findall(r"`([a-z]+[A-Z]\w*)`", cells[0])
        if name in known and "refused" not in known[name]
    ]

    assert wrong == []
