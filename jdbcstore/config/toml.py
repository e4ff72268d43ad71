"""The configuration file ``jdbcstore.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from jdbcstore.config.given import Given, Section
from jdbcstore.errors import ConfigurationError

_PATHS = (
    *("password_file", "users_file", "tmp_data_directory"),
    *("certificate", "private_key", "trusted_certificates"),
)
"""Options whose value is a path, which starts at the folder of the file."""


def read_toml(path: Path, data: bytes) -> Section:
    """What a TOML file gives.

    :raises ConfigurationError: it is not TOML
    """
    try:
        values = tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"this is not TOML: {error}; correct it", place=str(path)) from error
    return _section(values, "", str(path), path.parent)


def _section(data: dict[str, Any], name: str, place: str, folder: Path) -> Section:
    return {key: _value(value, key, name, place, folder) for key, value in data.items()}


def _value(value: Any, key: str, section: str, place: str, folder: Path) -> Given | Section | list[Section]:
    inner = f"{section}.{key}" if section else key
    if isinstance(value, dict):
        return _section(value, inner, f"{place}, [{inner}]", folder)
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return [
            _section(one, inner, f"{place}, [[{inner}]] no. {number}", folder)
            for number, one in enumerate(value, 1)
        ]
    if key in _PATHS and isinstance(value, str):
        value = str(folder / value)
    return Given(value, place)
