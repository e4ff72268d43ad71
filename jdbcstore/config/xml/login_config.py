"""Java's ``login.config``: the modules of a domain with their options, and their properties files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from jdbcstore.config.xml.beans import Document
from jdbcstore.config.xml.placeholders import Unresolved
from jdbcstore.errors import ConfigurationError

LOGIN_CONFIG = "java.security.auth.login.config"
"""The property that says where the file is."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([{};=])|([^\s{};="]+)')


class Module(NamedTuple):
    """A login module: the last part of its class's name, and its options."""

    class_name: str
    options: Mapping[str, str]


def read_login_config(document: Document, path: Path, domain: str, needed_by: str) -> list[Module]:
    """Read the modules of a domain.

    :param needed_by: the element that names the domain
    :raises ConfigurationError: the file cannot be read, or does not have the domain
    """
    try:
        text = _COMMENT.sub(" ", path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        text = f"{needed_by} needs {path}: {reason}; create it, or set {LOGIN_CONFIG}"
        raise ConfigurationError(text, place=str(document.path)) from error
    tokens = [quoted or mark or word for quoted, mark, word in _TOKEN.findall(text)]
    modules = dict(_domains(tokens)).get(domain)
    if modules is None:
        text = f"there is no domain {domain}, which {needed_by} names; add it"
        raise ConfigurationError(text, place=str(path))
    parsed = []
    for name, *rest in modules:
        named = dict(zip(rest[1::3], rest[3::3], strict=False))
        try:
            options = {key: document.placeholders.fill(value) for key, value in named.items()}
        except Unresolved as error:
            raise ConfigurationError(str(error), place=str(path)) from error
        parsed.append(Module(name.rpartition(".")[2], options))
    return parsed


def _domains(tokens: list[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each domain with its modules: class, flag, and three tokens per option."""
    name, modules, module = "", list[list[str]](), list[str]()
    for part in tokens:
        if part == "{":
            name, modules, module = "".join(module), [], []
        elif part == "}":
            yield name, modules
        elif part == ";":
            modules += [module] if module else []
            module = []
        else:
            module.append(part)


def read_properties(path: Path, needed_by: str) -> Mapping[str, str]:
    """Read a properties file.

    :raises ConfigurationError: it cannot be read
    """
    import javaproperties

    try:
        return javaproperties.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"cannot read it: {reason}; {needed_by} needs it", place=str(path)
        ) from error
