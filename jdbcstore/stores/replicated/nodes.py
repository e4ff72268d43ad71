"""A node: one broker of a replicated journal, with its database."""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from zlib import crc32

from jdbcstore.config import Configuration
from jdbcstore.config.data_source import sqlite_file
from jdbcstore.config.locker import LockerConfig, StreamLockerConfig
from jdbcstore.errors import ConfigurationError

_PROCESS = secrets.token_hex(8)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


def node_of(configuration: Configuration) -> str:
    """Return the name of this broker among the followers of the stream; it is unique."""
    journal = configuration.journal
    if journal is not None and journal.node is not None:
        return journal.node
    path = str(database_file(configuration).resolve())
    return f"{_NOT_IN_A_NAME.sub('_', socket.gethostname())}-{crc32(path.encode()):08x}"


def place_of(configuration: Configuration) -> str:
    """Return the database and the process of this broker, to tell apart two of one name."""
    return f"{database_file(configuration).resolve()} on {socket.gethostname()}, process {os.getpid()}"


def life_of(configuration: Configuration) -> str:
    """Return what no broker of another process has, or of another database in this one."""
    return f"{_PROCESS}-{os.getpid()}-{crc32(str(database_file(configuration).resolve()).encode()):08x}"


def locker_of(configuration: Configuration) -> LockerConfig:
    """Return the locker of this broker, by default one on the servers of the stream."""
    return configuration.locker or StreamLockerConfig()


def database_file(configuration: Configuration) -> Path:
    """Return the file of the database that a broker of its own has.

    :raises ConfigurationError: it is not an SQLite file
    """
    file = sqlite_file(configuration.data_source.url)
    if file is None or str(file) == ":memory:":
        raise ConfigurationError(
            "each broker of a replicated journal has an SQLite database of its own: give url ="
            ' "sqlite:///FILE"; without replicated, they share a database',
            option="url",
        )
    return file
