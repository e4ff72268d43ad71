"""A store for each destination, in a folder of its own; beyond a bound they share one."""

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
"""The folder of the store that destinations share."""
_KEPT = ("kept-*.log", "refused/*.message")
"""Files of a journal that are kept for what is in them."""
_NAME = "destination"
"""The file in each folder that says whose it is."""


MOST = 64
"""Stores of their own in one folder."""


class StorePerDestination:
    """Opens the store of a destination in its folder, and knows after a restart which there are.

    ``open_store`` is called with the folder. Who opens a store closes it. Nothing is made if it is
    ``read_only``. Only ``most`` are to be made: clients invent names.
    """

    def __init__(self, folder: Path, open_store: Callable[[Path], Store], *, read_only: bool = False) -> None:
        self._folder = folder
        self._open_store = open_store
        self._read_only = read_only
        self.most = MOST

    def found(self) -> Iterator[Destination]:
        """The destinations that have a store there."""
        for path in sorted(self._folder.glob(f"*/{_NAME}")):
            try:
                yield Destination.parse(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, InvalidDestination) as error:
                raise ConfigurationError(
                    f"{path} does not say which destination's store is in its folder: {error}; correct it, or"
                    " move the folder away"
                ) from error

    def has(self, destination: Destination) -> bool:
        """Whether it has a store of its own."""
        return (self._folder / folder_name(str(destination)) / _NAME).exists()

    @property
    def has_shared(self) -> bool:
        """Whether there is a store that destinations share."""
        return (self._folder / _SHARED).is_dir()

    def open_shared(self) -> Store:
        """The store of those that have none of their own.

        :raises StoreError: it cannot be opened
        """
        return self._open_store(self._folder / _SHARED)

    def remove(self, destination: Destination) -> None:
        """Remove what is left of a store that is closed and has nothing; what a journal keeps stays."""
        folder = self._folder / folder_name(str(destination))
        if any(path for pattern in _KEPT for path in folder.rglob(pattern)):
            return
        try:
            # First: a folder without it is nobody's, and an empty store for who uses the name again.
            (folder / _NAME).unlink(missing_ok=True)
            sync(folder)
            shutil.rmtree(folder)
        except OSError as error:
            log.warning("the folder of %s cannot be removed: %s", destination, error)

    def open(self, destination: Destination) -> Store:
        """Its store, made when there is none, unless this is ``read_only``.

        :raises ConfigurationError: its folder cannot be made
        :raises InvalidDestination: there is none, and none is to be made
        :raises StoreError: it cannot be opened
        """
        folder = self._folder / folder_name(str(destination))
        if self._read_only and not (folder / _NAME).exists():
            raise InvalidDestination(f"{destination} has no store yet: nothing was ever stored there")
        try:
            _name_folder(folder, str(destination))
        except OSError as error:
            raise ConfigurationError(
                f"cannot make the folder {folder} for {destination}: {error.strerror}"
            ) from error
        return self._open_store(folder)


def _name_folder(folder: Path, name: str) -> None:
    """Write down whose folder it is, before anything is in it."""
    path = folder / _NAME
    if path.exists():
        return
    make_directory(folder)
    replace_file(path, name.encode())
