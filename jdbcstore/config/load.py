"""The sources of a configuration: a file, the environment and the caller, merged and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from jdbcstore.config.configuration import Configuration, build
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fields import types_of, unknown
from jdbcstore.config.given import Given, Kind, Note, Section, merge, parse_toml, put
from jdbcstore.config.statements import unused_statements
from jdbcstore.config.store import StoreConfig
from jdbcstore.errors import ConfigurationError

DEFAULT_PATH = Path("jdbcstore.toml")
PREFIX = "JDBCSTORE_"
_CONFIG_VARIABLE = f"{PREFIX}CONFIG"
_NOT_OPTIONS = (
    *(f"{PREFIX}TEST_", f"{PREFIX}REQUIRE", f"{PREFIX}JDBC_JARS", f"{PREFIX}BROKER_LOGIN"),
    *(f"{PREFIX}PURE", _CONFIG_VARIABLE),
)
"""Variables of the tests, of Java drivers' JARs, of the compiled core, and of the file's name."""
_LARGEST = 4 * 1024 * 1024
"""Bytes of a file; real ones are below 100 KiB."""
_PATHS = (
    *("password_file", "users_file", "tmp_data_directory"),
    *("certificate", "private_key", "trusted_certificates"),
)
"""Options whose value is a path, relative to the folder of the TOML file."""
_SECTIONS = ("locker", "journal", "broker", "io_exception_handler")
"""Sections whose options may be given in the environment."""


def load_config(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    source: str = "argument",
    text: bool = False,
    **options: Any,
) -> Configuration:
    """Load the configuration from a file, the environment and ``options``, in order of increasing precedence.

    :param path: a TOML file, ActiveMQ's ``activemq.xml`` or Artemis's ``broker.xml``; None is the file
        named by JDBCSTORE_CONFIG, else ``jdbcstore.toml`` in the working directory, else none
    :param environment: empty to ignore the environment
    :param source: the place of ``options`` in :attr:`Configuration.sources`
    :param text: whether ``options`` are all strings, from which numbers and booleans are parsed
    :param options: options at the top level of a TOML file, such as ``url`` and ``pool_size``
    :raises ConfigurationError: with the file, the place in it and what to do
    """
    named = path or environment.get(_CONFIG_VARIABLE)
    chosen = Path(named) if named else DEFAULT_PATH if DEFAULT_PATH.exists() else None
    given, notes = ({}, []) if chosen is None else _read_file(chosen, environment)
    more, complaints = _read_environment(environment)
    direct: Section = {
        name: Given(value, source, text=text) for name, value in options.items() if value is not None
    }
    # From the top down: a URL of `direct` takes the login of the file's URL away, not one of the environment.
    return _built(merge(given, merge(more, direct)), [*notes, *complaints])


def load_file(path: Path, environment: Mapping[str, str] = os.environ) -> Configuration:
    """Load the configuration in a file alone. The environment only resolves placeholders of an XML file."""
    return _built(*_read_file(path, environment))


def _built(values: Section, notes: list[Note]) -> Configuration:
    configuration = build(values)
    missing = (
        Note(Kind.MISSING, problem.place or "", problem.args[0])
        for problem in configuration.problems.values()
    )
    unused = (
        Note(Kind.IGNORED, configuration.sources.get(f"statements.{name}", "configuration"), text)
        for name, reason in unused_statements(configuration.store.statements)
        for text in [f"{name} is not run: {reason}"]
    )
    return replace(configuration, notes=(*missing, *notes, *configuration.notes, *unused))


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
    try:
        return _toml_section(parse_toml(data, str(path)), "", str(path), path.parent), []
    except RecursionError:
        raise ConfigurationError("its tables are nested too deep; remove some", place=str(path)) from None


def _toml_section(data: dict[str, Any], name: str, place: str, folder: Path) -> Section:
    return {key: _toml_value(value, key, name, place, folder) for key, value in data.items()}


def _toml_value(
    value: Any, key: str, section: str, place: str, folder: Path
) -> Given | Section | list[Section]:
    inner = f"{section}.{key}" if section else key
    if isinstance(value, dict):
        return _toml_section(value, inner, f"{place}, [{inner}]", folder)
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [
            _toml_section(item, inner, f"{place}, [[{inner}]] no. {number}", folder)
            for number, item in enumerate(value, 1)
        ]
    if key in _PATHS and isinstance(value, str):
        value = str(folder / value)
    return Given(value, place)


def _read_environment(environment: Mapping[str, str]) -> tuple[Section, list[Note]]:
    """Read the options in variables such as JDBCSTORE_LOCKER_TYPE, and note variables that are unknown."""
    known = _variables()
    given: Section = {}
    notes = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable.startswith(_NOT_OPTIONS) or not value:
            continue
        if variable not in known:
            text = unknown("environment variable", variable, known)
            notes.append(Note(Kind.UNKNOWN, "environment", text))
            continue
        put(given, known[variable], Given(value, variable, text=True))
    return given, notes


def _variables() -> dict[str, str]:
    """Return the path of the option that each variable sets."""
    flat = (name for kind in (DataSourceConfig, StoreConfig) for name in _scalars(kind))
    nested = (
        f"{section}.{name}"
        for section in _SECTIONS
        for kind in filter(is_dataclass, types_of(Configuration)[section])
        for name in (*_scalars(kind), *(["type"] if hasattr(kind, "type") else []))
    )
    return {PREFIX + path.replace(".", "_").upper(): path for path in (*flat, "broker_name", *nested)}


def _scalars(kind: type) -> list[str]:
    simple = {str, int, float, bool, type(None)}
    return [field.name for field in fields(kind) if simple.issuperset(types_of(kind)[field.name])]
