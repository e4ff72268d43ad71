"""The opening of a replicated store: its database follows the stream until this broker is the master."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from dataclasses import replace

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.config.locker import CustomLockerConfig, StreamLockerConfig, ZooKeeperLockerConfig
from jdbcstore.errors import (
    AuthenticationFailed,
    ConfigurationError,
    CorruptJournal,
    JournalInUse,
    NotMaster,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.journal.stream.members import FOLLOWER, Members
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.replicated.follower import Behind, StreamFollower
from jdbcstore.stores.replicated.nodes import database_file, locker_of
from jdbcstore.stores.replicated.store import ReplicatedStore
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_LOOK = 0.1
_DEFERRED = 3.0
"""Seconds that a broker of a lower weight leaves the lock to another."""


_LEFT = 1.0
"""Seconds until a broker that has left the lock to another follows again."""


_ELECTION = 12.0
"""Seconds to wait for servers that accepted a connection, regardless of the timeout: they elect a leader,
also for each stream that brokers started together have just created."""


class _Deferred(StoreUnavailable):
    """Another broker is preferred, and gets the lock first."""


def open_replicated(
    configuration: Configuration,
    *,
    clock: Clock | None = None,
    lock_timeout: float | None = None,
    cancel: threading.Event | None = None,
    progress: Progress | None = None,
) -> ReplicatedStore:
    """Open the store of a replicated journal, once this broker is the master and has every record.

    Until then its database follows the stream. A broker asks for the lock only once it has read the stream up
    to its end; if it finds then that it lacks something, it leaves the lock to another.

    :raises ConfigurationError: the database or the locker cannot be one of several brokers, or the stream is
        another store's
    :raises CorruptJournal: the stream ends before the database's offset
    :raises NotMaster: another broker is the master after ``lock_timeout``, or the database lacks records then
    :raises StoreClosed: ``cancel`` was set
    :raises StoreUnavailable: the servers of the stream did not answer until ``lock_timeout``
    :raises StoreError: as :func:`jdbcstore.open` says
    """
    configuration = _checked(configuration)
    deadline = None if lock_timeout is None else time.monotonic() + lock_timeout
    defers = True
    damage = ""
    while True:
        follower = StreamFollower(configuration, clock, progress)
        follower.start()
        try:
            _wait_complete(follower, deadline, cancel)
            return _elected(follower, configuration, clock, deadline, cancel, progress, defers=defers)
        except _Deferred as error:
            log.warning("%s", error)
            defers = False
            _wait(_DEFERRED, deadline, cancel)
        except Behind as error:
            log.warning("this broker leaves the lock to another: %s", error)
            if isinstance(error.__cause__, CorruptJournal):
                if damage == str(error):
                    raise error.__cause__ from error  # no other broker has used the stream since
                damage = str(error)
            defers = True
            _wait(_LEFT, deadline, cancel)
        except StoreUnavailable as error:
            # Its servers may elect, as they do for streams that brokers have just made.
            is_late = deadline is not None and time.monotonic() >= deadline
            if isinstance(error, AuthenticationFailed) or (is_late and not follower.member.is_complete):
                raise
            if is_late:
                raise NotMaster(f"this broker cannot be the master yet: {error}") from error
            log.warning("this broker follows the stream again: %s", error)
            _wait(_LEFT, deadline, cancel)
        finally:
            follower.stop()
        if deadline is not None and time.monotonic() >= deadline:
            raise NotMaster("another broker is preferred as the master, or has more records; try again")


def _elected(
    follower: StreamFollower,
    configuration: Configuration,
    clock: Clock | None,
    deadline: float | None,
    cancel: threading.Event | None,
    progress: Progress | None,
    *,
    defers: bool,
) -> ReplicatedStore:
    journal = configuration.journal
    if journal is None:
        raise ConfigurationError("there is no journal to follow", option="journal")

    def elected() -> None:
        if defers:
            _defer(follower)
        follower.finish()

    database = JdbcStore.configured(
        configuration,
        journaled=True,
        clock=clock,
        lock_timeout=None if deadline is None else max(deadline - time.monotonic(), 0.0),
        cancel=cancel,
        elected=elected,
    )
    try:
        if database.fence is not None:
            database.fence.check()  # otherwise it would take the stream from the holder of the lock
        return ReplicatedStore(database, configuration, journal, clock=clock, progress=progress)
    except (JournalInUse, CorruptJournal) as error:
        database.close()
        # An isolated master has written or released records meanwhile. Otherwise the follower fails.
        raise Behind(
            f"another broker seems to have used the stream since this one has read it: {error}"
        ) from error
    except BaseException:
        database.close()
        raise


def _checked(configuration: Configuration) -> Configuration:
    """Return the configuration, with a locker.

    :raises ConfigurationError: the database is not its own, or the lock would be in it
    """
    if configuration.journal is None or configuration.journal.stream is None:
        raise ConfigurationError(
            "a replicated journal is in a stream of NATS JetStream, which every broker follows: name its"
            " servers, with stream in the section journal, with JDBCSTORE_JOURNAL_STREAM, or with --stream of"
            " jdbcstore broker",
            option="journal.stream",
        )
    database_file(configuration)
    locker = locker_of(configuration)
    if not isinstance(locker, ZooKeeperLockerConfig | StreamLockerConfig | CustomLockerConfig):
        raise ConfigurationError(
            f"the {locker.type} locks what only this broker has: each has a database of its own; use the"
            " stream-locker or the zookeeper-locker",
            option="locker.type",
        )
    return replace(configuration, locker=locker)


def _wait_complete(follower: StreamFollower, deadline: float | None, cancel: threading.Event | None) -> None:
    """Wait until a follower has everything; until that is decided, ignore the deadline."""
    while not follower.member.is_complete or not follower.decided.is_set():
        if follower.failure is not None:
            raise follower.failure
        is_late = deadline is not None and time.monotonic() >= deadline
        trouble = follower.trouble
        if is_late and follower.decided.is_set() and not _may_elect(follower, deadline):
            if trouble is not None and not isinstance(trouble, Behind):
                raise trouble
            why = trouble or "its database is not complete"
            raise NotMaster(f"this broker follows the stream, and cannot be the master yet: {why}")
        _wait(_LOOK, None, cancel)


def _may_elect(follower: StreamFollower, deadline: float | None) -> bool:
    """Return whether the servers, which took a connection, are in trouble that may pass soon."""
    is_passing = isinstance(follower.trouble, StoreUnavailable) and follower.has_connected
    if not is_passing or isinstance(follower.trouble, Behind | AuthenticationFailed):
        return False
    return deadline is None or time.monotonic() < deadline + _ELECTION


def _wait(seconds: float, deadline: float | None, cancel: threading.Event | None) -> None:
    end = time.monotonic() + seconds
    if deadline is not None:
        end = min(end, deadline)
    left = max(end - time.monotonic(), 0.0)
    if cancel is None:
        time.sleep(left)
    elif cancel.wait(left):
        raise StoreClosed("waiting for the lock was cancelled")


def _defer(follower: StreamFollower) -> None:
    """Leave the lock to a broker of a higher weight that has everything, too.

    :raises _Deferred: there is one
    """
    mine = follower.member
    try:
        with closing(StreamServer(follower.config, create=False)) as server:
            others = Members(server).every()
    except StoreError as error:
        log.info("the weights of other brokers are not known: %s", error)
        return
    for member in others:
        is_candidate = (
            member.role == FOLLOWER and member.is_alive and member.is_complete and member.node != mine.node
        )
        if is_candidate and member.weight > mine.weight:
            raise _Deferred(
                f"the broker {member.node} has a weight of {member.weight}, and gets the lock first"
            )
