"""Placeholders ``${name}`` and ``${name:default}``, resolved from properties, environment and folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

_PLACEHOLDER = re.compile(r"\$\{([^${}]*)\}")
_LONGEST = 65_536
_ROUNDS = 20


class Unresolved(Exception):
    """A placeholder or file cannot be resolved; the text says why and what to do."""


class Placeholders:
    """The values of placeholders. Properties win over the environment, and both over ActiveMQ's folders."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._folder = folder
        self._files: list[str] = []
        self.properties: dict[str, str] = {}
        self.environment_wins = False
        """Whether the environment wins over properties: Spring's ``SYSTEM_PROPERTIES_MODE_OVERRIDE``."""

    def add_lines(self, text: str | bytes) -> None:
        """Define the properties in the lines of a properties file."""
        import javaproperties

        self.properties.update(javaproperties.loads(text))

    def add_file(self, location: str) -> None:
        """Define the properties of a file at a Spring location: ``file:``, ``classpath:`` or a path.

        A relative path starts at the folder of the XML file.

        :raises Unresolved: the file cannot be read
        """
        path = self._path(location)
        try:
            self.add_lines(path.read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise Unresolved(f"cannot read the properties file {path}: {reason}") from error
        self._files.append(path.name)

    def _path(self, location: str) -> Path:
        text = re.sub(r"^(file|classpath\*?):", "", self.fill(location))
        if location.startswith("classpath"):
            text = text.lstrip("/")
        return self._folder / re.sub(r"^/{2,}", "/", text)

    def fill(self, text: str) -> str:
        """Replace every placeholder in the text.

        :raises Unresolved: one of them is not defined, or they refer to each other
        """
        for _ in range(_ROUNDS):
            filled = _PLACEHOLDER.sub(lambda match: self._value(match[1]), text)
            if filled == text:
                return text
            text = filled
            if len(text) > _LONGEST:
                break
        raise Unresolved("its placeholders refer to each other; define them by plain text")

    def _value(self, expression: str) -> str:
        name, colon, default = expression.partition(":")
        sources: list[Callable[[str], str | None]] = [self.properties.get, self._from_environment]
        if self.environment_wins:
            sources.reverse()
        # Spring looks for the whole expression first, including the colon.
        for key in (expression, name):
            for lookup in sources:
                value = lookup(key)
                if value is not None:
                    return value
        folder = _folders(self._folder).get(name)
        if folder is not None:
            return str(folder)
        if colon:
            return default
        file = f"add it to {self._files[-1]}" if self._files else "define it in a properties file"
        raise Unresolved(f"${{{name}}} is not defined; export {_variable(name)}, or {file}")

    def _from_environment(self, name: str) -> str | None:
        return self._environment.get(name, self._environment.get(_variable(name)))


def _folders(conf: Path) -> dict[str, Path]:
    """Return the folders that ActiveMQ's start script defines around the XML file's, and Java's own."""
    conf = conf.absolute()
    base = conf.parent if conf.name == "conf" else conf
    karaf = conf.parent if conf.name == "etc" else base
    return {
        **dict.fromkeys(("basedir", "activemq.base", "activemq.home"), base),
        "activemq.conf": conf,
        "activemq.data": base / "data",
        # Red Hat's A-MQ runs in Karaf, and calls its data folder just ${data}.
        **dict.fromkeys(("data", "karaf.data"), karaf / "data"),
        **dict.fromkeys(("karaf.home", "karaf.base"), karaf),
        "karaf.etc": conf,
        "user.dir": Path.cwd(),
        "user.home": Path.home(),
    }


def _variable(name: str) -> str:
    """Return the environment variable of a property: ``db.user-name`` as DB_USER_NAME."""
    return re.sub(r"\W", "_", name).upper()
