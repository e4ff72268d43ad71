"""Who may log in, and what they may read and write."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jdbcstore.config.users import TEMPORARY, PluginUser, PluginUsers, UserEntry, read_users
from jdbcstore.errors import ConfigurationError, NotAuthorized
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import ANY_DESCENDANT, DestinationPattern
from jdbcstore.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from argon2 import PasswordHasher

log = logging.getLogger(__name__)

_THREADS = 2
"""That verify passwords: each takes about a fiftieth of a second, and 19 MiB."""
REMEMBERED = 300.0
"""Seconds that a login which was right needs not be verified again."""
_WRONG_LOGIN = "the user name or the password is wrong"


class Principal(Protocol):
    """Who a connection belongs to."""

    @property
    def name(self) -> str: ...

    def may_read(self, destination: Destination) -> bool:
        """Whether it may consume from a destination, all that its wildcards match, every member of it."""

    def may_write(self, destination: Destination) -> bool:
        """Whether it may send there."""

    def may_create(self, destination: Destination) -> bool:
        """Whether it may do either where the broker has nothing yet."""


class Security(Protocol):
    """What a connector asks."""

    async def login(self, name: str | None, password: str | None) -> Principal:
        """Let somebody in.

        :raises NotAuthorized: the login is wrong
        """

    def close(self) -> None: ...


class OpenDoor:
    """Everybody may do everything: there is no users file."""

    async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
        return _Anyone(name or "")

    def close(self) -> None:
        """Nothing is open."""


class _Anyone:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def may_read(self, destination: Destination) -> bool:  # noqa: ARG002
        return True

    def may_write(self, destination: Destination) -> bool:  # noqa: ARG002
        return True

    def may_create(self, destination: Destination) -> bool:  # noqa: ARG002
        return True


class User:
    """Somebody of the users file, or of ActiveMQ's plug-ins.

    In the file, temporary destinations are everybody's, who knows their names; and who may send to a
    destination, or consume from it, may be the first to do so.
    """

    __slots__ = ("_create", "_read", "_write", "name")

    def __init__(self, name: str, entry: UserEntry | PluginUser) -> None:
        self.name = name
        everywhere: tuple[Destination, ...] = TEMPORARY
        self._create: list[DestinationPattern] | None = None
        if isinstance(entry, PluginUser):
            everywhere = ()
            self._create = [*map(DestinationPattern, entry.create)]
        self._read = [*map(DestinationPattern, (*entry.read, *everywhere))]
        self._write = [*map(DestinationPattern, (*entry.write, *everywhere))]

    def may_read(self, destination: Destination) -> bool:
        return all(_is_covered(one, self._read) for one in destination.members)

    def may_write(self, destination: Destination) -> bool:
        return all(_is_covered(one, self._write) for one in destination.members)

    def may_create(self, destination: Destination) -> bool:
        return self._create is None or _is_covered(destination, self._create)


class _Remembered:
    """Logins that were right a while ago: of each user the last one.

    What is kept is a hash under a key that only this object has, and drops the passwords with: neither
    is ever written down. One that is asked for with another entry of the users file is not known.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._logins: dict[str, tuple[bytes, UserEntry, float]] = {}
        """By name: the hash, the entry that it was verified with, and until when it counts."""

    def has(self, name: str, password: str, entry: UserEntry) -> bool:
        found = self._logins.get(name)
        if found is None:
            return False
        known, verified_with, until = found
        if verified_with != entry or self._clock.monotonic() >= until:
            self._logins.pop(name, None)
            return False
        return hmac.compare_digest(known, self._hash(password))

    def add(self, name: str, password: str, entry: UserEntry) -> None:
        until = self._clock.monotonic() + REMEMBERED
        self._logins[name] = (self._hash(password), entry, until)

    def _hash(self, password: str) -> bytes:
        return hmac.digest(self._key, _bytes(password), "sha256")


