"""Periodic cleanup in a background thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jdbcstore.errors import LockLost, StoreClosed, StoreError

log = logging.getLogger(__name__)


class CleanupTimer:
    """Runs ``cleanup`` at once and then every ``period`` seconds, on a daemon thread; never if that is 0."""

    def __init__(self, cleanup: Callable[[], int], period: float) -> None:
        self._cleanup = cleanup
        self._period = period
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._period:
            self._thread = threading.Thread(target=self._run, name="jdbcstore-cleanup", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                removed = self._cleanup()
            except (StoreClosed, LockLost):
                return
            except StoreError as error:
                log.warning("cleanup failed and will be tried again in %s s: %s", self._period, error)
            except Exception:
                log.exception("cleanup failed and will be tried again in %s s", self._period)
            else:
                log.debug("cleanup removed %d messages", removed)
            self._stop.wait(self._period)

    def stop(self) -> None:
        """Stop after the current batch; closing the store ends a longer wait."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the current batch after :meth:`stop`, where closing the store would not."""
        if self._thread is not None:
            self._thread.join()
