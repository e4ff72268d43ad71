"""Authentication and authorization of clients: by a users file, by ActiveMQ's plug-ins, or none."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from jdbcstore.config.users import (
    ROLES,
    TEMPORARY,
    PluginUser,
    PluginUsers,
    Setting,
    UserEntry,
    read_users,
)
from jdbcstore.config.xml.artemis_codec import verify as verify_hash
from jdbcstore.errors import ConfigurationError, NotAuthorized, needing
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationMap, DestinationPattern, is_wildcard
from jdbcstore.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from argon2 import PasswordHasher

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

REMEMBERED = 300.0
"""Seconds for which a successful login is not verified again."""
_THREADS = 2
"""Threads that verify passwords: each verification takes about 20 ms and 19 MiB."""
_WRONG_LOGIN = "the user name or the password is wrong"


class Principal:
    """The authenticated user of a connection, with patterns of its rights; None allows everything."""

    __slots__ = ("_create", "_read", "_settings", "_write", "name", "role")

    def __init__(
        self,
        name: str,
        read: Iterable[Destination] | None = None,
        write: Iterable[Destination] | None = None,
        create: Iterable[Destination] | None = None,
        *,
        role: str | None = None,
        settings: Sequence[Setting] = (),
    ) -> None:
        self.name = name
        self.role = role
        """The role in the management, of :data:`jdbcstore.config.users.ROLES`."""
        self._read, self._write, self._create = map(_patterns, (read, write, create))
        self._settings = MostSpecific(settings) if settings else None

    def may_read(self, destination: Destination) -> bool:
        """Return whether it may consume from every member of a destination, and from all matches of
        wildcards."""
        if self._settings is not None:
            return self._settings.allow(destination, lambda setting: setting.read)
        return _is_covered(destination, self._read)

    def may_write(self, destination: Destination) -> bool:
        """Return whether it may send to a destination."""
        if self._settings is not None:
            return self._settings.allow(destination, lambda setting: setting.write)
        return _is_covered(destination, self._write)

    def may_create(self, destination: Destination) -> bool:
        """Return whether it may create the destination by consuming or sending."""
        if self._settings is not None:
            return self._settings.allow(destination, lambda setting: setting.create)
        return _is_covered(destination, self._create)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownUser:
    """A user without the password, and its permitted destinations, which may have wildcards."""

    name: str
    role: str | None
    """The role in the management."""
    read: tuple[str, ...]
    write: tuple[str, ...]
    create: tuple[str, ...] | None = None
    """Destinations that the user may create; None means all that the user may use."""


class Security(Protocol):
    """Authenticates clients."""

    async def known(self) -> list[KnownUser]:
        """Return the users, by name; empty if they are unknown, or without security."""
        return []

    async def login(self, name: str | None, password: str | None) -> Principal:
        """Return the principal of a client.

        :raises NotAuthorized: the login is wrong
        """

    def close(self) -> None:
        """Stop its threads, if it has any; no login may be in progress."""
        return


class AllowAll(Security):
    """No security: every client may do everything."""

    async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
        return Principal(name or "")


class _Reloaded(Generic[_Value]):
    """A value read from files, and read again when one of them changes. For one thread at a time.

    :param read: returns the value and its files
    :raises ConfigurationError: it cannot be read; after the first time it keeps its value instead
    """

    def __init__(self, path: Path, read: Callable[[], tuple[_Value, Sequence[Path]]]) -> None:
        self._path = path
        self._read = read
        self._files: Sequence[Path] = (path,)
        self.value = self._load()

    def reload(self) -> _Value:
        if self._changed != [*map(_last_change, self._files)]:
            try:
                self.value = self._load()
            except ConfigurationError as error:
                log.error("cannot reload the users; the previous users stay in effect: %s", error)
            else:
                log.info("reloaded the users from %s", self._path)
        return self.value

    def _load(self) -> _Value:
        # Before reading, so that a change meanwhile is noticed.
        self._changed = [*map(_last_change, self._files)]
        value, files = self._read()
        if files != self._files:
            self._files, self._changed = files, [*map(_last_change, files)]
        return value


class _Remembered:
    """The last successful login of each user, for a while.

    Passwords are kept as hashes with a random key, which is only in this object's memory. A login is
    forgotten when its entry in the users file changes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._logins: dict[str, tuple[bytes, UserEntry, float]] = {}
        """By name: the hash, the verified entry, and the expiry time."""

    def has(self, name: str, password: str, entry: UserEntry) -> bool:
        login = self._logins.get(name)
        if login is None:
            return False
        known, verified_with, until = login
        if verified_with != entry or self._clock.monotonic() >= until:
            self._logins.pop(name, None)
            return False
        return hmac.compare_digest(known, self._hash(password))

    def add(self, name: str, password: str, entry: UserEntry) -> None:
        until = self._clock.monotonic() + REMEMBERED
        self._logins[name] = (self._hash(password), entry, until)

    def _hash(self, password: str) -> bytes:
        return hmac.digest(self._key, _bytes(password), "sha256")


