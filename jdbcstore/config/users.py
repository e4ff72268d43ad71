"""Users of the broker and their permissions: the users file, and the result of ActiveMQ's plug-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jdbcstore.config.given import parse_toml
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.util.files import replace_file

EVERYTHING = ("queue://>", "topic://>")
TEMPORARY = (
    Destination(DestinationKind.TEMPORARY_QUEUE, ">"),
    Destination(DestinationKind.TEMPORARY_TOPIC, ">"),
)
_SECTION = "users"
_KEYS = ("password", "read", "write", "role")
VIEW, BROWSE, MANAGE = "view", "browse", "manage"
ROLES = (VIEW, BROWSE, MANAGE)
"""Rights of a user in the management of a broker; each role has the rights of those before it: to look at
counters and names, to read messages, and to change things."""


@dataclass(frozen=True, slots=True)
class UserEntry:
    """A user of the users file."""

    password_hash: str
    """The Argon2 hash of the password."""
    read: tuple[Destination, ...] = ()
    """The destinations that the user may consume from, with wildcards."""
    write: tuple[Destination, ...] = ()
    """The destinations that the user may send to, with wildcards."""
    role: str | None = None
    """One of ``ROLES``; None may not use the management."""

    def __repr__(self) -> str:
        return f"UserEntry(read={self.read!r}, write={self.write!r}, role={self.role!r})"


class Setting(NamedTuple):
    """The rights of a user in the destinations of a pattern, for which no more specific one has others."""

    where: Destination
    read: bool
    write: bool
    create: bool


@dataclass(frozen=True, slots=True)
class PluginUser:
    """A user of ActiveMQ's plug-ins, or of Artemis's files, which have passwords in plain text, or hashed."""

    name: str
    password: str = field(repr=False)
    read: tuple[Destination, ...]
    """The destinations that the user may consume from, with wildcards."""
    write: tuple[Destination, ...]
    """The destinations that the user may send to, with wildcards."""
    create: tuple[Destination, ...]
    """The destinations that the user may create by sending to them or consuming from them."""
    groups: frozenset[str] = frozenset()
    """The groups that the user is in."""
    is_hash: bool = False
    """Whether the password is a hash of Artemis's."""
    settings: tuple[Setting, ...] = ()
    """Artemis's rights, of which the most specific one counts; then there are no others."""


@dataclass(frozen=True, slots=True)
class PluginUsers:
    """The users of all of ActiveMQ's plug-ins together."""

    users: Mapping[str, PluginUser]
    """The users by name."""
    anonymous: PluginUser | None
    """The user of clients without login and password; None refuses them."""
    files: tuple[Path, ...]
    """The files that were read."""


def read_users(path: Path) -> Mapping[str, UserEntry]:
    """Read the users of a users file, by name.

    :raises ConfigurationError: the file cannot be read, or is not a users file
    """
    try:
        data = parse_toml(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the users file {path}: {error.strerror}; create it with jdbcstore passwd",
            option="users_file",
        ) from error
    users = data.pop(_SECTION, {})
    if data or not isinstance(users, dict):
        raise ConfigurationError(
            f"a users file has only sections [{_SECTION}.NAME]; remove others", place=str(path)
        )
    return {name: _entry(path, name, values) for name, values in users.items()}


def _entry(path: Path, name: str, values: Any) -> UserEntry:
    place = f"{path}, [{_SECTION}.{name}]"
    if not isinstance(values, dict) or not isinstance(values.get("password"), str):
        raise ConfigurationError("a user needs a password; set it with jdbcstore passwd", place=place)
    if wrong := ", ".join(sorted(values.keys() - {*_KEYS})):
        raise ConfigurationError(f"unknown option {wrong} of a user; use {', '.join(_KEYS)}", place=place)
    role = values.get("role")
    if role is not None and role not in ROLES:
        raise ConfigurationError(f"the role must be one of {', '.join(ROLES)}, not {role!r}", place=place)
    read, write = (_patterns(values.get(key, []), f"{place}, {key}") for key in ("read", "write"))
    return UserEntry(values["password"], read, write, role)


def _patterns(values: Any, place: str) -> tuple[Destination, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigurationError(f"must be a list of strings, such as {[*EVERYTHING]}", place=place)
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
    role: str | None = None,
) -> bool:
    """Set a user's password, and permissions and role if given; return whether the user is new.

    A new user may send and consume everything unless permissions are given, and has no role. The rest of
    the file is unchanged. The file is replaced atomically and durably; a new one is readable by its owner
    only.

    :raises ConfigurationError: the file cannot be read or written, or is not a users file
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
    if role is not None:
        entry["role"] = role
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        replace_file(path, tomlkit.dumps(document).encode(), mode=mode)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; name another file") from error
    return is_new
