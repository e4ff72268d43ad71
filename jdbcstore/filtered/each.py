"""A store for each destination, in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from jdbcstore.abc import Store
from jdbcstore.config.file_stores import folder_name
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, InvalidDestination

_NAME = "destination"
"""The file in each folder that says whose it is."""


class StorePerDestination:
    """Opens the store of a destination in its folder, and knows after a restart which there are.

    ``open_store`` is called with the folder. Who opens a store closes it. Nothing is made if it is
    ``read_only``.
    """

    def __init__(self, folder: Path, open_store: Callable[[Path], Store], *, read_only: bool = False) -> None:
        self._folder = folder
        self._open_store = open_store
        self._read_only = read_only

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
    folder.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(name)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    for one in (folder, folder.parent):
        directory = os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
