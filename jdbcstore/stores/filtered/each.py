"""A store for each destination, in a folder of its own; above a limit, further ones share a store."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from jdbcstore.abc import Store
from jdbcstore.config.routed import folder_name
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.util.files import make_directory, replace_file, sync

log = logging.getLogger(__name__)

_SHARED = "shared"
_KEPT = ("kept-*.log", "refused/*.message")
"""Files of a journal that must not be removed with a store."""
_NAME = "destination"
"""The file in each folder that names its destination."""
MOST = 64
"""Stores for single destinations in one folder."""


class StorePerDestination:
    """Opens the store of a destination in its folder, and finds existing ones after a restart.

    ``open_store`` is called with the folder; the caller of :meth:`open` closes the store. Nothing is created
    if this is ``read_only``. At most ``most`` stores are created, because clients choose the names.
    """

    def __init__(self, folder: Path, open_store: Callable[[Path], Store], *, read_only: bool = False) -> None:
        self._folder = folder
        self._open_store = open_store
        self._read_only = read_only
        self.most = MOST

    def found(self) -> Iterator[Destination]:
        """The destinations that have a store of their own.

        :raises ConfigurationError: the name of one cannot be read from its folder
        """
        for path in sorted(self._folder.glob(f"*/{_NAME}")):
            try:
                yield Destination.parse(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, InvalidDestination) as error:
                raise ConfigurationError(
                    f"{path} does not say which destination's store is in its folder: {error}; correct it, or"
                    " move the folder away"
                ) from error

    def has(self, destination: Destination) -> bool:
        return (self._folder / folder_name(str(destination)) / _NAME).exists()

    @property
    def has_shared(self) -> bool:
        return (self._folder / _SHARED).is_dir()

    def open_shared(self) -> Store:
        """The shared store, for destinations without one of their own.

        :raises StoreError: it cannot be opened
        """
        return self._open_store(self._folder / _SHARED)

    def remove(self, destination: Destination) -> None:
        """Remove the folder of a store that is closed and empty, unless its journal has files to keep."""
        folder = self._folder / folder_name(str(destination))
        if any(path for pattern in _KEPT for path in folder.rglob(pattern)):
            return
        try:
            # First: a folder without it belongs to no destination, and is reused as an empty store.
            (folder / _NAME).unlink(missing_ok=True)
            sync(folder)
            shutil.rmtree(folder)
        except OSError as error:
            log.warning("the folder of %s cannot be removed: %s", destination, error)

    def open(self, destination: Destination) -> Store:
        """The store of a destination, created if it does not exist, unless this is ``read_only``.

        :raises ConfigurationError: its folder cannot be created
        :raises InvalidDestination: it does not exist, and this is ``read_only``
        :raises StoreError: it cannot be opened
        """
        folder = self._folder / folder_name(str(destination))
        if self._read_only and not (folder / _NAME).exists():
            raise InvalidDestination(f"{destination} has no store yet: nothing was ever stored there")
        try:
            _name_folder(folder, str(destination))
        except OSError as error:
            raise ConfigurationError(
                f"cannot create the folder {folder} for {destination}: {error.strerror}"
            ) from error
        return self._open_store(folder)


def _name_folder(folder: Path, name: str) -> None:
    """Store the name of the destination before anything else in its folder."""
    path = folder / _NAME
    if path.exists():
        return
    make_directory(folder)
    replace_file(path, name.encode())
