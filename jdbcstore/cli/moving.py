"""``copy`` and ``audit``: a store moved to another database, and two compared."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.answers import spark_session
from jdbcstore.cli.failures import ExitCode
from jdbcstore.cli.options import Command, Settings, changing_nothing, guarded
from jdbcstore.cli.output import counted, note, print_table, printable, progress, size, write_json, write_line
from jdbcstore.config import Configuration, DataSourceConfig, load_file
from jdbcstore.tools.transfer import Comparison, Difference, Side
from jdbcstore.tools.transfer import compare as compare_stores
from jdbcstore.tools.transfer import copy as copy_store

if TYPE_CHECKING:
    from jdbcstore.tools.archive import Difference as ArchiveDifference

_SHOWN = 20
"""Differences that are told to people; who wants more wants JSON."""
_URL = re.compile(r"[A-Za-z][\w+.-]*:.+")


class PlaceType(click.ParamType[Configuration]):
    """A store: a URL, or a configuration file with one."""

    name = "place"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Configuration:
        return value if isinstance(value, Configuration) else _store_named(value)


class FolderOrPlaceType(click.ParamType[Configuration | Path]):
    """An archive's folder, too."""

    name = "place"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Configuration | Path:
        if isinstance(value, Configuration | Path):
            return value
        return Path(value) if Path(value).is_dir() else _store_named(value)


def _store_named(text: str) -> Configuration:
    if _URL.fullmatch(text):
        return Configuration(data_source=DataSourceConfig(url=text))
    return load_file(Path(text))


def refuse_url(settings: Settings) -> None:
    """For commands that name their stores as arguments."""
    if settings.url is not None or settings.config is not None:
        raise click.UsageError("this command names its stores itself; leave out --url and --config")


@click.command(cls=Command)
@click.argument("source", metavar="SRC", type=PlaceType())
@click.argument("target", metavar="DST", type=PlaceType())
@click.pass_obj
def copy(settings: Settings, source: Configuration, target: Configuration) -> int:
    """Copy a store to another database, of any vendor, and verify the copy.

    SRC and DST are URLs or configuration files. Stop what writes to either. It can be run again after
    whatever stopped it, and never writes over a row.
    """
    refuse_url(settings)
    with changing_nothing(), progress("copying and comparing") as done:
        copied = copy_store(source, guarded(target), done)
    result = copied.comparison
    if settings.json:
        write_json({"copied": copied.messages, **_facts(result)})
    else:
        write_line(f"copied {counted(copied.messages)} to {printable(result.right.place)}")
        _print_comparison(result)
    return ExitCode.DONE if result.same else ExitCode.FAILED


@click.command(cls=Command)
@click.argument("left", metavar="LEFT", type=PlaceType())
@click.argument("right", metavar="RIGHT", type=FolderOrPlaceType())
@click.pass_obj
def audit(settings: Settings, left: Configuration, right: Configuration | Path) -> int:
    """Compare two stores, row by row and byte by byte: exit code 0 if they are the same, 1 if not.

    LEFT and RIGHT are URLs or configuration files; RIGHT may be the folder of an archive, whose messages are
    compared. Missing is what RIGHT has not, extra what LEFT has not.
    """
    refuse_url(settings)
    told = _Teller(settings.json)
    if isinstance(right, Path):
        return _audit_archive(settings, left, right, told)
    with progress("comparing") as done:
        result = compare_stores(left, right, done, told)
    if settings.json:
        write_json(_facts(result))
    else:
        told.finish()
        _print_comparison(result)
    return ExitCode.DONE if result.same else ExitCode.FAILED


def _audit_archive(settings: Settings, store: Configuration, folder: Path, told: _Teller) -> int:
    from jdbcstore.tools import archive

    if not archive.Archive.is_one(folder):
        raise click.UsageError(f"{folder} is no archive")
    result = archive.compare(spark_session(), store, folder, told)
    if settings.json:
        write_json({"same": result.same, **asdict(result)})
    else:
        told.finish()
        write_line("the same" if result.same else "not the same")
        write_line(", ".join(f"{name} {count}" for name, count in asdict(result).items()))
    return ExitCode.DONE if result.same else ExitCode.FAILED


class _Teller:
    """Prints differences as they are found."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._told = 0

    def __call__(self, found: Difference | ArchiveDifference) -> None:
        self._told += 1
        if self._as_json:
            write_json(found._asdict())
        elif self._told <= _SHOWN:
            write_line(printable(_sentence(found)))

    def finish(self) -> None:
        if self._told > _SHOWN:
            note(f"there are {self._told - _SHOWN} more differences; --json prints all of them")


def _sentence(found: Difference | ArchiveDifference) -> str:
    if not isinstance(found, Difference):
        return f"{found.difference:9} message {found.id} of {found.destination}"
    parts = [found.difference.ljust(9), found.what]
    if found.id is not None:
        parts.append(str(found.id))
    parts.append(f"of {found.destination}")
    if found.client_id is not None:
        parts.append(f"for {found.subscription_name} of client {found.client_id}")
    if found.columns:
        parts.append(f"in {', '.join(found.columns)}")
    return " ".join(parts)


def _facts(result: Comparison) -> dict[str, Any]:
    return {
        "same": result.same,
        "missing": result.missing,
        "extra": result.extra,
        "different": result.different,
        "left": _side_facts(result.left),
        "right": _side_facts(result.right),
    }


def _side_facts(side: Side) -> dict[str, Any]:
    return {
        "url": side.place,
        "messages": side.messages,
        "message_bytes": side.message_bytes,
        "marks": side.marks,
        "acknowledged_ahead": side.acknowledged_ahead,
        "checksum": side.checksum,
    }


def _print_comparison(result: Comparison) -> None:
    columns = {
        "store": "left",
        "messages": "right",
        "bytes": "right",
        "marks": "right",
        "acknowledged ahead": "right",
        "checksum": "left",
    }
    rows: list[tuple[str, ...]] = [
        (
            side.place,
            str(side.messages),
            size(side.message_bytes),
            str(side.marks),
            str(side.acknowledged_ahead),
            side.checksum[:16],
        )
        for side in (result.left, result.right)
    ]
    print_table("The same" if result.same else "Not the same", columns, rows)
    if not result.same:
        write_line(f"\nmissing {result.missing}, extra {result.extra}, different {result.different}")
