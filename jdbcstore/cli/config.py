"""``config show`` and ``config convert``: the effective configuration, and ActiveMQ's as TOML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from jdbcstore.cli.output import counted, print_table, printable, write_json, write_line, write_new
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.config import Configuration, load_file, shown_options, to_toml


@click.group()
def config() -> None:
    """Show or convert the configuration."""


@config.command(cls=CliCommand)
@click.pass_obj
def show(settings: Settings) -> None:
    """Show every option with its source.

    This includes notes on options that are not applied.
    """
    configuration = settings.configuration()
    options = [
        {"option": path, "value": value, "source": configuration.sources.get(path, "default")}
        for path, value in shown_options(configuration)
    ]
    if settings.json:
        write_json({"options": options, "notes": _note_facts(configuration)})
        return
    print_table(
        "Options",
        ("option", "value", "source"),
        [(option["option"], _text(option["value"]), option["source"]) for option in options],
    )
    if configuration.notes:
        write_line("\nNotes")
    for note in configuration.notes:
        write_line(printable(f"- {note}"))


@config.command(cls=CliCommand)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
              help="File to create; the result is printed by default.")  # fmt: skip
@click.pass_obj
def convert(settings: Settings, file: Path, output: Path | None) -> None:
    """Convert an activemq.xml to a jdbcstore.toml.

    The result has notes on omitted settings and the reasons.
    """
    configuration = load_file(file)
    text = to_toml(configuration, str(file))
    if output is None:
        sys.stdout.write(text)
        return
    write_new(output, text)
    notes = counted(len(configuration.notes), "note")
    facts = {"file": str(output), "notes": _note_facts(configuration)}
    settings.print(facts, f"converted {file} to {output}, which ends with {notes}")


def _note_facts(configuration: Configuration) -> list[dict[str, str]]:
    return [{"kind": note.kind.value, "place": note.place, "text": note.text} for note in configuration.notes]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) or "''"
