"""One configuration from all sources: the file, below the environment, below what the caller says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jdbcstore.config.configuration import Configuration, build
from jdbcstore.config.environment import CONFIG_VARIABLE, read_environment
from jdbcstore.config.given import Given, Kind, Note, Section, merge
from jdbcstore.config.not_run import not_run
from jdbcstore.config.toml import read_toml
from jdbcstore.errors import ConfigurationError

DEFAULT_PATH = Path("jdbcstore.toml")
_LARGEST = 4 * 1024 * 1024
"""Bytes of a file; real ones are below 100 KiB."""


def load_config(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    source: str = "argument",
    text: bool = False,
    **options: Any,
) -> Configuration:
    """The configuration of a file, the environment and ``options``; each wins over those before it.

    :param path: a TOML file, ActiveMQ's ``activemq.xml`` or Artemis's ``broker.xml``; None is the file
        that JDBCSTORE_CONFIG names, else ``jdbcstore.toml`` in the working directory, else none
    :param environment: empty to leave it out
    :param source: where ``options`` come from, as :attr:`Configuration.sources` is to say it
    :param text: whether ``options`` are all texts, of which numbers and truth are to be read
    :param options: those that stand at the top of a TOML file, such as ``url`` and ``pool_size``
    :raises ConfigurationError: naming the file, the place in it and the cure
    """
    chosen = _chosen(path, environment)
    given, notes = ({}, []) if chosen is None else _read_file(chosen, environment)
    more, complaints = read_environment(environment)
    direct: Section = {
        name: Given(value, source, text=text) for name, value in options.items() if value is not None
    }
    return _built(merge(merge(given, more), direct), [*notes, *complaints])


def load_file(path: Path, environment: Mapping[str, str] = os.environ) -> Configuration:
    """What a file alone says. The environment fills the placeholders of an XML file, and gives no option."""
    return _built(*_read_file(path, environment))


def _built(values: Section, notes: list[Note]) -> Configuration:
    configuration = build(values)
    missing = (Note(Kind.MISSING, one.place or "", one.args[0]) for one in configuration.problems.values())
    return replace(configuration, notes=(*missing, *notes, *not_run(configuration)))


def _chosen(path: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    named = path or environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_PATH if DEFAULT_PATH.exists() else None


def _read_file(path: Path, environment: Mapping[str, str]) -> tuple[Section, list[Note]]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}; name another file") from error
    if len(data) > _LARGEST:
        raise ConfigurationError(f"{path} has more than {_LARGEST} bytes; name a configuration file")
    if path.suffix == ".xml" or data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        from jdbcstore.config.xml import read_xml

        return read_xml(path, data, environment)
    return read_toml(path, data), []
