"""IOExceptionHandler: the policy of a broker for failures of its store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn, Protocol, runtime_checkable

from jdbcstore.config.locker import DefaultIOExceptionHandlerConfig, IOExceptionHandlerConfig
from jdbcstore.errors import (
    JournalFailed,
    LockLost,
    ReplySuppressed,
    SchemaError,
    StorageFull,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

_FIRST_LOOK = 0.05


class Host(Protocol):
    """The broker as its handler sees it, called from a thread of the handler, one call at a time."""

    def stop_connectors(self, error: StoreError) -> None:
        """Close all client connections and accept no more; do not report pending writes as successful.

        :param error: the error of the store
        """

    def start_connectors(self) -> None:
        """Accept connections again; messages that were in flight must be redelivered."""

    def stop(self, error: StoreError, *, exit_process: bool) -> None:
        """Stop the broker for good; with ``exit_process`` the whole process."""


class Tenure(Protocol):
    """The term as the master, of which :class:`~jdbcstore.lockers.Fence` knows."""

    @property
    def lost(self) -> LockLost | None:
        """The error that ended it; None while it is running."""

    def on_lost(self, listener: Callable[[LockLost], None]) -> None:
        """Call the listener once it ends; at once if it has ended."""


@runtime_checkable
class GuardedStore(Protocol):
    """A store that knows whether it is the master, such as JdbcStore."""

    @property
    def fence(self) -> Tenure | None:
        """The term as the master; None without a locker."""

    def check(self) -> None:
        """Make sure that the store can write.

        :raises LockLost: another is the master
        :raises StoreError: it cannot
        """


class IOExceptionHandler:
    """ActiveMQ's DefaultIOExceptionHandler, and with its configuration LeaseLockerIOExceptionHandler.

    It never turns a failed write into a success: :meth:`handle` always raises. When the mastership ends it
    stops the host, even if it is configured to ignore such errors.
    """

    def __init__(
        self, host: Host, store: GuardedStore, config: IOExceptionHandlerConfig | None = None
    ) -> None:
        self._host = host
        self._store = store
        self._config = config or DefaultIOExceptionHandlerConfig()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        """The thread of the failure that is being handled; one at a time."""
        self._stopped = False
        """The host was stopped, or the handler closed."""
        self._checking = False
        """Whether the thread is waiting for the store, which may take as long as its timeouts."""
        self._wake = threading.Event()
        if store.fence is not None:
            store.fence.on_lost(self._on_lost)

    def handle(self, error: StoreError) -> NoReturn:
        """Handle an error that an operation of the store has raised. May be called from any thread.

        Raises without waiting: stopping and starting are done by another thread.

        :raises ReplySuppressed: the connectors or the broker are being stopped
        :raises StoreError: the error itself, to be reported to the client
        """
        if isinstance(error, LockLost):
            self._begin(lambda: self._stop(error))
            raise ReplySuppressed("the broker is being stopped, because another is the master") from error
        if not _is_database_failure(error) or self._ignores(error):
            raise error
        if self._config.stop_start_connectors:
            self._begin(lambda: self._stop_start(error))
            raise ReplySuppressed("the connectors are stopped until the database answers") from error
        self._begin(lambda: self._stop(error))
        raise ReplySuppressed("the broker is being stopped, because its store failed") from error

    def close(self) -> None:
        """Stop waiting for the store; the host is not called any more. Must not be called by the host."""
        with self._lock:
            self._stopped = True
            thread = None if self._checking else self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _ignores(self, error: StoreError) -> bool:
        config = self._config
        if config.ignore_all_errors:
            return True
        # The texts of our other errors name folders and give advice.
        causes = [
            cause
            for cause in _causes(error)
            if isinstance(cause, StorageFull) or not isinstance(cause, StoreError)
        ]
        if config.ignore_no_space_errors and any(config.no_space_message in str(error) for error in causes):
            return True
        return config.ignore_sql_exceptions and any(
            config.sql_exception_message in str(error) for error in causes if _is_from_driver(error)
        )

    def _on_lost(self, error: LockLost) -> None:
        self._wake.set()
        self._begin(lambda: self._stop(error))

    def _begin(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._stopped or self._thread is not None:
                return
            # A daemon: it must not keep the process alive.
            self._thread = threading.Thread(
                target=self._run, args=(work,), name="jdbcstore-io-exceptions", daemon=True
            )
            self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        work()
        while True:
            with self._lock:
                # The lock may have been lost while another failure was being handled.
                lost = None if self._stopped else self._lost()
                if lost is None:
                    self._thread = None
                    return
            self._stop(lost)

    def _lost(self) -> LockLost | None:
        return None if self._store.fence is None else self._store.fence.lost

    def _stop_start(self, error: StoreError) -> None:
        log.warning("the connectors are stopped until the database answers: %s", error)
        try:
            self._host.stop_connectors(error)
        except Exception:
            log.exception("the connectors could not all be stopped")
        if not self._wait_until_back() or self._stopped:
            return
        try:
            self._host.start_connectors()
        except Exception as failure:
            log.exception("the connectors could not be started again")
            self._stop(StoreError(f"the connectors could not be started again: {failure}"))
        else:
            log.warning("the database answers, and the connectors are started again")

    def _wait_until_back(self) -> bool:
        """Wait until the store can write again; false if the lock is lost or the handler is closed."""
        backoff = Backoff(self._config.resume_check_sleep_period, first=_FIRST_LOOK)
        while not self._stopped and self._lost() is None:
            try:
                self._check()
            except (LockLost, JournalFailed) as lasting:  # the store has to be opened again
                self._stop(lasting)
                return False
            except StoreError as error:
                log.info("the database does not answer yet: %s", error)
                self._wake.wait(backoff.pause())
            else:
                with self._lock:
                    return not self._stopped
        return False

    def _check(self) -> None:
        """Check the store. A close does not wait for it, because nothing is done with the answer then."""
        with self._lock:
            self._checking = not self._stopped
            if self._stopped:
                return
        try:
            self._store.check()
        finally:
            with self._lock:
                self._checking = False

    def _stop(self, error: StoreError) -> None:
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        log.error("the broker is being stopped: %s", error)
        try:
            self._host.stop(error, exit_process=self._config.system_exit_on_shutdown)
        except Exception:
            log.exception("the broker could not be stopped")


def _is_database_failure(error: StoreError) -> bool:
    """Return whether the database failed, not the request."""
    if isinstance(error, StoreUnavailable | SchemaError):
        return True
    return type(error) is StoreError and any(map(_is_from_driver, _causes(error)))


def _is_from_driver(error: BaseException) -> bool:
    """Return whether this is ActiveMQ's SQLException: an error of any DBAPI, or of the pool."""
    return any(kind.__name__ in ("Error", "SQLAlchemyError") for kind in error.__class__.__mro__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