class UsersFile(Security):
    """The users of a TOML file. A changed file is read again, so a new password applies immediately.

    Passwords are verified in threads, because argon2 is slow by design. A successful login is remembered for
    :data:`REMEMBERED` seconds, so that many clients can reconnect quickly. Logins are verified in the order
    of their arrival, except logins of clients that have disconnected meanwhile.

    :raises ConfigurationError: the file cannot be read, or is not a users file
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._path = path
        self._hasher = _make_hasher()
        self._no_user = self._hasher.hash("")
        """A hash to verify for an unknown user, so that it takes as long as for a known one."""
        self._users: _Reloaded[Mapping[str, UserEntry]] = _Reloaded(path, lambda: (read_users(path), (path,)))
        self._threads = ThreadPoolExecutor(_THREADS, "jdbcstore-login")
        self._reader = ThreadPoolExecutor(1, "jdbcstore-users")
        self._places = asyncio.Semaphore(_THREADS)
        self._remembered = _Remembered(clock or SystemClock())
        self._reading = threading.Lock()

    async def login(self, name: str | None, password: str | None) -> Principal:
        loop, login = asyncio.get_running_loop(), (name or "", password or "")
        # Before the queue, because many logins with wrong passwords may be waiting in it.
        user = await loop.run_in_executor(self._reader, self._recall, *login)
        if user is not None:
            return user
        async with self._places:  # a client that disconnects while it waits here is not verified
            verified = loop.run_in_executor(self._threads, self._login, *login)
            try:
                return await asyncio.shield(verified)
            except asyncio.CancelledError:
                # Its thread stays busy until then.
                await asyncio.gather(verified, return_exceptions=True)
                raise

    async def known(self) -> list[KnownUser]:
        def read() -> Mapping[str, UserEntry]:
            with self._reading:
                return self._users.reload()

        users = await asyncio.get_running_loop().run_in_executor(self._reader, read)
        return [
            KnownUser(name=name, role=user.role, read=_texts(user.read), write=_texts(user.write))
            for name, user in sorted(users.items())
        ]

    def close(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _recall(self, name: str, password: str) -> Principal | None:
        """Return the user, if this login is remembered."""
        with self._reading:
            entry = self._users.reload().get(name)
            if entry is not None and self._remembered.has(name, password, entry):
                return _principal(name, entry)
        return None

    def _login(self, name: str, password: str) -> Principal:
        user = self._recall(name, password)
        if user is not None:
            return user
        entry = self._users.value.get(name)
        self._verify(name, password, entry)
        if entry is None:
            raise NotAuthorized(_WRONG_LOGIN)
        with self._reading:
            self._remembered.add(name, password, entry)
        return _principal(name, entry)

    def _verify(self, name: str, password: str, entry: UserEntry | None) -> None:
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            self._hasher.verify(self._no_user if entry is None else entry.password_hash, password)
        except InvalidHashError:
            log.error("the password of %s in %s is not an argon2 hash; set it with jdbcstore passwd",
                      name, self._path)  # fmt: skip
            raise NotAuthorized(_WRONG_LOGIN) from None
        except VerificationError:
            raise NotAuthorized(_WRONG_LOGIN) from None


def _principal(name: str, entry: UserEntry) -> Principal:
    """Make a principal. With a users file, any client that knows the name of a temporary destination may use
    it."""
    return Principal(name, (*entry.read, *TEMPORARY), (*entry.write, *TEMPORARY), role=entry.role)


class PluginSecurity(Security):
    """The security plug-ins of an ``activemq.xml``, whose changed files are read again.

    :param roles: the roles of groups in the management
    :raises ConfigurationError: a file cannot be read, or has an unsupported plug-in
    """

    def __init__(
        self,
        path: Path,
        environment: Mapping[str, str] = os.environ,
        *,
        roles: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        from jdbcstore.config.xml import read_plugin_users

        def read() -> tuple[PluginUsers, Sequence[Path]]:
            users = read_plugin_users(path, environment)
            return users, users.files

        self._roles = roles
        self._users = _Reloaded(path, read)
        self._reader = ThreadPoolExecutor(1, "jdbcstore-users")

    async def login(self, name: str | None, password: str | None) -> Principal:
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._login, name, password)

    async def known(self) -> list[KnownUser]:
        plugins = await asyncio.get_running_loop().run_in_executor(self._reader, self._users.reload)
        return [
            KnownUser(
                name=name,
                role=self._role(user),
                read=_texts(user.read or _granted(user, lambda setting: setting.read)),
                write=_texts(user.write or _granted(user, lambda setting: setting.write)),
                create=_texts(user.create or _granted(user, lambda setting: setting.create)),
            )
            for name, user in sorted(plugins.users.items())
        ]

    def _role(self, user: PluginUser) -> str | None:
        roles = [self._roles[group] for group in user.groups if group in self._roles]
        return max(roles, key=ROLES.index, default=None)

    def close(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _login(self, name: str | None, password: str | None) -> Principal:
        plugins = self._users.reload()
        user, role = plugins.anonymous, None
        if name is not None or password is not None or user is None:
            user = plugins.users.get(name or "")
            if not _has_password(user, password or "") or user is None:
                raise NotAuthorized(_WRONG_LOGIN)
            role = self._role(user)
        return Principal(user.name, user.read, user.write, user.create, role=role, settings=user.settings)


def _has_password(user: PluginUser | None, password: str) -> bool:
    if user is not None and user.is_hash:
        return verify_hash(user.password, password)
    known = _bytes("" if user is None else user.password)
    return hmac.compare_digest(known, _bytes(password))


class MostSpecific:
    """Rights by the most specific pattern, as in Artemis; it may remove rights that other patterns grant."""

    def __init__(self, settings: Sequence[Setting]) -> None:
        self._by_destination = DestinationMap((setting.where, setting) for setting in settings)
        self._patterns = [(DestinationPattern(setting.where), setting) for setting in settings]

    def allow(self, destination: Destination, has: Callable[[Setting], bool]) -> bool:
        """Return whether a right is granted for each member, and for all matches of its wildcards."""
        return all(self._allows(member, has) for member in destination.members)

    def _allows(self, member: Destination, has: Callable[[Setting], bool]) -> bool:
        if member.is_temporary:
            return True
        if not is_wildcard(member):
            setting = self._by_destination.find(member)
            return setting is not None and has(setting)
        wanted = DestinationPattern(member)
        if not any(pattern.covers(wanted) for pattern, _ in self._patterns):
            return False
        return all(has(setting) for pattern, setting in self._patterns if pattern.overlaps(wanted))


def _granted(user: PluginUser, has: Callable[[Setting], bool]) -> list[Destination]:
    return [setting.where for setting in user.settings if has(setting)]


def make_security(users_file: str | None, roles: Mapping[str, str] = MappingProxyType({})) -> Security:
    """Return the security of a configuration: none, a users file, or an ``activemq.xml`` with plug-ins.

    :param roles: the roles of the plug-ins' groups in the management
    :raises ConfigurationError: the file cannot be read, or has an unsupported plug-in
    """
    if users_file is None:
        return AllowAll()
    path = Path(users_file)
    is_xml = path.suffix == ".xml" or _is_xml(path)
    return PluginSecurity(path, roles=roles) if is_xml else UsersFile(path)


def _is_xml(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    except OSError:
        return False  # reading it will report that


def _texts(destinations: Iterable[Destination]) -> tuple[str, ...]:
    return tuple(map(str, destinations))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _last_change(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, for a users file."""
    return _make_hasher().hash(password)


def _make_hasher() -> PasswordHasher:
    with needing("passwords need argon2", "broker", "users_file"):
        from argon2 import PasswordHasher
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def _patterns(destinations: Iterable[Destination] | None) -> list[DestinationPattern] | None:
    return None if destinations is None else [*map(DestinationPattern, destinations)]


def _is_covered(destination: Destination, patterns: list[DestinationPattern] | None) -> bool:
    """Return whether one pattern covers each member, with all matches of its wildcards."""
    if patterns is None:
        return True
    members = map(DestinationPattern, destination.members)
    return all(any(pattern.covers(member) for pattern in patterns) for member in members)
