"""``passwd``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import printable, write_json, write_line
from jdbcstore.config.users import write_user


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.argument("user", metavar="USER")
@click.option("--read", multiple=True, metavar="DEST", help="What the user may consume, with * and >.")
@click.option("--write", multiple=True, metavar="DEST", help="Where the user may send, with * and >.")
@click.pass_obj
def passwd(settings: Settings, file: Path, user: str, read: tuple[str, ...], write: tuple[str, ...]) -> None:
    """Set a user's password in the users file of a broker, and make what is not there yet.

    Asks for the password, or reads the first line of its input. A new user may do everything, unless
    --read or --write says what; a running broker goes by the file at once.
    """
    from jdbcstore.broker.security import hash_password

    is_new = write_user(file, user, hash_password(_password()), _rights(read), _rights(write))
    if settings.json:
        write_json({"file": str(file), "user": user, "new": is_new})
    else:
        write_line(f"{'added' if is_new else 'changed'} {printable(user)} in {file}")


def _rights(given: tuple[str, ...]) -> list[str] | None:
    return [*given] or None


def _password() -> str:
    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("an empty password lets everybody in; give another")
    return password
