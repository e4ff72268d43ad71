"""What a broker does when its store fails: a policy that a broker's host plugs in."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn, Protocol, runtime_checkable

from jdbcstore.config.locker import DefaultIOExceptionHandlerConfig, IOExceptionHandlerConfig
from jdbcstore.errors import LockLost, ReplySuppressed, SchemaError, StoreError, StoreUnavailable
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

_FIRST_LOOK = 0.05


class Host(Protocol):
    """A broker, to its handler. Each is called from a thread of the handler, one at a time."""

    def stop_connectors(self) -> None:
        """Close all connections of clients, and take no more; nobody is told that a write succeeded."""

    def start_connectors(self) -> None:
        """Take connections again; messages that were out with a consumer are to be given out again."""

    def stop(self, error: StoreError, *, exit_process: bool) -> None:
        """Stop the broker for good; with ``exit_process`` the process, too, whatever else it does."""


class Tenancy(Protocol):
    """What is known of being the master, as :class:`~jdbcstore.lockers.Fence` knows it."""

    @property
    def lost(self) -> LockLost | None:
        """Why it has ended; None while it has not."""

    def on_lost(self, listener: Callable[[LockLost], None]) -> None:
        """Have the listener called once it ends; now if it has."""


@runtime_checkable
class GuardedStore(Protocol):
    """The store of a broker, as :class:`~jdbcstore.stores.jdbc.store.JdbcStore` is one."""

    @property
    def fence(self) -> Tenancy | None:
        """What is known of being the master; None without a locker."""

    def check(self) -> None:
        """Make sure that the store can write.

        :raises LockLost: another is the master
        :raises StoreError: it cannot
        """


class IOExceptionHandler:
    """ActiveMQ's DefaultIOExceptionHandler, and with its configuration LeaseLockerIOExceptionHandler.

    It never makes a write that failed a success: :meth:`handle` raises in every case. Once the
    mastership has ended it stops the host, whatever it is told to ignore, and without being asked.
    """

    def __init__(
        self, host: Host, store: GuardedStore, config: IOExceptionHandlerConfig | None = None
    ) -> None:
        self._host = host
        self._store = store
        self._config = config or DefaultIOExceptionHandlerConfig()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        """Of a failure that is being handled: one at a time."""
        self._stopped = False
        """The host was stopped, or the handler closed."""
        self._asking = False
        """The thread waits for the store alone, which may take as long as its timeouts are."""
        self._wake = threading.Event()
        if store.fence is not None:
            store.fence.on_lost(self._on_lost)

    def handle(self, error: StoreError) -> NoReturn:
        """Decide what becomes of an error that an operation of the store has raised; from any thread.

        Returns at once, that is raises: what has to be waited for is done by a thread.

        :raises ReplySuppressed: the connectors or the broker are being stopped
        :raises StoreError: the error itself, for the client to be told
        """
        if isinstance(error, LockLost):
            self._begin(lambda: self._stop(error))
            raise ReplySuppressed("the broker is being stopped, because another is the master") from error
        if not _is_of_the_database(error) or self._ignores(error):
            raise error
        if self._config.stop_start_connectors:
            self._begin(lambda: self._stop_start(error))
            raise ReplySuppressed("the connectors are stopped until the database answers") from error
        self._begin(lambda: self._stop(error))
        raise ReplySuppressed("the broker is being stopped, because its store failed") from error

    def close(self) -> None:
        """End what is being waited for; the host is not called any more. Not from a callback."""
        with self._lock:
            self._stopped = True
            thread = None if self._asking else self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _ignores(self, error: StoreError) -> bool:
        config = self._config
        if config.ignore_all_errors:
            return True
        causes = [*_causes(error)]
        if config.ignore_no_space_errors and any(config.no_space_message in str(one) for one in causes):
            return True
        return config.ignore_sql_exceptions and any(
            config.sql_exception_message in str(one) for one in causes if _is_a_driver_s(one)
        )

    def _on_lost(self, error: LockLost) -> None:
        self._wake.set()
        self._begin(lambda: self._stop(error))

    def _begin(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._stopped or self._thread is not None:
                return
            # A daemon, as all of this library: it keeps no process alive.
            self._thread = threading.Thread(
                target=self._run, args=(work,), name="jdbcstore-io-exceptions", daemon=True
            )
            self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        work()
        while True:
            with self._lock:
                # It may have been lost while another failure was being handled.
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
            self._host.stop_connectors()
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
        """Whether the store can write again; not if the lock is lost, or the handler closed."""
        backoff = Backoff(self._config.resume_check_sleep_period, first=_FIRST_LOOK)
        while not self._stopped and self._lost() is None:
            try:
                self._ask()
            except LockLost as lost:
                self._stop(lost)
                return False
            except StoreError as error:
                log.info("the database does not answer yet: %s", error)
                self._wake.wait(backoff.pause())
            else:
                with self._lock:
                    return not self._stopped
        return False

    def _ask(self) -> None:
        """Whoever closes this does not wait for the answer: nothing is done by it then."""
        with self._lock:
            self._asking = not self._stopped
            if self._stopped:
                return
        try:
            self._store.check()
        finally:
            with self._lock:
                self._asking = False

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


def _is_of_the_database(error: StoreError) -> bool:
    """Whether the store failed, and not what was asked of it."""
    if isinstance(error, StoreUnavailable | SchemaError):
        return True
    return type(error) is StoreError and any(map(_is_a_driver_s, _causes(error)))


def _is_a_driver_s(error: BaseException) -> bool:
    """Whether this is what ActiveMQ has as a SQLException: an error of any DBAPI, or of the pool."""
    return any(kind.__name__ in ("Error", "SQLAlchemyError") for kind in error.__class__.__mro__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
