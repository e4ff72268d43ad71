"""ZooKeeperLocker: a lock in ZooKeeper, the first of the ephemeral nodes below a path."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from typing import Any, ClassVar

from jdbcstore.config.data_source import revealed
from jdbcstore.errors import ConfigurationError, StoreError, StoreUnavailable, needing
from jdbcstore.lockers.base import AbstractLocker

with needing("the zookeeper-locker needs kazoo", "zookeeper", "locker.type"):
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NoAuthError, NoNodeError, SessionExpiredError
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.loggingsupport import BLATHER
    from kazoo.security import make_digest_acl

log = logging.getLogger(__name__)

_NODE = "lock-"
_BELIEVED = 0.8
"""The part of a session's timeout, after its last confirmation, for which it counts as alive."""
_PATIENCE = 0.25
"""The part of a session's timeout for which an answer is awaited."""
_CONNECTING = 5.0
_PAUSE = 0.01
_LONGEST_PAUSE = 1.0


class ZooKeeperLocker(AbstractLocker):
    """The first of the ephemeral sequential nodes below ``path`` of a ZooKeeper is the master's.

    The servers remove a node when they have not heard of its session for ``session_timeout`` seconds: of
    a process that has ended, is paused, or is cut off from their quorum. The next in the order of arrival
    is woken then. A session outlives a lost connection, and a restart of the servers.

    Each check is a write, which only a quorum can confirm: a server that is cut off still answers reads.
    For four fifths of the session's time after a confirmed write the lock is believed to be held.

    :raises ConfigurationError: there is no address
    """

    type: ClassVar[str] = "zookeeper-locker"

    def __init__(
        self,
        *,
        address: str | None = None,
        path: str = "/jdbcstore",
        user: str = "jdbcstore",
        password_env: str | None = None,
        password: str | None = None,
        session_timeout: float = 10.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not address:
            raise ConfigurationError(
                "the zookeeper-locker needs an address: host:2181, or several of them with commas",
                option="locker.address",
            )
        self._address = address
        self._path = path
        self._user = user
        self._password_env = password_env
        self._password = password
        self._session_timeout = session_timeout
        self._sessions = _Sessions()
        self._client: KazooClient | None = None
        """None if there is no session; its session may have ended without an error so far."""
        self._node: str | None = None
        """Our node, if it was made: in line, or that of the lock."""
        self._watched: tuple[str, threading.Event] | None = None
        """The node before ours, and the event that is set when it may be gone."""
        self._first: str | None = None
        """The master's name in its node, while that is not ours."""
        self._confirmed = float("-inf")

    def do_start(self, max_wait: float) -> bool:
        deadline = time.monotonic() + max_wait
        try:
            client = self._client or self._connect()
            if self._node is None:
                prefix, name = f"{self._path}/{_NODE}", self.name.encode()
                self._node = self._answer(
                    client.create_async(prefix, name, ephemeral=True, sequence=True, makepath=True)
                )
            while (before := self._before(client)) is not None:
                if not self._wait_for_end(client, before, max(0.0, deadline - time.monotonic())):
                    self._first = self._name_of_first(client)
                    return False
            if not self._confirm(client):
                raise SessionExpiredError
        except (KazooException, KazooTimeoutError) as error:
            # The node may be there without our knowing it: it ends with the session.
            self._disconnect()
            raise self._translated(error) from error
        return True

    def look(self) -> str | None:
        try:
            return self._name_of_first(self._connect())
        except (KazooException, KazooTimeoutError) as error:
            raise self._translated(error) from error
        finally:
            self._disconnect()

    def _connect(self) -> KazooClient:
        options: dict[str, Any] = {}
        password = self._password
        if self._password_env is not None:
            password = revealed(self._password_env, "locker.password_env")
        if password is not None:
            options["auth_data"] = [("digest", f"{self._user}:{password}")]
            options["default_acl"] = [make_digest_acl(self._user, password, all=True)]
        try:
            client = KazooClient(
                self._address,
                timeout=self._session_timeout,
                # Soon enough after an outage, in which kazoo would wait ever longer, for the same session.
                connection_retry={"max_tries": -1, "max_delay": self._session_timeout / 10},
                logger=self._sessions,
                **options,
            )
        except ValueError as error:
            raise ConfigurationError(
                f"{self._address!r} is not an address of ZooKeeper: give host:2181, or several with commas",
                option="locker.address",
            ) from error
        self._sessions.timeout = self._session_timeout
        self._client = client
        client.start(_CONNECTING)
        return client

    def _answer(self, asked: Any) -> Any:
        """Wait for an answer: kazoo keeps a question for as long as there is no connection."""
        return asked.get(timeout=_PATIENCE * self._sessions.timeout)

    def _line(self, client: KazooClient) -> list[str]:
        """Return the nodes in the order of their arrival."""
        children = [
            name for name in self._answer(client.get_children_async(self._path)) if name.startswith(_NODE)
        ]
        return [f"{self._path}/{name}" for name in sorted(children)]

    def _before(self, client: KazooClient) -> str | None:
        """Return the node before ours; None if ours is the first.

        :raises SessionExpiredError: ours is gone
        """
        line = self._line(client)
        if self._node not in line:
            raise SessionExpiredError
        place = line.index(self._node)
        return line[place - 1] if place else None

    def _wait_for_end(self, client: KazooClient, node: str, timeout: float) -> bool:
        """Wait until a node is gone, at most ``timeout`` seconds; return whether it may be."""
        if self._watched is None or self._watched[0] != node:
            gone = threading.Event()
            if self._answer(client.exists_async(node, watch=lambda _: gone.set())) is None:
                return True
            self._watched = node, gone
        if not self._watched[1].wait(timeout):
            return False
        self._watched = None
        return True

    def _name_of_first(self, client: KazooClient) -> str | None:
        with contextlib.suppress(NoNodeError, IndexError):
            return str(self._answer(client.get_async(self._line(client)[0]))[0].decode(errors="replace"))
        return None

    def _confirm(self, client: KazooClient) -> bool:
        """Write our node, which only a quorum can do; return whether it is there, and our session's."""
        asked = self.clock.monotonic()
        try:
            status = self._answer(client.set_async(self._node, self.name.encode()))
        except (NoNodeError, SessionExpiredError):
            return False
        if client.client_id is None or status.ephemeralOwner != client.client_id[0]:
            return False
        self._confirmed = asked
        return True

    def keep_alive(self) -> bool:
        """Confirm the lock by a write. A session that has ended has lost it."""
        if self._client is None or self._node is None:
            return False
        try:
            return self._confirm(self._client)
        except (KazooException, KazooTimeoutError) as error:
            raise self._translated(error) from error

    @property
    def held_until(self) -> float:
        return self._confirmed + _BELIEVED * self._sessions.timeout

    @property
    def holder(self) -> str | None:
        return self._first

    def do_stop(self) -> None:
        """End the session, and with it the node: the next in line is woken at once."""
        self._confirmed = float("-inf")
        self._disconnect()

    def _disconnect(self) -> None:
        client, self._client, self._node, self._watched = self._client, None, None, None
        if client is not None:
            with contextlib.suppress(KazooException):  # it hangs: its session will expire
                client.stop()
                client.close()

    def _pause_after(self, failure: StoreError) -> float:  # noqa: ARG002
        # An attempt has waited for the node before ours, and so will the next one.
        return min(self.lock_acquire_sleep_interval, _LONGEST_PAUSE) if self._client is None else _PAUSE

    def _translated(self, error: Exception) -> StoreError:
        if isinstance(error, NoAuthError):
            return ConfigurationError(
                f"ZooKeeper at {self._address} does not let this login use {self._path}: check user and"
                " password_env of the locker, which must be those of the other brokers",
                option="locker.password_env",
            )
        what = str(error) or type(error).__name__
        return StoreUnavailable(f"ZooKeeper at {self._address} does not answer: {what}; check its servers")


class _Sessions(logging.Logger):
    """A logger for kazoo, which tells only there for how long the servers will keep a session.

    That may be shorter than was asked for: their ``maxSessionTimeout`` bounds it. Warnings, one for each
    attempt to connect, are passed on for information. Lower levels contain passwords.
    """

    _AGREED = re.compile(r"negotiated session timeout: (\d+)")

    def __init__(self) -> None:
        super().__init__("kazoo", BLATHER)
        self.timeout = 0.0
        """Seconds, of the last session."""

    def handle(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            log.info("%s", record.getMessage(), exc_info=record.exc_info)
        elif match := self._AGREED.search(record.getMessage()):
            self.timeout = int(match[1]) / 1000