class Users:
    """The users file. It is read again when it has changed, so that a new password counts at once.

    Passwords are verified by threads of its own: it takes a while, by intent. A login that was right is
    remembered for :data:`REMEMBERED` seconds, so that many clients are let in soon when they come back
    at once. They are verified in the order they came; who has given up meanwhile is not.

    :raises ConfigurationError: the file cannot be read, or is not one
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._path = path
        self._hasher = _make_hasher()
        self._no_user = self._hasher.hash("")
        """What the password of somebody unknown is held against, so that it takes as long."""
        self._changed = _last_change(path)
        self._users: Mapping[str, UserEntry] = read_users(path)
        self._threads = ThreadPoolExecutor(_THREADS, "jdbcstore-login")
        self._reader = ThreadPoolExecutor(1, "jdbcstore-users")
        self._places = asyncio.Semaphore(_THREADS)
        self._remembered = _Remembered(clock or SystemClock())
        self._reading = threading.Lock()

    async def login(self, name: str | None, password: str | None) -> Principal:
        loop, login = asyncio.get_running_loop(), (name or "", password or "")
        # Past those who wait: there may be many whose passwords are wrong.
        user = await loop.run_in_executor(self._reader, self._recall, *login)
        if user is not None:
            return user
        async with self._places:  # a client that goes away while it waits here is not verified
            verified = loop.run_in_executor(self._threads, self._login, *login)
            try:
                return await asyncio.shield(verified)
            except asyncio.CancelledError:
                # Its thread is busy for as long.
                await asyncio.gather(verified, return_exceptions=True)
                raise

    def close(self) -> None:
        """End the threads; nobody may be logging in."""
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _recall(self, name: str, password: str) -> User | None:
        """Who this is, if that was verified not long ago."""
        with self._reading:
            self._read_again()
            entry = self._users.get(name)
            if entry is not None and self._remembered.has(name, password, entry):
                return User(name, entry)
        return None

    def _login(self, name: str, password: str) -> User:
        user = self._recall(name, password)
        if user is not None:
            return user
        entry = self._users.get(name)
        self._verify(name, password, entry)
        if entry is None:
            raise NotAuthorized(_WRONG_LOGIN)
        with self._reading:
            self._remembered.add(name, password, entry)
        return User(name, entry)

    def _verify(self, name: str, password: str, entry: UserEntry | None) -> None:
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            self._hasher.verify(self._no_user if entry is None else entry.password_hash, password)
        except InvalidHashError:
            log.error("the password of %s in %s is no argon2 hash; set it with jdbcstore passwd",
                      name, self._path)  # fmt: skip
            raise NotAuthorized(_WRONG_LOGIN) from None
        except VerificationError:
            raise NotAuthorized(_WRONG_LOGIN) from None

    def _read_again(self) -> None:
        changed = _last_change(self._path)
        if changed == self._changed:
            return
        self._changed = changed
        try:
            self._users = read_users(self._path)
        except ConfigurationError as error:
            log.error("the users stay as they were: %s", error)
        else:
            log.info("%s was read again", self._path)


class Plugins:
    """The security plug-ins of an ``activemq.xml``. Their files are read again when they have changed.

    :raises ConfigurationError: a file cannot be read, or has a plug-in that cannot be obeyed
    """

    def __init__(self, path: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._path = path
        self._environment = environment
        self._plugins = self._read()
        self._changed = [*map(_last_change, self._plugins.files)]
        self._reader = ThreadPoolExecutor(1, "jdbcstore-users")

    async def login(self, name: str | None, password: str | None) -> Principal:
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._login, name, password)

    def close(self) -> None:
        """End the thread; nobody may be logging in."""
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _login(self, name: str | None, password: str | None) -> User:
        self._read_again()
        anonymous = self._plugins.anonymous
        if name is None and password is None and anonymous is not None:
            return User(anonymous.name, anonymous)
        user = self._plugins.users.get(name or "")
        known = _bytes("" if user is None else user.password)
        if not hmac.compare_digest(known, _bytes(password or "")) or user is None:
            raise NotAuthorized(_WRONG_LOGIN)
        return User(user.name, user)

    def _read_again(self) -> None:
        changed = [*map(_last_change, self._plugins.files)]
        if changed == self._changed:
            return
        self._changed = changed
        try:
            self._plugins = self._read()
        except ConfigurationError as error:
            log.error("the users stay as they were: %s", error)
        else:
            self._changed = [*map(_last_change, self._plugins.files)]
            log.info("the security plug-ins of %s were read again", self._path)

    def _read(self) -> PluginUsers:
        from jdbcstore.config.xml import read_plugin_users

        return read_plugin_users(self._path, self._environment)


def make_security(users_file: str | None) -> Security:
    """What the configuration asks for.

    :raises ConfigurationError: the users file, or the ``activemq.xml`` with the plug-ins, cannot be read;
        or it has a plug-in that cannot be obeyed
    """
    if users_file is None:
        return OpenDoor()
    path = Path(users_file)
    return Plugins(path) if path.suffix == ".xml" or _is_xml(path) else Users(path)


def _is_xml(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    except OSError:
        return False  # which is told where the file is read


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _last_change(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size


def hash_password(password: str) -> str:
    """The argon2id hash of a password, as the users file holds it."""
    return _make_hasher().hash(password)


def _make_hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError as error:
        raise ConfigurationError(
            "passwords need argon2; run: pip install 'jdbcstore[broker]'", option="users_file"
        ) from error
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def _is_covered(destination: Destination, patterns: Iterable[DestinationPattern]) -> bool:
    """Whether some pattern matches all that a name with wildcards matches."""
    *elements, last = destination.name.split(".")
    if last != ANY_DESCENDANT:
        return any(pattern.matches(destination) for pattern in patterns)
    endless = [one for one in patterns if one.destination.name.split(".")[-1] == ANY_DESCENDANT]
    if not elements:
        return any(
            one.destination.name == ANY_DESCENDANT and one.destination.kind is destination.kind
            for one in endless
        )
    return any(one.matches(Destination(destination.kind, ".".join(elements))) for one in endless)
