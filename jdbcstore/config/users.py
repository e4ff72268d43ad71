"""The users file: who may log in to the broker, and what they may read and write."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.util.files import replace_file

EVERYTHING = ("queue://>", "topic://>")
TEMPORARY = (
    Destination(DestinationKind.TEMPORARY_QUEUE, ">"),
    Destination(DestinationKind.TEMPORARY_TOPIC, ">"),
)
_SECTION = "users"
_KEYS = ("password", "read", "write")


@dataclass(frozen=True, slots=True)
class UserEntry:
    """One user of the file."""

    password_hash: str
    read: tuple[Destination, ...] = ()
    """Names with wildcards of what this user may consume."""
    write: tuple[Destination, ...] = ()
    """The same, of what it may send to."""

    def __repr__(self) -> str:
        return f"UserEntry(read={self.read!r}, write={self.write!r})"


@dataclass(frozen=True, slots=True)
class PluginUser:
    """One user of ActiveMQ's plug-ins, which have the passwords as they are."""

    name: str
    password: str = field(repr=False)
    read: tuple[Destination, ...]
    write: tuple[Destination, ...]
    create: tuple[Destination, ...]
    """What it may send to and consume from though the broker has nothing there yet."""


@dataclass(frozen=True, slots=True)
class PluginUsers:
    """What ActiveMQ's plug-ins say together."""

    users: Mapping[str, PluginUser]
    anonymous: PluginUser | None
    """Who comes without a login and a password; None lets nobody in without."""
    files: tuple[Path, ...]
    """That say so."""


def read_users(path: Path) -> Mapping[str, UserEntry]:
    """Every user of a file, by name.

    :raises ConfigurationError: it cannot be read, or is not such a file
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the users file {path}: {error.strerror}; make it with jdbcstore passwd",
            option="users_file",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"this is not TOML: {error}; correct it", place=str(path)) from error
    users = data.pop(_SECTION, {})
    if data or not isinstance(users, dict):
        raise ConfigurationError(f"it has sections [{_SECTION}.NAME], and nothing else", place=str(path))
    return {name: _entry(path, name, values) for name, values in users.items()}


def _entry(path: Path, name: str, values: Any) -> UserEntry:
    place = f"{path}, [{_SECTION}.{name}]"
    if not isinstance(values, dict) or not isinstance(values.get("password"), str):
        raise ConfigurationError("a user needs a password: set it with jdbcstore passwd", place=place)
    if values.keys() - {*_KEYS}:
        wrong = ", ".join(sorted(values.keys() - {*_KEYS}))
        raise ConfigurationError(f"a user has no {wrong}; write {', '.join(_KEYS)}", place=place)
    return UserEntry(
        values["password"],
        *(_patterns(values.get(key, []), f"{place}, {key}") for key in ("read", "write")),
    )


def _patterns(values: Any, place: str) -> tuple[Destination, ...]:
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ConfigurationError(f"a list of texts is needed, such as {[*EVERYTHING]}", place=place)
    try:
        return tuple(map(Destination.named, values))
    except InvalidDestination as error:
        raise ConfigurationError(str(error), place=place) from error


def write_user(
    path: Path,
    name: str,
    password_hash: str,
    read: Sequence[str] | None = None,
    write: Sequence[str] | None = None,
) -> bool:
    """Give a user a password, and rights where they are given; whether the user is new.

    A new user without rights given may do everything. What else is in the file stays as it is.

    :raises ConfigurationError: it cannot be read or written, or is not such a file
    """
    import tomlkit

    is_new = name not in (read_users(path) if path.exists() else {})
    document = tomlkit.parse(path.read_text(encoding="utf-8-sig")) if path.exists() else tomlkit.document()
    if _SECTION not in document:
        document[_SECTION] = tomlkit.table(is_super_table=True)
    users: Any = document[_SECTION]
    if is_new:
        users[name] = tomlkit.table()
    entry = users[name]
    entry["password"] = password_hash
    for key, given in (("read", read), ("write", write)):
        if given is not None or is_new:
            entry[key] = list(EVERYTHING if given is None else given)
            _patterns(list(entry[key]), f"--{key}")
    _replace(path, tomlkit.dumps(document))
    return is_new


def _replace(path: Path, text: str) -> None:
    """Write the file whole or not at all, for its owner alone if it is new."""
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        replace_file(path, text.encode(), mode=mode)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
